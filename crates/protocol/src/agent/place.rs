//! A place of a client in a lock: from the first request for it until nothing of it is left.

use std::sync::Arc;

use super::callers::Callers;
use super::context::{Context, Memory};
use super::doing::Doing;
use super::door::Door;
use super::fate::Fate;
use super::hold::Hold;
use super::leaving::Leaving;
use super::post::Post;
use super::shared::Key;
use super::waiting::Stand;
use super::{Claim, Precision, Refusal, Reply, RequestId, Work};
use crate::entry::Nonce;
use crate::item::LockItem;
use crate::moment::Moment;
use crate::ticket::Ticket;

/// A place.
pub(super) struct Place {
    /// Whose turns come at it.
    pub(super) callers: Callers,
    /// What it is told, if others can notify it.
    pub(super) post: Option<Box<Post>>,
    /// The place beside which it leaves, whose callers hear of their refusal after that. Its own key otherwise.
    pub(super) beside: Key,
    pub(super) claim: Arc<Claim>,
    pub(super) began: Moment,
    pub(super) phase: Phase,
}

pub(super) enum Phase {
    /// It asks for the lock.
    Asking(Box<Door>),
    /// It holds the lock, or is on its way out of a hold.
    Holding(Box<Hold>),
    /// It gives back what it may have.
    Leaving(Box<Leaving>),
    /// It does something for others.
    Doing(Box<Doing>),
}

impl Phase {
    /// When something is due.
    pub(super) fn due(&self, cx: &Context<'_>) -> Option<Moment> {
        match self {
            Phase::Asking(door) => door.due(cx),
            Phase::Holding(hold) => hold.due(cx),
            Phase::Leaving(leaving) => leaving.due(),
            Phase::Doing(doing) => doing.due(),
        }
    }

    /// How exactly that is to be met.
    pub(super) fn precision(&self) -> Precision {
        match self {
            Phase::Asking(door) => door.precision(),
            Phase::Holding(_) | Phase::Leaving(_) | Phase::Doing(_) => Precision::Coarse,
        }
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) -> Fate {
        match self {
            Phase::Asking(door) => door.on_time(cx),
            Phase::Holding(hold) => hold.on_time(cx),
            Phase::Leaving(leaving) => leaving.on_time(cx),
            Phase::Doing(doing) => doing.on_time(cx),
        }
    }

    /// Takes in what became of a request.
    pub(super) fn answered(
        &mut self,
        request: RequestId,
        reply: Reply,
        cx: &mut Context<'_>,
    ) -> Fate {
        match self {
            Phase::Asking(door) => door.answered(request, reply, cx),
            Phase::Holding(hold) => hold.answered(request, reply, cx),
            Phase::Leaving(leaving) => leaving.answered(request, reply, cx),
            Phase::Doing(doing) => doing.answered(request, reply, cx),
        }
    }

    /// No caller wants it any more. A hold of which a caller was told is that caller's.
    pub(super) fn is_unwanted(&mut self, why: Refusal, cx: &mut Context<'_>) -> Fate {
        match self {
            Phase::Asking(door) => door.is_unwanted(why, cx),
            Phase::Holding(hold) if hold.is_granting() => hold.is_unwanted(why),
            Phase::Holding(_) | Phase::Leaving(_) | Phase::Doing(_) => Fate::Stays,
        }
    }

    /// The client is shut down.
    pub(super) fn closes(&mut self, keeps_holds: bool, cx: &mut Context<'_>) -> Fate {
        match self {
            Phase::Asking(door) => door.is_unwanted(Refusal::ShutDown, cx),
            Phase::Holding(hold) => hold.closes(keeps_holds, cx),
            Phase::Leaving(_) | Phase::Doing(_) => Fate::Stays,
        }
    }

    /// How its first caller stands. Behind a hold at the same place it is the next.
    pub(super) fn stands(&self, memory: &Memory) -> Stand {
        match self {
            Phase::Asking(door) => door.stands(),
            Phase::Holding(hold) => hold.stands(memory),
            Phase::Leaving(_) | Phase::Doing(_) => Stand::default(),
        }
    }

    /// What it does that no caller may wait for.
    pub(super) fn errand(&self) -> Option<(Option<Ticket>, Work)> {
        match self {
            Phase::Asking(door) => door.is_ending().then(|| (door.ticket(), Work::Leave)),
            Phase::Holding(hold) => hold
                .is_ending()
                .then(|| (Some(hold.ticket()), Work::Release)),
            Phase::Leaving(leaving) => Some((leaving.ticket(), Work::Leave)),
            Phase::Doing(doing) => Some((None, doing.chore.work())),
        }
    }

    /// Whether it has no place in the queue yet, and asks for one.
    pub(super) fn is_on_its_way(&self) -> bool {
        matches!(self, Phase::Asking(door) if door.is_on_its_way())
    }

    /// Whether it waits, and has its turn by this item.
    pub(super) fn holds_by(&self, item: &LockItem) -> bool {
        matches!(self, Phase::Asking(door) if door.holds_by(item))
    }

    /// Whether it holds, and this item shows another request to give way.
    pub(super) fn is_asked_by(&self, item: &LockItem) -> bool {
        matches!(self, Phase::Holding(hold) if hold.is_asked_by(item))
    }

    /// Whether the entry of this nonce is its own, in a slot or in a row.
    pub(super) fn has(&self, nonce: Nonce) -> bool {
        match self {
            Phase::Asking(door) => door.waits_as(nonce),
            Phase::Holding(hold) => hold.holds_as(nonce),
            Phase::Leaving(_) | Phase::Doing(_) => false,
        }
    }

    /// Something has come for it.
    pub(super) fn is_told(&mut self, cx: &mut Context<'_>) -> Fate {
        if let Phase::Asking(door) = self {
            door.is_told(cx);
        }
        Fate::Stays
    }

    /// Sends the first request on the way out.
    pub(super) fn goes_on(&mut self, cx: &mut Context<'_>) -> Fate {
        match self {
            Phase::Leaving(leaving) => leaving.goes_on(cx),
            Phase::Asking(_) | Phase::Holding(_) | Phase::Doing(_) => Fate::Stays,
        }
    }

    pub(super) fn hold(&mut self) -> Option<&mut Hold> {
        match self {
            Phase::Holding(hold) => Some(hold),
            Phase::Asking(_) | Phase::Leaving(_) | Phase::Doing(_) => None,
        }
    }
}
