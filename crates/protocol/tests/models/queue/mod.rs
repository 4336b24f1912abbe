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

use std::time::Duration;

use client::Role::{self, Caller, Downgrader, Drawer, Operator, Pair, Reader, Sweeper, Waiter};
use faults::{Fault, Faults, Place};
use properties::{
    AT_ONCE, COUNTERS, EXCLUSION, NOT_OVERTAKEN, ONCE, QUEUE_ORDER, ROOM, SLOTS, TOKENS,
};
use rules::{Mutant, Rules};
use stateright::{Checker, Model};
use world::{Action, Setup};

use crate::explore::Search;
use crate::watchdog;

/// Much more than any of these searches takes on a slow machine.
const TOO_LONG: Duration = Duration::from_secs(900);

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
/// asserts that there are exactly `states` states.
fn proves(setup: &Setup, states: usize) {
    let what = format!("{setup:?}");
    watchdog::within(TOO_LONG, &what, || search(setup).run()).proves(&what, states);
}

fn catches(mutant: Mutant, property: &'static str, setup: Setup) {
    let setup = setup.mutated(mutant);
    let what = format!("{setup:?}");
    let report = watchdog::within(TOO_LONG, &what, || search(&setup).only(property).run());
    report.catches(&what, property);
}

/// Asserts that the live clients cannot all come to their end.
fn sticks(mutant: Mutant, setup: Setup) {
    let setup = setup.mutated(mutant);
    let what = format!("{setup:?}");
    let report = watchdog::within(TOO_LONG, &what, || search(&setup).run());
    assert!(report.stuck.is_some(), "{what}: {report:?}");
}

/// This search meets the same states as stateright's.
#[test]
fn stateright_counts_the_same_states() {
    let setup = setup(TWO, 1, 1, Faults::any(1));
    let checker = setup.clone().checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), search(&setup).run().states);
}

const TWO: &[Role] = &[Waiter, Drawer];
const THREE: &[Role] = &[Waiter, Drawer, Drawer];
const THREE_DRAWERS: &[Role] = &[Drawer, Drawer, Drawer];
const FOUR: &[Role] = &[Waiter, Waiter, Drawer, Drawer];

/// Any two of the faults, each once, except that no request comes twice.
const WITHOUT_DUPLICATES: Faults = Faults {
    duplicate: 0,
    ..Faults::any(2)
};

/// A late renewal, and any of the other faults.
const LATE_RENEWAL: Faults = Faults {
    late_renewal: 1,
    ..Faults::any(2)
};

#[test]
fn three_clients_take_a_turn_over_three_slots() {
    proves(&setup(THREE, 1, 3, Faults::any(1)), 935_637);
}

#[test]
fn a_tardy_client_is_waited_for() {
    proves(&setup(THREE, 1, 1, Faults::one(Fault::LateRenewal)), 25_486);
}

#[test]
fn two_clients_are_tardy_besides_another_fault() {
    proves(&setup(TWO, 1, 1, LATE_RENEWAL), 69_353);
}

#[test]
fn two_clients_take_two_turns_over_one_slot() {
    proves(&setup(TWO, 2, 1, Faults::any(1)), 289_154);
}

#[test]
fn two_clients_take_two_turns_over_two_slots() {
    proves(&setup(TWO, 2, 2, Faults::any(1)), 345_881);
}

#[test]
fn three_clients_take_a_turn_over_one_slot() {
    proves(&setup(THREE, 1, 1, Faults::any(1)), 441_697);
}

#[test]
fn three_clients_take_a_turn_over_two_slots() {
    proves(&setup(THREE, 1, 2, Faults::any(1)), 794_566);
}

#[test]
fn more_clients_come_at_once_than_the_queue_fills_slots() {
    let roles = [Waiter, Waiter, Drawer];
    proves(&of_one_filled(&roles, 1, 2, Faults::any(1)), 204_478);
    proves(&of_one_filled(TWO, 2, 2, Faults::any(1)), 288_755);
}

