//! The queue, checked exhaustively: every order of every request, with faults, decided by the library's own functions.
//!
//! The place machine, which the library drives too, says what a client sends next, by what it was answered. A write is sent, applied to the
//! one item that it names, and answered, each in a step of its own. In the step of the answer, the client also decides by it. A poll reads
//! the lock item, then row after row; nothing else happens in the steps that read.
//!
//! What the model does not tell apart:
//!
//! - Of several unsettled rows and runs of gaps, one poll settles the first, and the next poll the next.
//! - Only a late client renews its beat, or an owner between its judge's last poll and the judgement.
//! - A new lock item takes its first ticket from the clock as of when the enter applies. No request is in flight as long as an idle item is
//!   retained.
//!
//! States that differ only in what makes no difference any more count as one:
//!
//! - What a client will not use of an answer (`answers.rs`).
//! - Settled rows that no client will read.
//! - The names of attempts, and which of two like clients did what (`names.rs`). A trace names clients by where they stand after each step.
//!
//! Faults are data (`faults.rs`): each kind happens at most once a run, and a number limits them in all. From every state, the live clients
//! must be able to finish without one more fault and without one more late request.
mod answers;
mod client;
mod driver;
mod faults;
mod few;
mod names;
mod operator;
mod properties;
mod request;
mod rules;
mod several;
mod snapshot;
mod sweeper;
mod table;
mod world;
mod writes;

use client::Role::{self, Caller, Downgrader, Drawer, Operator, Pair, Reader, Sweeper, Waiter};
use faults::{Fault, Faults, Place};
use properties::{
    AT_ONCE, COUNTERS, EXCLUSION, NOT_OVERTAKEN, ONCE, QUEUE_ORDER, ROOM, SLOTS, TOKENS,
};
use rules::{Mutant, Rules};
use stateright::{Checker, Model};
use world::{Action, Setup};

use crate::explore::{Search, is_tried};

fn setup(roles: &[Role], rounds: u8, slots: usize, faults: Faults) -> Setup {
    Setup {
        roles: roles.to_vec(),
        rounds,
        rules: Rules {
            slots,
            filled: slots,
            permits: 1,
            mutant: None,
        },
        faults,
        together: false,
    }
}

/// A setup whose first two clients are places of one process.
fn together(roles: &[Role], rounds: u8, slots: usize, faults: Faults) -> Setup {
    Setup {
        together: true,
        ..setup(roles, rounds, slots, faults)
    }
}

/// A setup in which the queue fills a single slot. The others are for clients that come at once.
fn of_one_filled(roles: &[Role], rounds: u8, slots: usize, faults: Faults) -> Setup {
    let mut setup = setup(roles, rounds, slots, faults);
    setup.rules.filled = 1;
    setup
}

/// A setup for a lock of two permits.
fn of_two(roles: &[Role], rounds: u8, slots: usize, faults: Faults) -> Setup {
    let mut setup = setup(roles, rounds, slots, faults);
    setup.rules.permits = 2;
    setup
}

fn search(setup: &Setup) -> Search<'_, Setup> {
    Search::new(setup, Action::is_fault, properties::is_done)
}

/// Asserts that every property holds in every state, and that from every state the live clients can come to their end by themselves. Also
/// asserts that there are exactly so many states.
fn each_proves<const N: usize>(all: [(Setup, usize); N]) {
    for (setup, states) in all.into_iter().filter(|(_, states)| is_tried(*states)) {
        search(&setup).run().proves(states);
    }
}

fn catches(mutant: Mutant, property: &'static str, setup: Setup) {
    let setup = setup.mutated(mutant);
    search(&setup).only(property).run().catches(property);
}

/// Asserts that the live clients cannot all come to their end.
fn sticks(mutant: Mutant, setup: Setup) {
    let setup = setup.mutated(mutant);
    let report = search(&setup).run();
    assert!(report.stuck.is_some(), "{setup:?}: {report:?}");
}

/// This search meets the same states as stateright's.
#[test]
fn stateright_counts_the_same_states() {
    let setup = setup(TWO, 1, 1, ANY);
    let checker = setup.clone().checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), search(&setup).run().states);
}

