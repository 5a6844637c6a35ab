//! Tables: aligns columns, and shortens lines without cutting names, so that they can be copied.

use crate::terminal::escape::escaped;
use crate::terminal::style::Style;

/// The minimum width of the last column, a reason. The rest of it can be cut.
pub(crate) const REASON: usize = 32;

/// What a reason on a line of its own begins with.
const BELOW: &str = "      ";

/// A column that can be left out, and the width that the last column must keep for it to stay.
pub(crate) type Dropped = (&'static str, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A column: its heading, its alignment, and its cell of an item.
pub(crate) type Column<'a, T> = (&'static str, Align, Box<dyn Fn(&T) -> String + 'a>);

pub(crate) fn left<'a, T>(heading: &'static str, cell: impl Fn(&T) -> String + 'a) -> Column<'a, T> {
    (heading, Align::Left, Box::new(cell))
}

pub(crate) fn right<'a, T>(heading: &'static str, cell: impl Fn(&T) -> String + 'a) -> Column<'a, T> {
    (heading, Align::Right, Box::new(cell))
}

/// A table. A row can have fewer cells than there are columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
    widths: Vec<usize>,
}

impl Table {
    pub(crate) fn of<'t, T: 't>(columns: &[Column<'_, T>], items: impl IntoIterator<Item = &'t T>) -> Self {
        let row = |item| columns.iter().map(|(_, _, cell)| cell(item)).collect();
        let heads = columns.iter().map(|(heading, align, _)| (*heading, *align));
        Self::new(heads.collect(), items.into_iter().map(row).collect())
    }

    pub(crate) fn new(columns: Vec<(&'static str, Align)>, rows: Vec<Vec<String>>) -> Self {
        let mut widths: Vec<usize> = columns.iter().map(|(heading, _)| heading.len()).collect();
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(escaped(cell).chars().count());
            }
        }
        Self { columns, rows, widths }
    }

    /// The table with the columns that fit into that width. Those of `dropped` are left out, in this order.
    /// The last column can be cut at its end, see [`shortened`].
    pub(crate) fn fit(mut self, width: Option<usize>, dropped: &[Dropped]) -> Self {
        let Some(width) = width else { return self };
        for (heading, reason) in dropped {
            if self.widest(*reason) <= width {
                break;
            }
            if let Some(index) = self.columns.iter().position(|(known, _)| known == heading) {
                self.columns.remove(index);
                for row in self.rows.iter_mut().filter(|row| row.len() > index) {
                    row.remove(index);
                }
                self = Self::new(self.columns, self.rows);
            }
        }
        self
    }

    /// The width of the widest line, if the last cells are cut to this width.
    fn widest(&self, reason: usize) -> usize {
        let mut rows = self.rows.clone();
        for last in rows.iter_mut().filter_map(|row| row.last_mut()) {
            *last = last.chars().take(reason).collect();
        }
        let cut = Self::new(self.columns.clone(), rows);
        cut.rows().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    pub(crate) fn headings(&self) -> String {
        let cells: Vec<String> = self.columns.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        self.line(&cells)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|row| self.line(row))
    }

    /// The rows. A reason that would be cut to less than [`REASON`] gets lines of its own.
    pub(crate) fn with_reasons(
        &self,
        width: Option<usize>,
        style: Style,
    ) -> impl Iterator<Item = Vec<String>> {
        self.rows.iter().map(move |row| {
            let line = self.line(row);
            let (Some(width), Some((reason, others))) = (width, row.split_last()) else { return vec![line] };
            let before = line.chars().count().saturating_sub(escaped(reason).chars().count());
            if line.chars().count() <= width || width.saturating_sub(before) >= REASON {
                return vec![shortened(line, width, style)];
            }
            let mut lines = vec![shortened(self.line(others), width, style)];
            lines.extend(wrapped(&format!("{BELOW}{reason}"), Some(width), BELOW));
            lines
        })
    }

    /// One line, without spaces at the end.
    pub(crate) fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (index, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let cell = &*escaped(cell);
            let align = self.columns[index].1;
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            // Right-aligned columns, and a number in the first column, need one space only.
            match index {
                0 => {}
                1 if self.columns[0].1 == Align::Right => line.push(' '),
                _ => line.push_str(if align == Align::Right { " " } else { "  " }),
            }
            match align {
                Align::Left => line.extend([cell, &blanks]),
                Align::Right => line.extend([&blanks, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// The text of these lines. Every line ends with a line break.
pub(crate) fn text_of(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
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

/// The escaped text, wrapped at spaces into lines of at most that width; one line without a width. Every line
/// except the first starts with `indent`.
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

#[cfg(test)]
mod tests {
    use super::{Align, REASON, Table, shortened, wrapped};
    use crate::terminal::style::Style;

    #[test]
    fn columns_are_left_out_in_order_and_only_as_many_as_needed() {
        let kept = |width, reason| {
            let rows =
                vec![["web-1", "n1", "because it is so and not otherwise"].map(str::to_owned).to_vec()];
            let columns = ["POD", "NODE", "WHY"].map(|heading| (heading, Align::Left)).to_vec();
            Table::new(columns, rows).fit(Some(width), &[("NODE", reason), ("POD", REASON)]).headings()
        };
        assert_eq!(kept(80, usize::MAX), "POD    NODE  WHY");
        // The reason can be cut to its minimum width.
        assert_eq!(kept(45, REASON), "POD    NODE  WHY");
        assert_eq!(kept(45, usize::MAX), "POD    WHY");
        assert_eq!(kept(44, REASON), "POD    WHY");
        assert_eq!(kept(10, REASON), "WHY");
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
}
