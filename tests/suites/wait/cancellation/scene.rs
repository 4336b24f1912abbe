//! Every request of an acquisition, a hold and a release, and how a client is brought to send it.

use std::time::Duration;

use fairlock::RecordWait;

/// The permits of a fair lock: a holder of all of them holds the lock exclusively.
pub(crate) const ALL: u64 = 64;

/// How a client comes to send one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) what: &'static str,
    /// The first request of this verb is held at the gate.
    pub(crate) verb: &'static str,
    /// The callers that came before, in this order.
    pub(crate) queue: &'static [Who],
    pub(crate) act: Act,
    /// How many permits the client asks for.
    pub(crate) asks: u64,
    /// When the client comes, in seconds.
    pub(crate) comes: u32,
    /// For how many seconds the client holds the lock before it does anything else.
    pub(crate) holds: u32,
    /// What else happens, and after how many milliseconds.
    pub(crate) events: &'static [(u64, Event)],
    /// What another request of the client meets.
    pub(crate) besides: Besides,
    /// Another process asks for the lease by its name, and releases it.
    pub(crate) is_asked_again: bool,
    /// The client has had an answer before, and so knows the time.
    pub(crate) knows_the_time: bool,
    /// A client that is notified does not send the request.
    pub(crate) only_polls: bool,
    pub(crate) bounds: Bounds,
}

/// How long the client wants its hold to last, and its safety margin, in seconds. Zero means that it does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) min: u32,
    pub(crate) max: u32,
    pub(crate) margin: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Holds or waits, and renews.
    Live,
    /// The same until it dies.
    Mortal,
    /// Lives, and holds or waits for this many permits.
    Shares(u64),
    /// The same until it dies.
    MortalShares(u64),
    /// Held the lock, and released it.
    Past,
    /// Drew a ticket and never joined.
    Gap,
    /// Many waiters that left the queue, and whose rows were not deleted.
    SettledRows,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The first living caller in the queue holds the lock and releases it.
    Release,
    /// The mortal callers die.
    Die,
    /// Other clients make the client's row void.
    Void,
    /// The client's row is given a slot. The decision was made before the row became void.
    Fill,
    /// Another living caller comes, and waits for this many permits.
    Comes(u64),
}

/// What the client does, and where it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Its acquisition is dropped at the gate.
    Acquire,
    /// The same for one of two calls that share a place, behind another call of their client. The other call waits on.
    AcquireTogether,
    /// Its acquisition is dropped at that second, and the clean-up comes to the gate.
    Leave(u32),
    /// Holds the lock. The guard is dropped at the gate.
    Hold,
    /// The future of its release is dropped at the gate.
    Release,
    /// The same while a check may be under way, and another call of the client comes next at its place.
    PassOn,
    /// Its guard was dropped, and the release that follows comes to the gate.
    DropGuard,
    /// The future of its downgrade is dropped at the gate, together with its guard. Or the drop of the guard comes to the gate after the
    /// downgrade.
    Downgrade,
    /// The future by which it gives back ten permits is dropped at the gate, together with its guard.
    ReleaseSome,
    /// The future of its write is dropped at the gate, together with its guard.
    SetData,
    /// The same for the removal of data.
    ClearData,
    /// Its call on a lock that a name holds is dropped at the gate.
    Lease(Step),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Acquire,
    /// Waits for its turn.
    InTurn,
    /// Waits for its turn as any caller, and turns its guard into a lease.
    FromGuard,
    /// Extends a lease that it holds.
    Extend,
    Release,
}

impl Act {
    /// Whether the client holds the lock when it comes to the gate.
    pub(crate) fn has_lock(self) -> bool {
        match self {
            Act::Acquire | Act::AcquireTogether | Act::Leave(_) => false,
            Act::Lease(step) => matches!(step, Step::Extend | Step::Release),
            Act::Hold | Act::Release | Act::PassOn | Act::DropGuard => true,
            Act::Downgrade | Act::ReleaseSome => true,
            Act::SetData | Act::ClearData => true,
        }
    }

    pub(crate) fn writes_data(self) -> bool {
        matches!(self, Act::SetData | Act::ClearData)
    }
}

