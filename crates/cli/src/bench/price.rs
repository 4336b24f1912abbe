//! What a contest will cost, before it begins: the formula of `docs/cost.md`.

use std::fmt::{self, Formatter};
use std::time::Duration;

/// The longest poll interval, in seconds.
const LONGEST_POLL: f64 = 1.0;
/// No poll comes sooner, in seconds.
const SHORTEST_POLL: f64 = 0.002;
/// How many successors have a slot.
const SLOTS: f64 = 8.0;
/// A poll is late by at most this part of a hold.
const HOLD_SHARE: f64 = 20.0;
/// The median handoff, in round trips.
const HANDOFF: f64 = 1.3;
/// The size of an entry with a short owner, and the units of the table's items, in bytes.
const ENTRY: f64 = 250.0;
const WRITE_UNIT: f64 = 1_024.0;
const READ_UNIT: f64 = 4_096.0;
/// How many rows a poll reads at most, and how many polls of a turn read rows.
const ROWS: f64 = 128.0;
const POLLS_OF_ROWS: f64 = 2.6;

/// What is known of a contest before it begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) workers: u32,
    pub(crate) hold: Duration,
    pub(crate) lease: Duration,
    pub(crate) round_trip: Duration,
}

/// What each turn costs, and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) requests: f64,
    pub(crate) write_units: f64,
    pub(crate) read_units: f64,
    pub(crate) takes: Duration,
}

/// Of a million write units on demand in us-east-1, in November 2026, in dollars.
pub(crate) const PRICE_WRITE: f64 = 0.625;
/// The same of read units.
pub(crate) const PRICE_READ: f64 = 0.125;

impl Plan {
    /// What a turn costs once the workers know the pace.
    pub(crate) fn turn(self) -> Turn {
        let waiters = f64::from(self.workers.saturating_sub(1));
        let hold = self.hold.as_secs_f64();
        let round_trip = self.round_trip.as_secs_f64().max(SHORTEST_POLL);
        let unit = ((1.0 + waiters.min(SLOTS)) * ENTRY / WRITE_UNIT).ceil();
        let of_holder = (3.0 * hold / self.lease.as_secs_f64()).floor();
        if waiters == 0.0 {
            // A worker alone acquires and releases.
            return Turn {
                requests: 2.0 + of_holder,
                write_units: 2.0 + of_holder,
                read_units: 0.0,
                takes: Duration::from_secs_f64(hold + 2.0 * round_trip),
            };
        }
        let takes = hold + HANDOFF * round_trip;
        let renewals = waiting(waiters * takes, self.lease.as_secs_f64());
        let polls = first(hold, round_trip) + successors(waiters) + rows(waiters);
        let in_slots = waiters.min(SLOTS) / waiters;
        let renewed = unit * (of_holder + renewals * in_slots) + renewals * (1.0 - in_slots);
        let (writes, written, read) = match waiters <= SLOTS {
            true => (2.0, 2.0 * unit, 0.0),
            false => {
                let rows = ((waiters - SLOTS).min(ROWS) * ENTRY / READ_UNIT).ceil();
                (3.5, 2.25 * unit + 2.0, POLLS_OF_ROWS * rows)
            }
        };
        Turn {
            requests: writes + polls + of_holder + renewals,
            write_units: written + renewed,
            read_units: polls + read,
            takes: Duration::from_secs_f64(takes),
        }
    }
}

/// The polls of the first successor.
fn first(hold: f64, round_trip: f64) -> f64 {
    let longest = HOLD_SHARE * LONGEST_POLL;
    match hold {
        _ if hold <= HOLD_SHARE * round_trip => hold / round_trip + 1.0,
        _ if hold <= longest => HOLD_SHARE * (1.0 + (hold / (HOLD_SHARE * round_trip)).ln()),
        _ => {
            HOLD_SHARE * (1.0 + (LONGEST_POLL / round_trip).ln()) + (hold - longest) / LONGEST_POLL
        }
    }
}

/// The polls of the other waiters with a slot.
fn successors(waiters: f64) -> f64 {
    let with_slot = if waiters <= SLOTS {
        waiters
    } else {
        0.75 * SLOTS
    };
    if with_slot <= 1.0 {
        0.0
    } else {
        1.0 + with_slot.log2()
    }
}

