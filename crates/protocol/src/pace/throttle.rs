//! How much more rarely a client polls and writes while DynamoDB is too busy.

use std::time::Duration;

use crate::moment::Moment;

/// By how much a client slows down at one lock because DynamoDB was too busy. Each such answer doubles the factor, and each second without
/// one halves it. The seconds of a pause that the brake itself asked for do not count.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThrottleBackoff {
    level: u32,
    pressed: Moment,
}

/// At most sixty-fourfold.
const MAX_BRAKED: u32 = 6;
/// From this level on, a request that gives way pauses for up to all of the time that it may.
const LONGEST_PAUSES: u32 = 4;

impl ThrottleBackoff {
    /// Takes in that DynamoDB has just said that it is too busy.
    pub fn press(&mut self, now: Moment) {
        *self = ThrottleBackoff {
            level: (self.level(now) + 1).min(MAX_BRAKED),
            pressed: now.max(self.pressed),
        };
    }

    /// The factor for the time between two polls.
    pub fn factor(&self, now: Moment) -> u32 {
        2_u32.pow(self.level(now))
    }

    /// How long a request pauses that gives way to others. It may be any time up to a share of `longest`, which doubles with the factor, so
    /// that a crowd spreads. `chance` is between 0 and 1.
    pub fn pause(&mut self, longest: Duration, chance: f64, now: Moment) -> Duration {
        let most = longest * self.factor(now) / 2_u32.pow(LONGEST_PAUSES);
        let pause = most.min(longest).mul_f64(chance);
        self.pressed = self.pressed.max(now + pause);
        pause
    }

    fn level(&self, now: Moment) -> u32 {
        let released = u32::try_from(now.since(self.pressed).as_secs()).unwrap_or(u32::MAX);
        self.level.saturating_sub(released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::default() + Duration::from_millis(ms)
    }

    #[test]
    fn a_brake_is_pressed_twofold_each_time_and_released_by_the_second() {
        let mut brake = ThrottleBackoff::default();
        assert_eq!(brake.factor(at(0)), 1);
        (0..3).for_each(|_| brake.press(at(100)));
        let factors = [100, 1_099, 1_100, 2_100, 3_100].map(|ms| brake.factor(at(ms)));
        assert_eq!(factors, [8, 8, 4, 2, 1]);
        (0..20).for_each(|_| brake.press(at(5_000)));
        assert_eq!(brake.factor(at(5_000)), 64);
    }

    #[test]
    fn a_pause_grows_with_the_brake_and_does_not_release_it() {
        let (mut brake, longest) = (ThrottleBackoff::default(), Duration::from_secs(16));
        let mut pause = |chance| {
            brake.press(at(0));
            brake.pause(longest, chance, at(0)).as_secs()
        };
        assert_eq!([1.0, 1.0, 0.5, 1.0, 1.0].map(&mut pause), [2, 4, 4, 16, 16]);
        assert_eq!(brake.factor(at(16_999)), 32);
        assert_eq!(brake.factor(at(17_000)), 16);
    }
}