/// What happens to all requests of one verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Besides {
    Nothing,
    /// Throttled for twenty seconds.
    Throttled(&'static str),
    /// Almost too late.
    Late(&'static str),
    /// Applied, but never answered.
    Unanswered(&'static str),
}

pub(crate) const LONG: RecordWait = RecordWait::Timeout(Duration::from_secs(900));

pub(crate) const fn scene(what: &'static str, verb: &'static str, queue: &'static [Who]) -> Scene {
    Scene {
        what,
        verb,
        queue,
        act: Act::Acquire,
        asks: ALL,
        comes: 0,
        holds: 0,
        events: &[],
        besides: Besides::Nothing,
        is_asked_again: false,
        knows_the_time: false,
        only_polls: false,
        bounds: Bounds {
            min: 0,
            max: 0,
            margin: 0,
        },
    }
}

impl Scene {
    pub(crate) const fn after(self, events: &'static [(u64, Event)]) -> Scene {
        Scene { events, ..self }
    }

    pub(crate) const fn comes(self, comes: u32) -> Scene {
        Scene { comes, ..self }
    }

    pub(crate) const fn asks(self, asks: u64) -> Scene {
        Scene { asks, ..self }
    }

    pub(crate) const fn holds(self, holds: u32) -> Scene {
        Scene { holds, ..self }
    }

    pub(crate) const fn besides(self, besides: Besides) -> Scene {
        Scene { besides, ..self }
    }

    pub(crate) const fn asked_again(self) -> Scene {
        Scene {
            is_asked_again: true,
            ..self
        }
    }

    pub(crate) const fn knowing_the_time(self) -> Scene {
        Scene {
            knows_the_time: true,
            ..self
        }
    }

    pub(crate) const fn only_polling(self) -> Scene {
        Scene {
            only_polls: true,
            ..self
        }
    }

    pub(crate) const fn bounded(self, bounds: Bounds) -> Scene {
        Scene { bounds, ..self }
    }

    pub(crate) const fn act(self, act: Act) -> Scene {
        Scene { act, ..self }
    }
}

use Event::{Die, Fill, Release, Void};
use Who::{Gap, Live, Mortal, Past, SettledRows};

/// The first requests of all callers.
pub(crate) const COMING: &[Scene] = &[
    scene("asking whether there is a lock", "enter known", &[]),
    scene("a lock that there is not", "enter", &[]),
    scene("a lock that nobody has", "enter known", &[Past]),
    scene("a lock that nobody has", "enter", &[Past]).knowing_the_time(),
    scene("a lock that somebody has", "enter known", &[Live]),
    scene("a lock that somebody has", "enter", &[Live]).knowing_the_time(),
];

/// Requests of callers that wait, with or without a time-out.
pub(crate) const WAITING: &[Scene] = &[
    scene("polling a lock that is being taken", "read lock", &[Gap]),
    scene("polling from the slot", "read lock", &[Live]).only_polling(),
    scene("renewing the slot", "renew slot", &[Live]),
    scene("a ticket", "draw", &[Live, Live]),
    scene("a row", "join", &[Live, Live]),
    scene("reading the queue", "read queue", &[Live, Live]),
    scene("renewing the row", "renew row", &[Live, Live]),
    scene("giving oneself a slot", "fill", &[Live, Live]).after(&[(3_000, Release)]),
    scene("giving oneself a free lock", "fill", &[Live, Live])
        .after(&[(3_000, Release), (3_000, Release)]),
    scene("cleaning behind a filled slot", "clean", &[Live, Live]).after(&[(3_000, Release)]),
    scene("a dead holder", "evict", &[Mortal]).after(&[(2_000, Die)]),
    scene("a dead successor", "evict a successor", &[Live, Mortal]).after(&[(2_000, Die)]),
    scene("a gap", "void gap", &[Live, Live, Gap]).after(&[(3_000, Release)]),
    scene("a dead row", "void dead", &[Live, Live, Mortal])
        .after(&[(2_000, Die), (34_000, Release)]),
    scene("settling a row found void", "void own", &[Live, Live]).after(&[(2_000, Void)]),
    scene("leaving a row found void", "leave", &[Live, Live]).after(&[(2_000, Void)]),
    scene("removing the row of a slot", "remove row", &[Live, Live])
        .besides(Besides::Late("leave"))
        .after(&[(2_000, Void), (11_000, Fill)]),
    scene("renewing on promotion", "renew hold", &[Live])
        .besides(Besides::Throttled("renew slot"))
        .after(&[(19_000, Release)]),
];

/// Requests for one of two calls that wait together. The call before them takes a slot, and sends none of these requests itself.
pub(crate) const TOGETHER: &[Scene] = &[
    scene("tickets for two", "draw", &[Live]).act(Act::AcquireTogether),
    scene("a row for two", "join", &[Live]).act(Act::AcquireTogether),
    scene("reading the queue", "read queue", &[Live]).act(Act::AcquireTogether),
    scene("renewing a row for two", "renew row", &[Live]).act(Act::AcquireTogether),
    scene("giving two a slot", "fill", &[Live])
        .act(Act::AcquireTogether)
        .after(&[(3_000, Release)]),
];

/// Requests of callers that do not wait.
pub(crate) const AT_ONCE: &[Scene] = &[
    scene("a dead holder", "evict", &[Mortal])
        .after(&[(2_000, Die)])
        .comes(60),
    scene("a holder without a date", "date", &[Past, Live]),
    scene("reading the queue", "read queue", &[Gap]).comes(60),
    scene("a gap", "void gap", &[Gap]).comes(60),
    scene("a dead row", "void dead", &[Live, Live, Mortal])
        .after(&[(2_000, Die), (3_000, Release), (4_000, Release)])
        .comes(60),
    scene("over the settled", "enter over", &[Gap]).comes(60),
    scene("passing the settled", "settle", &[SettledRows]).comes(60),
    scene("cleaning the settled", "clean", &[SettledRows]).comes(60),
];

/// Requests of clients whose callers have gone. The clean-up itself meets faults.
pub(crate) const CLEANING_UP: &[Scene] = &[
    scene("a slot", "give up", &[Live]).act(Act::Leave(2)),
    scene("a row", "void own", &[Live, Live]).act(Act::Leave(2)),
    scene("a place in the queue", "leave", &[Live, Live]).act(Act::Leave(2)),
    scene("an enter in doubt", "read lock", &[])
        .act(Act::Leave(0))
        .besides(Besides::Unanswered("enter")),
    scene("a lock taken in doubt", "release", &[])
        .act(Act::Leave(0))
        .besides(Besides::Unanswered("enter")),
    scene("a slot taken in doubt", "give up", &[Live])
        .act(Act::Leave(0))
        .besides(Besides::Unanswered("enter known")),
];

/// Requests of holders.
pub(crate) const HOLDING: &[Scene] = &[
    scene("renewing", "renew hold", &[]).act(Act::Hold),
    scene("releasing", "release", &[]).act(Act::Release),
    scene("releasing behind a dropped guard", "release", &[]).act(Act::DropGuard),
    scene("passing on beside a check", "pass on", &[]).act(Act::PassOn),
];

/// Every request that a client sends for a lock.
pub(crate) const VERBS: [&str; 21] = [
    "enter",
    "enter known",
    "enter over",
    "draw",
    "join",
    "read lock",
    "read queue",
    "fill",
    "settle",
    "evict",
    "evict a successor",
    "void gap",
    "void dead",
    "void own",
    "leave",
    "remove row",
    "give up",
    "renew slot",
    "renew row",
    "clean",
    "date",
];

/// Requests without a scene, and the reason.
pub(crate) const WAITING_NEVER: &[(&str, &str)] = &[
    (
        "enter over",
        "who waits draws a ticket and gets a slot, also over settled tickets",
    ),
    (
        "date",
        "who waits watches the beat itself, and only cleans up before a queue that is too long for it",
    ),
    (
        "settle",
        "who waits raises the watermark by the slot that it gives",
    ),
    (
        "give up",
        "only when its caller has gone: among those that clean up",
    ),
];
pub(crate) const AT_ONCE_NEVER: &[(&str, &str)] = &[
    ("draw", "who does not wait takes no place in the queue"),
    ("join", "who does not wait takes no place in the queue"),
    ("fill", "who does not wait takes no place in the queue"),
    (
        "renew slot",
        "who does not wait takes no place in the queue",
    ),
    ("renew row", "who does not wait takes no place in the queue"),
    ("void own", "who does not wait takes no place in the queue"),
    ("leave", "who does not wait takes no place in the queue"),
    (
        "remove row",
        "who does not wait takes no place in the queue",
    ),
    ("give up", "who does not wait takes no place in the queue"),
    (
        "read lock",
        "the answer to its enter shows the lock; in doubt it is read by those that clean up",
    ),
    (
        "evict a successor",
        "a dead successor is promoted by the eviction of its holder, and evicted as a holder",
    ),
];
