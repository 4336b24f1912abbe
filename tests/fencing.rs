//! Writes of the callers' own that are fenced: a stale one is refused, whatever its writer believes.
#![cfg(feature = "embedded")]
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod common;
#[path = "program/example.rs"]
mod example;
#[path = "fencing/history.rs"]
mod history;
#[path = "fencing/items.rs"]
mod items;
#[path = "common/lab.rs"]
mod lab;
#[path = "fencing/recipes.rs"]
mod recipes;
#[path = "common/verbs.rs"]
mod verbs;

use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{AttributeValue, Delete, Put, TransactWriteItem, Update};
use common::virtual_time;
use fairlock::embedded::{Fault, When};
use fairlock::{Error, Fence, LockGuard, Loss, RecordWait, Ticket};
use history::{Writes, counted};
use items::*;
use lab::{Host, Lab, acquire, cut_off, waits};
use verbs::meets;

const SECOND: Duration = Duration::from_secs(1);

/// A holder who believes on although the next one has the lock: cut off, and on a clock that is too slow.
struct Overtaken {
    _lab: Lab,
    things: Client,
    stale: LockGuard,
    fresh: LockGuard,
    _hosts: [Host; 2],
}

impl Overtaken {
    /// `before` is done by the first holder while it has the lock for certain.
    async fn after<T>(before: impl AsyncFnOnce(&LockGuard, &Client) -> T) -> (Self, T) {
        let lab = Lab::new().await;
        let things = things(&lab).await;
        let slow = lab.clock.clone().at_rate(0.1);
        let a = lab.host_with(|builder| builder.clock(slow));
        let b = lab.host();
        let stale = acquire(&a).await;
        let done = before(&stale, &things).await;
        let waiting = waits(&lab, &b).await;
        a.network.set_faults(cut_off());
        let fresh = waiting.await.unwrap();
        assert!(stale.is_held() && fresh.is_held(), "one of them is wrong");
        let overtaken = Overtaken {
            _lab: lab,
            things,
            stale,
            fresh,
            _hosts: [a, b],
        };
        (overtaken, done)
    }

    async fn new() -> Self {
        let nothing = async |_: &LockGuard, _: &Client| {};
        Overtaken::after(nothing).await.0
    }
}

#[test]
fn a_stale_put_update_or_deletion_is_refused_though_its_writer_believes_to_hold_the_lock() {
    virtual_time(async {
        let Overtaken {
            things,
            stale,
            fresh,
            ..
        } = &Overtaken::new().await;
        let (stale, fresh) = (stale.fence("fence"), fresh.fence("fence"));
        assert!(applied(fresh.on(put(things, 1)).send().await));
        assert!(!applied(stale.on(put(things, 7)).send().await));
        assert!(!applied(stale.on(set(things, 7)).send().await));
        assert!(!applied(stale.on(delete(things)).send().await));
        assert_eq!(number(things, "value").await, Some(1));
        let remembered = number(things, "fence").await.unwrap();
        assert_eq!(Ticket::new(remembered), fresh.ticket());
        // The same token again, in as many writes as the holder likes.
        assert!(applied(fresh.on(set(things, 2)).send().await));
        assert!(applied(fresh.on(put(things, 3)).send().await));
        assert!(applied(fresh.on(delete(things)).send().await));
        assert_eq!(item(things).await, None);
    });
}

#[test]
fn stale_parts_of_a_transaction_are_refused_and_fresh_ones_are_not() {
    virtual_time(async {
        let overtaken = Overtaken::new().await;
        let things = &overtaken.things;
        let fresh = overtaken.fresh.fence("fence");
        assert!(applied(fresh.on(put(things, 1)).send().await));
        let stale = overtaken.stale.fence("fence");
        for part in parts(&stale) {
            let transaction = things.transact_write_items().transact_items(part);
            assert!(!committed(transaction.send().await, 0));
        }
        assert_eq!(number(things, "value").await, Some(1));
        for part in parts(&fresh) {
            let transaction = things.transact_write_items().transact_items(part);
            assert!(committed(transaction.send().await, 0));
        }
        assert_eq!(item(things).await, None);
    });
}

