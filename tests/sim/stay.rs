//! One hold as its owner believes in it, written down from the guard to the loss, the release or the crash.

use std::sync::{Arc, Mutex};

use fairlock::LockGuard;
use tokio::task::AbortHandle;

use crate::history::{End, Event, History, Share};
use crate::world::{World, spawn};

/// A stay that is dropped without having ended was cut short by a crash.
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
    pub(crate) fn begin(world: &World, host: usize, call: usize, guard: &LockGuard) -> Stay {
        let belief = Arc::new(Belief {
            hold: world.history.next_hold(),
            history: world.history.clone(),
            ended: Mutex::new(false),
        });
        world.history.note(Event::Granted {
            hold: belief.hold,
            call,
            host,
            lock: guard.name().to_owned(),
            ticket: guard.ticket().get(),
            share: Share {
                permits: guard.permits(),
                of: guard.of_permits(),
            },
        });
        let (lost, losing) = (guard.lost(), belief.clone());
        let watch = spawn(async move {
            let _reason = lost.await;
            losing.end(End::Lost);
        });
        Stay {
            belief,
            watch: watch.abort_handle(),
        }
    }

    /// Writes with the ticket as token, whether or not the hold is still believed in.
    pub(crate) fn write(&mut self, world: &World, guard: &LockGuard) {
        let (lock, token) = (guard.name().to_owned(), guard.ticket().get());
        let accepted = world.registers.write(&lock, token);
        world.history.note(Event::Wrote {
            hold: self.belief.hold,
            lock,
            token,
            accepted,
        });
    }

    pub(crate) fn downgrade(&self) {
        let hold = self.belief.hold;
        self.belief.history.note(Event::Downgraded { hold });
    }

    pub(crate) fn give_back(&self) {
        self.belief.end(End::GivenBack);
    }
}

impl Belief {
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
