//! Each oracle notices that its promise is not kept.

use super::*;
use crate::agenda::SECOND;
use crate::host::PERMITS;
use crate::seen::{Grant, How, Outcome, Why};

fn grant(hold: u32, ticket: u64, until: At) -> Seen {
    Seen::Granted(Grant {
        hold,
        lock: 0,
        ticket,
        place: ticket,
        until,
        permits: PERMITS,
        min: None,
        max: None,
        begins_later: false,
        margin: 0,
    })
}

/// A grant with bounds and a margin of a second each.
fn bounded(hold: u32, ticket: u64, until: At) -> Seen {
    Seen::Granted(Grant {
        hold,
        lock: 0,
        ticket,
        place: ticket,
        until,
        permits: PERMITS,
        min: Some(60 * SECOND),
        max: Some(90 * SECOND),
        begins_later: false,
        margin: 20 * SECOND,
    })
}

fn ended(hold: u32, how: How) -> Seen {
    Seen::Ended { hold, lock: 0, how }
}

/// The oracle that fails, if one does.
fn fails(seen: impl IntoIterator<Item = (At, Seen)>) -> Option<&'static str> {
    let mut oracles = Oracles::of(&Plan::of(1));
    let mut seen = seen.into_iter();
    let violation = seen.find_map(|(at, seen)| oracles.see(at * SECOND, &seen).err());
    let violation = violation.or_else(|| oracles.rest(1000 * SECOND).err());
    violation.map(|it| it.oracle)
}

fn wrote(hold: u32, token: u64, accepted: bool, believes: bool) -> Seen {
    Seen::Wrote {
        hold,
        lock: 0,
        token,
        place: token,
        accepted,
        believes,
    }
}

fn broken(ticket: u64) -> Seen {
    Seen::Broken { lock: 0, ticket }
}

#[test]
fn two_believers_are_noticed_unless_one_was_broken() {
    let first = grant(1, 1, 30 * SECOND);
    let second = grant(2, 2, 40 * SECOND);
    assert_eq!(
        fails([(1, first.clone()), (2, second.clone())]),
        Some("exclusion")
    );
    assert_eq!(fails([(1, first.clone()), (31, second.clone())]), None);
    assert_eq!(
        fails([(1, first.clone()), (2, broken(1)), (3, second)]),
        None
    );
    let gone = Seen::Unseated {
        lock: 0,
        ticket: 1,
        by_release: false,
    };
    assert_eq!(fails([(1, first.clone()), (2, gone)]), Some("exclusion"));
    let again = Seen::Extended {
        hold: 1,
        lock: 0,
        until: 50 * SECOND,
    };
    assert_eq!(fails([(1, first), (31, again)]), Some("exclusion"));
}

#[test]
fn belief_beyond_the_lease_is_noticed() {
    let stands = Seen::Stands {
        lock: 0,
        ticket: 1,
        ends: 29 * SECOND,
    };
    assert_eq!(
        fails([(0, stands), (1, grant(1, 1, 30 * SECOND))]),
        Some("belief")
    );
}

#[test]
fn grants_out_of_order_are_noticed() {
    let both = [(1, grant(1, 2, 2 * SECOND)), (3, grant(2, 1, 9 * SECOND))];
    assert_eq!(fails(both), Some("order"));
}

#[test]
fn a_fence_that_lets_an_older_token_pass_is_noticed() {
    let newer = wrote(2, 2, true, true);
    assert_eq!(
        fails([(1, newer.clone()), (2, wrote(1, 1, true, false))]),
        Some("fencing")
    );
    assert_eq!(
        fails([(1, newer.clone()), (2, wrote(1, 1, false, true))]),
        Some("fencing")
    );
    assert_eq!(fails([(1, newer), (2, wrote(1, 1, false, false))]), None);
}

#[test]
fn lost_data_are_noticed() {
    let (lock, data) = (0, (1, 1));
    let (leaves, left) = (Seen::Leaves { lock, data }, Seen::HasLeft { lock, data });
    let found = |ticket, data| Seen::Found {
        lock,
        ticket,
        place: ticket,
        data,
    };
    let wrong = [(1, leaves.clone()), (2, left.clone()), (3, found(2, None))];
    assert_eq!(fails(wrong), Some("data"));
    let right = [(1, leaves), (2, left), (3, found(2, Some(data)))];
    assert_eq!(fails(right), None);
    assert_eq!(fails([(1, found(2, Some(data)))]), Some("data"));
}

