//! The clocks of hosts, and those of DynamoDB's front ends.

use std::time::Duration;

use fairlock_protocol::moment::{HostTime, Moment, ServerTime};
use fairlock_protocol::stamps::Wall;
use fastrand::Rng;

use crate::agenda::{At, SECOND};

/// The true time when the world begins, since 1970.
const BEGAN: Duration = Duration::from_secs(1_800_000_000);
/// Where the clocks of processes begin.
const BOOTED: Duration = Duration::from_secs(1_000);

/// The clocks of a host: its own, which runs at another rate and is never set, and its wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostClock {
    rate: f64,
    /// By how many nanoseconds the wall clock is ahead.
    ahead: i64,
}

impl HostClock {
    pub(crate) fn new(rate: f64, ahead: i64) -> Self {
        HostClock { rate, ahead }
    }

    pub(crate) fn moment(&self, at: At) -> Moment {
        Moment(BOOTED + Duration::from_nanos((at as f64 * self.rate) as u64))
    }

    pub(crate) fn wall(&self, at: At) -> HostTime {
        HostTime(shifted(at, self.ahead))
    }

    /// The first true time at which the clock shows the moment.
    pub(crate) fn when(&self, moment: Moment) -> At {
        let shown = moment.0.saturating_sub(BOOTED).as_nanos() as f64;
        let mut at = (shown / self.rate).min(1e18) as At;
        while self.moment(at) < moment && at < 1_000_000_000_000_000_000 {
            at += 1;
        }
        at
    }

    pub(crate) fn set(&mut self, ahead: i64) {
        self.ahead = ahead;
    }
}

/// The true time since 1970 by a clock that is ahead by so many nanoseconds.
pub(crate) fn shifted(at: At, ahead: i64) -> Duration {
    let truly = BEGAN + Duration::from_nanos(at);
    let by = Duration::from_nanos(ahead.unsigned_abs());
    match ahead >= 0 {
        true => truly + by,
        false => truly.saturating_sub(by),
    }
}

/// What DynamoDB's front ends tell of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dates {
    /// The time, as right clocks do.
    Right,
    /// Anything, and it changes.
    Wrong,
    /// The time of the only machine, which keeps the table too: it says when it was started, and its wall clock is no witness.
    OfOneMachine,
    /// Nothing.
    Absent,
}

/// The front ends, each with its own clock.
pub(crate) struct FrontEnds {
    dates: Dates,
    /// By how many nanoseconds each is ahead.
    ahead: [i64; 3],
}

/// By how much a right clock is off at most: right clocks differ by less than two seconds each.
pub(crate) const OFF: i64 = 1_900_000_000;

impl FrontEnds {
    pub(crate) fn new(dates: Dates, rng: &mut Rng) -> Self {
        let ahead = [(); 3].map(|()| match dates {
            Dates::Wrong => anything(rng),
            Dates::OfOneMachine => 0,
            _ => rng.i64(-OFF..=OFF),
        });
        FrontEnds { dates, ahead }
    }

    /// The `Date` of an answer that this front end sends.
    pub(crate) fn date(&self, front_end: usize, at: At) -> Option<ServerTime> {
        let time = shifted(at, self.ahead[front_end % self.ahead.len()]);
        let date = ServerTime(Duration::from_secs(time.as_secs()));
        (self.dates != Dates::Absent).then_some(date)
    }

    /// A front end's clock is set.
    pub(crate) fn step(&mut self, rng: &mut Rng) {
        let front_end = rng.usize(0..self.ahead.len());
        if self.dates == Dates::Wrong {
            self.ahead[front_end] = anything(rng);
        }
    }

    /// From now on all are right.
    pub(crate) fn mend(&mut self) {
        self.ahead = [0; 3];
        if self.dates == Dates::Wrong {
            self.dates = Dates::Right;
        }
    }

    /// When the only machine was started, if there is only one.
    pub(crate) fn boot(&self) -> Option<ServerTime> {
        let is_one = self.dates == Dates::OfOneMachine;
        is_one.then_some(ServerTime(BEGAN.saturating_sub(BOOTED)))
    }

    /// What a wall clock that shows this is worth.
    pub(crate) fn wall(&self, shows: HostTime) -> Wall {
        match self.dates {
            Dates::OfOneMachine => Wall::IsNoWitness,
            _ => Wall::Shows(shows),
        }
    }

    pub(crate) fn is_dated(&self) -> bool {
        self.dates != Dates::Absent
    }
}

/// Seconds or years, forwards or back.
pub(crate) fn anything(rng: &mut Rng) -> i64 {
    let most = 12 * 10_i64.pow(rng.u32(0..8));
    rng.i64(-most..=most) * SECOND as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_moment_at_the_time_that_it_says() {
        for rate in [0.99, 1.0, 1.007] {
            let clock = HostClock::new(rate, 0);
            for at in [0, 1, 77, 1_234_567_891, 90_000 * SECOND] {
                let moment = clock.moment(at);
                let when = clock.when(moment);
                assert!(when <= at && clock.moment(when) >= moment, "{rate} {at}");
            }
        }
    }

    #[test]
    fn a_date_has_whole_seconds_of_its_front_end() {
        let mut front_ends = FrontEnds::new(Dates::Right, &mut Rng::with_seed(1));
        front_ends.ahead = [0, -SECOND.cast_signed(), 0];
        let dates = [0, 1].map(|it| {
            front_ends
                .date(it, 5 * SECOND / 2)
                .map(|date| date.0 - BEGAN)
        });
        assert_eq!(
            dates,
            [Some(Duration::from_secs(2)), Some(Duration::from_secs(1))]
        );
    }
}
