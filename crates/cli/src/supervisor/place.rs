//! What `fairlock run` has in the table, and how the supervisor gives it up.

use std::time::Duration;

use fairlock::{HeldLocks, PlaceId};
use tokio::time::sleep;

use crate::failure::{Failure, UNAVAILABLE, say};
use crate::ipc::now;
use crate::local::Purpose;
use crate::place::Place;

/// How long giving up may take: whoever waits for the supervisor's end, as a pipeline does, waits for that.
const WITHIN: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// Where `fairlock run` stands in the queue, or has the lock.
#[derive(Debug, Default)]
pub(super) struct Standing {
    place: Option<PlaceId>,
    /// The supervisor has given that place up.
    is_given_up: bool,
}

impl Standing {
    /// By the text of a place; nothing if it stands nowhere. Whether it has stood elsewhere.
    pub(super) fn is_at(&mut self, place: Option<String>) -> bool {
        let place = place.and_then(|text| text.parse().ok());
        let has_moved = place != self.place;
        if has_moved {
            (self.place, self.is_given_up) = (place, false);
        }
        has_moved
    }

    /// Whether there is anything to give up.
    pub(super) fn is_somewhere(&self) -> bool {
        self.place.is_some() && !self.is_given_up
    }

    /// Whether what it stands at now was given up: whatever it was told of its turn before is no longer so.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Gives the place up, if there is one. What cannot be given up lapses with its lease.
    pub(super) fn give_up(&mut self, at: &Place) {
        let Some(place) = self.place.as_ref().filter(|_| !self.is_given_up) else {
            return;
        };
        // Before anything is sent: it may be applied though it has no answer.
        self.is_given_up = true;
        let lock = place.lock();
        let Err(failure) = crate::on_runtime(within(place, at)) else {
            return;
        };
        let why = failure.text();
        say(&format!(
            "lock `{lock}`: its place could not be given up: {why}: the next waits for the lease to end"
        ));
    }
}

/// Tries again while nothing answers. Each turn of the loop is one try, and the time bounds them.
async fn within(place: &PlaceId, at: &Place) -> Result<(), Failure> {
    let until = now() + WITHIN;
    loop {
        let left = until.saturating_sub(now());
        let ended = tokio::select! {
            biased;
            ended = end(place, at) => ended,
            () = sleep(left) => Err(Failure::unavailable(format!("no answer within {WITHIN:?}"))),
        };
        match ended {
            Err(failure) if failure.code == UNAVAILABLE && now() + PAUSE < until => {
                sleep(PAUSE).await;
            }
            ended => return ended,
        }
    }
}

async fn end(place: &PlaceId, at: &Place) -> Result<(), Failure> {
    let locks = at.client(Purpose::Look, |builder| builder).await?;
    let ended = locks.give_up(place).await;
    locks.shutdown(HeldLocks::Release, Duration::ZERO).await;
    ended.map_err(|error| Failure::of(&error, at))
}
