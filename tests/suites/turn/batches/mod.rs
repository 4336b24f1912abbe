//! Callers of one client that ask for a lock at once. They share one place, have their turns one after the other, and can leave as freely
//! as if each stood alone.

mod batch;
mod downgrades;

use std::sync::{Arc, Mutex};

use batch::{BatchQueue, Place, call, granted, holds_at};
use fairlock::embedded::{Fault, When};
use fairlock::{Closed, Error, LossReason, RecordWait, Ticket};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{SECOND, acquire, holder_told, in_lab, waits};
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

const INFINITE: RecordWait = RecordWait::Infinite;

/// Every non-empty choice of three calls.
const CHOICES: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];

#[test]
fn a_batch_has_its_turns_in_the_order_of_its_calls_with_a_ticket_each() {
    for place in [Place::Slot, Place::Row] {
        virtual_time(async {
            let queue = BatchQueue::with(place, [INFINITE; 3]).await;
            let tickets = queue.turns(&[]).await;
            let next = |pair: &[Ticket]| pair[0].get() + 1 == pair[1].get();
            assert!(tickets.windows(2).all(next), "{place:?}: {tickets:?}");
        });
    }
}

#[test]
fn whoever_of_a_batch_goes_while_it_waits_the_others_have_their_turns() {
    let places = [Place::Slot, Place::Row].into_iter();
    let cells = places.flat_map(|place| CHOICES.map(|gone| (place, gone)));
    for (place, gone) in sampled(cells, 3) {
        virtual_time(async {
            let queue = BatchQueue::with(place, [INFINITE; 3]).await;
            gone.iter().for_each(|who| queue.members[*who].abort());
            queue.lab.settle().await;
            queue.turns(gone).await;
        });
    }
}

#[test]
fn whoever_of_a_batch_goes_while_it_comes_into_the_queue_the_others_have_their_turns() {
    let requests = [
        (Place::Slot, "enter", 0),
        (Place::Row, "draw", 0),
        (Place::Row, "join", 0),
    ];
    let cells = requests
        .into_iter()
        .flat_map(|request| [When::Before, When::After].map(|when| (request, when)))
        .flat_map(|(request, when)| CHOICES.map(|gone| (request, when, gone)));
    // Every request on both sides, and every choice, is in the sample.
    for ((place, what, nth), when, gone) in sampled(cells, 5) {
        virtual_time(async {
            let gathering = BatchQueue::gathers(place, [INFINITE; 3]).await;
            let gate = holds_at(&gathering.host.network, what, nth, when);
            let queue = gathering.comes().await;
            gate.reached(1).await;
            gone.iter().for_each(|who| queue.members[*who].abort());
            queue.lab.settle().await;
            gate.open();
            queue.lab.settle().await;
            queue.turns(gone).await;
        });
    }
}