const TWO: &[Role] = &[Waiter, Drawer];
const THREE: &[Role] = &[Waiter, Drawer, Drawer];
const THREE_DRAWERS: &[Role] = &[Drawer, Drawer, Drawer];
const FOUR: &[Role] = &[Waiter, Waiter, Drawer, Drawer];

/// Any of the faults, once.
const ANY: Faults = Faults::any(1);

/// Any two of the faults, each once, except that no request comes twice.
const WITHOUT_DUPLICATES: Faults = Faults::any(2).without(Fault::Duplicate);

/// A late renewal, and any of the other faults.
const LATE_RENEWAL: Faults = Faults::any(2).with(Fault::LateRenewal);

#[test]
fn clients_take_turns_over_one_slot_and_several() {
    let more_at_once = [Waiter, Waiter, Drawer];
    each_proves([
        (setup(TWO, 2, 1, ANY), 289_154),
        (setup(TWO, 2, 2, ANY), 345_881),
        (setup(THREE, 1, 1, ANY), 441_697),
        (setup(THREE, 1, 2, ANY), 794_566),
        (setup(THREE, 1, 3, ANY), 935_637),
        (of_one_filled(&more_at_once, 1, 2, ANY), 204_478),
        (of_one_filled(TWO, 2, 2, ANY), 288_755),
    ]);
}

#[test]
fn a_tardy_client_is_waited_for_and_two_faults_come_together() {
    let late = Faults::one(Fault::LateRenewal);
    each_proves([
        (setup(THREE, 1, 1, late), 25_486),
        (setup(TWO, 1, 1, LATE_RENEWAL), 69_353),
        (setup(TWO, 1, 1, WITHOUT_DUPLICATES), 18_967),
        (setup(TWO, 2, 1, WITHOUT_DUPLICATES), 2_366_047),
    ]);
}

#[test]
fn callers_that_do_not_wait_and_sweepers_come_between_clients() {
    let any_two = Faults::any(2);
    let all = &[Waiter, Drawer, Caller, Sweeper];
    each_proves([
        (setup(&[Waiter, Drawer, Caller], 1, 1, ANY), 239_761),
        (setup(&[Waiter, Drawer, Sweeper], 1, 1, ANY), 37_466),
        (setup(&[Waiter, Drawer, Sweeper], 1, 1, any_two), 1_482_408),
        (setup(&[Drawer, Caller, Sweeper], 1, 1, any_two), 806_956),
        (setup(all, 1, 1, Faults::NONE), 30_643),
    ]);
}

#[test]
fn clients_draw_two_tickets_at_a_time_beside_each_other_and_beside_others() {
    each_proves([
        (setup(&[Pair, Pair], 2, 1, ANY), 473_991),
        (setup(&[Pair, Waiter, Drawer], 1, 1, ANY), 581_683),
        (setup(&[Pair, Drawer, Sweeper], 1, 1, ANY), 49_552),
        (setup(&[Pair, Drawer, Caller], 1, 1, ANY), 300_219),
    ]);
}

/// With a place of another process between them, and with a slot each.
#[test]
fn two_places_of_one_process_know_of_each_other() {
    each_proves([
        (together(&[Drawer, Drawer], 2, 1, ANY), 143_009),
        (together(THREE_DRAWERS, 1, 1, ANY), 857_773),
        (together(THREE_DRAWERS, 1, 2, ANY), 1_230_930),
    ]);
}

/// Each takes up to two minutes and a gigabyte, so only with `FAIRLOCK_MODEL=large`.
#[test]
fn larger_sizes() {
    if std::env::var("FAIRLOCK_MODEL").as_deref() != Ok("large") {
        return;
    }
    let any_two = Faults::any(2);
    // The waiter in the first slot waits for two of three permits, beside readers that leave one.
    let with_an_operator = &[Reader, Reader, Reader, Downgrader, Operator(1)];
    let mut of_three = of_two(with_an_operator, 1, 2, Faults::NONE);
    of_three.rules.permits = 3;
    for (setup, states) in [
        (setup(TWO, 2, 1, any_two), 7_227_144),
        (setup(THREE, 1, 1, WITHOUT_DUPLICATES), 6_320_203),
        (setup(&[Waiter, Drawer, Caller], 1, 1, any_two), 7_209_498),
        (setup(FOUR, 1, 3, Faults::NONE), 1_401_849),
        (setup(&[Pair, Pair, Sweeper], 1, 1, any_two), 3_603_091),
        (of_three, 6_467_893),
    ] {
        search(&setup).run().proves(states);
    }
}

