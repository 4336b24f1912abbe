//! DynamoDB's own clock, checked exhaustively: an owner that is evicted by it has stopped believing before, and a dead owner is evicted in
//! the end.
//!
//! An owner hears the time of some answers, takes its place and renews it, and stamps its writes as the library does. A caller that has not
//! watched the entry judges by the dates of answers, gives a date to what has none, and evicts. Front ends are ahead or behind by a second,
//! and their `Date` has whole seconds. A single front end is wrong, by anything in either direction. Only three amounts matter: just within
//! what counts as agreed, just beyond, and far off. A connection leads to one front end for as long as it is kept. Every request of the
//! owner is sent, applied and answered at any time, or its answer is lost.
//!
//! In some runs the hold becomes a lease in the end. Its owner goes by DynamoDB's clock then, as front ends show it that are right.
//!
//! In the *fine* runs a tick is a second, and the allowance is the shortest that a client takes. In the *coarse* runs a tick is two and a
//! half minutes, over which what is remembered of the time grows old.
//!
//! What is left out because it can make no difference:
//!
//! - A poll of the caller, and what the owner asks besides, is sent and applied in one step. If it were sent sooner, the stamps by it would
//!   be later.
//! - A poll of the caller is answered in that step too. If it were answered later, all that comes after it would come later. That is
//!   explored, for the next poll and the eviction come at any time.
//! - An owner that can believe no more is forgotten, and time goes on by a long step to another process of the caller. No owner is left
//!   that could be evicted too early.
//! - What a client remembers of the time is forgotten with the last of its steps that reads it.
mod caller;
mod client;
mod owner;
mod rules;
mod table;
mod world;

use std::time::Duration;

use rules::{Host, Judging, Mutant, Rules};
use world::{Action, STOPPED, Setup, World};

use crate::explore::{Report, Search, is_tried};

/// Wrong by so much that right front ends confirm it, by a little more, and by anything.
const OFF: &[i16] = &[-3600, -11, -10, -8, 8, 9, 10, 3600];
const FAR_OFF: &[i16] = &[-3600, 3600];
/// Over five minutes, a clock that drifts by 2 % may take times that differ by this much for the same.
const OFF_IF_OLD: &[i16] = &[-3600, -19, 19];

fn host(rate: u8, has_wall_clock: bool) -> Host {
    Host {
        rate,
        has_wall_clock,
    }
}

/// An owner that does not renew, and whether hosts' wall clocks are right.
fn fine(judging: Judging, by_wall_clocks: bool) -> Setup {
    Setup {
        asks: 2,
        renewals: 0,
        losses: 0,
        leases_out: false,
        polls: 3,
        sends_until: 2,
        long: 30,
        rules: Rules {
            mutant: None,
            judging,
            tick: Duration::from_secs(1),
            lease: Duration::from_millis(2_500),
            allowance: Duration::from_secs(2),
            offsets: OFF,
            meets_again: false,
            owner: host(98, by_wall_clocks),
            caller: host(100, by_wall_clocks),
        },
    }
}

/// An owner that renews.
fn renews(renewals: u8, losses: u8) -> Setup {
    let mut setup = fine(Judging::Polling, true);
    (setup.asks, setup.renewals, setup.losses) = (1, renewals, losses);
    (setup.polls, setup.rules.offsets) = (2, FAR_OFF);
    setup
}

/// An owner whose hold becomes a lease that nobody renews. The lease counts by DynamoDB's clock, from a time that has passed.
fn leases_out(by_wall_clocks: bool) -> Setup {
    let mut setup = fine(Judging::Polling, by_wall_clocks);
    setup.leases_out = true;
    (setup.polls, setup.rules.offsets) = (2, &[-8, 8]);
    setup
}

/// What a client remembers grows old.
fn coarse(asks: u8, renewals: u8) -> Setup {
    let mut setup = fine(Judging::Polling, renewals > 0);
    (setup.asks, setup.renewals) = (asks, renewals);
    (setup.polls, setup.sends_until, setup.long) = (2, 3, 10);
    let rules = &mut setup.rules;
    rules.tick = Duration::from_secs(150);
    rules.lease = Duration::from_secs(455);
    rules.allowance = Duration::from_secs(10);
    rules.offsets = OFF_IF_OLD;
    setup
}

fn explore(setup: &Setup) -> Report {
    Search::new(setup, Action::is_fault, World::is_end).run()
}

#[test]
fn who_is_evicted_has_stopped_believing() {
    for (setup, states) in [
        (fine(Judging::Refused, false), 210_994),
        (fine(Judging::Refused, true), 76_123),
        (fine(Judging::Polling, false), 210_577),
        (fine(Judging::Polling, true), 75_346),
        (renews(1, 1), 146_596),
    ] {
        explore(&setup).proves(states);
    }
}

#[test]
fn who_is_dated_by_old_answers_and_is_evicted_has_stopped_believing() {
    explore(&coarse(2, 0)).proves(57_604);
    if is_tried(884_591) {
        explore(&coarse(1, 1)).proves(884_591);
    }
}

#[test]
fn whoever_has_a_lease_that_came_of_a_hold_and_is_evicted_has_stopped_believing() {
    if is_tried(1_048_611) {
        explore(&leases_out(false)).proves(1_048_611);
    }
    explore(&leases_out(true)).proves(174_395);
}

/// The promise rests on this not happening.
#[test]
fn a_front_end_that_is_wrong_and_answers_over_two_connections_is_believed() {
    let mut setup = fine(Judging::Polling, false);
    setup.rules.meets_again = true;
    explore(&setup).catches(STOPPED);
}

#[test]
fn every_rule_of_dates_that_is_changed_is_caught() {
    use Mutant as By;
    let polls = |by_wall_clocks| fine(Judging::Polling, by_wall_clocks);
    let refused = || fine(Judging::Refused, true);
    let mut keeps = polls(false);
    keeps.rules.owner.has_wall_clock = true;
    let mut copies = renews(2, 1);
    (copies.asks, copies.sends_until, copies.rules.offsets) = (2, 1, &[]);
    copies.rules.owner.has_wall_clock = false;
    copies.rules.caller.has_wall_clock = false;
    for (mutant, mut setup) in [
        (By::OneAnswer, polls(true)),
        (By::OneAnswer, refused()),
        (By::LaterOfTwo, polls(true)),
        (By::LaterOfTwo, refused()),
        (By::NoAllowance, polls(false)),
        (By::NoGrain, polls(false)),
        (By::KeptConnections, keeps),
        (By::AsTold, polls(false)),
        (By::UnconfirmedStamp, polls(true)),
        (By::RenewsByTheLast, coarse(1, 1)),
        (By::EarliestStamp, polls(false)),
        (By::DatesFromTheArrival, polls(false)),
        (By::BelievesFromTheWrite, polls(false)),
        (By::LateCopiesDate, copies),
        (By::LeaseFromTheWrite, leases_out(false)),
    ] {
        setup.rules.mutant = Some(mutant);
        explore(&setup).catches(STOPPED);
    }
    // No client could ever judge what is left without a date.
    let mut setup = polls(true);
    setup.rules.mutant = Some(By::LeavesUndated);
    assert!(explore(&setup).stuck.is_some());
}
