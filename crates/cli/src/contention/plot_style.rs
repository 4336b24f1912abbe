//! The style of all pictures.

use plotters::coord::Shift;
use plotters::prelude::*;

/// The background.
pub const PAPER: RGBColor = RGBColor(252, 252, 250);
/// Texts and axes.
pub const INK: RGBColor = RGBColor(40, 44, 52);
/// Lines of the grid.
pub const FAINT: RGBColor = RGBColor(228, 229, 226);
/// A worker waits.
pub const WAITING: RGBColor = RGBColor(176, 190, 209);
/// A worker holds the lock. Also what a picture is about, where a picture is of a single thing.
pub const HOLDING: RGBColor = RGBColor(24, 110, 176);
/// A worker holds the lock while another one does.
pub const TOGETHER: RGBColor = RGBColor(208, 50, 40);

/// An area of an SVG.
pub type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What drawing returns. It fails only if the picture cannot be written.
pub type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

/// The text style of this size.
pub fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}