/// A lease is of one hold. So the place is no longer the batch's, and the others wait for their turns behind all who came before.
#[test]
fn a_hold_of_a_batch_that_becomes_a_lease_sends_the_others_to_the_end_of_the_queue() {
    for place in [Place::Slot, Place::Row] {
        virtual_time(async {
            let mut queue = BatchQueue::with(place, [INFINITE; 3]).await;
            let other = waits(&queue.lab, &queue.other).await;
            queue.comes_to_the_batch().await;
            let members = std::mem::take(&mut queue.members);
            let [first, second, third] = <[_; 3]>::try_from(members).unwrap_or_else(|_| panic!());
            let guard = granted(first).await;
            let (ticket, minute) = (guard.ticket(), 60 * SECOND);
            let lease = guard.into_lease("job", minute).await.unwrap();
            assert!(lease.ticket() >= ticket);
            queue.lab.settle().await;
            assert!(!other.is_finished() && !second.is_finished());
            let leases = queue.other.locks.lease_lock("a").unwrap();
            leases.release(&lease).await.unwrap();
            let other = other.await.unwrap();
            assert!(other.ticket() > lease.ticket() && !second.is_finished());
            other.release().await.unwrap();
            let second = granted(second).await;
            assert!(!third.is_finished() && second.is_held());
            second.release().await.unwrap();
            granted(third).await.release().await.unwrap();
            queue.lab.settle().await;
            assert_eq!(queue.lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn one_whose_time_is_over_is_told_its_place_and_the_others_wait_on() {
    virtual_time(async {
        let waits = [INFINITE, RecordWait::Timeout(5 * SECOND), INFINITE];
        let mut queue = BatchQueue::with(Place::Row, waits).await;
        let refused = (&mut queue.members[1]).await.unwrap().unwrap_err();
        // It stands behind the holder, the successor and the first of its batch.
        assert_is!(
            refused,
            Error::NotGranted {
                position: Some(3),
                ..
            }
        );
        queue.turns(&[1]).await;
    });
}

#[test]
fn one_whose_time_is_over_behind_another_of_its_batch_is_told_so_and_the_last_waits_on() {
    virtual_time(async {
        let waits = [INFINITE, RecordWait::Timeout(20 * SECOND), INFINITE];
        let mut queue = BatchQueue::with(Place::Slot, waits).await;
        let first = queue.first().await;
        let refused = queue.members.remove(0).await.unwrap().unwrap_err();
        let Error::NotGranted {
            position: place,
            ref holder,
            ..
        } = refused
        else {
            unreachable!("{refused}")
        };
        assert_eq!(place, Some(1));
        assert!(holder.as_ref().unwrap().is_this_process);
        first.release().await.unwrap();
        let last = granted(queue.members.remove(0)).await;
        last.release().await.unwrap();
    });
}

#[test]
fn the_last_of_a_batch_is_told_as_soon_as_its_time_is_over_behind_a_holder_of_its_own_client() {
    for drops in [true, false] {
        virtual_time(async {
            let started = Instant::now();
            let waits = [INFINITE, RecordWait::Timeout(20 * SECOND)];
            let mut queue = BatchQueue::with(Place::Slot, waits).await;
            let first = queue.first().await;
            let before = queue.host.network.counts().requests();
            let refused = queue.members.remove(0).await.unwrap().unwrap_err();
            let Error::NotGranted {
                position, waited, ..
            } = refused
            else {
                unreachable!("{refused}")
            };
            assert_eq!((position, waited), (Some(1), 20 * SECOND));
            assert!(started.elapsed() < 21 * SECOND);
            let renewals = queue.host.network.counts().requests() - before;
            assert!(renewals <= 3, "it has nothing to leave: {renewals}");
            match drops {
                true => drop(first),
                false => first.release().await.unwrap(),
            }
            assert!(queue.lab.is_free("a").await);
            assert_eq!(queue.lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn who_asks_after_the_last_of_a_batch_gave_up_is_not_given_up_with_it() {
    virtual_time(async {
        let gathering = BatchQueue::gathers(Place::Slot, [RecordWait::Timeout(SECOND)]).await;
        // It has given up, but a request of its own may still bring it the lock.
        gathering.lab.wait(SECOND / 2).await;
        let patient = call(&gathering.host, INFINITE);
        let mut queue = gathering.comes().await;
        assert!(queue.members.remove(0).await.unwrap().is_err());
        queue.members.push(patient);
        queue.lab.settle().await;
        queue.turns(&[]).await;
    });
}

#[test]
fn a_guard_of_a_batch_is_passed_on_without_a_request_released_or_dropped() {
    for drops in [true, false] {
        virtual_time(async {
            let mut queue = BatchQueue::with(Place::Row, [INFINITE; 2]).await;
            let first = queue.first().await;
            let before = queue.host.network.counts().requests();
            match drops {
                true => drop(first),
                false => first.release().await.unwrap(),
            }
            let next = granted(queue.members.remove(0)).await;
            assert_eq!(queue.host.network.counts().requests(), before);
            next.release().await.unwrap();
            queue.lab.settle().await;
            assert_eq!(queue.lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn a_lock_is_passed_on_with_half_a_lease_at_least() {
    virtual_time(async {
        let mut queue = BatchQueue::with(Place::Row, [INFINITE; 2]).await;
        let first = queue.first().await;
        queue.host.meets("renew hold", usize::MAX, Fault::Throttle);
        queue.lab.wait(20 * SECOND).await;
        assert!(first.remaining() < 15 * SECOND);
        queue.host.meets("renew hold", 0, Fault::Throttle);
        let before = queue.host.network.counts().requests();
        first.release().await.unwrap();
        let next = granted(queue.members.remove(0)).await;
        assert_eq!(queue.host.network.counts().requests(), before + 1);
        assert!(next.remaining() > 25 * SECOND, "{:?}", next.remaining());
        next.release().await.unwrap();
    });
}

#[test]
fn those_behind_a_hold_that_is_lost_stand_anew_at_the_end_of_the_queue() {
    for deleted in [true, false] {
        virtual_time(async {
            let mut queue = BatchQueue::with(Place::Row, [INFINITE; 3]).await;
            let behind = waits(&queue.lab, &queue.other).await;
            let first = queue.first().await;
            if deleted {
                queue.delete_lock_item().await;
                // The waiter behind it now holds the lock again.
                assert!(matches!(
                    first.lost().await.reason,
                    LossReason::Evicted { by: Some(_) }
                ));
            } else {
                queue.host.meets("renew hold", usize::MAX, Fault::Throttle);
                let reason = first.lost().await.reason;
                assert_is!(reason, LossReason::Unreachable { .. });
            }
            let mut before = first.ticket();
            drop(first);
            let other = behind.await.unwrap();
            assert!(other.ticket() > before);
            if !deleted {
                before = other.ticket();
            }
            other.release().await.unwrap();
            for member in queue.members.drain(..) {
                let next = granted(member).await;
                assert!(next.ticket() > before, "{deleted}");
                before = next.ticket();
                next.release().await.unwrap();
            }
        });
    }
}

#[test]
fn those_who_do_not_wait_have_the_lock_neither_before_nor_between_those_of_a_batch() {
    virtual_time(async {
        let gathering = BatchQueue::gathers(Place::Row, [INFINITE; 2]).await;
        let gate = holds_at(&gathering.host.network, "draw", 0, When::Before);
        let mut queue = gathering.comes().await;
        gate.reached(1).await;
        queue.refuses_those_who_do_not_wait().await;
        gate.open();
        queue.lab.settle().await;
        queue.refuses_those_who_do_not_wait().await;
        queue.comes_to_the_batch().await;
        for member in std::mem::take(&mut queue.members) {
            let guard = granted(member).await;
            queue.refuses_those_who_do_not_wait().await;
            guard.release().await.unwrap();
        }
        assert!(queue.host.try_acquire().await.is_some());
    });
}

#[test]
fn each_of_a_batch_observes_its_own_place() {
    virtual_time(async {
        let told = Arc::new(Mutex::new(vec![Vec::new(); 3]));
        let tell = Arc::clone(&told);
        let gathering = BatchQueue::gathers_observed(3, move |who, waiting| {
            tell.lock().unwrap()[who].push(waiting.position.unwrap());
        });
        let queue = gathering.await.comes().await;
        queue.lab.settle().await;
        queue.turns(&[]).await;
        // First behind the holder and the successor, then behind the successor, then behind calls of its own batch.
        let expected = [vec![2, 1, 0], vec![3, 2, 1], vec![4, 3, 2, 1]];
        assert_eq!(*told.lock().unwrap(), expected);
    });
}

#[test]
fn an_observer_that_panics_ends_its_own_call_and_no_other_of_its_batch() {
    virtual_time(async {
        let gathering =
            BatchQueue::gathers_observed(3, |who, _| assert_ne!(who, 1, "the caller's own"));
        let mut queue = gathering.await.comes().await;
        let ended = (&mut queue.members[1]).await.unwrap();
        assert_is!(ended, Err(Error::ShutDown(Closed::ObserverPanicked)));
        queue.turns(&[1]).await;
    });
}

#[test]
fn the_holder_that_others_are_told_of_has_the_ticket_that_it_has() {
    in_lab(async |lab, [other, host, far]| {
        let before = acquire(&other).await;
        let [zero, first] = [INFINITE; 2].map(|wait| call(&host, wait));
        let second = call(&host, RecordWait::Timeout(20 * SECOND));
        lab.wait(SECOND).await;
        before.release().await.unwrap();
        granted(zero).await.release().await.unwrap();
        let first = granted(first).await;
        let refused = far.lock().acquire(RecordWait::Timeout(2 * SECOND)).await;
        let of_its_own = second.await.unwrap();
        for refused in [refused, of_its_own] {
            let holder = holder_told(refused);
            assert_eq!(holder.ticket, first.ticket());
        }
    });
}

#[test]
fn other_clients_wait_for_all_turns_of_a_batch_and_none_more() {
    virtual_time(async {
        let mut queue = BatchQueue::with(Place::Row, [INFINITE; 3]).await;
        let behind = waits(&queue.lab, &queue.other).await;
        queue.comes_to_the_batch().await;
        for member in std::mem::take(&mut queue.members) {
            let guard = granted(member).await;
            queue.lab.settle().await;
            assert!(!behind.is_finished());
            // It asks again, and stands behind waiters of other clients now.
            queue.members.push(call(&queue.host, INFINITE));
            guard.release().await.unwrap();
        }
        let started = Instant::now();
        let guard = behind.await.unwrap();
        assert!(started.elapsed() < SECOND);
        let mut before = guard.ticket();
        guard.release().await.unwrap();
        for again in queue.members {
            let guard = granted(again).await;
            assert!(guard.ticket() > before);
            before = guard.ticket();
            guard.release().await.unwrap();
        }
        acquire(&queue.other).await.release().await.unwrap();
    });
}
