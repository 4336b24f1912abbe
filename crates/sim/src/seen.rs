//! What the oracles see: one neutral event for whatever matters to a promise, with numbers in place of names.

use crate::agenda::At;

/// A lock.
pub(crate) type LockNo = usize;

/// What was seen.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A caller asks. Its call is answered by then, unless its host is late.
    Asked {
        call: u32,
        lock: LockNo,
        due: At,
        late: At,
    },
    /// A call is answered, or nobody waits for its answer any more.
    Answered { call: u32, lock: LockNo, late: At },
    /// The caller has gone, or its host has.
    Left { call: u32 },
    /// A caller is refused, though what is in its way was over before it asked.
    KeptOut { lock: LockNo, ticket: u64 },
    /// A caller has the lock until then.
    Granted(Grant),
    /// A caller takes its hold, and begins to use it.
    Taken { hold: u32 },
    /// A holder believes until then.
    Extended { hold: u32, lock: LockNo, until: At },
    /// The bounds of a hold begin.
    Begun { hold: u32 },
    /// A holder believes no more.
    Ended { hold: u32, lock: LockNo, how: How },
    /// What became of a release.
    Released {
        hold: u32,
        lock: LockNo,
        outcome: Outcome,
    },
    /// Its holder counts on so many permits only.
    Parted { hold: u32, lock: LockNo, keeps: u64 },
    /// It has become a lease, which lasts until then at least.
    Leased {
        hold: u32,
        lock: LockNo,
        place: u64,
        permits: u64,
        until: At,
    },
    /// An operator broke this place.
    Broken { lock: LockNo, ticket: u64 },
    /// A holder on a healthy link has been told by now that its hold was broken.
    ShouldKnow { hold: u32, lock: LockNo },
    /// The same of a request to give way, unless the hold has ended.
    ShouldYield { hold: u32, lock: LockNo },
    /// A holder has been told of one.
    AskedToYield { hold: u32, lock: LockNo },
    /// The item shows a new beat of this ticket's entry, whose lease ends then for those who watch it.
    Stands { lock: LockNo, ticket: u64, ends: At },
    /// The entry of a ticket is not on the item any more. Its own release did it, or not.
    Unseated {
        lock: LockNo,
        ticket: u64,
        by_release: bool,
    },
    /// A hold wrote to the resource that the lock protects.
    Wrote {
        hold: u32,
        lock: LockNo,
        token: u64,
        place: u64,
        accepted: bool,
        believes: bool,
    },
    /// A hold is about to leave these data.
    Leaves { lock: LockNo, data: Data },
    /// It has left them.
    HasLeft { lock: LockNo, data: Data },
    /// A holder found these data.
    Found {
        lock: LockNo,
        ticket: u64,
        place: u64,
        data: Option<Data>,
    },
    /// The item went. The tickets of the next one may be smaller.
    Removed { lock: LockNo, is_promised: bool },
    /// A turn, or a refusal, that nothing disturbed took so many requests, where so many are enough.
    Cost {
        lock: LockNo,
        requests: u32,
        most: u32,
    },
}

/// The ticket of the hold that left them, and their number among those that it left.
pub(crate) type Data = (u64, u64);

/// A hold that begins.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) hold: u32,
    pub(crate) lock: LockNo,
    pub(crate) ticket: u64,
    /// The newest ticket of its place, which names its entry.
    pub(crate) place: u64,
    pub(crate) until: At,
    pub(crate) permits: u64,
    pub(crate) min: Option<At>,
    pub(crate) max: Option<At>,
    pub(crate) begins_later: bool,
    /// It stops believing so much before its lease ends.
    pub(crate) margin: At,
}

/// How a hold ended for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Its caller gave it back.
    GivenBack,
    /// Its host crashed.
    Crashed,
    /// Its deadline passed, as its caller noticed before it was told.
    Passed,
    /// It was told that it is lost.
    Lost(Why),
}

/// Why a hold is lost, as its caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Expired,
    Unreachable,
    Evicted,
    Broken,
    Deleted,
    MaxHold,
    ShutDown,
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    HandedOff,
    /// To the next caller at its place.
    PassedOn,
    KeptOn,
    ReleasedEarlier,
    /// It is a lease.
    Leased,
    NotOurs,
    Lost,
    Failed,
}

impl Outcome {
    /// Whether the hold stood there until it was released.
    pub(crate) fn is_released(self) -> bool {
        matches!(
            self,
            Outcome::HandedOff | Outcome::PassedOn | Outcome::KeptOn | Outcome::ReleasedEarlier
        )
    }
}

impl Seen {
    /// The lock that it is about, if it is about one alone.
    pub(crate) fn lock(&self) -> Option<LockNo> {
        match self {
            Seen::Granted(grant) => Some(grant.lock),
            Seen::Left { .. } | Seen::Begun { .. } | Seen::Taken { .. } => None,
            Seen::Asked { lock, .. }
            | Seen::Answered { lock, .. }
            | Seen::KeptOut { lock, .. }
            | Seen::Extended { lock, .. }
            | Seen::Ended { lock, .. }
            | Seen::Released { lock, .. }
            | Seen::Parted { lock, .. }
            | Seen::Leased { lock, .. }
            | Seen::Broken { lock, .. }
            | Seen::ShouldKnow { lock, .. }
            | Seen::ShouldYield { lock, .. }
            | Seen::AskedToYield { lock, .. }
            | Seen::Stands { lock, .. }
            | Seen::Unseated { lock, .. }
            | Seen::Wrote { lock, .. }
            | Seen::Leaves { lock, .. }
            | Seen::HasLeft { lock, .. }
            | Seen::Found { lock, .. }
            | Seen::Removed { lock, .. }
            | Seen::Cost { lock, .. } => Some(*lock),
        }
    }
}
