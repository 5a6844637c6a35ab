//! Columns. It aligns text and never shortens it: names are there to be copied.

/// On which side a column is flush.
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
    /// Wide enough for the headings and all rows.
    pub(crate) fn of<'r>(columns: &'a [Column], rows: impl IntoIterator<Item = &'r [String]>) -> Self {
        let mut widths: Vec<usize> = columns.iter().map(|column| column.heading.len()).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        Self { columns, widths }
    }

    pub(crate) fn headings(&self) -> String {
        let cells: Vec<String> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        self.row(&cells)
    }

    /// One line, without blanks at its end.
    pub(crate) fn row(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (index, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            let align = self.columns[index].align;
            let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
            // A number is parted well enough by its own blanks, and a leading number from what it counts.
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
