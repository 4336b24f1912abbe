//! What becomes of a place in a turn.

use std::sync::Arc;

use super::context::Attempt;
use super::{Claim, Refusal};
use crate::item::LockItem;
use crate::lease::RenewalHistory;
use crate::moment::Moment;
use crate::place::{Act, Place as Course};
use crate::ticket::Ticket;

/// What becomes of a place in a turn.
pub(super) enum Fate {
    /// It goes on.
    Stays,
    /// Nothing is left of it.
    Over,
    /// Its callers are refused for this reason, and nothing is left of the place.
    Refused(Refusal),
    /// Its callers are refused, and the place gives back what it may have.
    Leaves(Refusal, Box<Exit>),
    /// It goes on asking, and what an earlier request of it got is given back beside it.
    Beside(Box<Exit>),
    /// It holds the lock.
    Holds(Box<Taken>),
    /// It came to nothing, and its callers ask again. What it may have is given back beside.
    Again(Option<Box<Exit>>),
}

/// A hold as it was taken, and the item that shows it.
pub(super) struct Taken {
    pub(super) claim: Arc<Claim>,
    pub(super) began: Moment,
    pub(super) attempt: Attempt,
    pub(super) beats: RenewalHistory,
    pub(super) item: Arc<LockItem>,
}

/// What is known of a place that goes, with its first step on the way out.
pub(super) struct Exit {
    pub(super) course: Course,
    pub(super) act: Act,
    pub(super) attempt: Attempt,
    pub(super) ticket: Option<Ticket>,
    pub(super) seen: Option<Arc<LockItem>>,
}

impl Exit {
    /// The place of a request that was never answered: whatever place it got.
    pub(super) fn unseen(attempt: Attempt) -> Box<Self> {
        let mut course = Course::of_another();
        Box::new(Exit {
            act: course.leaves_unseen(),
            course,
            attempt,
            ticket: None,
            seen: None,
        })
    }

    /// A place with a ticket, as an item shows it.
    pub(super) fn of(attempt: Attempt, ticket: Ticket, seen: Arc<LockItem>) -> Box<Self> {
        let mut course = Course::of_another();
        let act = course.leaves(true);
        Box::new(Exit {
            course,
            act,
            attempt,
            ticket: Some(ticket),
            seen: Some(seen),
        })
    }

    /// A place in the queue, whose requests are answered or will not be.
    pub(super) fn of_queue(
        mut course: Course,
        attempt: Attempt,
        ticket: Ticket,
        seen: Arc<LockItem>,
    ) -> Box<Self> {
        let act = course.leaves(ticket <= seen.watermark);
        Box::new(Exit {
            course,
            act,
            attempt,
            ticket: Some(ticket),
            seen: Some(seen),
        })
    }
}
