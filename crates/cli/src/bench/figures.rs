//! What a contest measured, and the same figures as the formula has them.

use std::fmt::{self, Formatter};
use std::time::Duration;

use fairlock_cli::contention::overtaken::Overtaken;
use fairlock_cli::contention::tally::{ms, percentile};
use fairlock_cli::contention::turn::Turn as Taken;
use fairlock_cli::contention::verdict::Verdict;

use super::price::{Dollars, Turn};
use crate::request_meter::Counted;

/// Three percentiles of some times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) p50: Duration,
    pub(super) p90: Duration,
    pub(super) p99: Duration,
}

/// All figures of a contest.
pub(super) struct Figures {
    pub(super) verdict: Verdict,
    /// From the first request to the last release.
    pub(super) took: Duration,
    pub(super) round_trips: Option<Times>,
    pub(super) handoffs: Option<Times>,
    pub(super) passed: Overtaken,
    pub(super) counted: Counted,
    pub(super) expected: Turn,
    /// Whether DynamoDB charges for it. It does not for a file.
    pub(super) is_charged: bool,
}

impl Times {
    /// Returns `None` if there are no times.
    pub(super) fn of(mut times: Vec<Duration>) -> Option<Times> {
        times.sort_unstable();
        Some(Times {
            p50: percentile(&times, 50)?,
            p90: percentile(&times, 90)?,
            p99: percentile(&times, 99)?,
        })
    }

    fn all(self) -> [(&'static str, Duration); 3] {
        [("p50", self.p50), ("p90", self.p90), ("p99", self.p99)]
    }
}

/// From the first request to the last release.
pub(super) fn took(turns: &[Taken]) -> Duration {
    let first = turns.iter().map(|turn| turn.requested_ns).min();
    let last = turns.iter().map(|turn| turn.released_ns).max();
    let took = last
        .zip(first)
        .map(|(last, first)| last.saturating_sub(first));
    Duration::from_nanos(took.unwrap_or_default())
}

impl Figures {
    /// A line for each figure: its name and what it is.
    pub(super) fn lines(&self) -> Vec<(&'static str, String)> {
        let turns = self.verdict.tally.turns();
        let pace = turns as f64 / self.took.as_secs_f64().max(1e-9);
        let mut lines = vec![(
            "turns",
            format!(
                "{turns} in {:.2} s, {pace:.2} a second",
                self.took.as_secs_f64()
            ),
        )];
        if let Some(times) = self.round_trips {
            let counted = self.counted.round_trips.len();
            lines.push((
                "round trips",
                format!("{}, of {counted} answers", told(times)),
            ));
        }
        if let Some(times) = self.handoffs {
            lines.push(("handoffs", told(times)));
            if let Some(in_round_trips) = self.in_round_trips(times) {
                lines.push(("", in_round_trips));
            }
        }
        lines.extend(self.cost(turns.max(1) as f64));
        lines.push(("fairness", self.fairness()));
        lines.push(("verdict", self.verdict.to_string()));
        lines
    }

    /// The handoffs in round trips, by the median round trip.
    fn in_round_trips(&self, handoffs: Times) -> Option<String> {
        let round_trip = self.round_trips?.p50;
        let of = |(name, span): (&str, Duration)| {
            format!(
                "{name} {:.2}",
                span.as_secs_f64() / round_trip.as_secs_f64()
            )
        };
        let told = handoffs.all().map(of).join(", ");
        (!round_trip.is_zero()).then(|| format!("{told} median round trips"))
    }

    fn cost(&self, turns: f64) -> Vec<(&'static str, String)> {
        let Counted {
            requests,
            read_units,
            write_units,
            refused,
            ..
        } = &self.counted;
        let expected = self.expected;
        let least = if *refused > 0 { "at least " } else { "" };
        let mut lines = vec![
            (
                "requests",
                format!(
                    "{:.2} a turn; {:.2} by the formula",
                    *requests as f64 / turns,
                    expected.requests
                ),
            ),
            (
                "units",
                format!(
                    "{least}{:.2} write units and {:.2} read units a turn; {:.2} and {:.2} by the formula",
                    write_units / turns,
                    read_units / turns,
                    expected.write_units,
                    expected.read_units
                ),
            ),
        ];
        let dollars = Dollars::of(*write_units, *read_units);
        lines.push(match self.is_charged {
            true => ("price", format!("{least}{dollars}")),
            false => (
                "price",
                format!("nothing for a file; {least}{dollars} at DynamoDB"),
            ),
        });
        lines
    }

