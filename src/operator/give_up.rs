//! Gives up what another process has in the table.

use std::time::Duration;

use crate::agent::client_state::ClientInner;
use crate::lock::client::LockClient;
use crate::store::requests::RetryPolicy;
use crate::store::{Timed, Write, all_of};
use crate::vocabulary::error::{Closed, Error};
use crate::vocabulary::name::LockName;
use crate::vocabulary::place_id::PlaceId;
use fairlock_protocol::agent::{Done, Loss, Stood};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{Footing, LockItem};
use fairlock_protocol::write::LockWrite;

/// No renewal that is still under way is so many beats ahead of what the table shows.
const FAR: u64 = 1000;

impl LockClient {
    /// Gives up a place of another process that cannot do so itself, for example because it was killed. That process waited at the place,
    /// or held the lock by it. Then the waiters behind it need not wait for its lease to end. Does nothing if the place is gone already.
    /// The client must be of the same table and namespace. Costs two to four requests.
    ///
    /// If that process held the lock, others get it when `owed` is over: the rest of its [shortest hold](crate::FairLock::min_hold), which
    /// only those who watch over it know. Zero if it has none.
    ///
    /// Give up a hold only if it is to end whatever becomes of its holder. A live holder learns that it was evicted with its next renewal,
    /// and may work on until then beside the next holder. A live waiter draws another ticket.
    ///
    /// A request of that process that is still under way may bring the place back. The place then lapses with its lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the place is given up: ask again.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::InvalidItem`] and [`Error::ShutDown`] as
    /// [`FairLock::acquire`](crate::FairLock::acquire). The place then lapses with its lease.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn clean_up(locks: fairlock::LockClient, text: &str) -> Result<(), fairlock::Error> {
    /// // The process that this one watched over was killed, and its work has ended.
    /// let place: fairlock::PlaceId = text.parse()?;
    /// locks.give_up(&place, std::time::Duration::ZERO).await
    /// # }
    /// ```
    pub async fn give_up(&self, place: &PlaceId, owed: Duration) -> Result<(), Error> {
        let inner = &self.inner;
        let name = LockName::new(place.lock(), &inner.store.config().namespace)?;
        let policy = inner.policy_of_few(inner.closed.clone());
        let read = inner
            .requests
            .retry(&policy, || inner.store.read_lock(&name));
        let read = async { Ok(read.await?.value) };
        let Some(item) = inner.for_caller(read).await? else {
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
        let name = name.with_permits(item.permits);
        match owed.is_zero() || hold.is_none() {
            true => inner.give_up_place(&name, place, item).await,
            false => {
                let kept = inner.keep_place(&name, place, item, owed, &policy);
                inner.for_caller(kept).await
            }
        }
    }
}

impl ClientInner {
    /// Gives up a place of another process, as the item shows it.
    async fn give_up_place(
        &self,
        name: &LockName,
        place: &PlaceId,
        item: LockItem,
    ) -> Result<(), Error> {
        let place = Stood {
            nonce: place.nonce,
            ticket: place.ticket,
            tickets: place.tickets,
        };
        let started = self.store.now();
        let until = self.no_wait_ends(started);
        let done = self.driven().gives_up(name, (place, item), until);
        // Each of its last steps is tried once after that.
        let late = until + self.store.config().request_timeout * 3;
        match self.hears(done, late).await {
            Some(Ok(Ok(Done::Left))) => Ok(()),
            Some(Ok(Ok(Done::Lost(Loss::ShutDown)))) => Err(Error::ShutDown(Closed::ShutDown)),
            Some(Ok(Err(failure))) => Err(self.failed(failure, started)),
            // Its driver has gone, or its part in the lock has.
            Some(Ok(Ok(_)) | Err(_)) => Err(Error::ShutDown(Closed::NoRuntime)),
            None => Err(self.stands_still("give up", self.store.now().since(started))),
        }
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
