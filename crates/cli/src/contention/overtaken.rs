//! Fairness by the time of asking: turns that were granted after others that had asked later.

use std::time::Duration;

use super::turn::Turn;

/// How often workers that asked first were served after others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overtaken {
    /// Turns that were granted after a turn that had asked later.
    pub turns: usize,
    /// How much later the other had asked, at most.
    pub by: Duration,
    /// How many turns that had asked later came before one turn, at most.
    pub ahead: usize,
}

impl Overtaken {
    /// Compares when turns asked with when they were granted.
    pub fn of(turns: &[Turn]) -> Overtaken {
        let mut granted: Vec<_> = turns.iter().collect();
        granted.sort_by_key(|turn| turn.acquired_ns);
        // When the turns that were granted before had asked, in that order.
        let (mut asked, mut passed) = (Vec::<u64>::new(), Overtaken::default());
        for turn in granted {
            let place = asked.partition_point(|other| *other <= turn.requested_ns);
            let ahead = asked.len() - place;
            let latest = asked.last().copied().unwrap_or_default();
            let by = Duration::from_nanos(latest.saturating_sub(turn.requested_ns));
            passed.turns += usize::from(ahead > 0);
            passed.by = passed.by.max(by);
            passed.ahead = passed.ahead.max(ahead);
            asked.insert(place, turn.requested_ns);
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

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
    fn whoever_asked_first_and_was_granted_last_was_passed_over_whatever_the_tickets() {
        let turns = [turn(1, 2, 10, 20), turn(2, 1, 30, 40), turn(3, 3, 50, 60)];
        let passed = Overtaken {
            turns: 1,
            by: Duration::from_millis(1),
            ahead: 1,
        };
        assert_eq!(Overtaken::of(&turns), passed);
    }
}
