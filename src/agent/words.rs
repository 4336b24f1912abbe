//! What callers are told, in the words of the library.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::{Loss, Refusal, Waiting as Waits};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::item::{LockItem, Notice};
use fairlock_protocol::pace;

use crate::vocabulary::config::Config;
use crate::vocabulary::error::{Closed, Error, Holder, LossReason};
use crate::vocabulary::holder;
use crate::vocabulary::name::LockName;
use crate::vocabulary::place_id::PlaceId;
use crate::vocabulary::state::{Outage, Waiting, YieldRequest, system_time};

/// Why a hold is lost.
pub(crate) fn reason(loss: &Loss) -> LossReason {
    match loss {
        Loss::Expired => LossReason::Expired,
        Loss::Unreachable(cause) => LossReason::Unreachable {
            cause: cause.to_string(),
        },
        Loss::Evicted(item) => LossReason::Evicted {
            by: item.as_deref().and_then(holder::shown),
        },
        Loss::Broken(notice) => LossReason::Broken {
            by: notice.by.clone(),
            reason: notice.reason.clone(),
        },
        Loss::Deleted => LossReason::Deleted,
        Loss::MaxHold(limit) => LossReason::MaxHold { limit: *limit },
        Loss::ShutDown => LossReason::ShutDown,
        Loss::Crashed | Loss::NoRuntime => LossReason::NoRuntime,
    }
}

/// A number of turns.
pub(super) fn count(turns: u64) -> usize {
    usize::try_from(turns).unwrap_or(usize::MAX)
}

/// A request to give way.
pub(crate) fn yield_request(asked: &Notice) -> YieldRequest {
    YieldRequest {
        by: asked.by.clone(),
        reason: asked.reason.clone(),
    }
}

/// The error of a call that is refused after so long.
pub(crate) fn refused(why: Refusal, name: &LockName, waited: Duration, config: &Config) -> Error {
    match why {
        // A call that asked for a lease is told of it before.
        Refusal::Leased { item, .. } => holder::not_granted(name, Some(&item), None, waited),
        Refusal::NotGranted { item, position } => {
            holder::not_granted(name, item.as_deref(), position.map(count), waited)
        }
        Refusal::QueueFull { waiting, limit } => Error::QueueFull {
            lock: name.lock().to_owned(),
            waiting: count(waiting),
            limit: count(limit),
        },
        Refusal::Own(held) => Error::NotGranted {
            lock: name.to_string(),
            holder: Some(Box::new(Holder {
                owner: config.owner.clone(),
                ticket: held.ticket,
                is_this_process: true,
                is_shared: Some(held.held.permits) != name.permits(),
                lease_id: None,
                kept_until: None,
            })),
            since: held.item.held_since().map(system_time),
            position: None,
            untaken: false,
            waited,
        },
        Refusal::Late { was_answered } => {
            let why = match was_answered {
                true => "DynamoDB answers too slowly for a call that does not wait",
                false => "the first request at this lock has no answer yet",
            };
            Error::unavailable(&config.table, "acquire", waited, why)
        }
        Refusal::Failed(failure) => Error::of(failure, &config.table, waited),
        Refusal::Untaken => holder::untaken(name, waited),
        Refusal::ShutDown => Error::ShutDown(Closed::ShutDown),
        Refusal::Unobserved => Error::ShutDown(Closed::ObserverPanicked),
        Refusal::Crashed | Refusal::NoRuntime => Error::ShutDown(Closed::NoRuntime),
    }
}

/// How a call stands.
pub(crate) fn waiting(told: &Waits, name: &LockName, config: &Config) -> Waiting {
    let item: Option<&Arc<LockItem>> = told.item.as_ref();
    let permits = name.permits().unwrap_or_default();
    let place = told.place.filter(|_| told.position.is_some());
    Waiting {
        position: told.position.map(count),
        place_id: place.map(|it| PlaceId::of(name, it.nonce, (it.ticket, it.tickets), permits)),
        expected_wait: told
            .turn
            .zip(told.position)
            .map(|(turn, position)| pace::times(turn, position)),
        holder: item.and_then(|item| holder::shown(item)),
        held_since: item.and_then(|item| item.held_since()).map(system_time),
        outage: told.outage.as_ref().map(|outage| {
            let lasts = config.clock.now().since(outage.since);
            Outage {
                since: system_time(ServerTime(config.clock.unix().saturating_sub(lasts))),
                kind: outage.kind,
                cause: outage.failure.to_string(),
            }
        }),
        place_lost: told.place_lost.as_ref().map(reason),
    }
}
