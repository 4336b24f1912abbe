//! Texts in columns under a head, no wider than the terminal.

use clap::builder::styling::{AnsiColor, Style};

/// Spaces between columns.
const GAP: usize = 2;
/// No column is made narrower than this.
const NARROW: usize = 8;

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default();

/// The contents of one cell of a table.
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) style: Style,
}

impl Cell {
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Cell {
            text: text.into(),
            style: PLAIN,
        }
    }

    pub(super) fn none() -> Self {
        Cell::plain("-")
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// Prints texts in columns under a head.
#[cfg(feature = "top")]
pub(crate) fn plain_table<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> String {
    let rows = rows.into_iter().map(|row| row.map(Cell::plain));
    table(head, rows.collect())
}

pub(super) fn table<const N: usize>(head: [&str; N], rows: Vec<[Cell; N]>) -> String {
    let head = head.map(|text| Cell {
        text: text.into(),
        style: BOLD,
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max();
    let widths = (0..N).map(|column| width(column).unwrap_or(0));
    let widths = fitted(widths.collect(), columns());
    rows.iter().map(|row| line(row, &widths)).collect()
}

/// Returns the terminal's width in characters. Returns `None` if there is no terminal.
fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Shrinks the widest columns until a line fits the terminal. No column becomes narrower than `NARROW`, so that some of its text can still
/// be read.
fn fitted(mut widths: Vec<usize>, columns: Option<usize>) -> Vec<usize> {
    let gaps = GAP * widths.len().saturating_sub(1);
    // The loop ends because each iteration makes one column narrower.
    while columns.is_some_and(|columns| columns < widths.iter().sum::<usize>() + gaps)
        && let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROW)
    {
        *widest -= 1;
    }
    widths
}

/// Cuts the text to the width, and marks the cut.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() <= width {
        true => text.to_owned(),
        false => text
            .chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

/// Joins the cells of a row. The last column is not padded.
fn line(row: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let Cell { text, style } = cell;
        let text = cut(text, *width);
        let gap = match row.len() - at {
            1 => 0,
            _ => width - text.chars().count() + GAP,
        };
        line.push_str(&format!("{style}{text}{style:#}{}", " ".repeat(gap)));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = vec![["a", "free"], ["longer", "b"]].into_iter();
        let told = table(
            ["LOCK", "HOLDER"],
            rows.map(|row| row.map(Cell::plain)).collect(),
        );
        let plain = anstream::adapter::strip_str(&told).to_string();
        assert_eq!(plain, "LOCK    HOLDER\na       free\nlonger  b\n");
    }

    #[test]
    fn the_widest_columns_are_cut_until_a_line_fits() {
        assert_eq!(fitted(vec![30, 10, 5], None), [30, 10, 5]);
        assert_eq!(fitted(vec![30, 10, 5], Some(49)), [30, 10, 5]);
        assert_eq!(fitted(vec![30, 10, 5], Some(40)), [21, 10, 5]);
        assert_eq!(fitted(vec![30, 30, 5], Some(40)).iter().sum::<usize>(), 36);
        // Narrower columns could not be read.
        assert_eq!(fitted(vec![30, 30, 5], Some(1)), [8, 8, 5]);
        assert_eq!(
            (cut("abcdef", 6), cut("abcdef", 3)),
            ("abcdef".into(), "ab…".into())
        );
    }
}
