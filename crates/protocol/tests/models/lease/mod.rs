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
use fairlock_protocol::ticket::Sequence;
use fairlock_protocol::{lease, moment};

use owner::Write;
use rules::{Mutant, Rules};
use world::{STOPPED, Setup};

use crate::explore::{Report, Search};
use crate::watchdog;

/// Much more than any of these searches takes on a slow machine.
const TOO_LONG: Duration = Duration::from_secs(600);

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

fn explore(setup: &Setup) -> Report {
    let what = format!("{setup:?}");
    watchdog::within(TOO_LONG, &what, || {
        Search::new(setup, |_| false, |_| true).run()
    })
}

fn proves(setup: &Setup, states: usize) {
    explore(setup).proves(&format!("{setup:?}"), states);
}

fn catches(mutant: Mutant, mut setup: Setup) {
    setup.rules.mutant = Some(mutant);
    explore(&setup).catches(&format!("{setup:?}"), STOPPED);
}

#[test]
fn an_evicted_holder_that_entered_has_stopped_believing() {
    proves(&setup(Write::Enter, 3, 1, SLOW_OWNER), 3_495);
    proves(&setup(Write::Enter, 3, 1, FAST_OWNER), 3_495);
}

#[test]
fn an_evicted_holder_that_had_a_slot_has_stopped_believing() {
    proves(&setup(Write::Join, 2, 0, SLOW_OWNER), 76_766);
}

#[test]
fn an_evicted_holder_that_had_a_slot_and_retried_has_stopped_believing() {
    proves(&setup(Write::Join, 1, 1, SLOW_OWNER), 110_851);
    proves(&setup(Write::Join, 1, 0, FAST_OWNER), 14_944);
}

/// Leases of two ticks and of three: each beat's own lease counts.
fn stretching(first: Write, renewals: u8, copies: u8) -> Setup {
    Setup {
        stretches: true,
        ..setup(first, renewals, copies, SLOW_OWNER)
    }
}

#[test]
fn an_evicted_holder_that_asked_for_a_longer_lease_has_stopped_believing() {
    proves(&stretching(Write::Enter, 3, 1), 24_914);
    proves(&stretching(Write::Join, 2, 0), 369_522);
}

#[test]
fn a_lease_other_than_the_slot_shows_is_caught() {
    for first in [Write::Enter, Write::Join] {
        catches(Mutant::LongestLease, stretching(first, 2, 0));
    }
}

#[test]
fn a_lease_that_is_believed_in_while_a_shorter_one_is_asked_for_is_caught() {
    for first in [Write::Enter, Write::Join] {
        catches(Mutant::LeaseAsShown, stretching(first, 2, 0));
    }
}

#[test]
fn a_refused_renewal_for_a_shorter_lease_takes_nothing_away() {
    let at = |seconds| moment::Moment(Duration::from_secs(seconds));
    let mut beats = lease::RenewalHistory::taken(at(0), rules::LEASE);
    beats.asks_for(rules::LONG_LEASE);
    beats.renewed(1, at(1));
    let believed = beats.believed_until(1, rules::LONG_LEASE);
    let before = beats.asks_for(rules::LEASE);
    assert!(beats.believed_until(1, rules::LONG_LEASE) < believed);
    beats.renewal_refused(before);
    assert_eq!(beats.believed_until(1, rules::LONG_LEASE), believed);
}

