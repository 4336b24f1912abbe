//! The places of `fairlock run` in the table, and how the supervisor gives them up.

use std::time::Duration;

use fairlock::{HeldLocks, PlaceId};
use futures::future::join_all;
use tokio::time::sleep;

use crate::failure::{Failure, UNAVAILABLE, say};
use crate::ipc::now;
use crate::local_file::Purpose;
use crate::location::Location;

/// How long giving up may take. A process that waits for the supervisor's end, as a pipeline does, waits for that too.
const WITHIN: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(250);

/// The places of `fairlock run` in queues, and those by which it holds locks.
#[derive(Debug, Default)]
pub(super) struct Standing {
    places: Vec<PlaceId>,
    /// The places that the supervisor has given up. None of them comes back.
    given_up: Vec<PlaceId>,
    /// Until when what is held is kept from others, however soon it is given up.
    kept: Duration,
}

impl Standing {
    /// Records the places from their texts.
    pub(super) fn note_places(&mut self, places: &[String]) {
        self.places = places.iter().filter_map(|text| text.parse().ok()).collect();
    }

    /// Records until when what is held is kept from others.
    pub(super) fn is_kept_until(&mut self, kept: Duration) {
        self.kept = kept;
    }

    /// Whether there is a place to give up.
    pub(super) fn is_somewhere(&self) -> bool {
        self.places
            .iter()
            .any(|place| !self.given_up.contains(place))
    }

    /// Whether one of the current places was given up. Any grant that `fairlock run` saw at it is void then.
    pub(super) fn is_given_up(&self) -> bool {
        self.places
            .iter()
            .any(|place| self.given_up.contains(place))
    }

    /// Gives the places up, if there are any. A place that cannot be given up expires with its lease.
    pub(super) fn give_up(&mut self, at: &Location) {
        let left = self
            .places
            .iter()
            .filter(|place| !self.given_up.contains(place));
        let left: Vec<_> = left.cloned().collect();
        if left.is_empty() {
            return;
        }
        // Set before the requests are sent, because a request may be applied even if its answer is lost.
        self.given_up.extend_from_slice(&left);
        let all = join_all(left.iter().map(|place| within(place, at, self.kept)));
        let ended = crate::on_runtime(async { Ok(all.await) });
        let ended = ended.unwrap_or_else(|failure| vec![Err(failure)]);
        for (place, ended) in left.iter().zip(ended) {
            let Err(failure) = ended else { continue };
            let (lock, why) = (place.lock(), failure.text());
            say(&format!(
                "lock `{lock}`: its place could not be given up: {why}: the next waits for the lease to end"
            ));
        }
    }
}

/// Retries while nothing answers. Each iteration is one attempt, and `WITHIN` bounds them all.
async fn within(place: &PlaceId, at: &Location, kept: Duration) -> Result<(), Failure> {
    let until = now() + WITHIN;
    loop {
        let left = until.saturating_sub(now());
        let ended = tokio::select! {
            biased;
            ended = end(place, at, kept) => ended,
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

async fn end(place: &PlaceId, at: &Location, kept: Duration) -> Result<(), Failure> {
    let locks = at.client(Purpose::Inspect, |builder| builder).await?;
    let owed = kept.saturating_sub(now());
    let ended = locks.give_up(place, owed).await;
    locks.shutdown(HeldLocks::Release, Duration::ZERO).await;
    ended.map_err(|error| Failure::of(&error, at))
}
