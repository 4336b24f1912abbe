//! A number of permits that an operator changes while callers hold them and wait for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{Error, LockGuard, RecordWait, ResizeOutcome};
use fairlock_testkit::effort::{sampled, sized};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, away, cut_off, have_turns, in_lab};
use futures::future::join_all;
use tokio::task::JoinHandle;

use crate::sharing::shared::{takes, waits_for};

async fn resize(host: &Host, permits: u64) -> ResizeOutcome {
    host.locks.resize("s", permits).await.unwrap()
}

/// Whether no caller holds the lock or waits for it.
async fn is_free(ops: &Host) -> bool {
    let state = ops.locks.fair_lock("s").unwrap().inspect().await.unwrap();
    state.holder.is_none() && state.waiting == 0
}

/// The change was made, of so many permits, while so many were held.
fn resized(before: u64, taken: u64) -> ResizeOutcome {
    ResizeOutcome::Resized { before, taken }
}

/// Hosts that hold one permit each. The first of them stands in the first slot, and the others beside it: they came out of a queue.
async fn holders_out_of_a_queue(lab: &Lab, hosts: &[Host]) -> Vec<LockGuard> {
    let all = takes(&hosts[0], 5).await;
    let mut waiting = Vec::new();
    for host in hosts {
        waiting.push(waits_for(lab, host, 1).await);
    }
    all.release().await.unwrap();
    let held = join_all(waiting).await;
    lab.settle().await;
    held.into_iter().map(Result::unwrap).collect()
}

#[test]
fn more_permits_are_given_out_at_once_in_the_order_of_the_queue() {
    in_lab(async |lab, hosts: [Host; 9]| {
        let ops = lab.host();
        let held = holders_out_of_a_queue(lab, &hosts[..5]).await;
        let mut waiting = Vec::new();
        for host in &hosts[5..] {
            waiting.push(waits_for(lab, host, 1).await);
        }
        assert_eq!(resize(&ops, 7).await, resized(5, 5));
        lab.settle().await;
        let are_in: Vec<_> = waiting.iter().map(JoinHandle::is_finished).collect();
        assert_eq!(are_in, [true, true, false, false]);
        let state = ops.locks.fair_lock("s").unwrap().inspect().await.unwrap();
        assert_eq!((state.permits, state.resized), (Some(5), Some(7)));
        assert_eq!(state.sharers.len() + 1, 7);
        for guard in held {
            guard.release().await.unwrap();
        }
        have_turns(waiting).await;
        lab.settle().await;
        assert!(is_free(&ops).await);
    });
}

#[test]
fn with_fewer_permits_holders_keep_theirs_and_others_wait_until_enough_have_gone() {
    in_lab(async |lab, hosts: [Host; 7]| {
        let ops = lab.host();
        let mut held = holders_out_of_a_queue(lab, &hosts[..5]).await;
        let next = waits_for(lab, &hosts[5], 1).await;
        assert_eq!(resize(&ops, 2).await, resized(5, 5));
        lab.wait(90 * SECOND).await;
        assert!(
            held.iter().all(LockGuard::is_held),
            "renewed for three leases"
        );
        let late = hosts[6].locks.semaphore("s", 5).unwrap();
        for left in [4, 3, 2] {
            held.remove(0).release().await.unwrap();
            lab.settle().await;
            assert!(!next.is_finished(), "{left} are held, and there are two");
        }
        held.remove(0).release().await.unwrap();
        let next = next.await.unwrap();
        assert!(late.try_acquire().await.unwrap().is_none(), "two are held");
        held.remove(0).release().await.unwrap();
        let late = late.try_acquire().await.unwrap().unwrap();
        assert!(next.is_held() && late.is_held());
        assert_eq!(resize(&ops, 5).await, resized(2, 2));
    });
}

