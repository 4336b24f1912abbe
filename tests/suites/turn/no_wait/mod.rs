//! Callers that never wait are not kept out by expired entries, and do not overtake live ones.

mod bounds;
mod dates;

use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, When};
use fairlock::{Error, LockClientBuilder, LockGuard, RecordWait, Stage};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sized;
use fairlock_testkit::lab::{
    EPOCH, Host, Lab, MS, SECOND, acquire, acquires, cut_all, cut_off, in_lab, in_slots, silent,
    waits,
};
use fairlock_testkit::virtual_time;
use futures::future::join_all;
use tokio::time::Instant;

/// The default request time-out.
const REQUEST: Duration = Duration::from_secs(2);

/// As many as can share a fair lock, and as many as can wait in its slots behind them.
#[test]
fn one_call_clears_a_lock_whose_holders_and_slots_are_all_dead() {
    let (slots, readers) = sized((8, 16), (32, 64));
    in_slots(slots, async |lab, hosts: [Host; 34]| {
        let shared = hosts[0].lock();
        // The first of them has the first slot. When it has gone, all of them stand beside the slots.
        let reader = async || shared.acquire_shared(RecordWait::NoWait).await.unwrap();
        let first = reader().await;
        let mut reading = join_all((1..readers).map(|_| reader())).await;
        first.release().await.unwrap();
        reading.push(reader().await);
        let writing: Vec<_> = hosts[1..=slots + 1]
            .iter()
            .map(|host| acquires(host, RecordWait::Infinite))
            .collect();
        lab.wait(2 * SECOND).await;
        let state = shared.inspect().await.unwrap();
        let holders = state.holder.iter().chain(&state.sharers).count();
        let in_slots = state.queue.iter().filter(|it| it.stage == Stage::Successor);
        assert_eq!((holders, in_slots.count()), (readers, slots + 1));
        cut_all(&hosts);
        lab.wait(45 * SECOND).await;
        assert!(lab.host().try_acquire().await.is_some());
        drop((reading, writing));
    });
}

/// How many calls it takes, a minute apart.
async fn calls_until_granted(lab: &Lab, host: &Host) -> usize {
    for call in 1..=20 {
        lab.wait(60 * SECOND).await;
        if host.try_acquire().await.is_some() {
            return call;
        }
    }
    usize::MAX
}

/// An update of the lock item that no client would make.
fn on_the_lock_item(lab: &Lab, expression: &str) -> UpdateItemFluentBuilder {
    let text = |value: &str| AttributeValue::S(value.into());
    let update = lab.engine.client().update_item().table_name("locks");
    let update = update
        .key("pk", text("a"))
        .key("sk", text("fairlock/#lock"));
    update.update_expression(expression)
}

fn number(value: u128) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// Adds drawn tickets for which no row is ever put.
async fn draw_and_die(lab: &Lab, tickets: u128) {
    let draw = on_the_lock_item(
        lab,
        "SET #last = #last + :tickets, drawn_at = :at, drawn_on_host = :at",
    )
    .expression_attribute_names("#last", "last")
    .expression_attribute_values(":tickets", number(tickets))
    .expression_attribute_values(":at", number(EPOCH.as_millis()));
    draw.send().await.unwrap();
}

/// A free lock with this many open tickets, whose drawers died and which are long overdue.
async fn full_of_the_dead(tickets: u128) -> (Lab, Host) {
    let lab = Lab::new().await;
    let host = lab.host();
    acquire(&host).await.release().await.unwrap();
    draw_and_die(&lab, tickets).await;
    lab.wait(100 * SECOND).await;
    (lab, host)
}

