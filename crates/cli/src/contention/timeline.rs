//! A picture of a run: a lane for each worker, thin while it waited and thick while it held the lock.

use std::collections::BTreeSet;
use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::plot_style::{Canvas, Drawn, FAINT, HOLDING, INK, PAPER, TOGETHER, WAITING, font};
use super::turn::Turn;

/// More turns would be too thin to see.
const MAX_TURNS: usize = 100;

const WIDTH: u32 = 1200;
const LANE: u32 = 30;
/// Title, legend and axis.
const AROUND: u32 = 144;

/// The turns that are drawn, in the order of their grants, and the lanes that they are drawn in.
struct Scene<'a> {
    turns: Vec<&'a Turn>,
    workers: Vec<u32>,
    start_ns: u64,
}

/// What one lane shows for a while.
struct Stretch {
    worker: u32,
    time: Range<f64>,
    colour: RGBColor,
    thickness: f64,
}

/// Draws the first turns, in the order of their grants, as an SVG.
///
/// # Errors
///
/// If the picture cannot be drawn, which no turns cause.
pub fn svg(title: &str, turns: &[Turn]) -> Drawn<String> {
    let scene = Scene::of(turns);
    let mut svg = String::new();
    {
        let size = (WIDTH, AROUND + LANE * scene.workers.len().max(1) as u32);
        let canvas = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        canvas.fill(&PAPER)?;
        heading(&canvas, title, &scene, turns.len())?;
        lanes(&canvas, &scene)?;
        canvas.present()?;
    }
    Ok(svg)
}

