//! How much more rarely a client polls while DynamoDB is too busy.

use crate::moment::Moment;

/// By how much polls are slowed down because DynamoDB was too busy. Each such answer doubles the factor, and each second without one halves
/// it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThrottleBackoff {
    level: u32,
    pressed: Moment,
}

/// At most sixty-fourfold.
const MAX_BRAKED: u32 = 6;
impl ThrottleBackoff {
    /// Takes in that DynamoDB has just said that it is too busy.
    pub fn press(&mut self, now: Moment) {
        *self = ThrottleBackoff {
            level: (self.level(now) + 1).min(MAX_BRAKED),
            pressed: now,
        };
    }

    /// The factor for the time between two polls.
    pub fn factor(&self, now: Moment) -> u32 {
        2_u32.pow(self.level(now))
    }

    fn level(&self, now: Moment) -> u32 {
        let released = u32::try_from(now.since(self.pressed).as_secs()).unwrap_or(u32::MAX);
        self.level.saturating_sub(released)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
