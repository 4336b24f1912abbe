//! A client as a value that knows time: what it is told, what it asks the table for, and what it tells its callers.
//!
//! Nothing here has a clock, a source of chance, tasks or I/O. A driver gives each turn the time and the chance, sends the requests, and
//! brings their answers. A simulation does the same with a thousand clients.

mod again;
mod callers;
mod chore;
mod client;
mod context;
mod doing;
mod door;
mod fate;
mod gathering;
mod heeding;
mod hold;
mod kept;
mod leaving;
mod note;
mod notifying;
mod path;
mod place;
mod places;
mod post;
#[cfg(feature = "record")]
pub mod record;
mod request;
mod shared;
mod terms;
mod waiter;
mod waiting;

pub use crate::clocks::Clocks;
pub use client::Client;
pub use note::{Errand, Note, Took, Work};
pub use request::{Answer, Cursor, Failed, Of, Page, Reply, Request, RequestId, Shown, What};
pub use terms::{Bounds, Claim, LeaseTerm, Lock, Terms, Wait};
pub use waiting::{Outage, Stood, Waiting};

use std::sync::Arc;
use std::time::Duration;

use crate::bytes::Bytes;
use crate::entry::{Entry, Nonce};
use crate::failure::Failure;
use crate::item::{ItemHold, LockItem, Notice};
use crate::moment::Moment;
use crate::stamps::Reading;
use crate::ticket::Ticket;

/// A call of a caller, until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct CallId(pub u64);

/// A hold of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct HoldId(pub u64);

/// An order whose giver waits for what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct ReplyId(pub u64);

/// What a client is told.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Input {
    /// A caller asks for a lock. Answered by [`Output::Granted`] or [`Output::Refused`], once.
    Call {
        /// The call, which no other call of the client has.
        call: CallId,
        /// The lock.
        lock: Lock,
        /// How it is asked for.
        claim: Claim,
    },
    /// The caller of this call has gone. What the call has in the table is given back.
    Cancel(CallId),
    /// The caller has taken its hold.
    Taken(HoldId),
    /// The caller, or its view, has seen the deadline of its hold pass. The hold is lost from then on.
    Expired(HoldId),
    /// A holder wants something of its hold.
    Order {
        /// The hold.
        hold: HoldId,
        /// What it wants.
        order: Order,
        /// By what its giver knows the outcome, if the giver waits for it.
        reply: Option<ReplyId>,
    },
    /// What became of a request, once for each.
    Answer {
        /// The request.
        request: RequestId,
        /// What became of it.
        reply: Box<Reply>,
    },
    /// Something came to the client's address, from anybody.
    Datagram(Box<[u8]>),
    /// An operation outside of the client saw this item.
    Seen {
        /// The lock.
        lock: Lock,
        /// Its item.
        item: Arc<LockItem>,
    },
    /// A place of another process is given up, as far as this item shows it. Answered by [`Output::Done`], once.
    GiveUp {
        /// The lock.
        lock: Lock,
        /// The place.
        place: Stood,
        /// The item.
        item: Arc<LockItem>,
        /// By what its giver knows the outcome.
        reply: ReplyId,
        /// No request is sent again after this.
        until: Moment,
    },
    /// The client is shut down: calls are refused, places are left, holds are released, or kept until their callers give them back.
    Close {
        /// Whether holds are kept.
        keeps_holds: bool,
    },
}

/// What a holder wants.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Order {
    /// The hold ends.
    Release {
        /// No work was done under it: nobody took it.
        is_unused: bool,
    },
    /// The bounds of the hold begin now, not with the grant.
    BeginBounds,
    /// The lock's data become these bytes, or go.
    Put(Option<Bytes>),
    /// So many of its permits are given back, while it keeps the others.
    Free(u64),
    /// It ends for its caller, and becomes a lease.
    LeaseOut(LeaseTerm),
    /// A transaction of the caller's own may check the hold at any time from now on: no other caller has a turn at its place before a write.
    Check,
}

impl Order {
    /// What becomes of it when its giver has gone: a lease would stand there without an owner.
    #[must_use]
    pub fn without_giver(self) -> Self {
        match self {
            Order::LeaseOut(_) => Order::Release { is_unused: false },
            order => order,
        }
    }
}

/// What a client tells. Everything that a turn tells is drained before its requests: no guard believes in what a request ends.
#[derive(Clone, Debug)]
pub enum Output {
    /// The caller has the lock.
    Granted {
        /// The call.
        call: CallId,
        /// The hold, which no other hold of the client has.
        hold: HoldId,
        /// The hold as its caller sees it.
        seen: HoldView,
    },
    /// The caller does not get the lock. Nothing of its place is left, or what is left is told by [`Output::Undone`].
    Refused {
        /// The call.
        call: CallId,
        /// Why.
        why: Refusal,
    },
    /// No caller has taken this hold for too long. The driver answers by [`Input::Taken`], or releases it as unused.
    TakeBack(HoldId),
    /// How a call stands that is told so.
    Waits {
        /// The call.
        call: CallId,
        /// How it stands.
        waiting: Box<Waiting>,
    },
    /// The hold as its caller sees it now.
    View {
        /// The hold.
        hold: HoldId,
        /// As it is now.
        seen: HoldView,
    },
    /// The hold is lost.
    Lost {
        /// The hold.
        hold: HoldId,
        /// Why.
        why: Loss,
    },
    /// An order has been carried out, or will not be.
    Done {
        /// By what its giver knows it.
        reply: ReplyId,
        /// What became of it.
        done: Result<Done, Failure>,
    },
    /// A place could not be left in time: others pass it, or its lease ends it.
    Undone {
        /// The lock.
        lock: Lock,
        /// The ticket of the place, if it is known.
        ticket: Option<Ticket>,
        /// What was to be done.
        work: Work,
        /// Why it was not.
        failure: Failure,
    },
    /// For the log and the metrics.
    Noted {
        /// The lock.
        lock: Lock,
        /// What has happened.
        note: Note,
    },
    /// A datagram that came is for no place of this client.
    Unfit,
    /// A datagram for another client, which may be lost.
    Send {
        /// The address of that client.
        to: Arc<str>,
        /// What is sent.
        datagram: Vec<u8>,
    },
    /// An answer showed this item.
    Shown {
        /// The lock.
        lock: Lock,
        /// Its item.
        item: Arc<LockItem>,
    },
}

