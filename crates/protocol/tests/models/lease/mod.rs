//! Leases, checked exhaustively in small integer time: an owner that is evicted has stopped believing before.
//!
//! A lease is two ticks long, and time runs for more than two leases. The owner's clock runs 2 % slow, or fast, beside the observer's.
//! Between any two ticks, in any order:
//!
//! - The owner takes its place and renews it. It takes the place by an enter, or by a row that another client gives a slot. The slot gets
//!   the beat that this client saw.
//! - Every request is sent, applied and answered in steps of their own.
//! - The owner retries one request, and another copy of it applies at any time or never. The copy of a join may apply even after its row
//!   was removed.
//! - An observer polls the lock item and then perhaps the row, as often as it likes.
//!
//! The model leaves out what makes no difference to the proof. These are steps that may as well be taken just before the next step that can
//! tell, and state that no client reads any more. A comment gives the reason at each place.
mod observer;
mod owner;
mod rules;
mod world;

use std::time::Duration;

use fairlock_protocol::entry::{Entry, ServerTime};
use fairlock_protocol::moment::HostTime;
use fairlock_protocol::stamps::{ALLOWANCE, Reading, Wall};
use fairlock_protocol::ticket::Sequence;
use fairlock_protocol::{lease, moment};

use owner::Write;
use rules::{Mutant, Rules};
use world::{STOPPED, Setup};

use crate::blank;
use crate::explore::{Report, Search};

const SLOW_OWNER: u8 = 98;
const FAST_OWNER: u8 = 102;

fn setup(first: Write, renewals: u8, copies: u8, rate: u8) -> Setup {
    Setup {
        first,
        renewals,
        polls: u8::from(first == Write::Join),
        copies,
        horizon: match first {
            Write::Enter => 7,
            _ => 5,
        },
        stretches: false,
        rules: Rules { mutant: None, rate },
    }
}

/// Leases of two ticks and of three: each beat's own lease counts.
fn stretching(first: Write, renewals: u8, copies: u8) -> Setup {
    Setup {
        stretches: true,
        ..setup(first, renewals, copies, SLOW_OWNER)
    }
}

fn explore(setup: &Setup) -> Report {
    Search::new(setup, |_| false, |_| true).run()
}

#[test]
fn an_evicted_holder_has_stopped_believing() {
    for (setup, states) in [
        (setup(Write::Enter, 3, 1, SLOW_OWNER), 3_495),
        (setup(Write::Enter, 3, 1, FAST_OWNER), 3_495),
        (setup(Write::Join, 2, 0, SLOW_OWNER), 76_766),
        (setup(Write::Join, 1, 1, SLOW_OWNER), 110_851),
        (setup(Write::Join, 1, 0, FAST_OWNER), 14_944),
        (stretching(Write::Enter, 3, 1), 24_914),
        (stretching(Write::Join, 2, 0), 369_522),
    ] {
        explore(&setup).proves(states);
    }
}

#[test]
fn every_rule_of_leases_that_is_changed_is_caught() {
    use Mutant as By;
    let enters = |renewals, copies| setup(Write::Enter, renewals, copies, SLOW_OWNER);
    let joins = |renewals, copies| setup(Write::Join, renewals, copies, SLOW_OWNER);
    let mut soon = joins(2, 1);
    soon.horizon = 3;
    for (mutant, mut setup) in [
        (By::LongestLease, stretching(Write::Enter, 2, 0)),
        (By::LongestLease, stretching(Write::Join, 2, 0)),
        (By::LeaseAsShown, stretching(Write::Enter, 2, 0)),
        (By::LeaseAsShown, stretching(Write::Join, 2, 0)),
        (By::LeaseFromTheLastLook, joins(1, 0)),
        (By::LeaseFromTheAnswer, enters(2, 0)),
        (By::LeaseFromTheNewestRenewal, joins(2, 0)),
        (By::LeaseFromTheRetry, enters(2, 1)),
        (By::LeaseLongerThanWritten, enters(2, 0)),
        (By::NoMargin, enters(2, 0)),
        (By::BeatsCountedInTheTable, soon),
        (By::BeatsGoBack, enters(2, 1)),
        (By::WatchFromTheSending, enters(2, 0)),
        (By::WatchIgnoresBeats, enters(2, 0)),
        (By::EvictWithoutBeat, enters(2, 0)),
    ] {
        setup.rules.mutant = Some(mutant);
        explore(&setup).catches(STOPPED);
    }
}

