//! How long a caller wants its holds to last, and the safety margin of its client.

use std::time::Duration;

use fastrand::Rng;

use crate::plan::HostPlan;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) min: Option<Duration>,
    pub(crate) max: Option<Duration>,
    /// Its client's: callers do not ask for it.
    pub(crate) margin: Option<Duration>,
}

impl Bounds {
    /// Half of the callers bound their holds. The longest shortest time is one lease.
    pub(crate) fn draw(host: &HostPlan, rng: &mut Rng) -> Bounds {
        let share = |rng: &mut Rng| host.lease.mul_f64(0.05 + rng.f64() * 0.95);
        let mut bounds = Bounds {
            margin: Some(host.margin).filter(|margin| !margin.is_zero()),
            ..Bounds::default()
        };
        if rng.bool() {
            return bounds;
        }
        if rng.u8(0..4) == 0 {
            bounds.min = Some(share(rng));
        }
        if rng.bool() {
            bounds.max = Some(bounds.min.unwrap_or_default() + share(rng));
        }
        bounds
    }

    /// A call without bounds of its own joins a batch.
    pub(crate) fn is_none(&self) -> bool {
        self.min.is_none() && self.max.is_none()
    }

    /// A lock or a semaphore with these bounds, by its two setters.
    pub(crate) fn of<L>(self, lock: L, min: fn(L, Duration) -> L, max: fn(L, Duration) -> L) -> L {
        let lock = self.min.into_iter().fold(lock, min);
        self.max.into_iter().fold(lock, max)
    }
}
