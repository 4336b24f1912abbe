//! A call for a lock, or for several, recorded from the request until it is granted or stops waiting.

use std::sync::Arc;
use std::time::Duration;

use fairlock::RecordWait;

use crate::history::{Asked, Event, History};
use crate::wanted::Wanted;
use crate::world::{Host, World};

/// Clocks differ in rate. By any clock within the margin, a call waits at least for this share of its time-out.
const BY_ANY_CLOCK: f64 = 0.98;
/// A call for one lock that does not wait returns within this many request time-outs.
const AT_ONCE: u32 = 5;
/// Such a call for several locks waits this many more for the release of the locks that it already holds.
const RELEASE: u32 = 1;
/// Timers round up to milliseconds, and a call has several timers.
const TICKS: Duration = Duration::from_millis(10);

/// A call that is dropped before it was granted is recorded as gone.
pub(crate) struct Call {
    pub(crate) number: usize,
    history: Arc<History>,
    is_granted: bool,
}

impl Call {
    /// Records a call. The caller must make the call right after this, so that calls are numbered in the order in which they are made.
    pub(crate) fn begin(world: &World, host: &Host, wanted: &Wanted, wait: RecordWait) -> Call {
        // A call with bounds joins no batch.
        let is_alone = wanted.permits == wanted.of && wanted.bounds.is_none();
        Call::of(world, host, (wanted.name(), is_alone), wait, AT_ONCE)
    }

    /// The same for a lease whose call waits for its turn. It asks at once first, so a later call of its host may come before it. And the
    /// request that turns a hold into a lease is tried until the client's own lease ends, so nothing bounds the call here.
    pub(crate) fn for_lease(world: &World, host: &Host, wanted: &Wanted) -> Call {
        let lock = (wanted.name(), false);
        Call::of(world, host, lock, RecordWait::Infinite, AT_ONCE)
    }

    /// The same for `locks` locks. Only the call itself knows when it requests each of them. A call that does not wait may take as long as
    /// one call for each lock, one after the other: it may get all locks but the last. It then releases those before it returns the error
    /// of the last.
    pub(crate) fn for_several(world: &World, host: &Host, locks: usize, wait: RecordWait) -> Call {
        let at_once = AT_ONCE * u32::try_from(locks).unwrap() + RELEASE;
        Call::of(world, host, ("multi_lock", false), wait, at_once)
    }

    /// A call that does not wait must return within `at_once` request time-outs.
    fn of(
        world: &World,
        host: &Host,
        (lock, is_alone): (&str, bool),
        wait: RecordWait,
        at_once: u32,
    ) -> Call {
        let history = world.history.clone();
        let (number, now) = (history.next_call(), history.now());
        let until = match wait {
            RecordWait::NoWait => Some(now),
            RecordWait::Timeout(span) => Some(now + span.mul_f64(BY_ANY_CLOCK)),
            RecordWait::Infinite => None,
        };
        let takes = match wait {
            RecordWait::NoWait => Some(at_once * host.plan.timeout),
            RecordWait::Timeout(span) => Some(span + host.plan.timeout),
            RecordWait::Infinite => None,
        };
        history.note(Event::Asked(Asked {
            call: number,
            host: host.id,
            lock: lock.to_owned(),
            is_alone,
            until,
            ends: takes.map(|takes| now + takes.div_f64(host.plan.rate) + TICKS),
        }));
        Call {
            number,
            history,
            is_granted: false,
        }
    }

    pub(crate) fn is_granted(&mut self) {
        self.is_granted = true;
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_granted {
            self.history.note(Event::Gone(self.number));
        }
    }
}
