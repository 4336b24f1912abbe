//! A hold, as its guard and those who watch it see it, by whichever of the two clients.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::{Stand, Watch};
use crate::error::{LockLost, LossReason};
use crate::hold::{Hold, HoldStatus};
use crate::name::LockName;
use crate::place_id::PlaceId;
use crate::state::{LockData, YieldRequest};
use fairlock_protocol::ticket::Ticket;

#[derive(Clone, Debug)]
pub(crate) enum AnyHold {
    Place(Arc<Hold>),
    Value(Watch),
}

use AnyHold::{Place, Value};

impl AnyHold {
    pub(crate) fn name(&self) -> &LockName {
        match self {
            Place(hold) => &hold.name,
            Value(watch) => &watch.view.name,
        }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        match self {
            Place(hold) => hold.ticket,
            Value(watch) => watch.view.ticket,
        }
    }

    pub(crate) fn permits(&self) -> u64 {
        match self {
            Place(hold) => hold.permits(),
            Value(watch) => watch.view.permits(),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Place(hold) => hold.remaining(),
            Value(watch) if watch.is_held() => watch.view.remaining(),
            Value(_) => Duration::ZERO,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        match self {
            Place(hold) => hold.is_held(),
            Value(watch) => watch.is_held(),
        }
    }

    pub(crate) fn place_id(&self) -> PlaceId {
        match self {
            Place(hold) => hold.place_id(),
            Value(watch) => watch.view.place_id(),
        }
    }

    pub(crate) fn is_in_danger(&self) -> bool {
        match self {
            Place(hold) => hold.is_in_danger(),
            Value(watch) => watch.view.is_in_danger(),
        }
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Place(hold) => hold.trouble(),
            Value(watch) => watch.view.trouble(),
        }
    }

    /// Why it was lost, if it was. Also covers a lease that ran out without any task having noticed.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self {
            Place(hold) => hold.loss(),
            Value(watch) => watch.loss(),
        }
    }

    pub(crate) fn lost_by(&self, reason: LossReason) -> LockLost {
        match self {
            Place(hold) => hold.lost_by(reason),
            Value(watch) => watch.view.lost_by(reason),
        }
    }

    /// Waits until it has ended. `None` if it was given back. Cancel safe.
    pub(crate) async fn ended(&self) -> Option<LossReason> {
        match self {
            Place(hold) => hold.wait_ended().await,
            Value(watch) => watch.ended().await,
        }
    }

    /// Waits until it has ended, or until it is in danger if it was not, or no longer in danger if it was. Cancel safe.
    pub(crate) async fn news(&self, was_in_danger: bool) -> HoldStatus {
        match self {
            Place(hold) => hold.news(was_in_danger).await,
            Value(watch) => match watch.news(was_in_danger).await {
                Stand::Offered | Stand::Held => HoldStatus::Held,
                Stand::Lost(reason) => HoldStatus::Lost(reason),
                Stand::GivenBack => HoldStatus::Released,
            },
        }
    }

    pub(crate) fn yield_requested(&self) -> Option<YieldRequest> {
        match self {
            Place(hold) => hold.yield_requested(),
            Value(watch) => watch.view.yield_requested(),
        }
    }

    pub(crate) async fn wait_yield_requested(&self) -> YieldRequest {
        match self {
            Place(hold) => hold.wait_yield_requested().await,
            Value(watch) => watch.view.wait_yield_requested().await,
        }
    }

    pub(crate) fn data(&self) -> Option<LockData> {
        match self {
            Place(hold) => hold.data(),
            Value(watch) => LockData::of(&watch.view.item()),
        }
    }
}
