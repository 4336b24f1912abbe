//! Locks of several permits, whose number an operator may change.

use super::client::Role::{
    self, Caller, Downgrader, Drawer, Glance, Operator, Reader, Sweeper, Waiter,
};
use super::faults::{Fault, Faults};
use super::properties::{EXCLUSION, HOLDER, NOT_OVERTAKEN, QUEUE_ORDER, STAYS, TAKEN};
use super::rules::Mutant;
use super::world::Setup;
use super::{ANY, catches, each_proves, of_two};

fn one_slot(roles: &[Role], faults: Faults) -> Setup {
    of_two(roles, 1, 1, faults)
}

fn two_slots(roles: &[Role], faults: Faults) -> Setup {
    of_two(roles, 1, 2, faults)
}

#[test]
fn readers_and_writers_share_two_permits() {
    let downgrades = [Downgrader, Reader, Drawer];
    each_proves([
        (one_slot(&[Reader, Reader, Drawer], ANY), 423_105),
        (two_slots(&[Reader, Reader, Reader], ANY), 50_637),
        (of_two(&[Reader, Drawer], 2, 1, ANY), 333_510),
        (two_slots(&downgrades, Faults::NONE), 14_384),
        (two_slots(&downgrades, ANY), 1_197_984),
    ]);
}

/// Also while the waiter in the queue dies and the reader lives.
#[test]
fn callers_that_do_not_wait_and_a_sweeper_come_between_readers_and_writers() {
    each_proves([
        (one_slot(&[Reader, Reader, Glance], ANY), 224_868),
        (one_slot(&[Reader, Drawer, Glance], ANY), 566_130),
        (one_slot(&[Reader, Drawer, Caller], ANY), 312_161),
        (
            one_slot(&[Reader, Reader, Sweeper], Faults::any(2)),
            140_179,
        ),
    ]);
}

/// Takes a permit away from readers, from a reader and a writer, and from readers that came out of a queue. Adds permits for a third reader,
/// and beside a writer. Two of them change the number one after the other.
#[test]
fn an_operator_changes_the_number_of_permits() {
    let out_of_a_queue = [Waiter, Reader, Reader, Operator(1)];
    let third = [Reader, Reader, Reader, Operator(3)];
    let both = [Reader, Reader, Operator(1), Operator(3)];
    let any_two = Faults::any(2);
    each_proves([
        (two_slots(&[Reader, Reader, Operator(1)], any_two), 162_211),
        (two_slots(&[Reader, Drawer, Operator(1)], ANY), 30_828),
        (two_slots(&out_of_a_queue, ANY), 405_666),
        (two_slots(&third, ANY), 364_522),
        (two_slots(&[Reader, Drawer, Operator(4)], ANY), 28_531),
        (two_slots(&both, ANY), 87_157),
    ]);
}

#[test]
fn every_rule_of_shares_that_is_changed_is_caught() {
    use Mutant as By;
    let (none, twice) = (Faults::NONE, Faults::one(Fault::Duplicate));
    let readers = [Reader, Reader, Reader];
    // A client that has two of three permits keeps one.
    let mut keeps = one_slot(&[Downgrader, Reader, Reader], twice);
    let mut waits = two_slots(&[Reader, Reader, Reader, Downgrader, Operator(1)], none);
    (keeps.rules.permits, waits.rules.permits) = (3, 3);
    let unsettled = one_slot(&[Reader, Waiter, Drawer], none);
    let behind = one_slot(&[Reader, Reader, Drawer], none);
    let queue = two_slots(&[Waiter, Reader, Reader, Operator(1)], none);
    let again = two_slots(&[Reader, Operator(3)], twice);
    let beside = two_slots(&[Reader, Drawer, Operator(4)], none);
    for (mutant, property, setup) in [
        (By::ShareOverUnsettled, NOT_OVERTAKEN, unsettled),
        (By::ShareBesideAnybody, QUEUE_ORDER, behind),
        // The client in the first slot no longer holds the lock.
        (By::ShareWithoutRoom, HOLDER, one_slot(&readers, none)),
        (By::AdmitWhoeverIsThere, TAKEN, two_slots(&readers, ANY)),
        (By::DowngradeWithoutShare, TAKEN, keeps),
        (By::ResizeLeavesTheFirst, STAYS, queue.clone()),
        (By::ResizeUnderAnybody, STAYS, queue),
        (By::ResizeOverWhoHolds, STAYS, waits),
        (By::ResizeTwice, TAKEN, again),
        (By::ShareBesideTheWhole, EXCLUSION, beside),
    ] {
        catches(mutant, property, setup);
    }
}
