//! What is promised, and what was measured.

use Bound::{AtLeast, AtMost};

use crate::performance::Done;
use crate::performance::budget::Budget;
use crate::performance::driver::Driver;
use crate::performance::instructions;
use crate::performance::memory;
use crate::performance::queues::LongQueue;
use crate::performance::run::{Run, in_round_trips, median};
use crate::performance::scene::{FAIRLOCK, Place, Scene};
use crate::performance::table::{Table, digits};

const MIB: f64 = 1024.0 * 1024.0;

/// A line of the table.
struct Promise {
    what: String,
    bound: Bound,
    measured: f64,
    by: String,
}

/// Which side of the bound is good.
#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// The name of a figure, its promised bound, and how a run shows it.
type Figure = (&'static str, Bound, fn(&Run) -> f64);

const ALONE: [Figure; 2] = [
    ("uncontended: requests a turn", AtMost(2.0), Run::requests),
    (
        "uncontended: acquire, p50, round trips",
        AtMost(1.05),
        |run| in_round_trips(run.wait(50)),
    ),
];
const EIGHT: [Figure; 4] = [
    (
        "handoff, 8 workers, hold 50 ms: p50, round trips",
        AtMost(1.6),
        |run| in_round_trips(run.handoff(50)),
    ),
    ("the same: p99", AtMost(3.0), |run| {
        in_round_trips(run.handoff(99))
    }),
    ("the same: requests a turn", AtMost(16.0), Run::requests),
    (
        "the same: longest wait, against the mean",
        AtMost(1.5),
        Run::unevenness,
    ),
];
const NO_HOLD: [Figure; 1] = [(
    "hold 0, 8 workers: turns a round trip",
    AtLeast(0.55),
    Run::turns_a_round_trip,
)];
const INSIDE: [Figure; 2] = [
    (
        "handoff inside one client, 8 tasks: p50, round trips",
        AtMost(1.15),
        |run| in_round_trips(run.handoff(50)),
    ),
    ("the same: requests a turn", AtMost(4.0), Run::requests),
];
const INSIDE_NO_HOLD: [Figure; 1] = [(
    "hold 0, 8 tasks of one client: turns a round trip",
    AtLeast(0.85),
    Run::turns_a_round_trip,
)];

pub(crate) fn measure(driver: &Driver, budget: &Budget, queues: &[LongQueue]) -> Done<String> {
    let processes = |workers, hold_ms| Scene::new(FAIRLOCK, workers, hold_ms, budget.turns);
    let inside = |hold_ms| Scene {
        place: Place::OneClient,
        ..processes(8, hold_ms)
    };
    let scenes: [(Scene, &[Figure]); 5] = [
        (processes(1, 0), &ALONE),
        (processes(8, 50), &EIGHT),
        (processes(8, 0), &NO_HOLD),
        (inside(50), &INSIDE),
        (inside(0), &INSIDE_NO_HOLD),
    ];
    let mut promises = Vec::new();
    for (scene, figures) in scenes {
        let runs = driver.runs(scene, budget.runs)?;
        promises.extend(figures.iter().map(|(what, bound, figure)| Promise {
            what: what.to_string(),
            bound: *bound,
            measured: median(&runs, figure),
            by: format!("`{}`", scene.command()),
        }));
    }
    promises.extend(of_long_queues(queues));
    promises.push(Promise {
        what: "uncontended: instructions, against two bare calls of the SDK, times".into(),
        bound: AtMost(1.15),
        measured: instructions::ratio(budget)?,
        by: "`scripts/instructions`".into(),
    });
    promises.push(Promise {
        what: format!(
            "memory of {} tasks of one client that wait, MB",
            budget.tasks
        ),
        bound: AtMost(60.0),
        measured: memory::of_waiting(budget.tasks)? / MIB,
        by: "in virtual time, with the rows in the engine".into(),
    });
    Ok(table(promises))
}

fn table(promises: Vec<Promise>) -> String {
    let mut table = Table::new(["", "promised", "measured", "kept", "by"]);
    let mut before = String::new();
    for mut promise in promises {
        let by = std::mem::replace(&mut before, promise.by.clone());
        if by == promise.by {
            promise.by = "the same".into();
        }
        table.row(promise.cells());
    }
    table.to_string()
}

/// The promises about the longest queues, compared with a queue of eight.
fn of_long_queues(queues: &[LongQueue]) -> Vec<Promise> {
    let Some(eight) = queues.iter().find(|long| long.setup.waiters == 8) else {
        return Vec::new();
    };
    let long = queues.iter().filter(|long| long.setup.waiters >= 1_000);
    let promises = long.flat_map(|long| {
        let waiters = long.setup.waiters;
        let of = |what: &str, most, ratio| Promise {
            what: format!("{what} a handoff, {waiters} waiters against 8, times"),
            bound: AtMost(most),
            measured: ratio,
            by: "in virtual time".into(),
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

impl Promise {
    fn cells(&self) -> [String; 5] {
        let (promised, is_kept) = match self.bound {
            AtMost(most) => (format!("at most {most}"), self.measured <= most),
            AtLeast(least) => (format!("at least {least}"), self.measured >= least),
        };
        let kept = match is_kept {
            _ if self.measured.is_nan() => "not measured",
            true => "yes",
            false => "**no**",
        };
        [
            self.what.clone(),
            promised,
            digits(self.measured),
            kept.into(),
            self.by.clone(),
        ]
    }
}