/// The polls of the waiters behind the slots.
fn rows(waiters: f64) -> f64 {
    if waiters <= SLOTS {
        0.0
    } else {
        (waiters - SLOTS).log(4.0)
    }
}

/// The renewals of all waiters. `wait` is how long each of them waits.
fn waiting(wait: f64, lease: f64) -> f64 {
    let heartbeats = 3.0 * wait / lease;
    match heartbeats {
        ..1.0 => 0.0,
        ..=4.0 => heartbeats,
        ..=32.0 => 4.0 + 4.0 * (heartbeats / 4.0).ln(),
        _ => 4.0 * 8_f64.ln() + heartbeats / 8.0,
    }
}

/// An amount of dollars, however small.
pub(crate) struct Dollars(pub(crate) f64);

impl Dollars {
    /// The price of so many units.
    pub(crate) fn of(write_units: f64, read_units: f64) -> Dollars {
        Dollars((PRICE_WRITE * write_units + PRICE_READ * read_units) / 1e6)
    }
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            0.0 => f.write_str("nothing"),
            // Two digits that tell something.
            amount if amount < 0.1 => {
                let digits = (1.0 - amount.log10().floor()) as usize;
                write!(f, "{amount:.digits$} dollars")
            }
            amount => write!(f, "{amount:.2} dollars"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(waiters: u32, hold: Duration) -> Plan {
        Plan {
            workers: waiters + 1,
            hold,
            lease: Duration::from_secs(30),
            round_trip: Duration::from_millis(10),
        }
    }

    /// The cells of a row of a table in `docs/cost.md` behind the first, as numbers.
    fn documented(row: &str) -> Vec<f64> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cost.md");
        let page = std::fs::read_to_string(page).unwrap();
        let row = page
            .lines()
            .find_map(|line| line.strip_prefix(row))
            .unwrap();
        let cells = row.split('|').map(|cell| cell.trim().replace(',', ""));
        cells.filter_map(|cell| cell.parse().ok()).collect()
    }

    #[test]
    fn requests_are_those_of_the_table_in_the_page_of_costs() {
        let waiters = documented("| waiters |");
        let requests = documented("| requests, by the formula |");
        assert_eq!(waiters.len(), 7);
        for (waiters, expected) in waiters.into_iter().zip(requests) {
            let turn = plan(waiters as u32, Duration::from_millis(50)).turn();
            let error = (turn.requests - expected).abs();
            assert!(error < 0.06, "{waiters}: {} for {expected}", turn.requests);
        }
    }

    #[test]
    fn units_and_dollars_are_those_of_the_example_in_the_page_of_costs() {
        let turn = plan(7, Duration::from_millis(50)).turn();
        let of = |row| documented(row)[0];
        assert_eq!(turn.write_units, of("| write units a turn |"));
        assert!(
            (turn.read_units - of("| read units a turn |")).abs() < 0.05,
            "{turn:?}"
        );
        let Dollars(million) = Dollars::of(turn.write_units * 1e6, turn.read_units * 1e6);
        assert!(
            (million - of("| dollars for a million turns |")).abs() < 0.01,
            "{million}"
        );
    }

    #[test]
    fn long_holds_are_polled_at_the_longest_interval_and_renewed() {
        let turn = plan(1, Duration::from_secs(60)).turn();
        // The holder renews six times in two leases, and so does its successor.
        let polls = 20.0 + 20.0 * 100_f64.ln() + 40.0;
        assert!((turn.read_units - polls).abs() < 0.001, "{turn:?}");
        assert!(turn.write_units > 2.0 + 6.0 + 4.0, "{turn:?}");
        let alone = plan(0, Duration::from_secs(60)).turn();
        assert_eq!((alone.requests, alone.read_units), (8.0, 0.0));
    }

    #[test]
    fn small_amounts_have_two_digits_that_tell_something() {
        let told = [0.0, 0.000_027_4, 0.027_4, 2.741_5].map(|amount| Dollars(amount).to_string());
        assert_eq!(
            told,
            [
                "nothing",
                "0.000027 dollars",
                "0.027 dollars",
                "2.74 dollars"
            ]
        );
    }
}
