//! The style of all pictures.

use plotters::coord::Shift;
use plotters::prelude::*;

pub(crate) const PAPER: RGBColor = RGBColor(252, 252, 250);
pub(crate) const INK: RGBColor = RGBColor(40, 44, 52);
pub(crate) const FAINT: RGBColor = RGBColor(228, 229, 226);
pub(crate) const WAITING: RGBColor = RGBColor(176, 190, 209);
pub(crate) const HOLDING: RGBColor = RGBColor(24, 110, 176);
pub(crate) const TOGETHER: RGBColor = RGBColor(208, 50, 40);

pub(crate) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn<T> = Result<T, Box<dyn std::error::Error>>;

pub(crate) fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}
