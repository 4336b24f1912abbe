//! Every request of callers that share a lock, or hold some permits of it, and how a client is brought to send it.

use super::scene::{ALL, Act, Besides, Event, Scene, Who, scene};
use Event::{Comes, Die, Release};
use Who::{Gap, Live, MortalShares, Past, Shares};

const fn shares(what: &'static str, verb: &'static str, queue: &'static [Who]) -> Scene {
    scene(what, verb, queue).asks(1)
}

/// Asks for ten permits of a lock, of which too few are left, or just enough.
const fn ten(what: &'static str, verb: &'static str, queue: &'static [Who]) -> Scene {
    scene(what, verb, queue).asks(10)
}

/// Requests of callers that wait.
pub(crate) const SHARING: &[Scene] = &[
    shares("a lock that was never used", "share", &[]),
    shares("a lock that there is not", "enter", &[]),
    shares("beside a reader", "share", &[Shares(1)]),
    ten("as many as are left", "share", &[Shares(30), Shares(24)]),
    shares("the slot behind a writer", "enter known", &[Live]),
    shares(
        "a ticket behind a writer in the queue",
        "draw",
        &[Shares(1), Live],
    ),
    shares(
        "a row behind a writer in the queue",
        "join",
        &[Shares(1), Live],
    ),
    shares("a slot behind a writer", "fill", &[Shares(1), Live]).after(&[(3_000, Release)]),
    shares("giving oneself a free lock", "fill", &[Shares(1), Live])
        .after(&[(3_000, Release), (3_000, Release)]),
    ten(
        "the slot of who waits for many",
        "enter known",
        &[Shares(60)],
    ),
    ten(
        "polling from that slot",
        "read lock",
        &[Shares(60), Shares(4)],
    ),
    ten(
        "renewing with the first slot",
        "renew hold",
        &[Shares(40), Shares(24)],
    )
    .besides(Besides::Throttled("renew slot"))
    .after(&[(19_000, Release)]),
    ten(
        "renewing on admission",
        "renew share",
        &[Past, Shares(40), Shares(24), Shares(20)],
    )
    .besides(Besides::Throttled("renew slot"))
    .after(&[(19_000, Release)]),
    ten(
        "a dead one beside others",
        "evict",
        &[Shares(30), MortalShares(30)],
    )
    .after(&[(2_000, Die)]),
    ten(
        "a dead one before others",
        "evict",
        &[MortalShares(30), Shares(30)],
    )
    .after(&[(2_000, Die)]),
    ten("the only one, and dead", "evict", &[MortalShares(60)]).after(&[(2_000, Die)]),
    ten(
        "coming in behind the dead",
        "admit",
        &[Past, Shares(30), MortalShares(30), Shares(20)],
    )
    .after(&[(2_000, Die)]),
];

/// Requests of callers that do not wait.
pub(crate) const SHARING_AT_ONCE: &[Scene] = &[
    shares("a lock that there is not", "enter", &[]),
    shares("beside a reader", "share", &[Shares(1)]),
    ten("two without a date", "date", &[Shares(30), Shares(30)]),
    ten(
        "a dead one beside others",
        "evict",
        &[Shares(30), MortalShares(30)],
    )
    .after(&[(2_000, Die)])
    .comes(60),
    shares("over the settled", "enter over", &[Gap]).comes(60),
];

/// Requests of clients whose callers have gone.
pub(crate) const SHARING_CLEANING_UP: &[Scene] = &[
    ten("a slot", "give up", &[Shares(60)]).act(Act::Leave(2)),
    shares("permits in doubt", "read lock", &[Shares(1)])
        .act(Act::Leave(0))
        .besides(Besides::Unanswered("share")),
    shares("permits taken in doubt", "release", &[Shares(1)])
        .act(Act::Leave(0))
        .besides(Besides::Unanswered("share")),
    ten(
        "permits that it was given as it left",
        "release",
        &[Shares(60), Shares(4)],
    )
    .act(Act::Leave(2))
    .besides(Besides::Late("give up"))
    .after(&[(2_500, Release)]),
];

const A_WRITER: &[(u64, Event)] = &[(1_000, Comes(ALL))];
const A_READER: &[(u64, Event)] = &[(1_000, Comes(1))];
const TEN: &[(u64, Event)] = &[(1_000, Comes(10))];
const TEN_TWICE: &[(u64, Event)] = &[(1_000, Comes(10)), (1_500, Comes(10))];

/// Requests of holders, of the lock or of some of its permits.
pub(crate) const SHARING_HOLDING: &[Scene] = &[
    shares("renewing beside another", "renew share", &[Shares(1)]).act(Act::Hold),
    shares("releasing beside another", "release", &[Shares(1)]).act(Act::Release),
    shares("releasing with another beside it", "release", &[])
        .act(Act::Release)
        .holds(3)
        .after(A_READER),
    shares(
        "releasing beside another, before a writer",
        "release",
        &[Shares(1)],
    )
    .act(Act::Release)
    .holds(3)
    .after(A_WRITER),
    shares("releasing, alone, before a writer", "release", &[])
        .act(Act::Release)
        .holds(3)
        .after(A_WRITER),
    shares(
        "releasing, the last of two, before a writer",
        "release",
        &[Shares(1)],
    )
    .act(Act::Release)
    .holds(3)
    .after(&[(500, Release), (1_000, Comes(ALL))]),
    shares("releasing behind a dropped guard", "release", &[Shares(1)]).act(Act::DropGuard),
    shares("letting others in", "admit", &[Past, Shares(4)])
        .asks(60)
        .act(Act::Release)
        .holds(3)
        .after(TEN_TWICE),
    scene("downgrading", "downgrade", &[]).act(Act::Downgrade),
    scene("downgrading before a reader", "downgrade", &[])
        .act(Act::Downgrade)
        .holds(3)
        .after(A_READER),
    scene("letting a reader in behind a downgrade", "admit", &[])
        .act(Act::Downgrade)
        .holds(3)
        .after(A_READER),
    scene("downgrading beside others", "downgrade", &[Shares(4)])
        .asks(60)
        .act(Act::Downgrade)
        .holds(3)
        .after(TEN),
    scene("releasing what is left", "release", &[]).act(Act::Downgrade),
    scene("writing data", "write data", &[]).act(Act::SetData),
    scene("removing data", "write data", &[]).act(Act::ClearData),
];