/// A put, an update and a deletion.
fn parts(fence: &Fence) -> [TransactWriteItem; 3] {
    let put = Put::builder().table_name("things").item("id", id());
    let update = Update::builder()
        .table_name("things")
        .key("id", id())
        .update_expression("SET #v = :v")
        .expression_attribute_names("#v", "value")
        .expression_attribute_values(":v", n(7));
    let delete = Delete::builder().table_name("things").key("id", id());
    let part = TransactWriteItem::builder;
    [
        part().put(fence.on(put).build().unwrap()).build(),
        part().update(fence.on(update).build().unwrap()).build(),
        part().delete(fence.on(delete).build().unwrap()).build(),
    ]
}

/// An unfenced write, and the hold's check.
fn checked(things: &Client, check: TransactWriteItem, value: u64) -> Transaction {
    let put = Put::builder().table_name("things").item("id", id());
    let put = put.item("value", n(value)).build().unwrap();
    let part = TransactWriteItem::builder().put(put).build();
    let transaction = things.transact_write_items().transact_items(part);
    transaction.transact_items(check)
}

type Transaction =
    aws_sdk_dynamodb::operation::transact_write_items::builders::TransactWriteItemsFluentBuilder;

#[test]
fn a_checked_transaction_is_refused_as_soon_as_another_has_the_lock_and_before_it_writes() {
    virtual_time(async {
        let while_held = async |stale: &LockGuard, things: &Client| {
            let check = stale.check_item().unwrap();
            let transaction = checked(things, check.clone(), 1).send().await;
            assert!(committed(transaction, 1));
            check
        };
        let (overtaken, early) = Overtaken::after(while_held).await;
        let things = &overtaken.things;
        let late = overtaken.stale.check_item().unwrap();
        for check in [early, late] {
            assert!(!committed(checked(things, check, 7).send().await, 1));
        }
        assert_eq!(number(things, "value").await, Some(1));
        let check = overtaken.fresh.check_item().unwrap();
        assert!(committed(checked(things, check, 2).send().await, 1));
        assert_eq!(number(things, "value").await, Some(2));
    });
}

#[test]
fn a_check_holds_over_renewals_and_not_after_the_release_nor_the_end_of_the_lock_item() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = things(&lab).await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let check = guard.check_item().unwrap();
        lab.wait(100 * SECOND).await;
        let transaction = checked(&things, check.clone(), 1).send().await;
        assert!(committed(transaction, 1));
        guard.release().await.unwrap();
        let transaction = checked(&things, check.clone(), 2).send().await;
        assert!(!committed(transaction, 1));
        host.locks.fair_lock("a").unwrap().sweep().await.unwrap();
        lab.delete_lock_item().await;
        assert!(!committed(checked(&things, check, 3).send().await, 1));
    });
}

#[test]
fn a_hold_that_is_not_believed_in_gives_no_check() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        host.network.set_faults(cut_off());
        guard.lost().await;
        let sent = host.network.counts();
        let Err(Error::Lost { reason, ticket, .. }) = guard.check_item() else {
            panic!("a check of a lost hold")
        };
        assert_eq!((reason, ticket), (Loss::Unreachable, guard.ticket()));
        assert_eq!((host.network.counts() - sent).requests(), 0);
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, not the client's"
)]
fn call(host: &Host) -> Call {
    let lock = host.locks.fair_lock("a").unwrap();
    tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.unwrap() })
}

type Call = tokio::task::JoinHandle<LockGuard>;

/// A lock that another client has let go, and callers of one client who have it one after the other: the first did, the
/// second does, and the rest are next at the second's place.
struct Together<const REST: usize> {
    lab: Lab,
    things: Client,
    host: Host,
    earlier: LockGuard,
    later: [Call; REST],
}

impl<const REST: usize> Together<REST> {
    async fn new() -> Self {
        let lab = Lab::new().await;
        let things = things(&lab).await;
        let (other, host) = (lab.host(), lab.host());
        let holder = acquire(&other).await;
        // While the first is on its way into the line the others gather, and then go together.
        let (first, second) = (call(&host), call(&host));
        let later = [(); REST].map(|()| call(&host));
        lab.settle().await;
        holder.release().await.unwrap();
        first.await.unwrap().release().await.unwrap();
        let earlier = second.await.unwrap();
        Together {
            lab,
            things,
            host,
            earlier,
            later,
        }
    }
}