    fn fairness(&self) -> String {
        let Overtaken { turns, by, ahead } = self.passed;
        match turns {
            0 => "passed by 0 turns at most: no turn came before one that had asked earlier"
                .to_owned(),
            _ => format!(
                "passed by {ahead} turns at most: {turns} turns came after one that had asked later, by {} at most",
                ms(by)
            ),
        }
    }
}

fn told(times: Times) -> String {
    times
        .all()
        .map(|(name, span)| format!("{name} {}", ms(span)))
        .join(", ")
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, figure) in self.lines() {
            let mut parts = figure.lines();
            writeln!(f, "{name:<13}{}", parts.next().unwrap_or_default())?;
            for more in parts {
                writeln!(f, "{:<13}{more}", "")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fairlock_cli::contention::tally::Tally;

    const MS: u64 = 1_000_000;

    /// Turns of two workers, each 10 ms long, with handoffs of 5 ms.
    pub(in crate::bench) fn turns() -> Vec<Taken> {
        let turn = |nth: u64| Taken {
            worker: 1 + (nth % 2) as u32,
            cycle: 1 + (nth / 2) as u32,
            ticket: 100 + nth,
            requested_ns: nth * MS,
            acquired_ns: (10 + 15 * nth) * MS,
            releasing_ns: (20 + 15 * nth) * MS,
            released_ns: (24 + 15 * nth) * MS,
        };
        (0..4).map(turn).collect()
    }

    pub(in crate::bench) fn figures() -> Figures {
        let turns = turns();
        let round_trips = vec![Duration::from_millis(4); 40];
        Figures {
            took: took(&turns),
            round_trips: Times::of(round_trips.clone()),
            handoffs: Times::of(Tally::new(turns.clone()).handoff_times()),
            passed: Overtaken::of(&turns),
            verdict: Verdict::new(turns, 2, 2, Vec::new()),
            counted: Counted {
                requests: 40,
                read_units: 24.0,
                write_units: 8.0,
                refused: 0,
                round_trips,
            },
            expected: Turn {
                requests: 9.0,
                write_units: 2.0,
                read_units: 7.0,
                takes: Duration::from_millis(15),
            },
            is_charged: true,
        }
    }

    #[test]
    fn figures_are_in_milliseconds_round_trips_units_and_dollars() {
        let told = figures().to_string();
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(
            lines,
            [
                "turns        4 in 0.07 s, 57.97 a second",
                "round trips  p50 4.00 ms, p90 4.00 ms, p99 4.00 ms, of 40 answers",
                "handoffs     p50 5.00 ms, p90 5.00 ms, p99 5.00 ms",
                "             p50 1.25, p90 1.25, p99 1.25 median round trips",
                "requests     10.00 a turn; 9.00 by the formula",
                "units        2.00 write units and 6.00 read units a turn; 2.00 and 7.00 by the formula",
                "price        0.0000080 dollars",
                "fairness     passed by 0 turns at most: no turn came before one that had asked earlier",
                "verdict      2 workers, 4 turns: 0 overlaps, 0 out of order",
            ]
        );
    }

    #[test]
    fn what_is_not_known_or_went_wrong_is_told() {
        let mut wrong = figures();
        wrong.counted.refused = 1;
        wrong.is_charged = false;
        wrong.passed = Overtaken {
            turns: 1,
            by: Duration::from_millis(7),
            ahead: 2,
        };
        let told = wrong.to_string();
        for word in [
            "at least 2.00 write units",
            "nothing for a file; at least ",
            "passed by 2 turns at most: 1 turns came",
        ] {
            assert!(told.contains(word), "no {word}: {told}");
        }
        let nothing = Figures {
            verdict: Verdict::new(Vec::new(), 2, 0, vec!["it broke".to_owned()]),
            took: Duration::ZERO,
            round_trips: None,
            handoffs: None,
            ..figures()
        };
        let told = nothing.to_string();
        assert!(
            told.contains("turns        0 in 0.00 s") && told.contains("it broke"),
            "{told}"
        );
    }
}
