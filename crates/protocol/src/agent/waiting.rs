//! How a waiting call stands, as its caller is told of it.

use std::sync::Arc;
use std::time::Duration;

use super::Loss;
use crate::entry::Nonce;
use crate::failure::Failure;
use crate::item::LockItem;
use crate::moment::Moment;
use crate::outage::OutageKind;
use crate::ticket::Ticket;

/// How a waiting call stands.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// How many turns come before its own. `None` while it is on its way into the queue.
    pub position: Option<u64>,
    /// Its place there.
    pub place: Option<Stood>,
    /// How long a turn takes, as far as that is known.
    pub turn: Option<Duration>,
    /// The lock item as it was seen last.
    pub item: Option<Arc<LockItem>>,
    /// What keeps it from its turn besides.
    pub outage: Option<Outage>,
    /// Why its last place was lost, if it has no other yet.
    pub place_lost: Option<Loss>,
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Stood {
    /// The nonce of its entry.
    pub nonce: Nonce,
    /// Its newest ticket.
    pub ticket: Ticket,
    /// How many tickets it has.
    pub tickets: u64,
}

/// DynamoDB does not serve a waiting call.
#[derive(Clone, Debug)]
pub struct Outage {
    /// When the first request was sent that was not served.
    pub since: Moment,
    /// What keeps the call.
    pub kind: OutageKind,
    /// What became of the request that failed last.
    pub failure: Failure,
}

/// How the first caller of a place stands.
#[derive(Default)]
pub(super) struct Stand {
    pub(super) position: Option<u64>,
    pub(super) place: Option<Stood>,
    pub(super) turn: Option<Duration>,
    pub(super) item: Option<Arc<LockItem>>,
}

impl Stand {
    /// How the caller stands who asked after so many others.
    pub(super) fn behind(&self, others: u64) -> Waiting {
        Waiting {
            position: self.position.map(|first| first.saturating_add(others)),
            place: self.place,
            turn: self.turn,
            item: self.item.clone(),
            outage: None,
            place_lost: None,
        }
    }
}

/// What a caller was told last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    queue: Option<(u64, Option<Ticket>, Option<Ticket>)>,
    outage: Option<OutageKind>,
    is_place_lost: bool,
}

impl Shown {
    /// Whether it is told another position, another holder, or an outage that begins or ends. On its way into the queue no position is known,
    /// which is no news.
    pub(super) fn changes_to(&mut self, waiting: &mut Waiting) -> bool {
        let holder = waiting.item.as_deref().and_then(LockItem::first_holder);
        let (own, holder) = (
            waiting.place.map(|it| it.ticket),
            holder.map(|it| it.ticket),
        );
        let queue = waiting.position.map(|position| (position, own, holder));
        let before = self.queue.filter(|it| it.1 == own);
        // An older answer, which came later, shows it further back.
        let queue = match (before, queue) {
            (Some(before), Some(now)) if before.0 < now.0 => {
                waiting.position = Some(before.0);
                Some(before)
            }
            (_, now) => now,
        };
        let now = Shown {
            queue: queue.or(self.queue),
            outage: waiting.outage.as_ref().map(|it| it.kind),
            is_place_lost: waiting.place_lost.is_some(),
        };
        std::mem::replace(self, now) != now
    }
}