/// The same, but every second ticket has a void row: each gap between them takes a write.
async fn full_of_holes(gaps: u128) -> (Lab, Host) {
    let (lab, host) = full_of_the_dead(2 * gaps).await;
    let last = host.inspect().await.newest_ticket.unwrap().get();
    let text = |value: String| AttributeValue::S(value);
    for gap in 0..gaps as u64 {
        let put = lab.engine.client().put_item().table_name("locks");
        let put = put.item("pk", text("a".into()));
        let put = put.item("sk", text(format!("fairlock/{:038}", last - 2 * gap)));
        put.item("state", text("void".into())).send().await.unwrap();
    }
    (lab, host)
}

#[test]
fn hundreds_who_left_the_queue_are_passed_in_one_call() {
    in_lab(async |lab, [host, leaving]| {
        let guard = acquire(&host).await;
        let wait = RecordWait::Timeout(10 * SECOND);
        let left = join_all((0..320).map(|_| acquires(&leaving, wait))).await;
        assert!(left.iter().all(|ended| ended.as_ref().unwrap().is_err()));
        lab.wait(20 * SECOND).await;
        guard.release().await.unwrap();
        lab.wait(20 * SECOND).await;
        assert_eq!(calls_until_granted(lab, &host).await, 1);
    });
}

