//! A hold as its owner believes in it, recorded from the guard to the loss, the release or the crash.

use std::sync::{Arc, Mutex};

use fairlock::LockGuard;
use tokio::task::AbortHandle;

use crate::bounds::Bounds;
use crate::history::{End, Event, Granted, History, Share};
use crate::world::{World, spawn};

/// A stay that is dropped before it ended was cut short by a crash.
pub(crate) struct Stay {
    belief: Arc<Belief>,
    watch: AbortHandle,
}

struct Belief {
    hold: usize,
    history: Arc<History>,
    ended: Mutex<bool>,
}

impl Stay {
    pub(crate) fn begin(
        world: &World,
        host: usize,
        call: usize,
        (guard, bounds): (&LockGuard, Bounds),
    ) -> Stay {
        let granted = Granted {
            hold: world.history.next_hold(),
            call,
            host,
            lock: guard.name().to_owned(),
            ticket: guard.ticket().get(),
            place: guard.place_id().ticket().get(),
            share: Share {
                permits: guard.permits(),
                of: guard.total_permits(),
            },
            bounds,
        };
        Stay::until(world, granted, guard.lost())
    }

    /// Begins a stay. The owner believes in the hold until `lost` resolves, unless it releases the hold before.
    pub(crate) fn until<T: Send>(
        world: &World,
        granted: Granted,
        lost: impl Future<Output = T> + Send + 'static,
    ) -> Stay {
        let belief = Arc::new(Belief {
            hold: granted.hold,
            history: world.history.clone(),
            ended: Mutex::new(false),
        });
        world.history.note(Event::Granted(granted));
        let watch = belief.watch(lost);
        Stay { belief, watch }
    }

    /// Replaces the future that ends the belief, if the belief has not ended yet.
    pub(crate) fn go_on<T: Send>(&mut self, lost: impl Future<Output = T> + Send + 'static) {
        self.watch.abort();
        self.watch = self.belief.watch(lost);
    }

    /// Writes with the ticket as token, whether or not the owner still believes in the hold.
    pub(crate) fn write(&mut self, world: &World, lock: &str, token: u64) {
        let accepted = world.registers.write(lock, token);
        world.history.note(Event::Wrote {
            hold: self.belief.hold,
            lock: lock.to_owned(),
            token,
            accepted,
        });
    }

    /// The owner counts on this many permits from now on.
    pub(crate) fn keeps(&self, permits: u64) {
        let keeps = Event::Keeps(self.belief.hold, permits);
        self.belief.history.note(keeps);
    }

    /// The release has succeeded.
    pub(crate) fn is_released(&self) {
        let released = Event::Released(self.belief.hold);
        self.belief.history.note(released);
    }

    pub(crate) fn give_back(&self) {
        self.belief.end(End::GivenBack);
    }
}

impl Belief {
    fn watch<T: Send>(
        self: &Arc<Self>,
        lost: impl Future<Output = T> + Send + 'static,
    ) -> AbortHandle {
        let losing = self.clone();
        let watch = spawn(async move {
            let _reason = lost.await;
            losing.end(End::Lost);
        });
        watch.abort_handle()
    }

    fn end(&self, how: End) {
        let mut ended = self.ended.lock().unwrap();
        if !std::mem::replace(&mut *ended, true) {
            self.history.note(Event::Ended(self.hold, how));
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.belief.end(End::Crashed);
        self.watch.abort();
    }
}
