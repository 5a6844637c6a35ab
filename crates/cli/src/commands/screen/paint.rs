//! Draws a page with ratatui.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::view::Page;
use crate::terminal::escape::{PAINT_MARKS, escaped};

/// Draws the three parts. Only lines that fit are in them.
pub(super) fn draw(frame: &mut Frame<'_>, page: &Page) {
    let height = |lines: &[String]| Constraint::Length(u16::try_from(lines.len()).unwrap_or(u16::MAX));
    let parts = Layout::vertical([height(&page.top), Constraint::Min(1), height(&page.bottom)]);
    let areas = parts.split(frame.area());
    for (lines, area) in [&page.top, &page.middle, &page.bottom].into_iter().zip(areas.iter()) {
        let lines: Vec<Line<'_>> = lines.iter().map(|line| painted(line)).collect();
        frame.render_widget(Paragraph::new(lines), *area);
    }
}

/// A line with the colours of its marks. Other control characters are escaped.
fn painted(line: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::default();
    let mut text = String::new();
    for c in line.chars() {
        let Some(mark) = PAINT_MARKS.iter().position(|(mark, _)| *mark == c) else {
            text.push(c);
            continue;
        };
        spans.push(Span::styled(escaped(&std::mem::take(&mut text)).into_owned(), style));
        style = of_mark(mark);
    }
    spans.push(Span::styled(escaped(&text).into_owned(), style));
    Line::from(spans)
}

/// The style of a mark, as [`crate::terminal::escape::terminal_text`] writes it.
fn of_mark(mark: usize) -> Style {
    let plain = Style::default();
    match mark {
        1 => plain.add_modifier(Modifier::BOLD),
        2 => plain.add_modifier(Modifier::DIM),
        3 => plain.fg(Color::Green),
        4 => plain.fg(Color::Yellow).add_modifier(Modifier::BOLD),
        5 => plain.fg(Color::Red),
        _ => plain,
    }
}