/// Every way in which the holder in the first slot can go on after it has become a sharer.
#[test]
fn the_holder_in_the_first_slot_keeps_its_permits_though_fewer_are_left_than_it_has() {
    in_lab(async |lab, hosts: [Host; 4]| {
        let ops = lab.host();
        for goes_on in [
            "releases",
            "downgrades",
            "is given up",
            "crashes",
            "is broken",
        ] {
            let sole = takes(&hosts[0], 5).await;
            let first = waits_for(lab, &hosts[1], 3).await;
            let beside = waits_for(lab, &hosts[2], 2).await;
            sole.release().await.unwrap();
            let (mut first, beside) = (first.await.unwrap(), beside.await.unwrap());
            let next = waits_for(lab, &hosts[3], 1).await;
            assert_eq!(resize(&ops, 3).await, resized(5, 5), "{goes_on}");
            assert!(first.is_held() && !next.is_finished(), "{goes_on}");
            match goes_on {
                "releases" => first.release().await.unwrap(),
                "downgrades" => {
                    first.downgrade().await.unwrap();
                    lab.settle().await;
                    assert!(!next.is_finished(), "three of three are held");
                    first.release().await.unwrap();
                }
                "is given up" => drop(first),
                "crashes" => hosts[1].network.set_faults(cut_off()),
                _ => {
                    let state = ops.locks.fair_lock("s").unwrap().inspect().await.unwrap();
                    let seen = state.holder.unwrap();
                    let outcome = ops.locks.break_hold("s", &seen, "").await.unwrap();
                    assert!(format!("{outcome:?}").starts_with("Broken"), "{outcome:?}");
                }
            }
            let next = next.await.unwrap();
            assert!(beside.is_held() && next.is_held(), "{goes_on}");
            beside.release().await.unwrap();
            next.release().await.unwrap();
            hosts[1].network.set_faults(Faults::default());
            lab.wait(60 * SECOND).await;
            assert!(is_free(&ops).await, "{goes_on}");
            assert_eq!(resize(&ops, 5).await, resized(3, 0), "{goes_on}");
        }
    });
}

#[test]
fn a_hold_that_moves_while_it_is_kept_for_its_shortest_time_is_released_on_time() {
    in_lab(async |lab, hosts: [Host; 3]| {
        let ops = lab.host();
        let sole = takes(&hosts[0], 5).await;
        let lock = hosts[1].locks.semaphore("s", 5).unwrap();
        let lock = lock.min_hold(50 * SECOND);
        let first = tokio::spawn(async move { lock.acquire_many(2, RecordWait::Infinite).await });
        lab.settle().await;
        let beside = waits_for(lab, &hosts[2], 3).await;
        sole.release().await.unwrap();
        let (first, _beside) = (first.await.unwrap().unwrap(), beside.await.unwrap());
        assert_eq!(resize(&ops, 3).await, resized(5, 5));
        first.release().await.unwrap();
        let taken = async || {
            let state = ops.locks.fair_lock("s").unwrap().inspect().await.unwrap();
            state.sharers.len() + usize::from(state.holder.is_some())
        };
        lab.wait(40 * SECOND).await;
        assert_eq!(taken().await, 2, "kept");
        lab.wait(15 * SECOND).await;
        assert_eq!(taken().await, 1, "over");
    });
}

#[test]
fn a_caller_that_asks_for_more_than_there_are_has_the_lock_alone_in_its_turn() {
    in_lab(async |lab, hosts: [Host; 4]| {
        let ops = lab.host();
        let one = takes(&hosts[0], 1).await;
        let four = waits_for(lab, &hosts[1], 4).await;
        let late = waits_for(lab, &hosts[2], 1).await;
        assert!(
            four.is_finished() && !late.is_finished(),
            "one and four are held"
        );
        four.await.unwrap().release().await.unwrap();
        let late = late.await.unwrap();
        assert_eq!(resize(&ops, 2).await, resized(5, 2));
        let four = waits_for(lab, &hosts[3], 4).await;
        one.release().await.unwrap();
        lab.settle().await;
        assert!(!four.is_finished(), "one is held");
        late.release().await.unwrap();
        let four = four.await.unwrap();
        assert_eq!(four.permits(), 4);
        let refused = hosts[0]
            .locks
            .semaphore("s", 5)
            .unwrap()
            .try_acquire()
            .await;
        assert!(refused.unwrap().is_none(), "held alone");
        four.release().await.unwrap();
        // Also at a free lock, and for a caller that does not wait.
        let lock = hosts[0].locks.semaphore("s", 5).unwrap();
        let before = hosts[0].network.counts().requests();
        let four = lock.try_acquire_many(4).await.unwrap().unwrap();
        assert!(hosts[0].network.counts().requests() - before <= 2);
        assert!(lock.try_acquire().await.unwrap().is_none(), "held alone");
        four.release().await.unwrap();
    });
}

