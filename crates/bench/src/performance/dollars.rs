//! What capacity costs: on demand, in us-east-1.

use fairlock_testkit::request_counts::Sent;

use crate::performance::Done;
use crate::performance::comparison::Comparison;
use crate::performance::page::Page;
use crate::performance::run::{Run, median};
use crate::performance::table::{Table, digits};

/// For a million units, in dollars.
const WRITES: f64 = 0.625;
const READS: f64 = 0.125;

pub(crate) fn of(write_units: f64, read_units: f64) -> f64 {
    (write_units * WRITES + read_units * READS) / 1e6
}

/// What was sent while eight workers contended, heartbeats included.
pub(crate) fn report(by_length: &Comparison, page: &mut Page) -> Done<()> {
    let mut table = Table::new([
        "eight workers, hold 50 ms",
        "write units a turn",
        "read units a turn",
        "dollars for a million turns",
    ]);
    for (by, runs) in by_length.of_eight() {
        let units = |count: fn(&Sent) -> f64| median(runs, |run: &Run| run.a_turn(count));
        let (writes, reads) = (
            units(|sent| sent.write_units),
            units(|sent| sent.read_units),
        );
        let million = of(writes * 1e6, reads * 1e6);
        table.row([
            by.name(),
            digits(writes),
            digits(reads),
            format!("{million:.2}"),
        ]);
    }
    page.write("dollars", &table.to_string())
}
