//! Those of one client who ask for a lock at once: they stand in one place, have their turns one after the other, and go
//! away as freely as if each stood alone.

mod downgrades;
mod party;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, When};
use fairlock::{Closed, Error, Loss, RecordWait, Ticket};
use fairlock_testkit::lab::{Lab, acquire, waits};
use fairlock_testkit::verbs::meets;
use fairlock_testkit::virtual_time;
use party::{Line, Place, call, granted, holds_at};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const INFINITE: RecordWait = RecordWait::Infinite;

/// Every choice of one or more of three.
const CHOICES: [&[usize]; 7] = [&[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];

#[test]
fn a_party_has_its_turns_in_the_order_of_its_calls_with_a_ticket_each() {
    for place in [Place::Seat, Place::Row] {
        virtual_time(async {
            let line = Line::with(place, [INFINITE; 3]).await;
            let tickets = line.turns(&[]).await;
            let next = |pair: &[Ticket]| pair[0].get() + 1 == pair[1].get();
            assert!(tickets.windows(2).all(next), "{place:?}: {tickets:?}");
        });
    }
}

#[test]
fn whoever_of_a_party_goes_while_it_waits_the_others_have_their_turns() {
    for place in [Place::Seat, Place::Row] {
        for gone in CHOICES {
            virtual_time(async {
                let line = Line::with(place, [INFINITE; 3]).await;
                gone.iter().for_each(|who| line.members[*who].abort());
                line.lab.settle().await;
                line.turns(gone).await;
            });
        }
    }
}

#[test]
fn whoever_of_a_party_goes_while_it_comes_into_the_line_the_others_have_their_turns() {
    let requests = [
        (Place::Seat, "enter", 0),
        (Place::Row, "draw", 0),
        (Place::Row, "join", 0),
    ];
    for (place, what, nth) in requests {
        for (when, gone) in [When::Before, When::After]
            .into_iter()
            .flat_map(|when| CHOICES.map(|gone| (when, gone)))
        {
            virtual_time(async {
                let gathering = Line::gathers(place, [INFINITE; 3]).await;
                let gate = holds_at(&gathering.host.network, what, nth, when);
                let line = gathering.comes().await;
                gate.reached(1).await;
                gone.iter().for_each(|who| line.members[*who].abort());
                line.lab.settle().await;
                gate.open();
                line.lab.settle().await;
                line.turns(gone).await;
            });
        }
    }
}

#[test]
fn one_whose_time_is_over_is_told_its_place_and_the_others_wait_on() {
    virtual_time(async {
        let waits = [INFINITE, RecordWait::Timeout(5 * SECOND), INFINITE];
        let mut line = Line::with(Place::Row, waits).await;
        let refused = (&mut line.members[1]).await.unwrap().unwrap_err();
        // Behind the holder, the heir and the first of its party.
        assert!(
            matches!(refused, Error::NotGranted { place: Some(3), .. }),
            "{refused:?}"
        );
        line.turns(&[1]).await;
    });
}

#[test]
fn one_whose_time_is_over_behind_another_of_its_party_is_told_so_and_the_last_waits_on() {
    virtual_time(async {
        let waits = [INFINITE, RecordWait::Timeout(20 * SECOND), INFINITE];
        let mut line = Line::with(Place::Seat, waits).await;
        line.comes_to_the_party().await;
        let first = granted(line.members.remove(0)).await;
        let refused = line.members.remove(0).await.unwrap().unwrap_err();
        let Error::NotGranted {
            place, ref holder, ..
        } = refused
        else {
            unreachable!("{refused}")
        };
        assert_eq!(place, Some(1));
        assert!(holder.as_ref().unwrap().is_this_process);
        first.release().await.unwrap();
        let last = granted(line.members.remove(0)).await;
        last.release().await.unwrap();
    });
}

#[test]
fn the_last_of_a_party_is_told_as_soon_as_its_time_is_over_behind_a_holder_of_its_own_client() {
    for drops in [true, false] {
        virtual_time(async {
            let started = Instant::now();
            let waits = [INFINITE, RecordWait::Timeout(20 * SECOND)];
            let mut line = Line::with(Place::Seat, waits).await;
            line.comes_to_the_party().await;
            let first = granted(line.members.remove(0)).await;
            let before = line.host.network.counts().requests();
            let refused = line.members.remove(0).await.unwrap().unwrap_err();
            let Error::NotGranted { place, waited, .. } = refused else {
                unreachable!("{refused}")
            };
            assert_eq!((place, waited), (Some(1), 20 * SECOND));
            assert!(started.elapsed() < 21 * SECOND);
            let renewals = line.host.network.counts().requests() - before;
            assert!(renewals <= 3, "it has nothing to leave: {renewals}");
            match drops {
                true => drop(first),
                false => first.release().await.unwrap(),
            }
            assert!(line.lab.is_free("a").await);
            assert_eq!(line.lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn who_asks_after_the_last_of_a_party_gave_up_is_not_given_up_with_it() {
    virtual_time(async {
        let gathering = Line::gathers(Place::Seat, [RecordWait::Timeout(SECOND)]).await;
        // It has given up, and a request of its own might still bring it the lock.
        gathering.lab.wait(SECOND / 2).await;
        let patient = call(&gathering.host, INFINITE);
        let mut line = gathering.comes().await;
        assert!(line.members.remove(0).await.unwrap().is_err());
        line.members.push(patient);
        line.lab.settle().await;
        line.turns(&[]).await;
    });
}

#[test]
fn a_guard_of_a_party_is_passed_on_without_a_request_released_or_dropped() {
    for drops in [true, false] {
        virtual_time(async {
            let mut line = Line::with(Place::Row, [INFINITE; 2]).await;
            line.comes_to_the_party().await;
            let first = granted(line.members.remove(0)).await;
            let before = line.host.network.counts().requests();
            match drops {
                true => drop(first),
                false => first.release().await.unwrap(),
            }
            let next = granted(line.members.remove(0)).await;
            assert_eq!(line.host.network.counts().requests(), before);
            next.release().await.unwrap();
            line.lab.settle().await;
            assert_eq!(line.lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn a_lock_is_passed_on_with_half_a_lease_at_least() {
    virtual_time(async {
        let mut line = Line::with(Place::Row, [INFINITE; 2]).await;
        line.comes_to_the_party().await;
        let first = granted(line.members.remove(0)).await;
        meets(
            &line.host.network,
            "renew hold",
            usize::MAX,
            Fault::Throttle,
        );
        line.lab.wait(20 * SECOND).await;
        assert!(first.remaining() < 15 * SECOND);
        meets(&line.host.network, "renew hold", 0, Fault::Throttle);
        let before = line.host.network.counts().requests();
        first.release().await.unwrap();
        let next = granted(line.members.remove(0)).await;
        assert_eq!(line.host.network.counts().requests(), before + 1);
        assert!(next.remaining() > 25 * SECOND, "{:?}", next.remaining());
        next.release().await.unwrap();
    });
}

#[test]
fn those_behind_a_hold_that_is_lost_stand_anew_at_the_end_of_the_line() {
    for deleted in [true, false] {
        virtual_time(async {
            let mut line = Line::with(Place::Row, [INFINITE; 3]).await;
            let behind = waits(&line.lab, &line.other).await;
            line.comes_to_the_party().await;
            let first = granted(line.members.remove(0)).await;
            if deleted {
                line.delete_lock_item().await;
                // Whoever waited behind has it, anew.
                assert!(matches!(
                    first.lost().await.reason,
                    Loss::Evicted { by: Some(_) }
                ));
            } else {
                meets(
                    &line.host.network,
                    "renew hold",
                    usize::MAX,
                    Fault::Throttle,
                );
                let reason = first.lost().await.reason;
                assert!(matches!(reason, Loss::Unreachable { .. }), "{reason}");
            }
            let mut before = first.ticket();
            drop(first);
            let other = behind.await.unwrap();
            assert!(other.ticket() > before);
            if !deleted {
                before = other.ticket();
            }
            other.release().await.unwrap();
            for member in line.members.drain(..) {
                let next = granted(member).await;
                assert!(next.ticket() > before, "{deleted}");
                before = next.ticket();
                next.release().await.unwrap();
            }
        });
    }
}

#[test]
fn those_who_do_not_wait_have_the_lock_neither_before_nor_between_those_of_a_party() {
    virtual_time(async {
        let gathering = Line::gathers(Place::Row, [INFINITE; 2]).await;
        let gate = holds_at(&gathering.host.network, "draw", 0, When::Before);
        let mut line = gathering.comes().await;
        gate.reached(1).await;
        line.refuses_those_who_do_not_wait().await;
        gate.open();
        line.lab.settle().await;
        line.refuses_those_who_do_not_wait().await;
        line.comes_to_the_party().await;
        for member in std::mem::take(&mut line.members) {
            let guard = granted(member).await;
            line.refuses_those_who_do_not_wait().await;
            guard.release().await.unwrap();
        }
        let lock = line.host.locks.fair_lock("a").unwrap();
        assert!(lock.try_acquire().await.unwrap().is_some());
    });
}

/// Writes to what the lock protects, unless somebody with a larger ticket has. Whether it was written.
async fn writes(lab: &Lab, ticket: Ticket) -> bool {
    let ticket = AttributeValue::N(ticket.to_string());
    let write = lab.engine.client().update_item().table_name("locks");
    let write = write.key("pk", AttributeValue::S("protected".into()));
    let write = write.key("sk", AttributeValue::S("data".into()));
    let write = write.update_expression("SET fence = :ticket");
    let write = write.condition_expression("attribute_not_exists(fence) OR fence <= :ticket");
    let write = write.expression_attribute_values(":ticket", ticket);
    write.send().await.is_ok()
}

#[test]
fn a_write_under_the_ticket_of_an_earlier_one_of_a_party_is_refused() {
    virtual_time(async {
        let mut line = Line::with(Place::Row, [INFINITE; 3]).await;
        line.comes_to_the_party().await;
        let mut earlier = Vec::new();
        for member in std::mem::take(&mut line.members) {
            let guard = granted(member).await;
            assert!(writes(&line.lab, guard.ticket()).await);
            for stale in &earlier {
                assert!(!writes(&line.lab, *stale).await, "{earlier:?}");
            }
            assert!(writes(&line.lab, guard.ticket()).await);
            earlier.push(guard.ticket());
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn each_of_a_party_observes_its_own_place() {
    virtual_time(async {
        let told = Arc::new(Mutex::new(vec![Vec::new(); 3]));
        let tell = Arc::clone(&told);
        let gathering = Line::gathers_observed(3, move |who, waiting| {
            tell.lock().unwrap()[who].push(waiting.place.unwrap());
        });
        let line = gathering.await.comes().await;
        line.lab.settle().await;
        line.turns(&[]).await;
        // Behind the holder and the heir; behind the heir; behind those of its own.
        let expected = [vec![2, 1, 0], vec![3, 2, 1], vec![4, 3, 2, 1]];
        assert_eq!(*told.lock().unwrap(), expected);
    });
}

#[test]
fn an_observer_that_panics_ends_its_own_call_and_no_other_of_its_party() {
    virtual_time(async {
        let gathering = Line::gathers_observed(3, |who, _| assert_ne!(who, 1, "the caller's own"));
        let mut line = gathering.await.comes().await;
        let ended = (&mut line.members[1]).await.unwrap();
        assert!(
            matches!(ended, Err(Error::ShutDown(Closed::ObserverPanicked))),
            "{ended:?}"
        );
        line.turns(&[1]).await;
    });
}

#[test]
fn the_holder_that_others_are_told_of_has_the_ticket_that_it_has() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (other, host, far) = (lab.host(), lab.host(), lab.host());
        let before = acquire(&other).await;
        let [zero, first] = [INFINITE; 2].map(|wait| call(&host, wait));
        let second = call(&host, RecordWait::Timeout(20 * SECOND));
        lab.wait(SECOND).await;
        before.release().await.unwrap();
        granted(zero).await.release().await.unwrap();
        let first = granted(first).await;
        let lock = far.locks.fair_lock("a").unwrap();
        let refused = lock.acquire(RecordWait::Timeout(2 * SECOND)).await;
        let of_its_own = second.await.unwrap();
        for refused in [refused, of_its_own] {
            let Err(Error::NotGranted { holder, .. }) = refused else {
                panic!("{refused:?}")
            };
            assert_eq!(holder.unwrap().ticket, first.ticket());
        }
    });
}

#[test]
fn other_clients_wait_for_all_turns_of_a_party_and_none_more() {
    virtual_time(async {
        let mut line = Line::with(Place::Row, [INFINITE; 3]).await;
        let behind = waits(&line.lab, &line.other).await;
        line.comes_to_the_party().await;
        for member in std::mem::take(&mut line.members) {
            let guard = granted(member).await;
            line.lab.settle().await;
            assert!(!behind.is_finished());
            // It asks again, and is behind those of other clients now.
            line.members.push(call(&line.host, INFINITE));
            guard.release().await.unwrap();
        }
        let started = Instant::now();
        let guard = behind.await.unwrap();
        assert!(started.elapsed() < SECOND);
        let mut before = guard.ticket();
        guard.release().await.unwrap();
        for again in line.members {
            let guard = granted(again).await;
            assert!(guard.ticket() > before);
            before = guard.ticket();
            guard.release().await.unwrap();
        }
        acquire(&line.other).await.release().await.unwrap();
    });
}