#[test]
fn a_million_who_drew_and_died_are_passed_in_one_call() {
    virtual_time(async {
        let (lab, host) = full_of_the_dead(1_000_000).await;
        assert_eq!(calls_until_granted(&lab, &host).await, 1);
        let lock = host.lock();
        lock.sweep().await.unwrap();
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}

#[test]
fn one_who_has_just_drawn_and_not_joined_yet_keeps_the_turn() {
    for sweeps in [false, true] {
        in_slots(1, async |lab, hosts: [Host; 3]| {
            // Both have seen a `Date`.
            let _ = hosts[2].try_acquire().await;
            let guard = acquire(&hosts[0]).await;
            let successor = acquires(&hosts[1], RecordWait::Infinite);
            lab.wait(SECOND).await;
            let gate = hosts[2].held("join", usize::MAX, When::Before);
            let drawer = acquires(&hosts[2], RecordWait::Infinite);
            gate.reached(1).await;
            successor.abort();
            guard.release().await.unwrap();
            lab.wait(4 * SECOND).await;
            let other = lab.host_with(|builder| builder.successor_slots(1));
            let lock = other.lock();
            let drawn = lock.inspect().await.unwrap().newest_ticket;
            if sweeps {
                let swept = lock.sweep().await.unwrap();
                assert_eq!(swept.gaps, 0);
            }
            assert!(other.try_acquire().await.is_none());
            gate.open();
            let guard = drawer.await.unwrap().unwrap();
            assert_eq!(Some(guard.ticket()), drawn);
            guard.release().await.unwrap();
            assert!(other.try_acquire().await.is_some());
        });
    }
}

/// As the command does, each of whose processes asks once.
fn reads_first(builder: LockClientBuilder) -> LockClientBuilder {
    builder.testing(|it| it.reads_first = true)
}

#[test]
fn a_process_that_read_first_and_died_right_after_keeps_nobody_out() {
    for years in [0, 3] {
        in_lab(async |lab, []| {
            let wall = years * 365 * 24 * 3600 * SECOND;
            let dead = lab.host_with(|it| reads_first(it).clock(lab.clock.clone().ahead(wall)));
            let lock = dead.lock();
            let guard = lock.try_acquire().await.unwrap().unwrap();
            assert_eq!(dead.network.counts().requests(), 2);
            dead.network.set_faults(cut_off());
            lab.wait(42 * SECOND).await;
            assert!(lab.host().try_acquire().await.is_some());
            drop(guard);
        });
    }
}

/// One read more, for all locks together: after it the client knows the time.
#[test]
fn a_process_that_takes_permits_or_several_locks_may_read_first_too() {
    in_lab(async |lab, []| {
        let reader = || lab.host_with(reads_first);
        let holders = [reader(), reader(), lab.host()];
        let permits = holders[0].locks.semaphore("s", 3).unwrap();
        let permit = permits.try_acquire_many(2).await.unwrap().unwrap();
        let locks = holders[1].locks.multi_lock(["a", "b"]).unwrap();
        let both = locks.try_acquire().await.unwrap().unwrap();
        let unread = holders[2].locks.semaphore("t", 3).unwrap();
        let other = unread.try_acquire().await.unwrap().unwrap();
        let requests = |number: usize| holders[number].network.counts().requests();
        assert_eq!(requests(0), requests(2) + 1);
        assert_eq!(requests(1), 3);
        cut_all(&holders);
        lab.wait(42 * SECOND).await;
        let locks = lab.host().locks;
        let semaphore = locks.semaphore("s", 3).unwrap();
        assert!(semaphore.try_acquire_many(3).await.unwrap().is_some());
        let several = locks.multi_lock(["a", "b"]).unwrap();
        assert!(several.try_acquire().await.unwrap().is_some());
        drop((permit, both, other));
    });
}

#[test]
fn a_process_reads_first_only_until_it_knows_the_time_and_no_longer_than_its_call_has() {
    in_lab(async |lab, []| {
        let host = lab.host_with(reads_first);
        host.try_acquire().await.unwrap().release().await.unwrap();
        let before = host.network.counts().requests();
        host.try_acquire().await.unwrap().release().await.unwrap();
        assert_eq!(host.network.counts().requests() - before, 2);
        let nowhere = lab.host_with(reads_first);
        nowhere.network.set_faults(silent());
        let lock = nowhere.lock();
        for (wait, most) in [
            (RecordWait::NoWait, (1 + 5) * REQUEST),
            (RecordWait::Timeout(SECOND), SECOND + REQUEST),
        ] {
            let started = Instant::now();
            let ended = lock.acquire(wait).await.map(drop).unwrap_err();
            assert_is!(ended, Error::Unavailable { .. });
            let took = started.elapsed();
            assert!(took <= most + SECOND / 10, "{wait:?}: {took:?}");
        }
    });
}

/// `readers` readers share the lock, each a new process. All but the first get it by their first request, and left no date.
async fn fresh_readers(lab: &Lab, readers: usize) -> Vec<(Host, LockGuard)> {
    let mut sharing = Vec::new();
    for _ in 0..readers {
        let host = lab.host();
        let guard = host.lock().try_acquire_shared().await.unwrap().unwrap();
        sharing.push((host, guard));
    }
    sharing
}

#[test]
fn a_refused_call_writes_one_date_more_at_the_most_however_many_holders_have_none() {
    in_lab(async |lab, []| {
        let _sharing = fresh_readers(lab, 50).await;
        let mut updates = Vec::new();
        for _ in 0..6 {
            let late = lab.host();
            assert!(late.try_acquire().await.is_none());
            assert_eq!(
                late.network.counts().requests(),
                late.network.counts().of("UpdateItem")
            );
            updates.push(late.network.counts().requests());
        }
        // The enter, and a write that dates 16 holds. Of 49 holds, three writes date 16 each, and a fourth dates the last.
        assert_eq!(updates, [2, 2, 2, 2, 1, 1]);
    });
}

/// Of a writer, or of readers: no answer has told them the time, so their holds have no date.
#[test]
fn processes_that_died_right_after_their_first_requests_keep_nobody_out_for_long() {
    for readers in [0, 12] {
        in_lab(async |lab, []| {
            let mut dead = fresh_readers(lab, readers).await;
            if readers == 0 {
                let writer = lab.host();
                let guard = acquire(&writer).await;
                dead.push((writer, guard));
            }
            cut_all(dead.iter().map(|(host, _)| host));
            // Each caller is a process of its own.
            assert!(lab.host().try_acquire().await.is_none());
            lab.wait(34 * SECOND).await;
            assert!(lab.host().try_acquire().await.is_none(), "{readers}");
            lab.wait(3 * SECOND).await;
            assert!(lab.host().try_acquire().await.is_some(), "{readers}");
        });
    }
}

#[test]
fn a_call_that_is_dropped_sends_nothing_more_but_what_cleans_up() {
    virtual_time(async {
        let (lab, host) = full_of_holes(1000).await;
        let late = Fault::Delay(When::After, SECOND / 2);
        host.script(move |_| Some(late.clone()));
        let call = acquires(&host, RecordWait::NoWait);
        lab.wait(3 * SECOND).await;
        call.abort();
        lab.wait(2 * SECOND).await;
        let sent = host.network.counts().requests();
        lab.wait(20 * SECOND).await;
        assert_eq!(host.network.counts().requests(), sent);
    });
}

#[test]
fn cleaning_that_is_refused_keeps_nobody_out() {
    virtual_time(async {
        let (lab, host) = full_of_the_dead(300).await;
        let refused = Fault::Refuse("AccessDeniedException");
        host.meets("clean", usize::MAX, refused);
        let calls = calls_until_granted(&lab, &host).await;
        assert!(calls <= 3, "{calls}");
    });
}

#[test]
fn a_refusal_whose_answer_is_cut_short_is_asked_for_again() {
    in_lab(async |_, [a, b, c]| {
        let guard = acquire(&a).await;
        for verb in ["enter known", "enter"] {
            let met = b.meets(verb, 1, Fault::CutShort);
            assert!(b.try_acquire().await.is_none());
            assert_eq!(met.load(Ordering::SeqCst), 1, "{verb}");
        }
        for verb in ["enter known", "enter", "read lock"] {
            let met = c.meets(verb, 1, Fault::CutShort);
            let waiting = acquires(&c, RecordWait::Timeout(5 * SECOND));
            let refused = waiting.await.unwrap().unwrap_err();
            assert_is!(refused, Error::NotGranted { .. });
            assert_eq!(met.load(Ordering::SeqCst), 1, "{verb}");
        }
        guard.release().await.unwrap();
    });
}

/// A free lock with two open tickets whose waiters have left: no caller is on the way to it.
async fn left_behind(lab: &Lab) {
    let hosts = lab.hosts_with_slots(3, 1);
    let guard = acquire(&hosts[0]).await;
    let successor = acquires(&hosts[1], RecordWait::Infinite);
    lab.wait(SECOND).await;
    let behind = acquires(&hosts[2], RecordWait::Infinite);
    lab.wait(SECOND).await;
    behind.abort();
    lab.wait(SECOND).await;
    successor.abort();
    lab.wait(SECOND).await;
    guard.release().await.unwrap();
    lab.wait(SECOND).await;
}

#[test]
fn a_free_lock_whose_queue_has_left_is_entered_at_once_whatever_the_bounds_of_polls() {
    for shortest in [20 * MS, 5 * SECOND] {
        in_lab(async |lab, []| {
            left_behind(lab).await;
            let host = lab.host_with(|builder| {
                builder
                    .successor_slots(1)
                    .testing(|it| it.poll_interval = Some((shortest, 10 * SECOND)))
            });
            let started = Instant::now();
            let guard = acquire(&host).await;
            assert!(started.elapsed() < SECOND / 10, "{:?}", started.elapsed());
            guard.release().await.unwrap();
        });
    }
}

#[test]
fn one_who_died_on_the_way_to_a_free_lock_costs_the_join_timeout() {
    for shortest in [20 * MS, 5 * SECOND] {
        in_lab(async |lab, []| {
            acquire(&lab.host()).await.release().await.unwrap();
            draw_and_die(lab, 1).await;
            let host = lab.host_with(|builder| {
                builder.testing(|it| it.poll_interval = Some((shortest, 10 * SECOND)))
            });
            let started = Instant::now();
            let guard = acquire(&host).await;
            // The join timeout, or the poll after it.
            assert!(started.elapsed() < 16 * SECOND, "{:?}", started.elapsed());
            guard.release().await.unwrap();
        });
    }
}

#[test]
fn a_caller_that_gives_up_at_the_door_draws_no_ticket() {
    in_lab(async |lab, []| {
        acquire(&lab.host()).await.release().await.unwrap();
        draw_and_die(lab, 1).await;
        let host = lab.host();
        let drawn = host.meets("draw", usize::MAX, Fault::Lose(When::Before));
        for timeout in [10, 30, 50, 100, 130] {
            let wait = RecordWait::Timeout(timeout * MS);
            assert!(acquires(&host, wait).await.unwrap().is_err());
            lab.wait(SECOND).await;
        }
        assert_eq!(drawn.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_table_that_falls_silent_at_the_door_is_told_also_when_only_reads_are_lost() {
    in_lab(async |lab, []| {
        acquire(&lab.host()).await.release().await.unwrap();
        draw_and_die(lab, 1).await;
        let host = lab.host();
        host.script(|request| {
            let is_read = ["GetItem", "Query"].contains(&request.operation());
            is_read.then_some(Fault::Hang(When::Before))
        });
        let wait = RecordWait::Timeout(20 * SECOND);
        let refused = acquires(&host, wait).await.unwrap();
        assert_is!(refused, Err(Error::Unavailable { .. }));
    });
}

#[test]
fn a_late_duplicate_of_a_renewal_does_not_make_a_living_holder_look_dead() {
    in_lab(async |lab, []| {
        let [holder, other] =
            [(); 2].map(|()| lab.host_with(|builder| builder.lease_duration(6 * SECOND)));
        let guard = acquire(&holder).await;
        let after = 41 * SECOND;
        holder.meets("renew hold", 1, Fault::Duplicate { after });
        // Until just after the duplicate, and before the next renewal.
        for _ in 0..200 {
            lab.wait(SECOND / 4).await;
            assert!(other.try_acquire().await.is_none());
            assert!(guard.is_held());
        }
    });
}

#[test]
fn a_late_duplicate_of_a_draw_does_not_make_a_ticket_overdue_that_was_drawn_since() {
    in_slots(1, async |lab, hosts: [Host; 4]| {
        let [first, successor, drawer, other] = &hosts[..] else {
            unreachable!("four hosts")
        };
        let after = 41 * SECOND;
        drawer.meets("draw", 1, Fault::Duplicate { after });
        let guard = acquire(first).await;
        let [next, last] = [waits(lab, successor).await, waits(lab, drawer).await];
        guard.release().await.unwrap();
        next.await.unwrap().release().await.unwrap();
        last.await.unwrap().release().await.unwrap();

        // Just before the duplicate arrives, another client draws. Its row is under way when the lock becomes free.
        lab.wait(37 * SECOND).await;
        let guard = acquire(first).await;
        let next = waits(lab, successor).await;
        let gate = drawer.held("join", 100, When::Before);
        let drawn = waits(lab, drawer).await;
        lab.wait(3 * SECOND / 2).await;
        guard.release().await.unwrap();
        next.await.unwrap().release().await.unwrap();
        assert!(other.try_acquire().await.is_none());
        gate.open();
        drawn.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_hold_goes_on_without_a_date_though_a_later_one_stands_there() {
    in_lab(async |lab, []| {
        let [holder, other] =
            [(); 2].map(|()| lab.host_with(|builder| builder.lease_duration(6 * SECOND)));
        let guard = acquire(&holder).await;
        lab.settle().await;
        let later = number((EPOCH + 3600 * SECOND).as_millis());
        let date = on_the_lock_item(lab, "SET slots[0].renewed_at = :later")
            .expression_attribute_values(":later", later);
        date.send().await.unwrap();
        lab.wait(60 * SECOND).await;
        assert!(guard.is_held());
        assert!(other.try_acquire().await.is_none());
    });
}
