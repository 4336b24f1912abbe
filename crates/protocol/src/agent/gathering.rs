//! The way into the queue of a lock. The places of plain callers take it one after the other, and the callers that come meanwhile gather: they
//! draw their tickets together, and take their turns at one place.

use std::sync::Arc;

use super::callers::{Callers, Refused};
use super::kept::Kept;
use super::shared::Key;
use super::waiting::{Stand, Waiting};
use super::{Bounds, CallId, Claim, Refusal};
use crate::entry::Attributes;
use crate::item::LockItem;
use crate::moment::Moment;

#[derive(Default)]
pub(super) struct Gathering {
    /// The place that is on its way.
    pub(super) first: Option<Key>,
    /// The callers that wait until the way is free.
    behind: Callers,
    /// The item as the place on its way saw it.
    pub(super) seen: Option<Arc<LockItem>>,
}

impl Gathering {
    /// Adds a caller, if it has to wait until the way is free.
    pub(super) fn adds(&mut self, call: CallId, claim: &Claim) -> bool {
        let waits = self.first.is_some() && gathers(claim);
        if waits {
            self.behind.add(call, claim);
        }
        waits
    }

    /// The callers that have gathered: the way is free.
    pub(super) fn goes_in(&mut self) -> Option<Callers> {
        (self.first, self.seen) = (None, None);
        let callers = std::mem::take(&mut self.behind);
        (!callers.is_empty()).then_some(callers)
    }

    pub(super) fn leaves(&mut self, call: CallId) {
        self.behind.leaves(call);
    }

    pub(super) fn late(&mut self, now: Moment) -> Refused {
        if !self.behind.are_late(now) {
            return Refused::new();
        }
        let why = self.behind.kept.why_late(true);
        let why = why.unwrap_or_else(|| Refusal::not_granted(self.seen.clone()));
        self.behind.late(now, &why)
    }

    pub(super) fn all(&mut self, why: &Refusal) -> Refused {
        self.behind.all(why)
    }

    /// Takes in what keeps the callers of the place on its way. Returns what there is to tell those behind them.
    pub(super) fn hears(&mut self, first: Key, kept: &Kept) -> Vec<(CallId, Box<Waiting>)> {
        if self.first != Some(first) || self.behind.is_empty() {
            return Vec::new();
        }
        kept.tells(&mut self.behind.kept);
        let item = self.seen.clone();
        let stand = || Stand {
            item,
            ..Stand::default()
        };
        self.behind.news(stand)
    }

    /// When the time of a caller is over.
    pub(super) fn due(&self) -> Option<Moment> {
        self.behind.next_until()
    }

    /// Takes in what the place on its way has seen, for those who hear of nothing else.
    pub(super) fn sees(&mut self, item: &Arc<LockItem>) {
        if !self.behind.is_empty() {
            self.seen = Some(Arc::clone(item));
            self.behind.kept.was_answered = true;
        }
    }
}

/// Whether a caller may take its turn at a place with others: it waits, and its entry says nothing of its own.
pub(super) fn gathers(claim: &Claim) -> bool {
    let is_plain = claim.bounds == Bounds::default() && claim.attributes == Attributes::default();
    claim.waits() && claim.permits.is_none() && claim.lease.is_none() && is_plain
}