#[test]
fn callers_who_have_the_lock_at_one_place_are_told_apart_by_their_checks_and_their_fences() {
    virtual_time(async {
        let Together {
            things,
            earlier,
            later: [later],
            ..
        } = Together::new().await;
        let (check, fence) = (earlier.check_item().unwrap(), earlier.fence("fence"));
        assert!(committed(
            checked(&things, check.clone(), 1).send().await,
            1
        ));
        earlier.release().await.unwrap();
        let later = later.await.unwrap();
        assert_eq!(fence.ticket().get() + 1, later.ticket().get());
        assert!(!committed(
            checked(&things, check.clone(), 7).send().await,
            1
        ));
        let its_own = later.check_item().unwrap();
        assert!(committed(
            checked(&things, its_own.clone(), 2).send().await,
            1
        ));
        assert!(applied(
            later.fence("fence").on(raise(&things)).send().await
        ));
        assert!(!applied(fence.on(set(&things, 7)).send().await));
        later.release().await.unwrap();
        for check in [check, its_own] {
            assert!(!committed(checked(&things, check, 7).send().await, 1));
        }
        assert_eq!(number(&things, "value").await, Some(2));
    });
}

#[test]
fn a_turn_is_passed_on_by_one_write_if_it_was_to_be_checked_and_by_none_if_not() {
    for asks in [true, false] {
        virtual_time(async {
            let together = Together::<1>::new().await;
            if asks {
                drop(together.earlier.check_item().unwrap());
            }
            let sent = together.host.network.counts();
            together.earlier.release().await.unwrap();
            let [later] = together.later;
            let later = later.await.unwrap();
            let sent = together.host.network.counts() - sent;
            assert_eq!(sent.requests(), u64::from(asks));
            later.release().await.unwrap();
            assert_eq!(together.lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn a_check_stays_over_however_its_end_was_answered_and_however_late_a_copy_comes() {
    let late = Fault::Duplicate { after: 2 * SECOND };
    for fault in [
        Fault::Lose(When::After).and(late.clone()),
        Fault::Hang(When::After),
        Fault::Hang(When::Before).and(late.clone()),
        Fault::Conflict,
        late,
    ] {
        virtual_time(async {
            let together = Together::<2>::new().await;
            let met = meets(&together.host.network, "pass on", 1, fault.clone());
            let [second, third] = together.later;
            let mut checks = vec![together.earlier.check_item().unwrap()];
            together.earlier.release().await.unwrap();
            assert_eq!(met.load(Ordering::SeqCst), 1);
            let second = second.await.unwrap();
            checks.push(second.check_item().unwrap());
            second.release().await.unwrap();
            let third = third.await.unwrap();
            for _ in 0..5 {
                for check in checks.clone() {
                    let transaction = checked(&together.things, check, 7).send().await;
                    assert!(!committed(transaction, 1), "{fault:?}");
                }
                together.lab.wait(SECOND).await;
            }
            third.release().await.unwrap();
        });
    }
}

#[test]
fn a_turn_whose_check_cannot_be_ended_is_not_passed_on_and_the_next_stands_in_line_anew() {
    virtual_time(async {
        let together = Together::<1>::new().await;
        let check = together.earlier.check_item().unwrap();
        let denied = Fault::Refuse("AccessDeniedException");
        let _met = meets(&together.host.network, "pass on", usize::MAX, denied);
        let ticket = together.earlier.ticket();
        together.earlier.release().await.unwrap();
        let [later] = together.later;
        let later = later.await.unwrap();
        assert!(
            later.ticket().get() > ticket.get() + 1,
            "a place of its own"
        );
        let transaction = checked(&together.things, check, 7).send().await;
        assert!(!committed(transaction, 1));
        later.release().await.unwrap();
    });
}

#[test]
fn no_update_is_lost_while_holders_lose_the_lock_and_go_on_unless_they_write_unfenced() {
    let of = |writes, seed| virtual_time(counted(writes, seed));
    let (mut known, mut lost) = (0, 0);
    for seed in 0..4 {
        let (count, found) = of(Writes::Fenced, seed);
        assert_eq!(count, found, "seed {seed}");
        known += count;
        let (count, found) = of(Writes::Unfenced, seed);
        lost += count - found;
    }
    // Of 48 turns.
    assert!(known > 20 && known < 48, "{known}");
    assert!(lost > 4, "unfenced writes lost {lost} updates only");
}

#[test]
fn a_raised_fence_refuses_the_stale_before_the_new_holder_has_written() {
    virtual_time(async {
        let Overtaken {
            things,
            stale,
            fresh,
            ..
        } = &Overtaken::new().await;
        let (stale, fresh) = (stale.fence("fence"), fresh.fence("fence"));
        // Nothing tells the item yet that there is a newer token.
        assert!(applied(stale.on(set(things, 1)).send().await));
        assert!(applied(fresh.on(raise(things)).send().await));
        assert!(!applied(stale.on(set(things, 2)).send().await));
        assert_eq!(number(things, "value").await, Some(1));
    });
}

#[test]
fn a_deletion_forgets_the_token_and_a_tombstone_does_not() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = &things(&lab).await;
        assert!(applied(fence(8).on(put(things, 1)).send().await));
        assert!(applied(fence(8).on(delete(things)).send().await));
        assert!(applied(fence(7).on(put(things, 7)).send().await));
        let tombstone = things.put_item().table_name("things").item("id", id());
        let tombstone = tombstone.item("deleted", AttributeValue::Bool(true));
        assert!(applied(fence(8).on(tombstone).send().await));
        assert!(!applied(fence(7).on(put(things, 7)).send().await));
        assert!(!applied(fence(7).on(delete(things)).send().await));
        assert_eq!(number(things, "value").await, None);
    });
}

#[test]
fn the_callers_own_condition_holds_beside_the_fence() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = &things(&lab).await;
        assert!(applied(fence(8).on(put(things, 1)).send().await));
        // Either alone would let it through, were they joined without parentheses.
        let own = |condition: &str, ticket| {
            let update = set(things, 2).condition_expression(condition);
            let update = update.expression_attribute_values(":old", n(1));
            fence(ticket).on(update).send()
        };
        assert!(!applied(own("#v = :old OR #v > :old", 7).await));
        assert!(!applied(own("#v < :old OR #v > :old", 8).await));
        assert!(applied(own("#v < :old OR #v = :old", 9).await));
        let guarded = put(things, 3).condition_expression("attribute_not_exists(id)");
        assert!(!applied(fence(9).on(guarded).send().await));
        let guarded = delete(things).condition_expression("attribute_not_exists(id)");
        assert!(!applied(fence(9).on(guarded).send().await));
        assert_eq!(number(things, "value").await, Some(2));
    });
}

