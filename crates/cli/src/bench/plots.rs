//! The pictures of a contest: how long handoffs took, and how many turns there were from second to second.

use std::time::Duration;

use fairlock_cli::contention::plot_style::{Drawn, FAINT, HOLDING, INK, PAPER, font};
use fairlock_cli::contention::turn::Turn;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1200, 360);
/// Bars of a picture, at most.
const BARS: usize = 60;
/// Turns of a bar, on average. Bars of fewer would show the rounding of their counts.
const TURNS: usize = 8;

/// A picture of bars.
struct Bars<'a> {
    title: &'a str,
    across: &'a str,
    upwards: &'a str,
    /// Where each bar begins and ends, and how high it is.
    bars: Vec<(f64, f64, f64)>,
}

/// Draws how many handoffs took how long.
pub(super) fn handoffs(times: &[Duration]) -> Drawn<String> {
    let ms: Vec<_> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    Bars {
        title: "handoffs",
        across: "milliseconds from the end of a turn to the next one",
        upwards: "handoffs",
        bars: counted(&ms, ms.len()),
    }
    .svg()
}

/// Draws how many turns were granted in each part of the time.
pub(super) fn pace(turns: &[Turn]) -> Drawn<String> {
    let first = turns
        .iter()
        .map(|turn| turn.requested_ns)
        .min()
        .unwrap_or_default();
    let since = |turn: &Turn| turn.acquired_ns.saturating_sub(first) as f64 / 1e9;
    let granted: Vec<_> = turns.iter().map(since).collect();
    let bars = counted(&granted, granted.len() / TURNS).into_iter();
    Bars {
        title: "turns over time",
        across: "seconds since the first worker asked",
        upwards: "turns a second",
        bars: bars
            .map(|(from, to, count)| (from, to, count / (to - from)))
            .collect(),
    }
    .svg()
}

/// Counts values in spans of one width from zero on, for about so many bars.
fn counted(values: &[f64], bars: usize) -> Vec<(f64, f64, f64)> {
    let most = values.iter().copied().fold(0.0, f64::max);
    let bars = bars.clamp(1, BARS);
    let width = if most > 0.0 { most / bars as f64 } else { 1.0 };
    let mut counts = vec![0.0; bars];
    for value in values {
        // The largest value belongs to the last span.
        counts[((value / width) as usize).min(bars - 1)] += 1.0;
    }
    let spans = (0..).zip(counts);
    spans
        .map(|(nth, count): (u32, f64)| (f64::from(nth) * width, f64::from(nth + 1) * width, count))
        .collect()
}

/// A number without digits that say nothing.
fn short(value: &f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Bars<'_> {
    fn svg(&self) -> Drawn<String> {
        let mut svg = String::new();
        {
            let canvas = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            canvas.fill(&PAPER)?;
            let end = self.bars.last().map_or(1.0, |(_, to, _)| *to);
            let highest = self
                .bars
                .iter()
                .map(|(_, _, high)| *high)
                .fold(0.0, f64::max);
            let mut chart = ChartBuilder::on(&canvas)
                .caption(self.title, font(20))
                .margin(14)
                .margin_right(26)
                .set_label_area_size(LabelAreaPosition::Left, 76)
                .set_label_area_size(LabelAreaPosition::Bottom, 52)
                .build_cartesian_2d(0.0..end, 0.0..highest.max(1.0) * 1.05)?;
            let mesh = &mut chart.configure_mesh();
            mesh.disable_x_mesh().y_max_light_lines(0).x_labels(12);
            mesh.bold_line_style(FAINT).axis_style(INK);
            mesh.label_style(font(14)).axis_desc_style(font(15));
            mesh.y_label_formatter(&short).x_label_formatter(&short);
            mesh.x_desc(self.across).y_desc(self.upwards).draw()?;
            let bars = self.bars.iter().filter(|(_, _, high)| *high > 0.0);
            chart.draw_series(bars.map(|(from, to, high)| {
                // A little paper between two bars.
                let gap = (to - from) * 0.08;
                Rectangle::new([(from + gap, 0.0), (to - gap, *high)], HOLDING.filled())
            }))?;
            canvas.present()?;
        }
        Ok(svg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_bar_and_the_largest_in_the_last() {
        let bars = counted(&[0.0, 1.0, 2.0, 10.0], 4);
        let counts: Vec<_> = bars.iter().map(|(_, _, count)| *count).collect();
        assert_eq!(counts, [3.0, 0.0, 0.0, 1.0]);
        assert_eq!((bars[0].0, bars[3].1), (0.0, 10.0));
        assert_eq!(counted(&[], 0), [(0.0, 1.0, 0.0)]);
        assert_eq!(counted(&[0.0, 0.0], 2)[0].2, 2.0);
        assert_eq!(counted(&vec![1.0; 1_000], 1_000).len(), BARS);
    }

    #[test]
    fn labels_have_no_digits_that_say_nothing() {
        assert_eq!(
            [10.0, 0.5, 0.0].map(|value| short(&value)),
            ["10", "0.5", "0"]
        );
    }

    #[test]
    fn pictures_of_nothing_are_pictures_too() {
        for svg in [handoffs(&[]).unwrap(), pace(&[]).unwrap()] {
            assert!(
                svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
                "{svg}"
            );
        }
    }
}
