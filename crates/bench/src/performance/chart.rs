//! Pictures of curves: categories from left to right, values upwards on a logarithmic scale.

use std::ops::Range;
use std::path::Path;

use plotters::coord::combinators::WithKeyPoints;
use plotters::prelude::*;

use crate::performance::scene::{CONTESTANTS, Contestant};
use fairlock_cli::contention::plot_style::{
    Canvas, Drawn, FAINT, HOLDING, INK, PAPER, TOGETHER, font,
};

const SIZE: (u32, u32) = (1200, 480);
/// The colour between those of the baselines and of fairlock.
const OCHRE: RGBColor = RGBColor(196, 138, 24);

/// A system of axes.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) across: String,
    pub(crate) upwards: String,
    pub(crate) categories: Vec<String>,
    pub(crate) curves: Vec<Curve>,
}

#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) style: Style,
    /// A value for each category.
    pub(crate) values: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colour: RGBColor,
    is_dashed: bool,
}

impl Style {
    /// The style of a contestant's curve. It is dashed where a baseline polls as rarely as its authors chose.
    pub(crate) fn of(by: Contestant) -> Style {
        let place = CONTESTANTS.iter().position(|one| *one == by);
        Style::number(place.unwrap_or_default(), by.is_slow())
    }

    pub(crate) fn number(place: usize, is_dashed: bool) -> Style {
        let colours = [HOLDING, OCHRE, TOGETHER, OCHRE, TOGETHER];
        Style {
            colour: colours[place % colours.len()],
            is_dashed,
        }
    }

    fn stroke(self) -> ShapeStyle {
        self.colour.stroke_width(3)
    }

    /// The dashes of the sample in the legend.
    fn dashes(self) -> &'static [Range<i32>] {
        match self.is_dashed {
            true => &[0..8, 13..21, 26..34],
            false => &[0..17, 17..34],
        }
    }
}

/// Draws the panels side by side, with one legend for the curves of all.
pub(crate) fn draw(path: &Path, panels: &[Panel]) -> Drawn<()> {
    let canvas = SVGBackend::new(path, SIZE).into_drawing_area();
    canvas.fill(&PAPER)?;
    let (head, body) = canvas.split_vertically(44);
    legend(&head, panels)?;
    let areas = body.split_evenly((1, panels.len()));
    for (area, panel) in areas.iter().zip(panels) {
        axes(area, panel)?;
    }
    canvas.present()?;
    Ok(())
}

fn legend(canvas: &Canvas<'_>, panels: &[Panel]) -> Drawn<()> {
    let mut left = 24;
    let curves = panels.first().map(|panel| panel.curves.as_slice());
    for curve in curves.unwrap_or_default() {
        for dash in curve.style.dashes() {
            let ends = vec![(left + dash.start, 26), (left + dash.end, 26)];
            canvas.draw(&PathElement::new(ends, curve.style.stroke()))?;
        }
        canvas.draw(&Text::new(curve.name.clone(), (left + 42, 17), font(15)))?;
        left += 70 + curve.name.len() as i32 * 7;
    }
    Ok(())
}

fn axes(area: &Canvas<'_>, panel: &Panel) -> Drawn<()> {
    let values = || panel.curves.iter().flat_map(|curve| curve.values.iter());
    let least = values().copied().fold(f64::MAX, f64::min).max(0.01);
    let most = values().copied().fold(least, f64::max);
    let last = panel.categories.len().saturating_sub(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, font(18))
        .margin(14)
        .margin_right(26)
        .set_label_area_size(LabelAreaPosition::Left, 66)
        .set_label_area_size(LabelAreaPosition::Bottom, 48)
        .build_cartesian_2d(-0.2..last + 0.2, scale(least * 0.7..most * 1.4))?;
    let name = |at: &f64| name(&panel.categories, *at);
    let places = 2 * panel.categories.len() + 1;
    let mesh = &mut chart.configure_mesh();
    mesh.x_labels(places).x_label_formatter(&name);
    mesh.y_label_formatter(&|value| format!("{value}"));
    mesh.disable_x_mesh().y_max_light_lines(0);
    mesh.bold_line_style(FAINT).axis_style(INK);
    mesh.label_style(font(14)).axis_desc_style(font(15));
    mesh.x_desc(&panel.across).y_desc(&panel.upwards).draw()?;
    for Curve { style, values, .. } in &panel.curves {
        let points = || {
            values
                .iter()
                .enumerate()
                .map(|(at, value)| (at as f64, *value))
        };
        match style.is_dashed {
            true => chart.draw_series(DashedLineSeries::new(points(), 7, 5, style.stroke()))?,
            false => chart.draw_series(LineSeries::new(points(), style.stroke()))?,
        };
        let dot = |point| Circle::new(point, 4, style.colour.filled());
        chart.draw_series(points().map(dot))?;
    }
    Ok(())
}

/// A scale with marks at one, two and five of each power of ten.
fn scale(span: Range<f64>) -> WithKeyPoints<LogCoord<f64>> {
    let powers = (-3..7).map(|power| 10_f64.powi(power));
    let marks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|mark| mark * power));
    let marks = marks.filter(|mark| span.contains(mark)).collect();
    LogCoord::from(span.log_scale()).with_key_points(marks)
}

/// The name of the category at this position, if there is one.
fn name(categories: &[String], at: f64) -> String {
    let is_one = (at - at.round()).abs() < 1e-6 && at > -0.5;
    let there = categories.get(at.round() as usize).filter(|_| is_one);
    there.cloned().unwrap_or_default()
}
