//! The parts of a demo: one, or with `--notify` two of the same length, of which the second is notified.

use std::time::Duration;

use crate::args::Demo;
use crate::notify::Notify;

/// How long a request and its answer take together, where what notifications save is measured. About as long as between two regions that
/// are close, so that what the machine computes matters little.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    /// The number of each worker's first turn.
    pub(crate) first: u32,
    /// How many turns each worker takes.
    pub(crate) turns: u32,
    pub(crate) means: Means,
}

/// How the workers learn of their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// By polls of the file, which take no time and are not counted.
    File,
    /// By polls that take a round trip each, and are counted.
    Polls,
    /// As with `Polls`, but the workers tell each other when to poll.
    Notifications(Notify),
}

impl Phase {
    pub(crate) fn all(options: &Demo) -> Vec<Phase> {
        let Some(notify) = options.notify else {
            let (first, turns) = (1, options.turns);
            return vec![Phase {
                first,
                turns,
                means: Means::File,
            }];
        };
        // Two phases of half the length, so that a demo takes about as long.
        let turns = options.turns.div_ceil(2);
        let phase = |first, means| Phase {
            first,
            turns,
            means,
        };
        vec![
            phase(1, Means::Polls),
            phase(turns + 1, Means::Notifications(notify)),
        ]
    }

    /// The line above the grants of this phase, where there are several phases.
    pub(crate) fn title(&self) -> Option<&'static str> {
        match self.means {
            Means::File => None,
            Means::Polls => Some("The workers poll:"),
            Means::Notifications(_) => Some("The workers notify each other when to poll:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(turns: u32, notify: Option<Notify>) -> Demo {
        Demo {
            workers: 8,
            turns,
            hold: Duration::ZERO,
            notify,
            plant_fault: false,
        }
    }

    #[test]
    fn a_notified_demo_has_two_acts_of_half_the_length() {
        let phases = |turns| {
            let phases = Phase::all(&options(turns, Some(Notify::Own)));
            let phases: Vec<_> = phases
                .iter()
                .map(|phase| (phase.first, phase.turns))
                .collect();
            phases
        };
        assert_eq!(phases(4), [(1, 2), (3, 2)]);
        assert_eq!(phases(5), [(1, 3), (4, 3)]);
        assert_eq!(phases(1), [(1, 1), (2, 1)]);
    }

    #[test]
    fn any_other_demo_has_one() {
        let phase = Phase {
            first: 1,
            turns: 5,
            means: Means::File,
        };
        assert_eq!(Phase::all(&options(5, None)), [phase]);
    }
}