/// Of the rules of a run, a watch reads whether a mutant hides something from it.
const RIGHT: Rules = Rules {
    mutant: None,
    rate: FAST_OWNER,
};

fn at(seconds: u64) -> moment::Moment {
    moment::Moment(Duration::from_secs(seconds))
}

#[test]
fn neither_a_refused_renewal_for_a_shorter_lease_nor_a_late_answer_takes_anything_away() {
    let on_time = |seconds| (at(seconds), Duration::ZERO);
    let mut beats = lease::RenewalHistory::taken(on_time(0), rules::LEASE);
    beats.asks_for(rules::LONG_LEASE);
    beats.renewed(1, on_time(10));
    let believed = beats.believed_until(1, rules::LONG_LEASE);
    let before = beats.asks_for(rules::LEASE);
    assert!(beats.believed_until(1, rules::LONG_LEASE) < believed);
    beats.renewal_refused(before);
    assert_eq!(beats.believed_until(1, rules::LONG_LEASE), believed);
    beats.renewed(1, on_time(5));
    assert_eq!(beats.established(1), Some(at(10)));
}

/// A late copy of a request gives a nonce another place, whose lease begins then.
#[test]
fn a_place_that_a_nonce_gets_anew_is_watched_anew() {
    let (place, first) = watched(rules::LEASE);
    let again = Entry {
        ticket: first.ticket.next().unwrap(),
        ..first.clone()
    };
    let mut watches = lease::LivenessTracker::default();
    watches.poll(at(0), |_| true, [(place, &first)].into_iter());
    assert!(watches.is_dead(place, &first, at(1)));
    watches.poll(at(1), |_| true, [(place, &again)].into_iter());
    assert!(!watches.is_dead(place, &again, at(1)));
}

fn reads(now: Duration) -> Reading {
    blank::reads(Some(now), Wall::Shows(HostTime(now)))
}

#[test]
fn what_was_given_back_is_dead_at_its_end_and_is_never_late() {
    let (place, plain) = watched_for_five_seconds();
    let kept = Entry {
        given_back: true,
        ..plain.clone()
    };
    let moment = Duration::from_millis(1);
    let ends = Duration::from_secs(105);
    let is_over = |entry, now| lease::is_over(entry, reads(now));
    assert!(!is_over(&kept, ends) && is_over(&kept, ends + moment));
    let ends = ends + ALLOWANCE;
    assert!(!is_over(&plain, ends) && is_over(&plain, ends + moment));
    let mut watches = lease::LivenessTracker::default();
    watches.poll(at(0), |_| true, [(place, &kept)].into_iter());
    assert_eq!(watches.dead_at(place, &kept), Some(at(5)));
    assert!(!watches.is_late(place, &kept, at(4)) && watches.is_late(place, &plain, at(4)));
    assert!(!watches.is_dead(place, &kept, at(4)) && watches.is_dead(place, &kept, at(5)));
}

/// Nobody who knows no sessions can tell whether one lives.
#[test]
fn an_entry_with_a_session_is_never_dead() {
    let (place, plain) = watched_for_five_seconds();
    let bound = Entry {
        session: Some("of a client".into()),
        ..plain.clone()
    };
    let late = reads(Duration::from_secs(10_000));
    assert!(lease::is_over(&plain, late) && !lease::is_over(&bound, late));
    let boot = Some(ServerTime(Duration::from_secs(101)));
    assert!(lease::ended_before(&plain, boot) && !lease::ended_before(&bound, boot));
    let early = reads(Duration::from_secs(10));
    assert!(plain.redated(early).is_some() && bound.redated(early).is_none());
    let mut watches = lease::LivenessTracker::default();
    for seconds in [0, 10_000] {
        watches.poll(at(seconds), |_| true, [(place, &bound)].into_iter());
    }
    let now = at(10_000);
    assert!(!watches.is_dead(place, &bound, now) && !watches.is_late(place, &bound, now));
    assert_eq!(watches.dead_at(place, &bound), None);
    assert!(watches.is_empty());
}

fn watched(lease: Duration) -> (lease::EntryLocation, Entry) {
    let mark = owner::Mark { beat: 0, lease };
    observer::watched(lease::EntryLocation::LockItem, mark, &RIGHT)
}

/// An entry, renewed a hundred seconds after 1970.
fn watched_for_five_seconds() -> (lease::EntryLocation, Entry) {
    let (place, plain) = watched(Duration::from_secs(5));
    let at = Some(Duration::from_secs(100));
    let stamps = blank::both(at, at);
    (place, Entry { stamps, ..plain })
}