#[test]
fn the_callers_own_names_and_values_do_not_clash_with_the_fences() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = &things(&lab).await;
        for attribute in ["fence", "a fence-2", "set", "_", "zäun"] {
            let fence = Fence::new(attribute, Ticket::new(8));
            let update = raise(things)
                .update_expression("SET #fence = :fence, #fenced = if_not_exists(#fenced, :token)")
                .expression_attribute_names("#fence", "mine")
                .expression_attribute_names("#fenced", "also mine")
                .expression_attribute_values(":fence", n(1))
                .expression_attribute_values(":token", n(2));
            assert!(applied(fence.on(update).send().await), "{attribute}");
            assert_eq!(number(things, attribute).await, Some(8));
            assert_eq!(number(things, "mine").await, Some(1));
        }
    });
}

#[test]
fn fences_of_two_locks_go_on_one_write_and_each_refuses_by_itself() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = &things(&lab).await;
        let two = |one: u64, other: u64| {
            let (one, other) = (Ticket::new(one), Ticket::new(other));
            let fenced = Fence::new("one", one).on(set(things, one.get()));
            Fence::new("other", other).on(fenced).send()
        };
        assert!(applied(two(5, 50).await));
        assert!(!applied(two(4, 51).await));
        assert!(!applied(two(6, 49).await));
        assert!(applied(two(6, 50).await));
        assert_eq!(number(things, "value").await, Some(6));
    });
}