/// Each planted change of a rule, the property that it breaks, and where.
#[test]
fn every_rule_that_is_changed_is_caught() {
    use Mutant as By;
    let two = |faults| setup(TWO, 2, 1, faults);
    let three = |slots, faults| setup(THREE, 1, slots, faults);
    let alone = |roles: &[Role], rounds| setup(roles, rounds, 1, Faults::NONE);
    let with_a_caller = setup(&[Waiter, Drawer, Caller], 1, 1, ANY);
    let both = together(THREE_DRAWERS, 1, 2, Faults::one(Fault::Cancel));
    let [none, cancel, race] = [
        Faults::NONE,
        Faults::one(Fault::Cancel),
        Faults::one(Fault::RenewalRace(Place::Holder)),
    ];
    let [crash, expiry, late, twice, unheard] = [
        Fault::Crash,
        Fault::Expiry,
        Fault::LateRenewal,
        Fault::Duplicate,
        Fault::Unheard,
    ]
    .map(Faults::one);
    for (mutant, property, setup) in [
        (By::LowestRowEnters, EXCLUSION, two(none)),
        (By::FillWithoutWatermark, COUNTERS, two(ANY)),
        (By::FillWithoutLeft, SLOTS, two(cancel)),
        (By::GapSkipped, NOT_OVERTAKEN, two(none)),
        (By::EnterOverUnsettled, NOT_OVERTAKEN, two(ANY)),
        (By::EnterTwice, ONCE, three(2, twice)),
        (By::EnterOneAtATime, ROOM, three(2, none)),
        (By::LiveHolderEvicted, EXCLUSION, two(none)),
        (By::LiveSuccessorEvicted, NOT_OVERTAKEN, three(1, none)),
        (By::EvictWithoutBeat, EXCLUSION, two(race)),
        (By::EvictSuccessorWithoutBeat, NOT_OVERTAKEN, two(race)),
        (By::VoidWithoutBeat, NOT_OVERTAKEN, two(race)),
        (By::LeaveKeepsSlot, SLOTS, two(cancel)),
        (By::LeaveWithoutLeft, SLOTS, two(cancel)),
        (By::OneNonce, NOT_OVERTAKEN, two(twice)),
        (By::EnterOverWithoutLast, NOT_OVERTAKEN, with_a_caller),
        (
            By::TicketsFromZero,
            TOKENS,
            alone(&[Waiter, Drawer, Sweeper], 1),
        ),
        (By::MissingRowGivesUpSlot, NOT_OVERTAKEN, two(none)),
        (By::LateIsPassed, NOT_OVERTAKEN, three(1, late)),
        (By::RunIntoGrace, NOT_OVERTAKEN, three(1, crash)),
        (By::DrawsOne, TOKENS, alone(&[Pair, Drawer], 2)),
        (By::EnterWithoutFree, AT_ONCE, alone(&[Waiter, Caller], 1)),
        (By::EnterWithoutSlots, QUEUE_ORDER, alone(&[Waiter; 3], 1)),
        (By::RowIsNotVoid, SLOTS, two(cancel)),
        (By::DepartureIsNotCounted, SLOTS, two(cancel)),
        (By::SlotIsNotLookedFor, SLOTS, two(cancel)),
        (By::SlotIsNotLookedFor, SLOTS, two(expiry)),
        (By::UnheardIsForgotten, SLOTS, two(unheard)),
        (By::OffersALeaver, SLOTS, both),
    ] {
        catches(mutant, property, setup);
    }
    sticks(By::SweptUnsettled, alone(&[Drawer, Drawer, Sweeper], 1));
    sticks(By::RowOfOne, alone(&[Pair, Drawer], 2));
}
