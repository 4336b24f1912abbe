//! A call of a client that is a value.

use fairlock_protocol::agent::{Bounds, Claim, Wait};
use fairlock_protocol::moment::Moment;

use super::FairLock;
use crate::agent::{Asked, Asks, Driven, refused};
use crate::client_state::STANDSTILL;
use crate::error::{Closed, Error};
use crate::guard::LockGuard;
use crate::telemetry::Origin;
use crate::wait::RecordWait;

impl FairLock {
    pub(super) async fn asks(
        &self,
        driven: &Driven,
        (permits, wait): (u64, RecordWait),
        (started, until): (Moment, Option<Moment>),
        origin: &Origin,
    ) -> Result<LockGuard, Error> {
        let (inner, config) = (&self.inner, self.inner.store.config());
        let end = until.map(|until| match wait {
            RecordWait::NoWait => started + inner.no_wait_lasts(),
            _ => until + config.request_timeout,
        });
        let asked = driven.asks(Asks {
            lock: &self.name,
            claim: self.claim(permits, wait, until),
            observer: self.observer.clone(),
            origin,
            end: end.map(|end| end + STANDSTILL),
        });
        let asked = asked.await;
        let waited = inner.store.now().since(started);
        match asked {
            Asked::Granted(held) => Ok(LockGuard::of_value(inner.clone(), held)),
            Asked::Refused(_) if inner.closed.is_cancelled() => {
                Err(Error::ShutDown(Closed::ShutDown))
            }
            Asked::Refused(why) => Err(refused(why, &self.name, waited, config)),
            Asked::StandsStill => Err(inner.stands_still("acquire", waited)),
        }
    }

    fn claim(&self, permits: u64, wait: RecordWait, until: Option<Moment>) -> Claim {
        let is_alone = Some(permits) == self.name.permits();
        Claim {
            permits: (!is_alone).then_some(permits),
            wait: match (wait, until) {
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
            lease: None,
        }
    }
}