/// There is more room than an exclusive caller takes, and nobody may have it.
#[test]
fn an_exclusive_caller_is_alone_however_many_permits_there_are() {
    in_lab(async |lab, [one, two, ops]| {
        let writer = acquire(&one).await;
        let outcome = ops.locks.resize("a", 80).await.unwrap();
        assert_eq!(outcome, resized(64, 64));
        let lock = two.lock();
        assert!(lock.try_acquire_shared().await.unwrap().is_none());
        let again = lock.clone();
        let reading = tokio::spawn(async move { again.acquire_shared(RecordWait::Infinite).await });
        lab.wait(60 * SECOND).await;
        assert!(!reading.is_finished() && writer.is_held());
        writer.release().await.unwrap();
        let reader = reading.await.unwrap().unwrap();
        // A writer that waits is passed by no reader.
        let next = one.lock();
        let writing = tokio::spawn(async move { next.acquire(RecordWait::Infinite).await });
        lab.settle().await;
        assert!(lock.try_acquire_shared().await.unwrap().is_none());
        reader.release().await.unwrap();
        writing.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn what_cannot_be_changed_is_refused_and_says_why() {
    in_lab(async |_, [host, ops]| {
        let refused = async |permits| match ops.locks.resize("s", permits).await {
            Err(Error::Invalid(invalid)) => invalid.to_string(),
            other => panic!("{other:?}"),
        };
        let invalid = |said: u64, most: u64| {
            format!("{said} permits were asked for, where there are 1 to {most}")
        };
        assert_eq!(refused(0).await, invalid(0, 1000));
        assert_eq!(refused(1001).await, invalid(1001, 1000));
        assert_eq!(ops.network.counts().requests(), 0);
        assert_eq!(resize(&ops, 1000).await, ResizeOutcome::NotThere);
        let held = takes(&host, 2).await;
        assert_eq!(refused(81).await, invalid(81, 80));
        assert_eq!(resize(&ops, 80).await, resized(5, 2));
        held.release().await.unwrap();
        let mutex = host.locks.semaphore("m", 1).unwrap();
        let held = mutex.acquire(RecordWait::NoWait).await.unwrap();
        let one = ops.locks.resize("m", 2).await.unwrap_err();
        assert!(is_invalid(&one, "name one permit"), "{one}");
        assert!(held.is_held());
        let many = host.locks.semaphore("many", 300).unwrap();
        let held = many.acquire(RecordWait::NoWait).await.unwrap();
        assert!(ops.locks.resize("many", 301).await.is_err());
        let outcome = ops.locks.resize("many", 2).await.unwrap();
        assert_eq!(outcome, resized(300, 1));
        let outcome = ops.locks.resize("many", 300).await.unwrap();
        assert_eq!(outcome, resized(2, 1));
        held.release().await.unwrap();
    });
}

#[test]
fn a_change_whose_answer_is_lost_is_made_once_and_a_late_copy_changes_nothing_back() {
    in_lab(async |lab, [host, ops]| {
        let held = takes(&host, 2).await;
        ops.next_meets("UpdateItem", Fault::Lose(When::After));
        assert_eq!(resize(&ops, 8).await, resized(5, 2));
        ops.next_meets("UpdateItem", Fault::Duplicate { after: 20 * SECOND });
        assert_eq!(resize(&ops, 3).await, resized(8, 2));
        assert_eq!(resize(&ops, 8).await, resized(3, 2));
        lab.wait(30 * SECOND).await;
        assert_eq!(resize(&ops, 8).await, resized(8, 2));
        held.release().await.unwrap();
        let all = takes(&host, 5).await;
        let other = lab.host().locks.semaphore("s", 5).unwrap();
        assert!(other.try_acquire().await.unwrap().is_none());
        all.release().await.unwrap();
    });
}

/// The first slot is given away between the operator's read and its write.
#[test]
fn a_change_that_comes_just_behind_another_write_reads_again() {
    in_lab(async |lab, hosts: [Host; 3]| {
        let ops = lab.host();
        let three = takes(&hosts[0], 3).await;
        let two = takes(&hosts[1], 2).await;
        let waiting = waits_for(lab, &hosts[2], 2).await;
        ops.next_meets("UpdateItem", Fault::Delay(When::Before, SECOND));
        // The waiter in the first slot holds its permits before the change arrives, and keeps them.
        let (outcome, ()) = tokio::join!(resize(&ops, 1), async {
            lab.wait(SECOND / 2).await;
            two.release().await.unwrap();
        });
        assert_eq!(outcome, resized(5, 5));
        let first = waiting.await.unwrap();
        lab.wait(60 * SECOND).await;
        assert!(first.is_held() && three.is_held());
        first.release().await.unwrap();
        three.release().await.unwrap();
        lab.settle().await;
        assert!(is_free(&ops).await);
    });
}

/// Its retry arrives behind the change of another operator.
#[test]
fn a_change_whose_answer_is_lost_is_not_made_again_over_a_later_one() {
    in_lab(async |lab, [host, one, two]| {
        let held = takes(&host, 2).await;
        let tries = AtomicU64::new(0);
        one.script(move |request| {
            let is_change = request.operation() == "UpdateItem";
            match is_change.then(|| tries.fetch_add(1, Ordering::SeqCst))? {
                0 => Some(Fault::Lose(When::After)),
                1 => Some(Fault::Delay(When::Before, SECOND)),
                _ => None,
            }
        });
        let (first, second) = tokio::join!(resize(&one, 3), async {
            lab.wait(SECOND / 2).await;
            resize(&two, 4).await
        });
        assert_eq!((first, second), (ResizeOutcome::Contended, resized(3, 2)));
        assert_eq!(resize(&two, 4).await, resized(4, 2), "the later one stands");
        held.release().await.unwrap();
    });
}

/// Takes a permit again and again, near the table, until it is over.
async fn quick_turns(lab: &Lab, host: &Host, turns: &AtomicU64, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        let guard = takes(host, 1).await;
        turns.fetch_add(1, Ordering::SeqCst);
        lab.wait(Duration::from_millis(5)).await;
        guard.release().await.unwrap();
    }
}

/// While the operator's change is on its way, the first slot changes hands many times. One caller keeps its permit throughout.
#[test]
fn an_operator_far_away_changes_the_number_while_the_holders_change_all_the_time() {
    for round_trip in sampled([200, 60].into_iter(), 2) {
        in_lab(async move |lab, []| {
            let (ops, stays) = (lab.host(), takes(&lab.host(), 1).await);
            let hosts: Vec<_> = (0..7).map(|_| lab.host()).collect();
            let near = hosts.iter().map(|host| (host, 5));
            for (host, millis) in near.chain([(&ops, round_trip)]) {
                host.network.set_faults(away(Duration::from_millis(millis)));
            }
            let (turns, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
            let callers = hosts.iter();
            let callers = callers.map(|host| quick_turns(lab, host, &turns, &is_over));
            let operator = async {
                for _ in 0..sized(2, 10) {
                    let before = turns.load(Ordering::SeqCst);
                    lab.wait(SECOND / 2).await;
                    assert!(turns.load(Ordering::SeqCst) > before + 40);
                    for (to, from) in [(3, 5), (5, 3)] {
                        let outcome = resize(&ops, to).await;
                        let is_done = matches!(outcome, ResizeOutcome::Resized { before, .. } if before == from);
                        assert!(is_done, "{outcome:?}");
                    }
                }
                is_over.store(true, Ordering::SeqCst);
            };
            tokio::join!(join_all(callers), operator);
            assert!(stays.is_held());
            stays.release().await.unwrap();
            lab.settle().await;
            assert!(is_free(&ops).await);
        });
    }
}

/// What all holders of a run hold at the moment, and how many they may.
#[derive(Default)]
struct Books {
    held: AtomicU64,
    holders: AtomicU64,
    faults: Mutex<Vec<String>>,
}

/// Takes turns with one or more permits each. A turn that begins finds no more held than there are, unless it is alone.
async fn worker(lab: &Lab, host: &Host, books: &Books, (seed, turns): (u64, usize)) {
    let mut random = fastrand::Rng::with_seed(seed);
    let lock = host.locks.semaphore("s", 5).unwrap();
    for _ in 0..turns {
        let permits = random.u64(1..=5);
        let guard = lock.acquire_many(permits, RecordWait::Infinite).await;
        let guard = guard.unwrap();
        books.held.fetch_add(permits, Ordering::SeqCst);
        books.holders.fetch_add(1, Ordering::SeqCst);
        lab.wait(Duration::from_millis(random.u64(1..3_000))).await;
        if !guard.is_held() {
            let text = format!("lost a hold of {permits}");
            books.faults.lock().unwrap().push(text);
        }
        books.held.fetch_sub(permits, Ordering::SeqCst);
        books.holders.fetch_sub(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    }
}

/// Changes the number again and again. A while after each change, no more is held than there are, unless by one holder.
async fn operator(lab: &Lab, ops: &Host, books: &Books, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..sized(8, 12) {
        let permits = random.u64(1..=9);
        let outcome = ops.locks.resize("s", permits).await.unwrap();
        assert!(outcome != ResizeOutcome::Contended, "{permits}");
        lab.wait(Duration::from_millis(random.u64(4_000..9_000)))
            .await;
        let held = books.held.load(Ordering::SeqCst);
        let holders = books.holders.load(Ordering::SeqCst);
        if held > permits && holders > 1 {
            let text = format!("{holders} hold {held} of {permits}");
            books.faults.lock().unwrap().push(text);
        }
    }
}

#[test]
fn callers_of_all_kinds_go_on_while_the_number_changes_again_and_again() {
    for seed in 0..sized(1, 20) {
        in_lab(async move |lab, hosts: [Host; 8]| {
            let ops = lab.host();
            let books = Arc::new(Books::default());
            takes(&hosts[0], 1).await.release().await.unwrap();
            let works = hosts.iter().enumerate().map(|(index, host)| {
                let seed = seed as u64 * 100 + index as u64;
                worker(lab, host, &books, (seed, sized(12, 20)))
            });
            tokio::join!(join_all(works), operator(lab, &ops, &books, seed as u64));
            assert_eq!(*books.faults.lock().unwrap(), [""; 0], "seed {seed}");
            lab.settle().await;
            assert!(is_free(&ops).await, "seed {seed}");
        });
    }
}
