//! How much one client slows down at each lock, because DynamoDB was too busy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::name::LockName;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::ThrottleBackoff;

/// With more locks than this, those are forgotten whose brakes are released.
const MANY: usize = 64;

/// The brakes of one client, by lock. `None` stands for all requests that are not of a waiting call.
#[derive(Clone, Debug, Default)]
pub(super) struct Brakes(Arc<Mutex<HashMap<Option<LockName>, ThrottleBackoff>>>);

impl Brakes {
    pub(super) fn press(&self, lock: Option<&LockName>, now: Moment) {
        let mut brakes = self.brakes();
        if brakes.len() >= MANY {
            brakes.retain(|_, brake| brake.factor(now) > 1);
        }
        brakes.entry(lock.cloned()).or_default().press(now);
    }

    pub(super) fn factor(&self, lock: Option<&LockName>, now: Moment) -> u32 {
        let brakes = self.brakes();
        brakes.get(&lock.cloned()).map_or(1, |it| it.factor(now))
    }

    /// How long a request pauses that gives way to others.
    pub(super) fn pause(
        &self,
        lock: Option<&LockName>,
        (longest, chance): (Duration, f64),
        now: Moment,
    ) -> Duration {
        let mut brakes = self.brakes();
        let brake = brakes.entry(lock.cloned()).or_default();
        brake.pause(longest, chance, now)
    }

    fn brakes(&self) -> MutexGuard<'_, HashMap<Option<LockName>, ThrottleBackoff>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_slowed_down_alone_and_forgotten_when_its_brake_is_released() {
        let brakes = Brakes::default();
        let name = |n: usize| LockName::new(&n.to_string(), &Arc::from("namespace")).unwrap();
        let at = |seconds| Moment(Duration::from_secs(seconds));
        brakes.press(Some(&name(0)), at(0));
        assert_eq!(brakes.factor(Some(&name(0)), at(0)), 2);
        assert_eq!(brakes.factor(Some(&name(1)), at(0)), 1);
        (0..10 * MANY).for_each(|n| brakes.press(Some(&name(n)), at(n as u64)));
        assert!(brakes.brakes().len() <= MANY);
    }
}
