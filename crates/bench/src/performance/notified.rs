//! Processes that poll beside processes that notify each other when to poll, at the same work.

use crate::performance::Done;
use crate::performance::budget::Budget;
use crate::performance::driver::Driver;
use crate::performance::page::Page;
use crate::performance::run::{Run, in_round_trips, median};
use crate::performance::scene::{FAIRLOCK, Scene};
use crate::performance::table::{Table, digits};

const WORKERS: u32 = 8;
const HOLD_MS: u32 = 50;

/// The name of a figure, and how a run shows it.
type Figure = (&'static str, fn(&Run) -> f64);

const P50: Figure = ("handoff p50, in round trips", |run| {
    in_round_trips(run.handoff(50))
});
const P99: Figure = ("handoff p99, in round trips", |run| {
    in_round_trips(run.handoff(99))
});
const REQUESTS: Figure = ("requests a turn", Run::requests);
const PACE: Figure = ("turns a round trip", Run::turns_a_round_trip);

/// The same scene without and with notifications.
pub(crate) struct Pair {
    polling: Scene,
    figures: &'static [Figure],
    runs: [Vec<Run>; 2],
}

pub(crate) fn measure(driver: &Driver, budget: &Budget) -> Done<Vec<Pair>> {
    let scene = |workers, hold_ms, turns| Scene::new(FAIRLOCK, workers, hold_ms, turns);
    let most = budget.lengths.last().copied().unwrap_or(WORKERS);
    let scenes: [(Scene, &[Figure]); 4] = [
        (scene(WORKERS, HOLD_MS, budget.turns), &[P50, P99, REQUESTS]),
        (
            scene(WORKERS, budget.long_hold_ms, budget.long_turns),
            &[P50, REQUESTS],
        ),
        (scene(WORKERS, 0, budget.turns), &[PACE]),
        (scene(most, HOLD_MS, budget.turns), &[REQUESTS]),
    ];
    let pairs = scenes.map(|(polling, figures)| Pair::measure(driver, budget, polling, figures));
    pairs.into_iter().collect()
}

impl Pair {
    /// Runs both in turns, so that what else the machine does slows both down alike.
    fn measure(
        driver: &Driver,
        budget: &Budget,
        polling: Scene,
        figures: &'static [Figure],
    ) -> Done<Pair> {
        let notified = Scene {
            is_notified: true,
            ..polling
        };
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..budget.runs {
            runs[0].push(driver.run(polling, &[])?);
            runs[1].push(driver.run(notified, &[])?);
        }
        Ok(Pair {
            polling,
            figures,
            runs,
        })
    }

    fn rows(&self) -> impl Iterator<Item = [String; 3]> {
        let Scene {
            workers, hold_ms, ..
        } = self.polling;
        self.figures.iter().map(move |(name, figure)| {
            let [polling, notified] = &self.runs;
            [
                format!("{workers} workers, hold {hold_ms} ms: {name}"),
                digits(median(polling, figure)),
                digits(median(notified, figure)),
            ]
        })
    }
}

pub(crate) fn report(pairs: &[Pair], page: &mut Page) -> Done<()> {
    let mut table = Table::new(["", "polling", "notified"]);
    for row in pairs.iter().flat_map(Pair::rows) {
        table.row(row);
    }
    page.write("notified", &table.to_string())
}
