//! A table in Markdown.

use std::fmt;

pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>) -> Table {
        Table(vec![heads.into_iter().map(Into::into).collect()])
    }

    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, cells) in self.0.iter().enumerate() {
            writeln!(f, "| {} |", cells.join(" | "))?;
            if line == 0 {
                writeln!(f, "|{}", "---|".repeat(cells.len()))?;
            }
        }
        Ok(())
    }
}

/// Writes three digits, and all digits before the point.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        size if size.is_nan() => "–".into(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
