//! The picture in the README: the paused rollout of a real run of the demo, as SVG for light and for dark
//! pages.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use crate::process::{OPTIMIZED, build_release, capture, release_program, top};

const FOLDER: &str = "docs/images";
/// The size of a character and of a line, in pixels.
const CHARACTER: f64 = 8.4;
const LINE: f64 = 20.0;
const MARGIN: f64 = 16.0;

/// The colours of a page.
struct Palette {
    name: &'static str,
    background: &'static str,
    text: &'static str,
    dim: &'static str,
    good: &'static str,
    warn: &'static str,
    bad: &'static str,
}

/// Each colour has a contrast of at least 4.5 on its background (WCAG 2, AA).
const PALETTES: [Palette; 2] = [
    Palette {
        name: "light",
        background: "#ffffff",
        text: "#1f2328",
        dim: "#59636e",
        good: "#116329",
        warn: "#7d4e00",
        bad: "#a40e26",
    },
    Palette {
        name: "dark",
        background: "#0d1117",
        text: "#e6edf3",
        dim: "#9198a1",
        good: "#3fb950",
        warn: "#d29922",
        bad: "#ff7b72",
    },
];

/// Runs the demo and writes the pictures.
pub(crate) fn write() -> Result<()> {
    build_release(&OPTIMIZED, &["kubectl-ordered"])?;
    let mut demo = release_program("kubectl-ordered");
    // Colours, although the output is not a terminal (https://bixense.com/clicolors).
    demo.arg("demo").env("CLICOLOR_FORCE", "1").env("LC_ALL", "C.UTF-8");
    let printed = capture(&mut demo)?;
    let lines = paused(&printed).context("the demo printed no paused rollout")?;
    fs::create_dir_all(top().join(FOLDER))?;
    for palette in &PALETTES {
        let path = top().join(FOLDER).join(format!("demo-{}.svg", palette.name));
        fs::write(&path, svg(&lines, palette)).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// The lines of the tree that the demo prints while it is paused.
fn paused(printed: &str) -> Option<Vec<&str>> {
    let lines = printed.lines().skip_while(|line| !line.starts_with("Paused at pause point")).skip(1);
    let tree: Vec<&str> = lines.take_while(|line| !line.starts_with('$')).collect();
    (!tree.is_empty()).then_some(tree)
}

/// A part of a line in one style: the codes of its escape sequence.
struct Part<'a> {
    column: usize,
    codes: &'a str,
    text: &'a str,
}

fn parts(line: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut column, mut codes) = (0, "0");
    for (index, piece) in line.split("\u{1b}[").enumerate() {
        let (next, text) =
            if index == 0 { (codes, piece) } else { piece.split_once('m').unwrap_or((codes, piece)) };
        codes = next;
        if !text.is_empty() {
            parts.push(Part { column, codes, text });
            column += text.chars().count();
        }
    }
    parts
}

fn svg(lines: &[&str], palette: &Palette) -> String {
    let lines: Vec<Vec<Part<'_>>> = lines.iter().map(|line| parts(line)).collect();
    let columns =
        lines.iter().filter_map(|line| line.last()).map(|part| part.column + part.text.chars().count());
    let width = 2.0 * MARGIN + CHARACTER * pixels(columns.max().unwrap_or(0));
    let height = 2.0 * MARGIN + LINE * pixels(lines.len());
    let Palette { background, text, .. } = palette;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 \
         {width:.0} {height:.0}\" role=\"img\">\n<title>A rollout that is paused before a pod</title>\n<rect \
         width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{background}\"/>\n<g font-family=\"ui-monospace, \
         SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\" fill=\"{text}\" \
         xml:space=\"preserve\">\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let y = MARGIN + LINE * (pixels(row) + 0.75);
        for part in line.iter().filter(|part| !part.text.trim().is_empty()) {
            // The width is given, so that columns stay aligned in every font.
            let (x, length) =
                (MARGIN + CHARACTER * pixels(part.column), CHARACTER * pixels(part.text.chars().count()));
            let style = style(part.codes, palette);
            let text = part.text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            // Writing to a String cannot fail.
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\"{style}>{text}</text>"
            );
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn style(codes: &str, palette: &Palette) -> String {
    match codes {
        "1" => " font-weight=\"bold\"".to_owned(),
        "2" => format!(" fill=\"{}\"", palette.dim),
        "32" => format!(" fill=\"{}\"", palette.good),
        "1;33" => format!(" fill=\"{}\" font-weight=\"bold\"", palette.warn),
        "31" => format!(" fill=\"{}\"", palette.bad),
        _ => String::new(),
    }
}

/// A number of characters or lines, for a size in pixels.
fn pixels(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{PALETTES, paused, svg};

    #[test]
    fn the_picture_is_the_paused_tree_with_its_colours() {
        let printed = "Annotated.\nPaused at pause point web-1: 2 of 10\nweb \u{1b}[1;33m‖ paused\u{1b}[0m \
                       <&>\n$ kubectl ordered resume web\n";
        let lines = paused(printed).unwrap();
        assert_eq!(lines.len(), 1);
        let picture = svg(&lines, &PALETTES[0]);
        assert!(picture.contains("fill=\"#7d4e00\" font-weight=\"bold\">‖ paused</text>"), "{picture}");
        assert!(picture.contains("> &lt;&amp;&gt;</text>"), "{picture}");
        assert!(paused("nothing").is_none());
    }
}
