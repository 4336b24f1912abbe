//! Locks of several permits, whose number an operator may change.

use super::client::Role::{
    self, Caller, Downgrader, Drawer, Glance, Operator, Reader, Sweeper, Waiter,
};
use super::faults::{Fault, Faults};
use super::properties::{EXCLUSION, HOLDER, NOT_OVERTAKEN, QUEUE_ORDER, STAYS, TAKEN};
use super::rules::Mutant;
use super::{catches, of_two, proves};

#[test]
fn a_writer_comes_between_two_readers() {
    proves(
        &of_two(&[Reader, Reader, Drawer], 1, 1, Faults::any(1)),
        423_105,
    );
}

#[test]
fn three_readers_share_two_permits() {
    proves(
        &of_two(&[Reader, Reader, Reader], 1, 2, Faults::any(1)),
        50_637,
    );
}

#[test]
fn a_reader_and_a_writer_take_two_turns() {
    proves(&of_two(&[Reader, Drawer], 2, 1, Faults::any(1)), 333_510);
}

#[test]
fn a_writer_downgrades_before_a_reader_and_a_writer() {
    proves(
        &of_two(&[Downgrader, Reader, Drawer], 1, 2, Faults::any(1)),
        1_197_984,
    );
}

#[test]
fn one_who_does_not_wait_comes_between_readers() {
    proves(
        &of_two(&[Reader, Reader, Glance], 1, 1, Faults::any(1)),
        224_868,
    );
}

/// The waiter in the queue may die while the reader lives.
#[test]
fn one_who_does_not_wait_comes_between_a_reader_and_a_writer() {
    proves(
        &of_two(&[Reader, Drawer, Glance], 1, 1, Faults::any(1)),
        566_130,
    );
}

#[test]
fn a_caller_comes_between_a_reader_and_a_writer() {
    proves(
        &of_two(&[Reader, Drawer, Caller], 1, 1, Faults::any(1)),
        312_161,
    );
}

#[test]
fn a_sweeper_comes_between_a_reader_and_a_writer() {
    proves(
        &of_two(&[Reader, Reader, Sweeper], 1, 1, Faults::any(2)),
        140_179,
    );
}

#[test]
fn a_share_over_unsettled_tickets_is_caught() {
    let setup = of_two(&[Reader, Waiter, Drawer], 1, 1, Faults::NONE);
    catches(Mutant::ShareOverUnsettled, NOT_OVERTAKEN, setup);
}

#[test]
fn a_share_over_successors_is_caught() {
    let setup = of_two(&[Reader, Reader, Drawer], 1, 1, Faults::NONE);
    catches(Mutant::ShareBesideAnybody, QUEUE_ORDER, setup);
}

#[test]
fn a_share_of_what_is_not_left_is_caught() {
    // The client in the first slot no longer holds the lock.
    let setup = of_two(&[Reader, Reader, Reader], 1, 1, Faults::NONE);
    catches(Mutant::ShareWithoutRoom, HOLDER, setup);
}

#[test]
fn an_admission_of_whoever_is_there_is_caught() {
    let setup = of_two(&[Reader, Reader, Reader], 1, 2, Faults::any(1));
    catches(Mutant::AdmitWhoeverIsThere, TAKEN, setup);
}

#[test]
fn a_downgrade_that_frees_what_others_took_is_caught() {
    // A client that has two of three permits keeps one.
    let mut setup = of_two(
        &[Downgrader, Reader, Reader],
        1,
        1,
        Faults::one(Fault::Duplicate),
    );
    setup.rules.permits = 3;
    catches(Mutant::DowngradeWithoutShare, TAKEN, setup);
}

#[test]
fn an_operator_takes_a_permit_away_from_two_readers() {
    let roles = [Reader, Reader, Operator(1)];
    proves(&of_two(&roles, 1, 2, Faults::any(2)), 162_211);
}

#[test]
fn an_operator_takes_a_permit_away_from_a_reader_and_a_writer() {
    let roles = [Reader, Drawer, Operator(1)];
    proves(&of_two(&roles, 1, 2, Faults::any(1)), 30_828);
}

#[test]
fn an_operator_takes_a_permit_away_from_readers_that_came_out_of_a_queue() {
    let roles = [Waiter, Reader, Reader, Operator(1)];
    proves(&of_two(&roles, 1, 2, Faults::any(1)), 405_666);
}

#[test]
fn an_operator_adds_a_permit_for_a_third_reader() {
    let roles = [Reader, Reader, Reader, Operator(3)];
    proves(&of_two(&roles, 1, 2, Faults::any(1)), 364_522);
}

#[test]
fn an_operator_adds_permits_beside_a_writer() {
    let roles = [Reader, Drawer, Operator(4)];
    proves(&of_two(&roles, 1, 2, Faults::any(1)), 28_531);
}

#[test]
fn operators_change_the_number_one_after_the_other() {
    let roles = [Reader, Reader, Operator(1), Operator(3)];
    proves(&of_two(&roles, 1, 2, Faults::any(1)), 87_157);
}

#[test]
fn every_careless_change_of_the_number_is_caught() {
    let of = |roles: &[Role], faults| of_two(roles, 1, 2, faults);
    let queue = &[Waiter, Reader, Reader, Operator(1)];
    catches(Mutant::ResizeLeavesTheFirst, STAYS, of(queue, Faults::NONE));
    catches(Mutant::ResizeUnderAnybody, STAYS, of(queue, Faults::NONE));
    let waits = [Reader, Reader, Reader, Downgrader, Operator(1)];
    let mut waits = of(&waits, Faults::NONE);
    waits.rules.permits = 3;
    catches(Mutant::ResizeOverWhoHolds, STAYS, waits);
    let twice = of(&[Reader, Operator(3)], Faults::one(Fault::Duplicate));
    catches(Mutant::ResizeTwice, TAKEN, twice);
    let beside = of(&[Reader, Drawer, Operator(4)], Faults::NONE);
    catches(Mutant::ShareBesideTheWhole, EXCLUSION, beside);
}
