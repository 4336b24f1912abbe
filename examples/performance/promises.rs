//! What is promised, and what was measured.

use crate::Done;
use crate::budget::Budget;
use crate::driver::Driver;
use crate::instructions;
use crate::lines::LongLine;
use crate::memory;
use crate::run::{Run, in_round_trips, median};
use crate::scene::{FAIRLOCK, Place, Scene};
use crate::table::{Table, digits};

const MIB: f64 = 1024.0 * 1024.0;

/// A line of the table: a figure, its bound, and which side of it is good.
struct Promise {
    what: String,
    bound: f64,
    is_least: bool,
    measured: f64,
    by: String,
}

/// What it is called, what is promised of it, and how a run shows it.
type Figure = (&'static str, Promise, fn(&Run) -> f64);

pub(crate) fn measure(driver: &Driver, budget: &Budget, lines: &[LongLine]) -> Done<String> {
    let mut promises = of_processes(driver, budget)?;
    promises.extend(of_one_client(driver, budget)?);
    promises.extend(of_long_lines(lines));
    promises.push(Promise {
        what: "uncontended: instructions, against two bare calls of the SDK, times".into(),
        by: "`scripts/instructions`".into(),
        ..at_most(1.15, instructions::ratio(budget)?)
    });
    promises.push(Promise {
        what: format!(
            "memory of {} tasks of one client that wait, MB",
            budget.tasks
        ),
        by: "in virtual time, the rows in the engine among it".into(),
        ..at_most(60.0, memory::of_waiting(budget.tasks)? / MIB)
    });
    let mut table = Table::new(["", "promised", "measured", "kept", "by"]);
    for promise in promises {
        table.row(promise.cells());
    }
    Ok(table.to_string())
}

fn of_processes(driver: &Driver, budget: &Budget) -> Done<Vec<Promise>> {
    let alone = Scene::new(FAIRLOCK, 1, 0, budget.turns);
    let eight = Scene::new(FAIRLOCK, 8, 50, budget.turns);
    let no_hold = Scene::new(FAIRLOCK, 8, 0, budget.turns);
    let mut promises = of(
        driver,
        budget,
        alone,
        &[
            (
                "uncontended: requests a turn",
                at_most(2.0, 0.0),
                Run::requests,
            ),
            (
                "uncontended: acquire, p50, round trips",
                at_most(1.05, 0.0),
                |run| in_round_trips(run.wait(50)),
            ),
        ],
    )?;
    promises.extend(of(
        driver,
        budget,
        eight,
        &[
            (
                "hand-over, 8 workers, hold 50 ms: p50, round trips",
                at_most(1.6, 0.0),
                |run| in_round_trips(run.hand_over(50)),
            ),
            ("the same: p99", at_most(3.0, 0.0), |run| {
                in_round_trips(run.hand_over(99))
            }),
            (
                "the same: requests a turn",
                at_most(16.0, 0.0),
                Run::requests,
            ),
            (
                "the same: longest wait, against the mean",
                at_most(1.5, 0.0),
                Run::unevenness,
            ),
        ],
    )?);
    promises.extend(of(
        driver,
        budget,
        no_hold,
        &[(
            "hold 0, 8 workers: turns a round trip",
            at_least(0.55),
            Run::turns_a_round_trip,
        )],
    )?);
    Ok(promises)
}

fn of_one_client(driver: &Driver, budget: &Budget) -> Done<Vec<Promise>> {
    let inside = |hold_ms| Scene {
        place: Place::OneClient,
        ..Scene::new(FAIRLOCK, 8, hold_ms, budget.turns)
    };
    let mut promises = of(
        driver,
        budget,
        inside(50),
        &[
            (
                "hand-over inside one client, 8 tasks: p50, round trips",
                at_most(1.15, 0.0),
                |run| in_round_trips(run.hand_over(50)),
            ),
            (
                "the same: requests a turn",
                at_most(4.0, 0.0),
                Run::requests,
            ),
        ],
    )?;
    promises.extend(of(
        driver,
        budget,
        inside(0),
        &[(
            "hold 0, 8 tasks of one client: turns a round trip",
            at_least(0.85),
            Run::turns_a_round_trip,
        )],
    )?);
    Ok(promises)
}

/// Medians of runs of a scene.
fn of(driver: &Driver, budget: &Budget, scene: Scene, figures: &[Figure]) -> Done<Vec<Promise>> {
    let runs = driver.runs(scene, budget.runs)?;
    let promise = |(what, promised, figure): &Figure| Promise {
        what: what.to_string(),
        bound: promised.bound,
        is_least: promised.is_least,
        measured: median(&runs, figure),
        by: format!("`{}`", scene.command()),
    };
    Ok(figures.iter().map(promise).collect())
}

/// Those of the longest lines against that of eight.
fn of_long_lines(lines: &[LongLine]) -> Vec<Promise> {
    let Some(eight) = lines.iter().find(|long| long.line.waiters == 8) else {
        return Vec::new();
    };
    let long = lines.iter().filter(|long| long.line.waiters >= 1_000);
    let promises = long.flat_map(|long| {
        let waiters = long.line.waiters;
        let of = |what: &str, most, ratio| Promise {
            what: format!("{what} a hand-over, {waiters} waiters against 8, times"),
            by: "in virtual time".into(),
            ..at_most(most, ratio)
        };
        [
            of(
                "requests",
                2.0,
                long.toll.requests() / eight.toll.requests(),
            ),
            of(
                "capacity units",
                3.0,
                long.toll.capacity() / eight.toll.capacity(),
            ),
        ]
    });
    promises.collect()
}

fn at_most(bound: f64, measured: f64) -> Promise {
    Promise {
        what: String::new(),
        bound,
        is_least: false,
        measured,
        by: String::new(),
    }
}

fn at_least(bound: f64) -> Promise {
    Promise {
        is_least: true,
        ..at_most(bound, 0.0)
    }
}

impl Promise {
    fn cells(&self) -> [String; 5] {
        let (side, is_kept) = match self.is_least {
            true => ("at least", self.measured >= self.bound),
            false => ("at most", self.measured <= self.bound),
        };
        let kept = match is_kept {
            _ if self.measured.is_nan() => "not measured",
            true => "yes",
            false => "**no**",
        };
        [
            self.what.clone(),
            format!("{side} {}", self.bound),
            digits(self.measured),
            kept.into(),
            self.by.clone(),
        ]
    }
}
