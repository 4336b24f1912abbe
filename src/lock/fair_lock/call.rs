//! A single call of a lock, from its start until it returns.

use std::sync::Arc;

use fairlock_protocol::agent::{Bounds, Claim, LeaseTerm, Refusal, Wait};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::ticket::Ticket;

use super::FairLock;
use crate::agent::client_state::STANDSTILL;
use crate::agent::{Asked, Asks, refused};
use crate::lock::guard::LockGuard;
use crate::telemetry::Origin;
use crate::vocabulary::error::{Closed, Error};
use crate::vocabulary::wait::RecordWait;

/// What a call asks for.
#[derive(Clone)]
pub(crate) struct Wish {
    pub(crate) permits: u64,
    pub(crate) wait: RecordWait,
    /// The lease that it is to become, by whose name it is found.
    pub(crate) lease: Option<LeaseTerm>,
}

/// What a call comes to.
pub(crate) enum Turn {
    Held(LockGuard),
    /// A lease of its name has the lock, as this item shows.
    Leased(Arc<LockItem>, Nonce, Reading),
}

impl Turn {
    /// The ticket of what the call has come to.
    pub(super) fn ticket(&self) -> Ticket {
        match self {
            Turn::Held(guard) => guard.ticket(),
            Turn::Leased(item, nonce, _) => {
                let lease = item.holders().find(|it| it.nonce == *nonce);
                lease.map_or(item.last, |lease| lease.ticket)
            }
        }
    }
}

impl FairLock {
    pub(super) async fn asks(
        &self,
        wish: &Wish,
        (started, until): (Moment, Option<Moment>),
        origin: &Origin,
    ) -> Result<Turn, Error> {
        let (inner, config) = (&self.inner, self.inner.store.config());
        let end = until.map(|until| match wish.wait {
            RecordWait::NoWait => started + inner.no_wait_lasts(),
            _ => until + config.request_timeout,
        });
        let asked = inner.driven().asks(Asks {
            lock: &self.name,
            claim: self.claim(wish, until),
            observer: self.observer.clone(),
            origin,
            end: end.map(|end| end + STANDSTILL),
        });
        let asked = asked.await;
        let waited = inner.store.now().since(started);
        match asked {
            Asked::Granted(held) => Ok(Turn::Held(LockGuard::of(inner.clone(), held))),
            Asked::Refused(_) if inner.closed.is_cancelled() => {
                Err(Error::ShutDown(Closed::ShutDown))
            }
            Asked::Refused(Refusal::Leased {
                item,
                nonce,
                reading,
            }) => Ok(Turn::Leased(item, nonce, reading)),
            Asked::Refused(why) => Err(refused(why, &self.name, waited, config)),
            Asked::StandsStill => Err(inner.stands_still("acquire", waited)),
        }
    }

    fn claim(&self, wish: &Wish, until: Option<Moment>) -> Claim {
        let is_alone = Some(wish.permits) == self.name.permits();
        Claim {
            permits: (!is_alone).then_some(wish.permits),
            wait: match (wish.wait, until) {
                (RecordWait::NoWait, _) => Wait::No,
                (_, Some(until)) => Wait::Until(until),
                (_, None) => Wait::Forever,
            },
            max_waiters: self.max_waiters.map(|most| most as u64),
            bounds: Bounds {
                min: self.bounds.min,
                max: self.bounds.max,
                begin_later: self.bounds.begin_with_all,
            },
            attributes: self.attributes.clone(),
            is_observed: self.observer.is_some(),
            denies_self_wait: self.denies_self_wait,
            lease: wish.lease.clone(),
        }
    }
}
