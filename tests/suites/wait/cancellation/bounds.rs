//! Every request that is sent because a hold is bounded, or given back in parts.

use super::scene::{Act, Bounds, Event, Scene, Who, scene};
use Event::Comes;
use Who::Shares;

const SHORT: Bounds = bounds(5, 0, 0);
const LONGEST: Bounds = bounds(0, 5, 0);
const MARGIN: Bounds = bounds(0, 0, 5);
const ALL_THREE: Bounds = bounds(3, 5, 4);

const fn bounds(min: u32, max: u32, margin: u32) -> Bounds {
    Bounds { min, max, margin }
}

/// Requests of holders.
pub(crate) const BOUNDED: &[Scene] = &[
    scene("keeping a short hold", "renew hold", &[])
        .act(Act::Release)
        .bounded(SHORT),
    scene(
        "keeping a short hold behind a dropped guard",
        "renew hold",
        &[],
    )
    .act(Act::DropGuard)
    .bounded(SHORT),
    scene("releasing a short hold in time", "release", &[])
        .act(Act::Release)
        .bounded(SHORT),
    scene("releasing a hold that was long enough", "release", &[])
        .act(Act::Release)
        .holds(7)
        .bounded(SHORT),
    scene("releasing what has lasted too long", "release", &[])
        .act(Act::Hold)
        .bounded(LONGEST),
    scene("releasing before it has lasted too long", "release", &[])
        .act(Act::Release)
        .bounded(LONGEST),
    scene("renewing with a safety margin", "renew hold", &[])
        .act(Act::Hold)
        .bounded(MARGIN),
    scene("releasing with a safety margin", "release", &[])
        .act(Act::Release)
        .bounded(MARGIN),
    scene(
        "keeping a short hold of bounds and a margin",
        "renew hold",
        &[],
    )
    .act(Act::Release)
    .holds(1)
    .bounded(ALL_THREE),
    scene(
        "releasing what has lasted too long, after its margin",
        "release",
        &[],
    )
    .act(Act::Hold)
    .bounded(ALL_THREE),
];

/// Requests of callers that want their hold to be short, and for which a shorter lease is asked before they have their guard.
pub(crate) const SHORTENED: &[Scene] =
    &[
        scene("a shorter lease after a turn", "renew hold", &[Who::Live])
            .after(&[(3_000, Event::Release)])
            .bounded(LONGEST),
    ];

const TEN: &[(u64, Event)] = &[(1_000, Comes(10))];

/// Requests of holders that give back ten of their permits.
pub(crate) const IN_PARTS: &[Scene] = &[
    scene("giving back a part of the lock", "downgrade", &[]).act(Act::ReleaseSome),
    scene("giving back a part", "downgrade", &[Shares(4)])
        .asks(60)
        .act(Act::ReleaseSome)
        .holds(3)
        .after(TEN),
    scene("letting others in behind a part", "admit", &[])
        .act(Act::ReleaseSome)
        .holds(3)
        .after(TEN),
    scene("releasing what a part has left", "release", &[]).act(Act::ReleaseSome),
];