#[test]
fn a_condition_that_is_set_after_the_fence_is_refused_and_does_not_go_out_unfenced() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = &things(&lab).await;
        let own = "attribute_not_exists(id)";
        let fence = fence(8);
        let put = fence.on(put(things, 1)).condition_expression(own);
        let update = fence.on(set(things, 1)).condition_expression(own);
        let expression = fence.on(set(things, 1)).update_expression("SET #v = :v");
        let delete = fence.on(delete(things)).condition_expression(own);
        let codes = [
            put.send().await.unwrap_err().code().map(str::to_owned),
            update.send().await.unwrap_err().code().map(str::to_owned),
            expression
                .send()
                .await
                .unwrap_err()
                .code()
                .map(str::to_owned),
            delete.send().await.unwrap_err().code().map(str::to_owned),
        ];
        assert!(
            codes
                .iter()
                .all(|code| code.as_deref() == Some("ValidationException")),
            "{codes:?}"
        );
    });
}

#[test]
fn tokens_of_twenty_digits_are_compared_to_the_last_one() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = &things(&lab).await;
        let raised = |ticket| fence(ticket).on(raise(things)).send();
        assert!(applied(raised(u64::MAX - 1).await));
        assert!(!applied(raised(u64::MAX - 2).await));
        assert!(!applied(raised(9).await));
        assert!(applied(raised(u64::MAX).await));
        assert!(!applied(raised(u64::MAX - 1).await));
        let item = item(things).await.unwrap();
        assert_eq!(fence(7).refused_by(&item), Some(Ticket::new(u64::MAX)));
    });
}

#[test]
fn an_attribute_that_is_no_token_refuses_every_write() {
    virtual_time(async {
        let lab = Lab::new().await;
        let things = &things(&lab).await;
        let text = put(things, 1).item("fence", AttributeValue::S("7".into()));
        text.send().await.unwrap();
        assert!(!applied(fence(8).on(set(things, 2)).send().await));
        assert_eq!(fence(8).refused_by(&item(things).await.unwrap()), None);
    });
}

#[test]
fn conflicts_with_transactions_cost_neither_the_lease_nor_the_release() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let guard = acquire(&a).await;
        let waiting = waits(&lab, &b).await;
        for _ in 0..5 {
            let conflicts = meets(&a.network, "renew hold", 8, Fault::Conflict);
            while conflicts.load(Ordering::SeqCst) < 8 {
                lab.wait(SECOND).await;
                assert!(guard.is_held() && !guard.in_danger());
            }
            lab.wait(2 * SECOND).await;
            assert!(guard.remaining() > 25 * SECOND, "{:?}", guard.remaining());
        }
        let conflicts = meets(&a.network, "release", 3, Fault::Conflict);
        guard.release().await.unwrap();
        assert_eq!(conflicts.load(Ordering::SeqCst), 3);
        waiting.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_release_that_met_a_conflict_is_told_what_became_of_the_lock_since() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let conflict = Fault::Delay(When::After, SECOND).and(Fault::Conflict);
        let _met = meets(&host.network, "release", 1, conflict);
        let deleted = async {
            lab.wait(SECOND / 2).await;
            lab.delete_lock_item().await;
        };
        let (released, ()) = tokio::join!(guard.release(), deleted);
        let Err(Error::Lost { reason, .. }) = released else {
            panic!("{released:?}: the conflict left no doubt")
        };
        assert_eq!(reason, Loss::Deleted);
    });
}

/// How often the heir looks within three seconds of its having met a fault so many times.
fn looks_after(times: usize, fault: Fault) -> u64 {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let _guard = acquire(&a).await;
        let _waiting = waits(&lab, &b).await;
        let met = meets(&b.network, "renew seat", times, fault);
        while met.load(Ordering::SeqCst) < times {
            lab.wait(SECOND / 100).await;
        }
        let before = b.network.counts();
        lab.wait(3 * SECOND).await;
        (b.network.counts() - before).reads()
    })
}

#[test]
fn a_conflict_slows_no_look_down_as_being_too_busy_does() {
    let [conflicts, throttles] = [Fault::Conflict, Fault::Throttle].map(|it| looks_after(5, it));
    assert!(conflicts > 2 * throttles, "{conflicts}, {throttles}");
}

#[test]
fn the_example_tells_its_story() {
    let ran = example::example("fencing").output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}");
    for line in [
        "A writes under token",
        "A is stopped",
        "B has the lock",
        "A goes on, and its fenced write is refused",
        "A goes on without a fence, and what B wrote is lost",
        "A's transaction is refused",
    ] {
        assert!(said.contains(line), "no `{line}` in {said}");
    }
}
