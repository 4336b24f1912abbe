//! How long after the notification of a release a poll finds the release in the table.

use std::time::Duration;

/// A release is told when it is sent, and a poll that overtakes it on the way to the table comes too early. So the waiter learns how much
/// later than the notification to poll, however long writes take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReleaseLateness(Option<Duration>);

impl ReleaseLateness {
    /// How long after the notification to poll: a sixteenth of a round trip until a release has taught more, for a write takes longer than
    /// a poll. What is less than a thirtieth of a round trip is nothing.
    pub(super) fn beyond(self, round_trip: Duration) -> Duration {
        let lateness = self.0.unwrap_or(round_trip / 16).min(round_trip * 2);
        match lateness < round_trip / 30 {
            true => Duration::ZERO,
            false => lateness,
        }
    }

    /// Takes in how many polls came too early. If none did, the time is shorter by a thirty-second. A single early poll lengthens it by a
    /// sixteenth of a round trip, and two lengthen it by half, or by a quarter of a round trip. So few polls are too early. An
    /// early poll costs a quarter of a round trip, and a late one costs little.
    pub(super) fn learn(&mut self, early: u32, round_trip: Duration) {
        let lateness = self.beyond(round_trip);
        self.0 = Some(match early {
            0 => lateness - lateness / 32,
            1 => lateness + round_trip / 16,
            _ => lateness + (round_trip / 4).max(lateness / 2),
        });
    }

    /// Takes in that the release was found `span` after it was told.
    pub(super) fn shorten_to(&mut self, span: Duration, round_trip: Duration) {
        self.0 = Some(self.beyond(round_trip).min(span));
    }
}