/// A hold as its caller sees it.
#[derive(Clone, Debug)]
pub struct HoldView {
    /// Its fencing token.
    pub ticket: Ticket,
    /// The nonce of its place.
    pub nonce: Nonce,
    /// How many tickets its place has.
    pub tickets: u64,
    /// Where it stands, and with how many permits.
    pub held: ItemHold,
    /// How long its owner believes in a renewal.
    pub lease: Duration,
    /// Its local deadline, which also holds though nobody tells it any more.
    pub until: Moment,
    /// Why it is lost if that passes.
    pub ends_by: Loss,
    /// What became of the last renewal, if it failed.
    pub trouble: Option<Arc<str>>,
    /// The item that shows it.
    pub item: Arc<LockItem>,
}

/// Why a call is refused.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// A live entry is in the way of a call that does not wait, it has tried as often as it may, or its time is over.
    NotGranted {
        /// The item as it was seen last.
        item: Option<Arc<LockItem>>,
        /// How many turns came before its own, if it was in the queue.
        position: Option<u64>,
    },
    /// More callers wait than it accepts.
    QueueFull {
        /// How many wait.
        waiting: u64,
        /// How many it accepts.
        limit: u64,
    },
    /// A hold of its own client is in the way, for which it does not wait.
    Own(Box<HoldView>),
    /// A lease of its name has the lock, as this item shows: its own, or one that another caller asked for.
    Leased {
        /// The item.
        item: Arc<LockItem>,
        /// The lease's entry there.
        nonce: Nonce,
        /// What its answer told of the time.
        reading: Reading,
    },
    /// Its time ended before DynamoDB served it.
    Late {
        /// Whether DynamoDB answered any of its requests.
        was_answered: bool,
    },
    /// A request failed for good, or as often as it may.
    Failed(Failure),
    /// The client is shut down.
    ShutDown,
    /// It was granted the lock, and its caller came too late to take it.
    Untaken,
    /// Its caller's own observer failed.
    Unobserved,
    /// An error in this client ended its part in the lock.
    Crashed,
    /// The driver has gone, with its runtime.
    NoRuntime,
}

impl Refusal {
    fn not_granted(item: Option<Arc<LockItem>>) -> Self {
        let position = None;
        Refusal::NotGranted { item, position }
    }

    /// The first turn before a call is a hold, or will be, and does not wait.
    fn too_long(before: u64, limit: u64) -> Self {
        let waiting = before.saturating_sub(1);
        Refusal::QueueFull { waiting, limit }
    }

    /// The refusal of a caller that stands behind so many others of its place, and accepts so many before it.
    fn behind(&self, others: u64, most: Option<u64>) -> Self {
        let mut refusal = self.clone();
        match &mut refusal {
            Refusal::NotGranted { position, .. } => {
                *position = position.map(|first| first.saturating_add(others));
            }
            Refusal::QueueFull { limit, .. } => *limit = most.unwrap_or(*limit),
            _ => {}
        }
        refusal
    }
}

/// Why a hold is lost.
#[derive(Clone, Debug)]
pub enum Loss {
    /// Its lease ended, and nothing else is known.
    Expired,
    /// Its lease ended, and renewals had failed for this reason.
    Unreachable(Arc<str>),
    /// The item shows it no more.
    Evicted(Option<Arc<LockItem>>),
    /// An operator broke it.
    Broken(Arc<Notice>),
    /// The lock's item has gone.
    Deleted,
    /// Its longest time is over.
    MaxHold(Duration),
    /// The client is shut down.
    ShutDown,
    /// An error in this client ended its part in the lock.
    Crashed,
    /// The driver has gone, with its runtime.
    NoRuntime,
}

/// What became of an order.
#[derive(Clone, Debug)]
pub enum Done {
    /// The hold is released: the item after it.
    HandedOff(Arc<LockItem>),
    /// The hold is over, and another caller of this client has its place.
    PassedOn,
    /// The hold is given back, and stays in the table for the rest of its shortest time.
    KeptOn,
    /// An earlier try released it, whose answer was lost.
    ReleasedEarlier,
    /// The hold was not ours any more: the item that showed it.
    NotOurs(Option<Arc<LockItem>>),
    /// The hold had been lost before.
    Lost(Loss),
    /// The data are written.
    Put,
    /// The permits are free, or will be: nothing can act by them any more.
    Freed,
    /// The hold is a lease, with this entry.
    LeasedOut(Box<Entry>),
    /// Nothing is left of the place.
    Left,
}

/// How exactly a driver is to wait until something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// To a tenth of a millisecond: a handoff may wait for it.
    Close,
    /// To some milliseconds.
    Coarse,
}

/// What a turn goes by.
pub struct Turn<'a> {
    /// The times.
    pub clocks: Clocks,
    /// Chance.
    pub random: &'a mut dyn Random,
}

/// Chance, as the driver gives it.
pub trait Random {
    /// A nonce that no place ever had.
    fn nonce(&mut self) -> Nonce;
    /// A number from zero up to one.
    fn unit(&mut self) -> f64;
}
