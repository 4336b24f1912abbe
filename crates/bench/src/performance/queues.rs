//! Queues of up to ten thousand processes, in virtual time.

use fairlock_cli::contention::tally::percentile;
use fairlock_testkit::queue::{Build, QueueSetup, Toll};
use tokio::runtime::Builder;

use crate::performance::Done;
use crate::performance::budget::Budget;
use crate::performance::chart::{Curve, Panel, Style, draw};
use crate::performance::page::Page;
use crate::performance::table::{Table, digits};

/// What a queue's handoffs took and cost.
pub(crate) struct LongQueue {
    pub(crate) setup: QueueSetup,
    pub(crate) toll: Toll,
}

/// The queues, of clients that poll or that notify each other.
pub(crate) fn measure(budget: &Budget, are_notified: bool) -> Vec<LongQueue> {
    let build = Build {
        are_notified,
        ..Build::default()
    };
    let setups = budget.queues.iter();
    let measured = setups.map(|setup| {
        let waiters = setup.waiters;
        eprintln!("{waiters} waiters, in virtual time, notified: {are_notified}");
        LongQueue {
            setup: *setup,
            toll: in_virtual_time(setup.run_built(build)),
        }
    });
    measured.collect()
}

#[expect(
    clippy::expect_used,
    reason = "without a runtime there is nothing to measure"
)]
pub(crate) fn in_virtual_time<F: Future>(work: F) -> F::Output {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(work)
}

impl LongQueue {
    fn took(&self, percent: usize) -> String {
        let took = percentile(&self.toll.took, percent).unwrap_or_default();
        digits(took.div_duration_f64(self.setup.round_trip))
    }

    /// The figures of a row of the table.
    fn figures(&self) -> [f64; 7] {
        let toll = &self.toll;
        let heartbeats = toll.traffic.heartbeats().requests as f64 / toll.took.len() as f64;
        let (polls, rows) = (self.sent_as("GetItem"), self.sent_as("Query"));
        [
            toll.requests(),
            polls,
            rows,
            toll.requests() - polls - rows - heartbeats,
            heartbeats,
            toll.a_handoff(|sent| sent.write_units),
            toll.a_handoff(|sent| sent.read_units),
        ]
    }

    fn sent_as(&self, operation: &str) -> f64 {
        let sent = self.toll.traffic.lines();
        let sent = sent.filter(|(name, _, _)| *name == operation);
        let sent: u64 = sent.map(|(_, _, sent)| sent.requests).sum();
        sent as f64 / self.toll.took.len() as f64
    }
}

pub(crate) fn report([polling, notified]: &[Vec<LongQueue>; 2], page: &mut Page) -> Done<()> {
    page.write("long-queues", &table(polling).to_string())?;
    page.write("long-queues-notified", &table(notified).to_string())?;
    let curve = |place, name: &str, of: fn(&Toll) -> f64| Curve {
        name: name.into(),
        style: Style::number(place, false),
        values: polling.iter().map(|long| of(&long.toll)).collect(),
    };
    let panel = Panel {
        title: "What a handoff costs all of the queue together".into(),
        across: "processes that wait".into(),
        upwards: "for each handoff".into(),
        categories: polling
            .iter()
            .map(|long| long.setup.waiters.to_string())
            .collect(),
        curves: vec![
            curve(0, "requests, heartbeats among them", Toll::requests),
            curve(1, "capacity units", Toll::capacity),
        ],
    };
    draw(&page.picture("long-queues.svg")?, &[panel])
}

fn table(queues: &[LongQueue]) -> Table {
    let mut table = Table::new([
        "waiters",
        "requests",
        "of these: polls of the lock item",
        "reads of rows",
        "writes",
        "heartbeats",
        "write units",
        "read units",
        "handoff p50, p99, in round trips",
    ]);
    for long in queues {
        let name = [long.setup.waiters.to_string()].into_iter();
        let took = format!("{}, {}", long.took(50), long.took(99));
        table.row(name.chain(long.figures().map(digits)).chain([took]));
    }
    table
}
