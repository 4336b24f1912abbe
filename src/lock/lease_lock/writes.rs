//! The writes by which any process extends and releases a lease.

use std::time::Duration;

use super::LeaseLock;
use crate::store::{Store, Timed, Write, all_of};
use crate::vocabulary::name::LockName;
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, ItemHold, LockItem};
use fairlock_protocol::moment::HostTime;
use fairlock_protocol::stamps::{self, Reading, Wall};
use fairlock_protocol::write::LockWrite;

type Answer = Result<Timed<Write<LockItem>>, Failure>;

/// What became of a lease that was to be released.
pub(super) enum Ended {
    /// The next in the queue holds the lock; the item shows it.
    HandedOff(LockItem),
    /// An earlier try was applied though its answer was lost, with the item as it is since.
    ReleasedEarlier(Option<LockItem>),
    /// The lease did not hold the lock any more.
    NotOurs(Option<LockItem>),
}

/// Extends a lease to `by` from the answer that shows it, and never shortens it.
pub(super) async fn extend(
    store: &Store,
    name: &LockName,
    (at, entry): (At, &Entry),
    (by, reading): (Duration, Reading),
) -> Answer {
    // The item has whole milliseconds, and a `Date` has whole seconds. A lease that lasts longer already would end a little earlier if the
    // wall clock's were cut off later.
    let wall = match reading.wall {
        Wall::Shows(HostTime(now)) => {
            let rest = u64::from(now.subsec_nanos() % 1_000_000);
            Wall::Shows(HostTime(now - Duration::from_nanos(rest)))
        }
        Wall::IsNoWitness => Wall::IsNoWitness,
    };
    let extended = stamps::extended((entry.stamps, entry.lease), by, Reading { wall, ..reading });
    let write = LockWrite::extend(all_of(name), (at, entry), extended);
    store.write_keeping(name, write, store.expiry()).await
}

impl LeaseLock {
    /// Ends a lease. If an earlier try had no answer, a refusal means that it released the lease, unless somebody broke it. A lease that has
    /// another number of permits than expected, or stands elsewhere, is released again as it stands. So each further round of the loop needs
    /// a change of the number of permits.
    pub(super) async fn end(&self, nonce: Nonce, mut held: ItemHold) -> Result<Ended, Failure> {
        let (inner, name) = (self.inner(), self.name());
        let (store, policy) = (&inner.store, inner.policy_of_a_lease(&inner.closed));
        let mut may_be_applied = false;
        let (still, seen) = loop {
            let write = LockWrite::release(all_of(name), nonce, held, store.stamps().server);
            let release = || store.write(name, &write);
            let (answer, is_in_doubt) = inner.requests.retry_in_doubt(&policy, release).await?;
            may_be_applied |= is_in_doubt;
            let seen = match answer.value {
                Write::Applied(item) => return Ok(Ended::HandedOff(item)),
                Write::ConditionFailed(item) => item,
            };
            let item = seen.as_ref();
            let still = item.and_then(|item| {
                let (at, entry) = item.hold_of(nonce, held.footing.ticket)?;
                Some(ItemHold::of(item, at, entry))
            });
            match still {
                Some(still) if !still.stands_as(&held) => held = still,
                still => break (still, seen),
            }
        };
        let ticket = held.footing.ticket;
        let broken = seen.as_ref().and_then(|item| item.broken_for(ticket));
        let is_gone = still.is_none() && broken.is_none();
        Ok(
            match is_gone && may_be_applied && !policy.is_over(store.now()) {
                true => Ended::ReleasedEarlier(seen),
                false => Ended::NotOurs(seen),
            },
        )
    }
}