/// A late copy of a request gives a nonce another place, whose lease begins then.
#[test]
fn a_place_that_a_nonce_gets_anew_is_watched_anew() {
    let at = |seconds| moment::Moment(Duration::from_secs(seconds));
    let mark = owner::Mark {
        beat: 0,
        lease: rules::LEASE,
    };
    let rules = Rules {
        mutant: None,
        rate: FAST_OWNER,
    };
    let (place, first) = observer::watched(lease::EntryLocation::LockItem, mark, &rules);
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

/// A judge subtracts a second from the `Date`s that it sees.
#[test]
fn what_was_given_back_is_dead_at_its_end_and_is_never_late() {
    let told = |date| {
        Some(ServerTime(
            Duration::from_millis(date) - Duration::from_secs(1),
        ))
    };
    let at = |seconds| moment::Moment(Duration::from_secs(seconds));
    let mark = owner::Mark {
        beat: 0,
        lease: Duration::from_secs(5),
    };
    let rules = Rules {
        mutant: None,
        rate: FAST_OWNER,
    };
    let (place, plain) = observer::watched(lease::EntryLocation::LockItem, mark, &rules);
    let plain = Entry {
        renewed_at: Some(ServerTime(Duration::from_secs(100))),
        ..plain
    };
    let kept = Entry {
        kept_until: Some(ServerTime(Duration::from_millis(105_500))),
        ..plain.clone()
    };
    let allowance = Duration::from_secs(10);
    let is_over = |entry, date| lease::is_over(entry, allowance, told(date));
    assert!(!is_over(&kept, 105_000) && is_over(&kept, 106_000));
    assert!(!is_over(&plain, 116_000) && is_over(&plain, 116_001));
    assert!(!lease::is_over(&kept, allowance, None));
    let mut watches = lease::LivenessTracker::default();
    watches.poll(at(0), |_| true, [(place, &kept)].into_iter());
    assert_eq!(watches.dead_at(place, &kept), Some(at(5)));
    assert!(!watches.is_late(place, &kept, at(4)) && watches.is_late(place, &plain, at(4)));
    assert!(!watches.is_dead(place, &kept, at(4)) && watches.is_dead(place, &kept, at(5)));
}

#[test]
fn a_late_answer_to_an_earlier_renewal_takes_nothing_away() {
    let at = |seconds| moment::Moment(Duration::from_secs(seconds));
    let mut beats = lease::RenewalHistory::taken(at(0), rules::LEASE);
    beats.renewed(1, at(10));
    beats.renewed(1, at(5));
    assert_eq!(beats.established(1), Some(at(10)));
}

#[test]
fn a_lease_counted_from_the_last_poll_is_caught() {
    catches(
        Mutant::LeaseFromTheLastLook,
        setup(Write::Join, 1, 0, SLOW_OWNER),
    );
}

#[test]
fn a_lease_counted_from_the_answer_is_caught() {
    catches(
        Mutant::LeaseFromTheAnswer,
        setup(Write::Enter, 2, 0, SLOW_OWNER),
    );
}

#[test]
fn a_lease_counted_from_renewals_of_the_row_made_after_the_slot_is_caught() {
    catches(
        Mutant::LeaseFromTheNewestRenewal,
        setup(Write::Join, 2, 0, SLOW_OWNER),
    );
}

#[test]
fn a_lease_counted_from_the_retry_is_caught() {
    catches(
        Mutant::LeaseFromTheRetry,
        setup(Write::Enter, 2, 1, SLOW_OWNER),
    );
}

#[test]
fn a_lease_longer_than_the_written_one_is_caught() {
    catches(
        Mutant::LeaseLongerThanWritten,
        setup(Write::Enter, 2, 0, SLOW_OWNER),
    );
}

#[test]
fn a_lease_believed_to_its_very_end_is_caught() {
    catches(Mutant::NoMargin, setup(Write::Enter, 2, 0, SLOW_OWNER));
}

#[test]
fn beats_that_two_renewals_may_make_are_caught() {
    let mut setup = setup(Write::Join, 2, 1, SLOW_OWNER);
    setup.horizon = 3;
    catches(Mutant::BeatsCountedInTheTable, setup);
}

#[test]
fn a_beat_that_a_late_copy_brings_back_is_caught() {
    catches(Mutant::BeatsGoBack, setup(Write::Enter, 2, 1, SLOW_OWNER));
}

#[test]
fn a_watch_counted_from_the_sending_of_the_poll_is_caught() {
    catches(
        Mutant::WatchFromTheSending,
        setup(Write::Enter, 2, 0, SLOW_OWNER),
    );
}

#[test]
fn a_watch_that_goes_on_over_a_new_beat_is_caught() {
    catches(
        Mutant::WatchIgnoresBeats,
        setup(Write::Enter, 2, 0, SLOW_OWNER),
    );
}

#[test]
fn an_eviction_that_does_not_name_the_beat_is_caught() {
    catches(
        Mutant::EvictWithoutBeat,
        setup(Write::Enter, 2, 0, SLOW_OWNER),
    );
}
