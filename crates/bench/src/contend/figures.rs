//! What a run's turns say about speed and fairness, beyond the verdict.

use std::fmt::{self, Formatter};
use std::time::Duration;

use fairlock_cli::contention::overtaken::Overtaken;
use fairlock_cli::contention::tally::Tally;
use fairlock_cli::contention::turn::Turn;

pub(crate) struct Figures {
    tally: Tally,
    passed: Overtaken,
    /// From the first request to the last release.
    took: Duration,
    round_trip: Option<Duration>,
}

impl Figures {
    pub(crate) fn of(turns: &[Turn], round_trip: Option<Duration>) -> Figures {
        let first = turns.iter().map(|turn| turn.requested_ns).min();
        let last = turns.iter().map(|turn| turn.released_ns).max();
        let took = last
            .zip(first)
            .map(|(last, first)| last.saturating_sub(first));
        Figures {
            tally: Tally::new(turns.to_vec()),
            passed: Overtaken::of(turns),
            took: Duration::from_nanos(took.unwrap_or_default()),
            round_trip: round_trip.filter(|span| !span.is_zero()),
        }
    }

    fn waits(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(waits) = self.tally.waits() else {
            return Ok(());
        };
        write!(f, "waits       {waits}")?;
        if !waits.mean.is_zero() {
            write!(
                f,
                ", {:.1} times the mean",
                waits.max.div_duration_f64(waits.mean)
            )?;
        }
        writeln!(f)
    }

    fn handoffs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(took) = self.tally.handoffs() else {
            return Ok(());
        };
        writeln!(f, "handoffs  {took}")?;
        let Some(round_trip) = self.round_trip else {
            return Ok(());
        };
        let spans = [took.p50, took.p99, took.max, took.mean];
        let [p50, p99, max, mean] = spans.map(|span| span.div_duration_f64(round_trip));
        writeln!(
            f,
            "            p50 {p50:.2}, p99 {p99:.2}, max {max:.2}, mean {mean:.2} round trips"
        )
    }

    fn pace(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.took.is_zero() {
            return Ok(());
        }
        let a_second = self.tally.turns() as f64 / self.took.as_secs_f64();
        write!(f, "pace        {a_second:.2} turns a second")?;
        if let Some(round_trip) = self.round_trip {
            write!(
                f,
                ", {:.3} a round trip",
                a_second * round_trip.as_secs_f64()
            )?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.waits(f)?;
        self.handoffs(f)?;
        self.pace(f)?;
        let turns = self.tally.turns();
        write!(
            f,
            "asked       {} of {turns} turns granted after one that asked later",
            self.passed.turns
        )?;
        if self.passed.turns > 0 {
            let Overtaken { by, ahead, .. } = self.passed;
            write!(
                f,
                ", by {:.2} ms and {ahead} turns at the most",
                by.as_secs_f64() * 1_000.0
            )?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// In milliseconds. The release ends one after it was requested.
    fn turn(ticket: u64, requested: u64, acquired: u64, releasing: u64) -> Turn {
        Turn {
            worker: 1,
            cycle: 1,
            ticket,
            requested_ns: requested * MS,
            acquired_ns: acquired * MS,
            releasing_ns: releasing * MS,
            released_ns: (releasing + 1) * MS,
        }
    }

    #[test]
    fn figures_are_in_milliseconds_and_in_round_trips() {
        let turns = [turn(1, 0, 10, 20), turn(2, 0, 30, 40), turn(3, 5, 60, 99)];
        let told = Figures::of(&turns, Some(Duration::from_millis(10))).to_string();
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "waits       min 10.00 ms, mean 31.67 ms, max 55.00 ms, 1.7 times the mean",
                "handoffs  p50 10.00 ms, p99 20.00 ms, max 20.00 ms, mean 15.00 ms",
                "            p50 1.00, p99 2.00, max 2.00, mean 1.50 round trips",
                "pace        30.00 turns a second, 0.300 a round trip",
                "asked       0 of 3 turns granted after one that asked later",
            ]
        );
        let without = Figures::of(&turns, None).to_string();
        assert!(!without.contains("round trip"), "{without}");
    }

    #[test]
    fn one_whom_all_others_pass_is_passed_by_the_last_of_them() {
        let turns = [
            turn(1, 5, 10, 11),
            turn(2, 9, 12, 13),
            turn(3, 2, 14, 15),
            turn(4, 12, 16, 17),
        ];
        let passed = Overtaken {
            turns: 1,
            by: Duration::from_millis(7),
            ahead: 2,
        };
        assert_eq!(Overtaken::of(&turns), passed);
        let told = Figures::of(&turns, None).to_string();
        let line = "asked       1 of 4 turns granted after one that asked later, by 7.00 ms and 2 turns at the most\n";
        assert!(told.ends_with(line), "{told}");
    }

    #[test]
    fn no_turns_have_no_times() {
        let told = Figures::of(&[], Some(Duration::ZERO)).to_string();
        assert_eq!(
            told,
            "asked       0 of 0 turns granted after one that asked later\n"
        );
    }
}
