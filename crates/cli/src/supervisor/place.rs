//! The place of `fairlock run` in the table, and how the supervisor gives it up.

use std::time::Duration;

use fairlock::{HeldLocks, PlaceId};
use tokio::time::sleep;

use crate::failure::{Failure, UNAVAILABLE, say};
use crate::ipc::now;
use crate::local::Purpose;
use crate::place::Place;

/// How long giving up may take. A process that waits for the supervisor's end, as a pipeline does, waits for that too.
const WITHIN: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// The place of `fairlock run` in the queue, or the place by which it holds the lock.
#[derive(Debug, Default)]
pub(super) struct Standing {
    place: Option<PlaceId>,
    /// The supervisor has given that place up.
    is_given_up: bool,
}

impl Standing {
    /// Records a place from its text, or `None`.
    pub(super) fn note_place(&mut self, place: Option<String>) {
        let place = place.and_then(|text| text.parse().ok());
        if place != self.place {
            (self.place, self.is_given_up) = (place, false);
        }
    }

    /// Whether there is a place to give up.
    pub(super) fn is_somewhere(&self) -> bool {
        self.place.is_some() && !self.is_given_up
    }

    /// Whether the current place was given up. Any grant that `fairlock run` saw at it is void then.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Gives the place up, if there is one. A place that cannot be given up expires with its lease.
    pub(super) fn give_up(&mut self, at: &Place) {
        let Some(place) = self.place.as_ref().filter(|_| !self.is_given_up) else {
            return;
        };
        // Set before the request is sent, because the request may be applied even if its answer is lost.
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

/// Retries while nothing answers. Each iteration is one attempt, and `WITHIN` bounds them all.
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
    let locks = at.client(Purpose::Inspect, |builder| builder).await?;
    let ended = locks.give_up(place).await;
    locks.shutdown(HeldLocks::Release, Duration::ZERO).await;
    ended.map_err(|error| Failure::of(&error, at))
}
