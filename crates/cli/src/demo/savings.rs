//! What notifications saved: the phase whose workers polled beside the phase whose workers were notified.

use std::fmt::{self, Formatter};

use fairlock_cli::contention::tally::Tally;

use super::event_log::EventLog;
use super::phase::ROUND_TRIP;

pub(crate) struct Saving {
    polling: Figures,
    notified: Figures,
}

/// The figures of a phase that had a handoff.
#[derive(Clone, Copy)]
struct Figures {
    requests: f64,
    /// The median, in round trips.
    handoff: f64,
}

impl Saving {
    /// Returns `None` unless there are two phases, with a handoff each.
    pub(crate) fn of(logs: &[EventLog]) -> Option<Saving> {
        match logs {
            [polling, notified] => Some(Saving {
                polling: Figures::of(polling)?,
                notified: Figures::of(notified)?,
            }),
            _ => None,
        }
    }
}

impl Figures {
    fn of(log: &EventLog) -> Option<Figures> {
        let tally = Tally::new(log.turns.clone());
        let handoffs = tally.handoffs()?;
        Some(Figures {
            requests: log.requests as f64 / tally.turns() as f64,
            handoff: handoffs.p50.div_duration_f64(ROUND_TRIP),
        })
    }
}

impl fmt::Display for Saving {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Saving { polling, notified } = self;
        let round_trips = format!("handoff p50, in round trips of {ROUND_TRIP:?}");
        let rows = [
            ("requests a turn", polling.requests, notified.requests),
            (&round_trips, polling.handoff, notified.handoff),
        ];
        writeln!(f, "{:<36}{:>8}{:>10}", "", "polling", "notified")?;
        for (name, polling, notified) in rows {
            writeln!(f, "{name:<36}{polling:>8.2}{notified:>10.2}")?;
        }
        let requests = changed(polling.requests, notified.requests, "fewer", "more");
        let time = changed(polling.handoff, notified.handoff, "less", "more");
        writeln!(
            f,
            "With notifications, a turn took {requests} requests, and the median handoff took {time} time."
        )
    }
}

/// By how much the second number is below or above the first, in words.
fn changed(before: f64, after: f64, below: &str, above: &str) -> String {
    let percent = (100.0 * (after / before - 1.0)).round();
    match percent {
        percent if percent <= 0.0 => format!("{:.0} % {below}", percent.abs()),
        _ => format!("{percent:.0} % {above}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlock_cli::contention::turn::Turn;

    /// Two turns, the second of which was granted so many milliseconds after the release of the first.
    fn log(requests: u64, handoff_ms: u64) -> EventLog {
        let mut log = EventLog::start();
        log.requests = requests;
        log.turns = [1, 2].map(|at| turn(at, handoff_ms * 1_000_000)).to_vec();
        log
    }

    /// A turn that took no time, at so many nanoseconds for each turn until it.
    fn turn(cycle: u32, apart_ns: u64) -> Turn {
        let at = u64::from(cycle) * apart_ns;
        Turn {
            worker: 1,
            cycle,
            ticket: cycle.into(),
            requested_ns: 0,
            acquired_ns: at,
            releasing_ns: at,
            released_ns: at,
        }
    }

    fn lines(polling: EventLog, notified: EventLog) -> Vec<String> {
        let saving = Saving::of(&[polling, notified]).map(|saving| saving.to_string());
        let saving = saving.unwrap_or_default();
        saving.lines().map(str::to_owned).collect()
    }

    #[test]
    fn two_acts_stand_side_by_side_and_one_sentence_says_the_saving() {
        assert_eq!(
            lines(log(30, 16), log(9, 12)),
            [
                "                                     polling  notified",
                "requests a turn                        15.00      4.50",
                "handoff p50, in round trips of 10ms     1.60      1.20",
                "With notifications, a turn took 70 % fewer requests, and the median handoff took 25 % less time.",
            ]
        );
    }

    #[test]
    fn what_was_not_saved_is_told_too() {
        let lines = lines(log(10, 10), log(12, 15));
        let told = "With notifications, a turn took 20 % more requests, and the median handoff took 50 % more time.";
        assert_eq!(lines[3], told);
    }

    #[test]
    fn one_act_saves_nothing_and_neither_does_an_act_without_a_handoff() {
        assert!(Saving::of(&[log(30, 16)]).is_none());
        let mut alone = log(2, 16);
        alone.turns.truncate(1);
        assert!(Saving::of(&[log(30, 16), alone]).is_none());
    }
}
