//! One call for a lock, or for several, written down from the asking until it is granted or waits no more.

use std::sync::Arc;
use std::time::Duration;

use fairlock::RecordWait;

use crate::history::{Event, History};
use crate::wanted::Wanted;
use crate::world::{Host, World};

/// Clocks differ in rate: by every clock within the margin a call waits for this share of its time-out.
const BY_ANY_CLOCK: f64 = 0.98;
/// A call for one lock that does not wait returns within so many request time-outs.
const AT_ONCE: u32 = 5;
/// Such a call for several waits for the release of what it has for so many more.
const RELEASE: u32 = 1;
/// Timers round up to milliseconds, of which a call has several.
const TICKS: Duration = Duration::from_millis(10);

/// A call that is dropped without having been granted has gone.
pub(crate) struct Call {
    pub(crate) number: usize,
    history: Arc<History>,
    is_granted: bool,
}

impl Call {
    /// To be followed at once by the call itself, so that calls are numbered in the order in which they are made.
    pub(crate) fn begin(world: &World, host: &Host, wanted: &Wanted, wait: RecordWait) -> Call {
        let is_alone = wanted.permits == wanted.of;
        Call::of(world, host, (wanted.name(), is_alone), wait, AT_ONCE)
    }

    /// The same for so many locks. When it asks for each of them only itself knows. One that does not wait has the time of one
    /// call for each of them, one after the other: it may have all but the last. What it has it then releases, before it tells
    /// the error of the last.
    pub(crate) fn for_several(world: &World, host: &Host, locks: usize, wait: RecordWait) -> Call {
        let at_once = AT_ONCE * u32::try_from(locks).unwrap() + RELEASE;
        Call::of(world, host, ("multi_lock", false), wait, at_once)
    }

    /// If it does not wait, it returns within so many request time-outs.
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
        history.note(Event::Asked {
            call: number,
            host: host.id,
            lock: lock.to_owned(),
            is_alone,
            until,
            ends: takes.map(|takes| now + takes.div_f64(host.plan.rate) + TICKS),
        });
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
            self.history.note(Event::Gone { call: self.number });
        }
    }
}
