//! Gives up what another process has in the table.

use std::time::Duration;

use super::exit::Exit;
use crate::agent::client_state::ClientInner;
use crate::store::requests::RetryPolicy;
use crate::store::{Timed, Write, all_of};
use crate::vocabulary::name::LockName;
use crate::vocabulary::place_id::PlaceId;
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{Footing, LockItem};
use fairlock_protocol::place::Place;
use fairlock_protocol::write::LockWrite;

/// No renewal that is still under way is so many beats ahead of what the table shows.
const FAR: u64 = 1000;

impl ClientInner {
    /// Gives up a place of another process. A hold is kept from others for what it owes.
    pub(crate) async fn give_up_place(
        &self,
        name: &LockName,
        place: &PlaceId,
        owed: Duration,
    ) -> Result<(), Failure> {
        let policy = self.policy_of_few(self.closed.clone());
        let read = || self.store.read_lock(name);
        let Some(item) = self.requests.retry(&policy, read).await?.value else {
            return Ok(());
        };
        // No such ticket was drawn, unless the item was deleted and its state is gone.
        if item.last < place.ticket {
            return Ok(());
        }
        // Its hold has become a lease, which belongs to any process that knows the lease's name.
        let hold = item.hold_of(place.nonce, place.ticket);
        if hold.is_some_and(|(_, entry)| entry.id.is_some()) {
            return Ok(());
        }
        let (name, ticket) = (name.with_permits(item.permits), place.ticket);
        if !owed.is_zero() && hold.is_some() {
            return self.keep_place(&name, place, item, owed, &policy).await;
        }
        let mut course = Place::of_another();
        let act = course.leaves(ticket <= item.watermark);
        let mut exit = Exit {
            requests: &self.requests,
            name: &name,
            policy: &policy,
            nonce: place.nonce,
            tickets: place.tickets,
            ticket,
            seen: Some(item),
        };
        exit.run(&mut course, act).await.map(drop)
    }

    /// Renews a hold of another process once more, as its own client does for what a hold owes. Each iteration but the last finds a renewal of
    /// that process that was still under way.
    async fn keep_place(
        &self,
        name: &LockName,
        place: &PlaceId,
        mut item: LockItem,
        owed: Duration,
        policy: &RetryPolicy,
    ) -> Result<(), Failure> {
        let began = self.store.now();
        loop {
            let hold = item.hold_of(place.nonce, place.ticket);
            let Some((at, entry)) = hold.filter(|(_, entry)| !entry.given_back) else {
                return Ok(());
            };
            let (beat, footing) = (entry.beat + FAR, Footing::of(&item, at, entry));
            let keep = || {
                let left = owed.saturating_sub(self.store.now().since(began));
                self.keep_on(name, (place.nonce, footing), (beat, left))
            };
            let Some(shown) = self.requests.retry(policy, keep).await?.value.shown() else {
                return Ok(());
            };
            let hold = shown.hold_of(place.nonce, place.ticket);
            if hold.is_none_or(|(_, entry)| entry.beat == beat) {
                return Ok(());
            }
            item = shown;
        }
    }

    /// The hold is kept for what it owes, by the watch of each observer or by two clocks, whichever tells first.
    async fn keep_on(
        &self,
        name: &LockName,
        (nonce, footing): (Nonce, Footing),
        beat: (u64, Duration),
    ) -> Result<Timed<Write<LockItem>>, Failure> {
        let store = &self.store;
        let renew = LockWrite::renew(all_of(name), (nonce, footing), beat, store.stamps());
        let keeps = store.keeps_for_longer(footing.expires_at);
        let kept = store.write_keeping(name, renew.given_back(footing.at), keeps);
        kept.await
    }
}
