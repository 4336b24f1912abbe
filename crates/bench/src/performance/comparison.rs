//! fairlock and the baselines at the same work, by the length of the queue and by the length of each hold.

use crate::performance::Done;
use crate::performance::budget::Budget;
use crate::performance::chart::{Curve, Panel, Style, draw};
use crate::performance::driver::Driver;
use crate::performance::page::Page;
use crate::performance::run::{Run, in_round_trips, median};
use crate::performance::scene::{CONTESTANTS, Contestant, FAIRLOCK, Scene};
use crate::performance::table::{Table, digits};

const WORKERS: u32 = 8;
const HOLD_MS: u32 = 50;
/// From this hold on, turns take long.
const LONG_MS: u32 = 200;

/// A figure of one run.
type Figure = fn(&Run) -> f64;

pub(crate) struct Comparison {
    /// The name of the place on the page, and of its picture.
    name: &'static str,
    across: &'static str,
    along: Vec<u32>,
    courses: Vec<Course>,
}

/// What one contestant did, for each category.
pub(crate) struct Course {
    pub(crate) by: Contestant,
    pub(crate) scenes: Vec<Scene>,
    pub(crate) runs: Vec<Vec<Run>>,
}

impl Comparison {
    pub(crate) fn by_length(driver: &Driver, budget: &Budget) -> Done<Comparison> {
        let scene = |by, workers| Scene::new(by, workers, HOLD_MS, turns(budget, by, HOLD_MS));
        Ok(Comparison {
            name: "queue-length",
            across: "workers",
            along: budget.lengths.to_vec(),
            courses: courses(driver, budget, budget.lengths, scene)?,
        })
    }

    pub(crate) fn by_hold(driver: &Driver, budget: &Budget) -> Done<Comparison> {
        let scene = |by, hold| Scene::new(by, WORKERS, hold, turns(budget, by, hold));
        Ok(Comparison {
            name: "hold-time",
            across: "hold, in milliseconds",
            along: budget.holds_ms.to_vec(),
            courses: courses(driver, budget, budget.holds_ms, scene)?,
        })
    }

    /// What each contestant did with eight workers, if that was measured.
    pub(crate) fn of_eight(&self) -> impl Iterator<Item = (Contestant, &[Run])> {
        let place = self.along.iter().position(|along| *along == WORKERS);
        let courses = self.courses.iter();
        courses.filter_map(move |course| Some((course.by, course.runs[place?].as_slice())))
    }

    pub(crate) fn report(&self, page: &mut Page) -> Done<()> {
        let first = &self.courses[0].scenes[0];
        let command = format!(
            "The leftmost figure of the first row: `{}`\n",
            first.command()
        );
        let figures: [(&str, Figure); 2] = [
            ("median handoff, in round trips", |run| {
                in_round_trips(run.handoff(50))
            }),
            ("requests a turn", Run::requests),
        ];
        let along: Vec<_> = self.along.iter().map(u32::to_string).collect();
        let tables = figures.map(|(head, figure)| {
            let mut table = Table::new(
                [format!("{head}: {}", self.across)]
                    .into_iter()
                    .chain(along.clone()),
            );
            for course in &self.courses {
                let cells = course.runs.iter().map(|runs| digits(median(runs, figure)));
                table.row([course.by.name()].into_iter().chain(cells));
            }
            table.to_string()
        });
        page.write(self.name, &format!("{command}\n{}", tables.join("\n")))?;
        let picture = page.picture(&format!("{}.svg", self.name))?;
        let panels = [
            self.panel("Half of the handoffs take at most", "milliseconds", |run| {
                run.handoff(50)
            }),
            self.panel("Requests a turn", "requests", Run::requests),
        ];
        draw(&picture, &panels)
    }

    fn panel(&self, title: &str, upwards: &str, figure: fn(&Run) -> f64) -> Panel {
        let curve = |course: &Course| Curve {
            name: course.by.name(),
            style: Style::of(course.by),
            values: course
                .runs
                .iter()
                .map(|runs| median(runs, figure))
                .collect(),
        };
        Panel {
            title: title.into(),
            across: self.across.into(),
            upwards: upwards.into(),
            categories: self.along.iter().map(u32::to_string).collect(),
            curves: self.courses.iter().map(curve).collect(),
        }
    }
}

/// Runs contestants that sleep most of the time side by side.
fn courses(
    driver: &Driver,
    budget: &Budget,
    along: &[u32],
    scene: impl Fn(Contestant, u32) -> Scene,
) -> Done<Vec<Course>> {
    let mut courses = Vec::new();
    for by in CONTESTANTS {
        let scenes: Vec<_> = along.iter().map(|along| scene(by, *along)).collect();
        let runs: Done<Vec<_>> = match by.is_slow() {
            true => Ok(Vec::new()),
            false => scenes
                .iter()
                .map(|scene| driver.runs(*scene, times(budget, scene)))
                .collect(),
        };
        courses.push(Course {
            by,
            scenes,
            runs: runs?,
        });
    }
    let slow: Vec<_> = courses
        .iter()
        .filter(|course| course.by.is_slow())
        .collect();
    let scenes: Vec<_> = slow
        .iter()
        .flat_map(|course| course.scenes.clone())
        .collect();
    let mut ran = driver.side_by_side(&scenes)?.into_iter();
    for course in courses.iter_mut().filter(|course| course.by.is_slow()) {
        course.runs = ran
            .by_ref()
            .take(along.len())
            .map(|run| vec![run])
            .collect();
    }
    Ok(courses)
}

fn turns(budget: &Budget, by: Contestant, hold_ms: u32) -> u32 {
    match hold_ms {
        _ if by.is_slow() => budget.turns / 2,
        LONG_MS.. => budget.slow_turns,
        _ => budget.turns,
    }
}

fn times(budget: &Budget, scene: &Scene) -> usize {
    match scene.hold_ms {
        hold if hold > LONG_MS => 1,
        _ if scene.by != FAIRLOCK => 1,
        HOLD_MS if scene.workers == WORKERS => budget.runs,
        _ => budget.fewer,
    }
}