impl<'a> Scene<'a> {
    fn of(turns: &'a [Turn]) -> Scene<'a> {
        let mut turns: Vec<_> = turns.iter().collect();
        turns.sort_by_key(|turn| turn.acquired_ns);
        turns.truncate(MAX_TURNS);
        let workers: BTreeSet<_> = turns.iter().map(|turn| turn.worker).collect();
        let start = turns.iter().map(|turn| turn.requested_ns).min();
        Scene {
            turns,
            workers: workers.into_iter().collect(),
            start_ns: start.unwrap_or_default(),
        }
    }

    fn ms(&self, at_ns: u64) -> f64 {
        at_ns.saturating_sub(self.start_ns) as f64 / 1e6
    }

    fn end(&self) -> f64 {
        let ends = self.turns.iter().map(|turn| self.ms(turn.released_ns));
        ends.fold(1.0, f64::max)
    }

    /// The position from the bottom, where the last worker is.
    fn lane(&self, worker: u32) -> f64 {
        let above = self.workers.partition_point(|other| *other < worker);
        (self.workers.len() - above) as f64 - 0.5
    }

    fn is_shared(&self, turn: &Turn) -> bool {
        let together = |other: &&&Turn| {
            other.acquired_ns <= turn.releasing_ns && turn.acquired_ns <= other.releasing_ns
        };
        // A turn always overlaps with itself.
        self.turns.iter().filter(together).count() > 1
    }

    fn waits(&self) -> impl Iterator<Item = Stretch> {
        self.turns.iter().map(|turn| Stretch {
            worker: turn.worker,
            time: self.ms(turn.requested_ns)..self.ms(turn.acquired_ns),
            colour: WAITING,
            thickness: 0.16,
        })
    }

    fn holds(&self) -> impl Iterator<Item = Stretch> {
        self.turns.iter().map(|turn| Stretch {
            worker: turn.worker,
            time: self.ms(turn.acquired_ns)..self.ms(turn.releasing_ns),
            colour: if self.is_shared(turn) {
                TOGETHER
            } else {
                HOLDING
            },
            thickness: 0.62,
        })
    }
}

fn heading(canvas: &Canvas<'_>, title: &str, scene: &Scene<'_>, all: usize) -> Drawn<()> {
    canvas.draw(&Text::new(title, (24, 16), font(22)))?;
    let drawn = match scene.turns.len() {
        drawn if drawn < all => format!("the first {drawn} of {all} turns"),
        drawn => format!("{drawn} turns"),
    };
    canvas.draw(&Text::new(drawn, (24, 48), font(15)))?;
    let legend = [
        (520, WAITING, 4, "waits"),
        (640, HOLDING, 16, "holds the lock"),
        (820, TOGETHER, 16, "holds it while another does"),
    ];
    for (left, colour, thickness, what) in legend {
        let sample = [(left, 56 - thickness / 2), (left + 36, 56 + thickness / 2)];
        canvas.draw(&Rectangle::new(sample, colour.filled()))?;
        canvas.draw(&Text::new(what, (left + 46, 48), font(15)))?;
    }
    Ok(())
}

fn lanes(canvas: &Canvas<'_>, scene: &Scene<'_>) -> Drawn<()> {
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(80)
        .margin_right(24)
        .margin_bottom(8)
        .set_label_area_size(LabelAreaPosition::Left, 110)
        .set_label_area_size(LabelAreaPosition::Bottom, 50)
        .build_cartesian_2d(0.0..scene.end(), 0.0..scene.workers.len().max(1) as f64)?;
    let mesh = &mut chart.configure_mesh();
    mesh.disable_y_mesh().y_labels(0).x_labels(12);
    mesh.x_max_light_lines(0).bold_line_style(FAINT);
    mesh.axis_style(INK).label_style(font(14));
    mesh.x_label_formatter(&|at| format!("{at:.0}"));
    mesh.x_desc("milliseconds since the first asked").draw()?;
    let stretches = scene.waits().chain(scene.holds());
    chart.draw_series(stretches.map(|stretch| bar(scene, stretch)))?;
    let right = font(14).pos(Pos::new(HPos::Right, VPos::Center));
    for worker in &scene.workers {
        let (left, middle) = chart.backend_coord(&(0.0, scene.lane(*worker)));
        let label = Text::new(
            format!("worker {worker}"),
            (left - 12, middle),
            right.clone(),
        );
        canvas.draw(&label)?;
    }
    Ok(())
}

fn bar(scene: &Scene<'_>, stretch: Stretch) -> Rectangle<(f64, f64)> {
    let (middle, half) = (scene.lane(stretch.worker), stretch.thickness / 2.0);
    let corners = [
        (stretch.time.start, middle - half),
        (stretch.time.end, middle + half),
    ];
    Rectangle::new(corners, stretch.colour.filled())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A turn that asked at 0, and held the lock between these times.
    fn turn(worker: u32, acquired: u64, releasing: u64) -> Turn {
        Turn {
            worker,
            cycle: 1,
            ticket: acquired,
            requested_ns: 0,
            acquired_ns: acquired * MS,
            releasing_ns: releasing * MS,
            released_ns: (releasing + 1) * MS,
        }
    }

    fn drawn(turns: &[Turn]) -> String {
        svg("a title", turns).unwrap()
    }

    /// Counts the bars of this colour, without the one of the legend.
    fn bars(svg: &str, colour: RGBColor) -> usize {
        let RGBColor(red, green, blue) = colour;
        svg.matches(&format!("#{red:02X}{green:02X}{blue:02X}"))
            .count()
            - 1
    }

    #[test]
    fn every_turn_is_a_wait_and_a_hold_in_its_worker_s_lane() {
        let svg = drawn(&[turn(3, 1, 5), turn(1, 6, 9), turn(3, 10, 11)]);
        for told in ["a title", "3 turns", "worker 1", "worker 3"] {
            assert!(svg.contains(told), "no {told} in {svg}");
        }
        assert!(!svg.contains("worker 2"), "{svg}");
        assert_eq!(
            [WAITING, HOLDING, TOGETHER].map(|colour| bars(&svg, colour)),
            [3, 3, 0]
        );
    }

    #[test]
    fn both_turns_that_held_the_lock_together_are_marked() {
        let svg = drawn(&[turn(1, 0, 10), turn(2, 10, 20), turn(3, 21, 30)]);
        assert_eq!([HOLDING, TOGETHER].map(|colour| bars(&svg, colour)), [1, 2]);
    }

    #[test]
    fn of_many_turns_the_first_are_drawn_and_it_says_so() {
        let turns: Vec<_> = (0..150)
            .rev()
            .map(|n| turn(1, 10 * n, 10 * n + 5))
            .collect();
        let svg = drawn(&turns);
        assert!(svg.contains("the first 100 of 150 turns"), "{svg}");
        assert_eq!(bars(&svg, HOLDING), 100);
        assert_eq!(Scene::of(&turns).end(), 996.0);
    }

    #[test]
    fn no_turns_are_a_picture_too() {
        assert!(drawn(&[]).contains("0 turns"));
    }
}
