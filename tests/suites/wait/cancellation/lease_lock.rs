//! Every request of a lock that a name holds for a time. No background task runs for a lease, so a lease may be left behind.

use super::scene::{ALL, Act, Event, Scene, Step, Who, scene};
use Event::{Comes, Die, Release};
use Who::{Gap, Live, Mortal};

const fn lease(what: &'static str, verb: &'static str, queue: &'static [Who], step: Step) -> Scene {
    scene(what, verb, queue).act(Act::Lease(step))
}

/// The callers do not come back.
pub(crate) const LEASES: &[Scene] = &[
    lease("a lock that nobody has", "enter", &[], Step::Acquire),
    lease("asking for the time", "read lock", &[], Step::Acquire),
    lease("a dead holder", "evict", &[Mortal], Step::Acquire)
        .after(&[(2_000, Die)])
        .comes(60),
    lease("over the settled", "enter over", &[Gap], Step::Acquire).comes(60),
    lease("a turn that comes", "lease out", &[Live], Step::InTurn).after(&[(3_000, Release)]),
    lease("behind a dead holder", "lease out", &[Mortal], Step::InTurn).after(&[(2_000, Die)]),
    lease("a guard", "lease out", &[], Step::FromGuard),
    lease(
        "a guard after a turn",
        "lease out",
        &[Live],
        Step::FromGuard,
    )
    .after(&[(3_000, Release)]),
    lease("extending", "extend", &[], Step::Extend),
    lease("releasing", "release", &[], Step::Release),
    lease("releasing before a writer", "release", &[], Step::Release)
        .holds(3)
        .after(&[(1_000, Comes(ALL))]),
];

/// The callers ask again by the same name, from another process.
pub(crate) const ASKED_AGAIN: &[Scene] = &[
    lease("a lock that nobody has", "enter", &[], Step::Acquire).asked_again(),
    lease("asking for the time", "read lock", &[], Step::Acquire).asked_again(),
    lease("over the settled", "enter over", &[Gap], Step::Acquire)
        .comes(60)
        .asked_again(),
    lease("extending", "extend", &[], Step::Extend).asked_again(),
    lease("releasing", "release", &[], Step::Release).asked_again(),
];