#[test]
fn a_hold_that_lasts_for_too_long_or_too_short_is_noticed() {
    assert_eq!(
        fails([(1, bounded(1, 1, 100 * SECOND))]),
        Some("longest hold")
    );
    let released = |outcome| Seen::Released {
        hold: 1,
        lock: 0,
        outcome,
    };
    let turn = |then: At| {
        [
            (1, bounded(1, 1, 50 * SECOND)),
            (2, Seen::Taken { hold: 1 }),
            (9, ended(1, How::GivenBack)),
            (9, released(Outcome::KeptOn)),
            (then, grant(2, 2, 900 * SECOND)),
        ]
    };
    assert_eq!(fails(turn(50)), Some("shortest hold"));
    assert_eq!(fails(turn(61)), None);
}

#[test]
fn a_grant_within_the_margin_of_a_lost_hold_is_noticed() {
    let turn = |then: At| {
        [
            (1, bounded(1, 1, 50 * SECOND)),
            (2, Seen::Taken { hold: 1 }),
            (50, ended(1, How::Lost(Why::Expired))),
            (then, grant(2, 2, 900 * SECOND)),
        ]
    };
    assert_eq!(fails(turn(60)), Some("margin"));
    assert_eq!(fails(turn(71)), None);
}

#[test]
fn a_holder_that_does_not_hear_of_a_break_is_noticed() {
    let should_know = Seen::ShouldKnow { hold: 1, lock: 0 };
    let held = (1, grant(1, 1, 90 * SECOND));
    let breaks = [held, (2, broken(1)), (20, should_know.clone())];
    assert_eq!(fails(breaks.clone()), Some("told in time"));
    let [held, broken, due] = breaks;
    let told = (3, ended(1, How::Lost(Why::Broken)));
    assert_eq!(fails([held, broken, told, due]), None);
}

#[test]
fn a_holder_that_does_not_hear_of_a_request_is_noticed() {
    let (hold, lock) = (1, 0);
    let due = || (20, Seen::ShouldYield { hold, lock });
    let held = || (1, grant(1, 1, 90 * SECOND));
    assert_eq!(fails([held(), due()]), Some("told in time"));
    let told = (3, Seen::AskedToYield { hold, lock });
    assert_eq!(fails([held(), told, due()]), None);
    assert_eq!(fails([held(), (3, ended(1, How::GivenBack)), due()]), None);
}

#[test]
fn a_grant_before_a_lease_is_over_is_noticed() {
    let turn = |then: At| {
        let leased = Seen::Leased {
            hold: 1,
            lock: 0,
            place: 1,
            permits: PERMITS,
            until: 60 * SECOND,
        };
        let held = (1, grant(1, 1, 30 * SECOND));
        let released = (2, ended(1, How::GivenBack));
        [
            held,
            released,
            (3, leased),
            (then, grant(2, 2, 90 * SECOND)),
        ]
    };
    assert_eq!(fails(turn(59)), Some("exclusion"));
    assert_eq!(fails(turn(61)), None);
}

#[test]
fn calls_that_are_answered_late_twice_or_never_are_noticed() {
    let (call, lock) = (1, 0);
    let asked = |late| Seen::Asked {
        call,
        lock,
        due: 10 * SECOND,
        late,
    };
    let answered = |late| Seen::Answered { call, lock, late };
    assert_eq!(fails([(1, asked(0)), (9, answered(0))]), None);
    assert_eq!(fails([(1, asked(0)), (11, answered(0))]), Some("calls"));
    assert_eq!(fails([(1, asked(0)), (11, answered(2 * SECOND))]), None);
    let twice = [(1, asked(0)), (2, answered(0)), (3, answered(0))];
    assert_eq!(fails(twice), Some("calls"));
    assert_eq!(fails([(1, asked(0))]), Some("calls"));
    let cost = |requests| Seen::Cost {
        lock,
        requests,
        most: 2,
    };
    assert_eq!(fails([(1, cost(2)), (2, cost(3))]), Some("calls"));
}

#[test]
fn a_reason_that_is_not_true_is_noticed() {
    for why in [
        Why::Expired,
        Why::Broken,
        Why::Deleted,
        Why::Evicted,
        Why::MaxHold,
    ] {
        let told = [(1, grant(1, 1, 30 * SECOND)), (2, ended(1, How::Lost(why)))];
        assert_eq!(fails(told), Some("told once, with its reason"), "{why:?}");
    }
    let twice = [
        (1, grant(1, 1, 30 * SECOND)),
        (2, ended(1, How::GivenBack)),
        (3, ended(1, How::Crashed)),
    ];
    assert_eq!(fails(twice), Some("told once, with its reason"));
}
