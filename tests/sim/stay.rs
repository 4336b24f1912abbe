//! A hold as its owner believes in it, recorded from the guard to the loss, the release or the crash.

use std::sync::{Arc, Mutex};

use fairlock::LockGuard;
use tokio::task::AbortHandle;

use crate::bounds::Bounds;
use crate::history::{Bounded, End, Event, History, Share};
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

/// What was granted.
pub(crate) struct Grant<'a> {
    pub(crate) host: usize,
    pub(crate) call: usize,
    pub(crate) lock: &'a str,
    pub(crate) ticket: u64,
    pub(crate) share: Share,
}

impl Stay {
    pub(crate) fn begin(
        world: &World,
        host: usize,
        call: usize,
        (guard, bounds): (&LockGuard, Bounds),
    ) -> Stay {
        let grant = Grant {
            host,
            call,
            lock: guard.name(),
            ticket: guard.ticket().get(),
            share: Share {
                permits: guard.permits(),
                of: guard.total_permits(),
            },
        };
        let bounded = Bounded {
            hold: 0,
            host,
            lock: grant.lock.to_owned(),
            ticket: grant.ticket,
            share: grant.share,
            bounds,
        };
        let stay = Stay::until(world, grant, guard.lost());
        if bounds != Bounds::default() {
            let hold = stay.belief.hold;
            let bounded = Box::new(Bounded { hold, ..bounded });
            world.history.note(Event::Bounded(bounded));
        }
        stay
    }

    /// Begins a stay. The owner believes in the hold until `lost` resolves, unless it releases the hold before.
    pub(crate) fn until<T: Send>(
        world: &World,
        grant: Grant<'_>,
        lost: impl Future<Output = T> + Send + 'static,
    ) -> Stay {
        let belief = Arc::new(Belief {
            hold: world.history.next_hold(),
            history: world.history.clone(),
            ended: Mutex::new(false),
        });
        world.history.note(Event::Granted {
            hold: belief.hold,
            call: grant.call,
            host: grant.host,
            lock: grant.lock.to_owned(),
            ticket: grant.ticket,
            share: grant.share,
        });
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
        let hold = self.belief.hold;
        self.belief.history.note(Event::Keeps { hold, permits });
    }

    /// The release has succeeded.
    pub(crate) fn is_released(&self) {
        let hold = self.belief.hold;
        self.belief.history.note(Event::Released { hold });
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
            let hold = self.hold;
            self.history.note(Event::Ended { hold, how });
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.belief.end(End::Crashed);
        self.watch.abort();
    }
}