#[test]
fn two_clients_suffer_two_faults_other_than_a_copy() {
    proves(&setup(TWO, 2, 1, WITHOUT_DUPLICATES), 2_366_047);
}

#[test]
fn a_caller_that_does_not_wait_comes_between_two_clients() {
    proves(
        &setup(&[Waiter, Drawer, Caller], 1, 1, Faults::any(1)),
        239_761,
    );
}

#[test]
fn a_sweeper_comes_between_two_clients() {
    proves(
        &setup(&[Waiter, Drawer, Sweeper], 1, 1, Faults::any(2)),
        1_482_408,
    );
}

#[test]
fn a_caller_and_a_sweeper_come_between_the_turns_of_a_client() {
    proves(
        &setup(&[Drawer, Caller, Sweeper], 1, 1, Faults::any(2)),
        806_956,
    );
}

#[test]
fn a_caller_and_a_sweeper_come_between_two_clients() {
    proves(
        &setup(&[Waiter, Drawer, Caller, Sweeper], 1, 1, Faults::NONE),
        30_643,
    );
}

#[test]
fn two_clients_draw_two_tickets_at_a_time() {
    proves(&setup(&[Pair, Pair], 2, 1, Faults::any(1)), 473_991);
}

#[test]
fn one_of_three_clients_draws_two_tickets_at_a_time() {
    proves(
        &setup(&[Pair, Waiter, Drawer], 1, 1, Faults::any(1)),
        581_683,
    );
}

#[test]
fn a_sweeper_comes_between_clients_that_draw_two_tickets_at_a_time() {
    proves(
        &setup(&[Pair, Drawer, Sweeper], 1, 1, Faults::any(1)),
        49_552,
    );
}

#[test]
fn two_places_of_one_process_know_of_each_other() {
    proves(&together(&[Drawer, Drawer], 2, 1, Faults::any(1)), 143_009);
}

#[test]
fn a_place_of_another_process_comes_between_two_of_one() {
    proves(&together(THREE_DRAWERS, 1, 1, Faults::any(1)), 857_773);
}

#[test]
fn two_places_of_one_process_may_both_have_a_slot() {
    proves(&together(THREE_DRAWERS, 1, 2, Faults::any(1)), 1_230_930);
}

#[test]
fn a_slot_offered_to_a_place_of_the_same_process_that_leaves_is_caught() {
    catches(
        Mutant::OffersALeaver,
        SLOTS,
        together(THREE_DRAWERS, 1, 2, Faults::one(Fault::Cancel)),
    );
}

#[test]
fn a_caller_comes_between_clients_that_draw_two_tickets_at_a_time() {
    proves(
        &setup(&[Pair, Drawer, Caller], 1, 1, Faults::any(1)),
        300_219,
    );
}

/// A larger size takes up to two minutes and a gigabyte, so only with `FAIRLOCK_MODEL=large`.
fn proves_if_large(setup: &Setup, states: usize) {
    if std::env::var("FAIRLOCK_MODEL").as_deref() == Ok("large") {
        proves(setup, states);
    }
}

#[test]
fn large_two_clients_with_two_turns_each() {
    proves_if_large(&setup(TWO, 2, 1, Faults::any(2)), 7_227_144);
}

#[test]
fn large_three_clients() {
    proves_if_large(&setup(THREE, 1, 1, WITHOUT_DUPLICATES), 6_320_203);
}

#[test]
fn large_a_caller_that_does_not_wait_beside_two_that_do() {
    let with_a_caller = &[Waiter, Drawer, Caller];
    proves_if_large(&setup(with_a_caller, 1, 1, Faults::any(2)), 7_209_498);
}

#[test]
fn large_four_clients_and_three_slots() {
    proves_if_large(&setup(FOUR, 1, 3, Faults::NONE), 1_401_849);
}

