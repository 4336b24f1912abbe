//! Lines of up to ten thousand processes, in virtual time.

use tokio::runtime::Builder;

use crate::Done;
use crate::budget::Budget;
use crate::chart::{Curve, Panel, Style, draw};
use crate::line::{Line, Toll};
use crate::page::Page;
use crate::table::{Table, digits};
use crate::traffic::Sent;

/// What a line's hand-overs took and cost.
pub(crate) struct LongLine {
    pub(crate) line: Line,
    toll: Toll,
}

pub(crate) fn measure(budget: &Budget) -> Vec<LongLine> {
    let lines = budget.lines.iter();
    let measured = lines.map(|line| {
        eprintln!("{} waiters, in virtual time", line.waiters);
        LongLine {
            line: *line,
            toll: in_virtual_time(line.run()),
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

impl LongLine {
    pub(crate) fn requests(&self) -> f64 {
        self.of_looks(|sent| sent.requests as f64) + self.of_heartbeats(|sent| sent.requests as f64)
    }

    /// Of reads and of writes together.
    pub(crate) fn units(&self) -> f64 {
        self.of_looks(units) + self.of_heartbeats(units)
    }

    fn of_looks(&self, count: impl Fn(&Sent) -> f64) -> f64 {
        count(&self.toll.traffic.of_turns()) / self.line.hand_overs as f64
    }

    fn of_heartbeats(&self, count: impl Fn(&Sent) -> f64) -> f64 {
        count(&self.toll.traffic.heartbeats()) / self.line.hand_overs as f64
    }

    fn took(&self, percent: usize) -> String {
        let took = &self.toll.took;
        let place = (took.len() * percent / 100).min(took.len() - 1);
        let round_trips = took[place].div_duration_f64(self.line.round_trip);
        digits(round_trips)
    }

    fn of_verb(&self, operation: &str) -> f64 {
        let of = self.toll.traffic.lines();
        let of = of.filter(|(name, verb, _)| *name == operation && *verb != "renew");
        of.map(|(_, _, sent)| sent.requests as f64).sum::<f64>() / self.line.hand_overs as f64
    }
}

fn units(sent: &Sent) -> f64 {
    sent.write_units + sent.read_units
}

pub(crate) fn report(lines: &[LongLine], page: &mut Page) -> Done<()> {
    let mut table = Table::new([
        "waiters",
        "requests",
        "of these: looks at the lock",
        "looks at rows",
        "writes",
        "heartbeats",
        "write units",
        "read units",
        "hand-over p50, p99, in round trips",
    ]);
    for long in lines {
        let heartbeats = long.of_heartbeats(|sent| sent.requests as f64);
        let (looks, rows) = (long.of_verb("GetItem"), long.of_verb("Query"));
        let writes = long.of_looks(|sent| sent.write_units)
            + long.of_heartbeats(|sent| sent.write_units);
        let figures = [
            long.requests(),
            looks,
            rows,
            long.requests() - looks - rows - heartbeats,
            heartbeats,
            writes,
            long.of_looks(|sent| sent.read_units),
        ];
        let name = [long.line.waiters.to_string()].into_iter();
        let took = format!("{}, {}", long.took(50), long.took(99));
        table.row(name.chain(figures.map(digits)).chain([took]));
    }
    page.write("long-lines", &table.to_string())?;
    let curve = |place, name: &str, of: fn(&LongLine) -> f64| Curve {
        name: name.into(),
        style: Style::number(place, false),
        values: lines.iter().map(of).collect(),
    };
    let panel = Panel {
        title: "What a hand-over costs all of the line together".into(),
        across: "processes that wait".into(),
        upwards: "for each hand-over".into(),
        categories: lines.iter().map(|long| long.line.waiters.to_string()).collect(),
        curves: vec![
            curve(0, "requests, heartbeats among them", LongLine::requests),
            curve(1, "capacity units", LongLine::units),
        ],
    };
    draw(&page.picture("long-lines.svg")?, &[panel])
}

