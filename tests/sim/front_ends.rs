//! What DynamoDB's front ends tell of the time.

use std::time::Duration;

use fastrand::Rng;

/// What the answers of a seed tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dates {
    /// The time, give or take so many seconds.
    Near(u32),
    /// Anything, and something else after so many answers, on average. The wall clocks of all hosts are right then: the contract excludes
    /// that both are wrong.
    Wrong(u32),
}

/// The front ends that answer one host.
pub(crate) struct FrontEnds {
    rng: Rng,
    dates: Dates,
    /// By how many seconds they are ahead, if they are wrong.
    ahead: i64,
}

impl FrontEnds {
    pub(crate) fn new(mut rng: Rng, dates: Dates) -> FrontEnds {
        let ahead = anything(&mut rng);
        FrontEnds { rng, dates, ahead }
    }

    /// By how many seconds the next answer is ahead.
    pub(crate) fn answer(&mut self) -> i64 {
        match self.dates {
            Dates::Near(most) => {
                let most = i64::from(most);
                self.rng.i64(-most..=most)
            }
            Dates::Wrong(every) => {
                if self.rng.u32(0..every) == 0 {
                    self.ahead = anything(&mut self.rng);
                }
                self.ahead
            }
        }
    }
}

/// No front end is ahead by more. DynamoDB deletes nothing that expired five years ago.
pub(crate) const FURTHEST: Duration = Duration::from_secs(120_000_000);

/// Seconds or years, forwards or back.
fn anything(rng: &mut Rng) -> i64 {
    let most = 12 * 10_i64.pow(rng.u32(0..8));
    rng.i64(-most..=most)
}