#[test]
fn large_a_sweeper_beside_batches() {
    let with_a_sweeper = &[Pair, Pair, Sweeper];
    proves_if_large(&setup(with_a_sweeper, 1, 1, Faults::any(2)), 3_603_091);
}

/// The waiter in the first slot waits for two of three permits, beside readers that leave one.
#[test]
fn large_an_operator_beside_sharers() {
    let with_an_operator = &[Reader, Reader, Reader, Downgrader, Operator(1)];
    let mut of_three = of_two(with_an_operator, 1, 2, Faults::NONE);
    of_three.rules.permits = 3;
    proves_if_large(&of_three, 6_467_893);
}

#[test]
fn the_articles_rule_is_caught() {
    catches(
        Mutant::LowestRowEnters,
        EXCLUSION,
        setup(TWO, 2, 1, Faults::NONE),
    );
}

#[test]
fn a_fill_without_its_watermark_condition_is_caught() {
    catches(
        Mutant::FillWithoutWatermark,
        COUNTERS,
        setup(TWO, 2, 1, Faults::any(1)),
    );
}

#[test]
fn a_fill_without_its_departures_condition_is_caught() {
    catches(
        Mutant::FillWithoutLeft,
        SLOTS,
        setup(TWO, 2, 1, Faults::one(Fault::Cancel)),
    );
}

#[test]
fn a_gap_that_is_skipped_is_caught() {
    catches(
        Mutant::GapSkipped,
        NOT_OVERTAKEN,
        setup(TWO, 2, 1, Faults::NONE),
    );
}

#[test]
fn a_slot_asked_for_while_tickets_are_unsettled_is_caught() {
    catches(
        Mutant::EnterOverUnsettled,
        NOT_OVERTAKEN,
        setup(TWO, 2, 1, Faults::any(1)),
    );
}

#[test]
fn a_second_slot_by_a_repeated_request_is_caught() {
    catches(
        Mutant::EnterTwice,
        ONCE,
        setup(THREE, 1, 2, Faults::one(Fault::Duplicate)),
    );
}

#[test]
fn a_slot_that_only_one_may_ask_for_at_a_time_is_caught() {
    catches(
        Mutant::EnterOneAtATime,
        ROOM,
        setup(THREE, 1, 2, Faults::NONE),
    );
}

#[test]
fn a_live_holder_evicted_is_caught() {
    catches(
        Mutant::LiveHolderEvicted,
        EXCLUSION,
        setup(TWO, 2, 1, Faults::NONE),
    );
}

#[test]
fn a_live_successor_that_is_evicted_is_caught() {
    catches(
        Mutant::LiveSuccessorEvicted,
        NOT_OVERTAKEN,
        setup(THREE, 1, 1, Faults::NONE),
    );
}

#[test]
fn an_eviction_without_the_beat_is_caught() {
    catches(
        Mutant::EvictWithoutBeat,
        EXCLUSION,
        setup(TWO, 2, 1, Faults::one(Fault::RenewalRace(Place::Holder))),
    );
}

#[test]
fn an_eviction_of_a_successor_without_the_beat_is_caught() {
    catches(
        Mutant::EvictSuccessorWithoutBeat,
        NOT_OVERTAKEN,
        setup(TWO, 2, 1, Faults::one(Fault::RenewalRace(Place::Holder))),
    );
}

#[test]
fn a_void_without_the_beat_is_caught() {
    catches(
        Mutant::VoidWithoutBeat,
        NOT_OVERTAKEN,
        setup(TWO, 2, 1, Faults::one(Fault::RenewalRace(Place::Holder))),
    );
}

#[test]
fn a_leave_that_keeps_the_slot_is_caught() {
    catches(
        Mutant::LeaveKeepsSlot,
        SLOTS,
        setup(TWO, 2, 1, Faults::one(Fault::Cancel)),
    );
}

#[test]
fn a_leave_that_does_not_raise_departures_is_caught() {
    catches(
        Mutant::LeaveWithoutLeft,
        SLOTS,
        setup(TWO, 2, 1, Faults::one(Fault::Cancel)),
    );
}

