//! Tables: aligns columns, and shortens lines without cutting names, so that they can be copied.

use crate::escape::escaped;
use crate::style::Style;

/// The minimum width of the last column, a reason. The rest of it can be cut.
pub(crate) const REASON: usize = 32;

/// What a reason on a line of its own begins with.
const BELOW: &str = "      ";

/// A column that can be left out, and the width that the last column must keep for it to stay.
pub(crate) type Dropped = (&'static str, usize);

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    pub(crate) align: Align,
}

/// The columns with their widths.
#[derive(Debug)]
pub(crate) struct Widths<'a> {
    columns: &'a [Column],
    widths: Vec<usize>,
}

impl<'a> Widths<'a> {
    /// The widths for these rows and the headings.
    pub(crate) fn of<'r>(columns: &'a [Column], rows: impl IntoIterator<Item = &'r [String]>) -> Self {
        let mut widths: Vec<usize> = columns.iter().map(|column| column.heading.len()).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(escaped(cell).chars().count());
            }
        }
        Self { columns, widths }
    }

    pub(crate) fn headings(&self) -> String {
        let cells: Vec<String> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        self.row(&cells)
    }

    /// One line, without spaces at the end.
    pub(crate) fn row(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (index, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let cell = &*escaped(cell);
            let align = self.columns[index].align;
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            // Right-aligned columns, and a number in the first column, need one space only.
            match index {
                0 => {}
                1 if self.columns[0].align == Align::Right => line.push(' '),
                _ => line.push_str(if align == Align::Right { " " } else { "  " }),
            }
            match align {
                Align::Left => {
                    line.push_str(cell);
                    line.push_str(&blanks);
                }
                Align::Right => {
                    line.push_str(&blanks);
                    line.push_str(cell);
                }
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The columns that fit into that width. Those of `dropped` are left out, in this order. The last column can be cut
/// at its end, see [`shortened`].
pub(crate) fn fitting(
    columns: &[Column],
    rows: &[Vec<String>],
    width: usize,
    dropped: &[Dropped],
) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    for (heading, reason) in dropped {
        let heads: Vec<Column> = kept.iter().map(|index| columns[*index]).collect();
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| {
                let mut row = chosen(row, &kept);
                if let Some(last) = row.last_mut() {
                    *last = last.chars().take(*reason).collect();
                }
                row
            })
            .collect();
        let widths = Widths::of(&heads, rows.iter().map(Vec::as_slice));
        let widest = rows.iter().map(|row| widths.row(row).chars().count()).max().unwrap_or(0);
        if widest <= width {
            break;
        }
        kept.retain(|index| columns[*index].heading != *heading);
    }
    kept
}

/// The cells of those columns.
pub(crate) fn chosen(row: &[String], kept: &[usize]) -> Vec<String> {
    kept.iter().filter_map(|index| row.get(*index).cloned()).collect()
}

/// The line, cut at that width.
pub(crate) fn shortened(line: String, width: usize, style: Style) -> String {
    if line.chars().count() <= width {
        return line;
    }
    let mark = style.pick("…", "...");
    let kept: String = line.chars().take(width.saturating_sub(mark.chars().count())).collect();
    format!("{}{mark}", kept.trim_end())
}

/// The lines of a row whose last cell is a reason. A reason that would be cut to less than [`REASON`] gets lines of its own.
pub(crate) fn with_reason(widths: &Widths<'_>, row: &[String], width: usize, style: Style) -> Vec<String> {
    let line = widths.row(row);
    let Some((reason, others)) = row.split_last() else { return vec![line] };
    let before = line.chars().count().saturating_sub(escaped(reason).chars().count());
    if line.chars().count() <= width || width.saturating_sub(before) >= REASON {
        return vec![shortened(line, width, style)];
    }
    let mut lines = vec![shortened(widths.row(others), width, style)];
    lines.extend(wrapped(&format!("{BELOW}{reason}"), Some(width), BELOW));
    lines
}

/// The escaped text, wrapped at spaces into lines of at most that width; one line without a width. Every line except
/// the first starts with `indent`.
pub(crate) fn wrapped(text: &str, width: Option<usize>, indent: &str) -> Vec<String> {
    let text = &*escaped(text);
    let Some(width) = width else { return vec![text.to_owned()] };
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let blank = text.len() - text.trim_start().len();
    line.push_str(&text[..blank]);
    let mut empty = true;
    for word in text.split_whitespace() {
        let longer = line.chars().count() + usize::from(!empty) + word.chars().count();
        if !empty && longer > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// A shell command, wrapped into lines of at most that width that can be copied: each line except the last ends with a
/// backslash. A word that is wider than a line continues at the start of the next one.
pub(crate) fn wrapped_command(command: &str, width: Option<usize>) -> Vec<String> {
    const CONTINUED: &str = " \\";
    let whole = wrapped(command, None, "");
    let Some(width) = width else { return whole };
    if whole[0].chars().count() <= width {
        return whole;
    }
    // A terminal without room for a character and a backslash wraps lines itself.
    let room = width.saturating_sub(CONTINUED.len()).max(1);
    let mut lines = Vec::new();
    for (index, line) in wrapped(command, Some(room), "    ").into_iter().enumerate() {
        if index > 0 {
            lines.last_mut().into_iter().for_each(|before: &mut String| before.push_str(CONTINUED));
        }
        let mut rest = line.chars().peekable();
        while rest.peek().is_some() {
            let part: String = rest.by_ref().take(room).collect();
            lines.push(if rest.peek().is_some() { format!("{part}\\") } else { part });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Align, Column, REASON, chosen, fitting, shortened, wrapped, wrapped_command};
    use crate::style::Style;

    fn columns() -> [Column; 3] {
        ["POD", "NODE", "WHY"].map(|heading| Column { heading, align: Align::Left })
    }

    #[test]
    fn columns_are_left_out_in_order_and_only_as_many_as_needed() {
        let rows = [["web-1", "n1", "because it is so and not otherwise"].map(str::to_owned).to_vec()];
        let kept = |width, reason| fitting(&columns(), &rows, width, &[("NODE", reason), ("POD", REASON)]);
        assert_eq!(kept(80, usize::MAX), [0, 1, 2]);
        // The reason can be cut to its minimum width.
        assert_eq!(kept(45, REASON), [0, 1, 2]);
        assert_eq!(kept(45, usize::MAX), [0, 2]);
        assert_eq!(kept(44, REASON), [0, 2]);
        assert_eq!(kept(10, REASON), [2]);
        assert_eq!(chosen(&rows[0], &[0, 2])[0], "web-1");
    }

    #[test]
    fn a_cut_line_ends_with_an_ellipsis() {
        let unicode = Style { color: false, unicode: true };
        assert_eq!(shortened("abc def".to_owned(), 7, unicode), "abc def");
        assert_eq!(shortened("abc def".to_owned(), 5, unicode), "abc…");
        assert_eq!(shortened("abc def".to_owned(), 6, Style::default()), "abc...");
    }

    #[test]
    fn text_is_wrapped_at_spaces_and_keeps_long_words_whole() {
        assert_eq!(wrapped("- one two three", Some(9), "  "), ["- one two", "  three"]);
        assert_eq!(wrapped("  one incomprehensible", Some(8), "  "), ["  one", "  incomprehensible"]);
        assert_eq!(wrapped("one two", None, "  "), ["one two"]);
    }
    #[test]
    fn a_wrapped_command_is_the_same_command_for_a_shell() {
        let command = "printf [%s] annotate pod web-1 ordereddeployment.io/delete-priority=5";
        assert_eq!(wrapped_command(command, None), [command]);
        assert_eq!(wrapped_command(command, Some(80)), [command]);
        let said = |lines: &[String]| {
            let output = std::process::Command::new("sh").args(["-c", &lines.join("\n")]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let whole = said(&[command.to_owned()]);
        assert_eq!(whole, "[annotate][pod][web-1][ordereddeployment.io/delete-priority=5]");
        for width in 8..command.len() {
            let lines = wrapped_command(command, Some(width));
            assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            assert_eq!(said(&lines), whole, "{lines:#?}");
        }
    }
}