#[test]
fn one_nonce_over_ask_and_draw_is_caught() {
    catches(
        Mutant::OneNonce,
        NOT_OVERTAKEN,
        setup(TWO, 2, 1, Faults::one(Fault::Duplicate)),
    );
}

#[test]
fn a_slot_asked_for_over_the_settled_without_last_is_caught() {
    catches(
        Mutant::EnterOverWithoutLast,
        NOT_OVERTAKEN,
        setup(&[Waiter, Drawer, Caller], 1, 1, Faults::any(1)),
    );
}

#[test]
fn tickets_that_start_again_are_caught() {
    catches(
        Mutant::TicketsFromZero,
        TOKENS,
        setup(&[Waiter, Drawer, Sweeper], 1, 1, Faults::NONE),
    );
}

#[test]
fn a_sweep_of_rows_that_are_not_settled_is_caught() {
    sticks(
        Mutant::SweptUnsettled,
        setup(&[Drawer, Drawer, Sweeper], 1, 1, Faults::NONE),
    );
}

#[test]
fn a_slot_given_up_over_a_missing_row_is_caught() {
    catches(
        Mutant::MissingRowGivesUpSlot,
        NOT_OVERTAKEN,
        setup(TWO, 2, 1, Faults::NONE),
    );
}

#[test]
fn a_tardy_row_that_is_passed_is_caught() {
    catches(
        Mutant::LateIsPassed,
        NOT_OVERTAKEN,
        setup(THREE, 1, 1, Faults::one(Fault::LateRenewal)),
    );
}

#[test]
fn tickets_of_a_row_that_are_taken_for_gaps_are_caught() {
    sticks(Mutant::RowOfOne, setup(&[Pair, Drawer], 2, 1, Faults::NONE));
}

#[test]
fn a_run_of_gaps_into_one_within_its_grace_is_caught() {
    catches(
        Mutant::RunIntoGrace,
        NOT_OVERTAKEN,
        setup(THREE, 1, 1, Faults::one(Fault::Crash)),
    );
}

#[test]
fn two_tickets_drawn_as_one_are_caught() {
    catches(
        Mutant::DrawsOne,
        TOKENS,
        setup(&[Pair, Drawer], 2, 1, Faults::NONE),
    );
}

#[test]
fn a_slot_behind_others_for_one_who_does_not_wait_is_caught() {
    let setup = setup(&[Waiter, Caller], 1, 1, Faults::NONE);
    catches(Mutant::EnterWithoutFree, AT_ONCE, setup);
}

#[test]
fn more_slots_than_there_are_is_caught() {
    let setup = setup(&[Waiter, Waiter, Waiter], 1, 1, Faults::NONE);
    catches(Mutant::EnterWithoutSlots, QUEUE_ORDER, setup);
}

#[test]
fn a_place_that_leaves_its_row_is_caught() {
    catches(
        Mutant::RowIsNotVoid,
        SLOTS,
        setup(TWO, 2, 1, Faults::one(Fault::Cancel)),
    );
}

#[test]
fn a_place_that_does_not_count_its_departure_is_caught() {
    catches(
        Mutant::DepartureIsNotCounted,
        SLOTS,
        setup(TWO, 2, 1, Faults::one(Fault::Cancel)),
    );
}

#[test]
fn a_place_that_does_not_poll_for_what_it_gives_back_is_caught() {
    for fault in [Fault::Cancel, Fault::Expiry] {
        catches(
            Mutant::SlotIsNotLookedFor,
            SLOTS,
            setup(TWO, 2, 1, Faults::one(fault)),
        );
    }
}

#[test]
fn a_place_that_forgets_an_unanswered_request_is_caught() {
    catches(
        Mutant::UnheardIsForgotten,
        SLOTS,
        setup(TWO, 2, 1, Faults::one(Fault::Unheard)),
    );
}
