//! A call that could only wait for its own client, and is refused at once by a handle that denies such waits.

use std::ops::ControlFlow;
use std::time::Duration;

use fairlock::RecordWait::{Infinite, NoWait, Timeout};
use fairlock::{Error, FairLock, LockGuard, Semaphore};
use fairlock_testkit::lab::{Host, SECOND, acquire, cut_off, has_turn, have_turns, in_lab};

fn denying(host: &Host) -> FairLock {
    host.lock().deny_self_wait()
}

fn permits(host: &Host) -> Semaphore {
    host.locks.semaphore("s", 5).unwrap().deny_self_wait()
}

/// Asserts that a call was refused at once because of a hold of its own client, and that its error says so.
#[track_caller]
fn denied<T>(by: &LockGuard, ended: Result<T, Error>) {
    let Err(error) = ended else {
        panic!("it was granted");
    };
    let told = error.to_string();
    let Error::NotGranted {
        holder,
        waited,
        since,
        ..
    } = error
    else {
        panic!("{told}");
    };
    let holder = holder.unwrap();
    assert!(holder.is_this_process && since.is_some(), "{told}");
    assert_eq!(
        (holder.ticket, waited),
        (by.ticket(), Duration::ZERO),
        "{told}"
    );
    assert!(told.contains("this process has"), "{told}");
}

/// Runs a call, and asserts that it sends nothing.
async fn silently<T>(host: &Host, call: impl Future<Output = T>) -> T {
    let before = host.network.counts().requests();
    let ended = tokio::time::timeout(SECOND, call).await.unwrap();
    assert_eq!(
        host.network.counts().requests(),
        before,
        "a request was sent"
    );
    ended
}

/// Asserts that a call was refused because of a hold of its own client, and sent nothing.
async fn refused<T>(host: &Host, by: &LockGuard, call: impl Future<Output = Result<T, Error>>) {
    denied(by, silently(host, call).await);
}

async fn waits_on(call: impl Future) -> bool {
    tokio::time::timeout(5 * SECOND, call).await.is_err()
}

#[test]
fn a_call_for_the_lock_alone_is_refused_while_its_client_holds_the_lock_in_any_way() {
    in_lab(async |lab, [host]| {
        let lock = denying(&host);
        for shares in [false, true] {
            let held = match shares {
                true => lock.acquire_shared(Infinite).await.unwrap(),
                false => lock.acquire(Infinite).await.unwrap(),
            };
            for wait in [NoWait, Timeout(60 * SECOND), Infinite] {
                refused(&host, &held, lock.acquire(wait)).await;
            }
            assert!(silently(&host, lock.try_acquire()).await.unwrap().is_none());
            // Without the setting the call waits, as ever.
            assert!(waits_on(host.lock().acquire(Infinite)).await);
            held.release().await.unwrap();
            lab.settle().await;
        }
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_call_to_share_is_refused_beside_an_exclusive_hold_only() {
    in_lab(async |_, [host]| {
        let lock = denying(&host);
        let mut held = lock.acquire(Infinite).await.unwrap();
        refused(&host, &held, lock.acquire_shared(Infinite)).await;
        let none = silently(&host, lock.try_acquire_shared()).await;
        assert!(none.unwrap().is_none());
        held.downgrade().await.unwrap();
        let mut shared = vec![held];
        for _ in 1..64 {
            shared.push(lock.acquire_shared(Timeout(SECOND)).await.unwrap());
        }
        refused(&host, &shared[0], lock.acquire_shared(Infinite)).await;
        shared.pop().unwrap().release().await.unwrap();
        assert!(lock.try_acquire_shared().await.unwrap().is_some());
    });
}

#[test]
fn permits_are_refused_that_its_clients_own_holds_do_not_leave() {
    in_lab(async |lab, [host, other]| {
        let exports = permits(&host);
        let three = exports.acquire_many(3, Infinite).await.unwrap();
        refused(&host, &three, exports.acquire_many(3, Infinite)).await;
        refused(&host, &three, exports.acquire_many(5, Infinite)).await;
        let none = silently(&host, exports.try_acquire_many(3)).await;
        assert!(none.unwrap().is_none());
        let one = exports.acquire(Timeout(SECOND)).await.unwrap();
        refused(&host, &three, exports.acquire_many(2, Infinite)).await;
        // The last permit is another client's, which may give it back: the call waits.
        let others = permits(&other).acquire(NoWait).await.unwrap();
        assert!(waits_on(exports.acquire(Infinite)).await);
        drop(others);
        let last = exports.acquire(Timeout(60 * SECOND)).await.unwrap();
        refused(&host, &three, exports.acquire(Infinite)).await;
        drop((one, last));
        lab.settle().await;
        has_turn(exports.acquire_many(2, NoWait)).await;
    });
}

#[test]
fn permits_that_are_given_back_count_no_more() {
    in_lab(async |_, [host]| {
        let exports = permits(&host);
        let mut four = exports.acquire_many(4, Infinite).await.unwrap();
        refused(&host, &four, exports.acquire_many(2, Infinite)).await;
        four.release_some(2).await.unwrap();
        let three = exports.acquire_many(3, NoWait).await.unwrap();
        refused(&host, &four, exports.acquire(Infinite)).await;
        four.release_some(1).await.unwrap();
        has_turn(exports.acquire(NoWait)).await;
        three.release().await.unwrap();
    });
}

#[test]
fn a_number_of_permits_that_was_changed_counts_as_soon_as_a_hold_has_seen_it() {
    in_lab(async |lab, [host]| {
        let exports = permits(&host);
        let four = exports.acquire_many(4, Infinite).await.unwrap();
        host.locks.resize("s", 8).await.unwrap();
        lab.wait(15 * SECOND).await;
        let more = exports.acquire_many(4, NoWait).await.unwrap();
        refused(&host, &four, exports.acquire(Infinite)).await;
        // The whole semaphore is asked for by the number that its callers say.
        refused(&host, &four, exports.acquire_many(5, Infinite)).await;
        drop(more);
    });
}

#[test]
fn a_hold_of_another_client_of_the_process_does_not_refuse() {
    in_lab(async |lab, [host, other]| {
        let held = acquire(&other).await;
        let lock = denying(&host);
        let waiting = tokio::spawn(async move { lock.acquire(Infinite).await });
        lab.wait(5 * SECOND).await;
        assert!(!waiting.is_finished());
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_hold_that_is_given_back_or_lost_does_not_refuse() {
    in_lab(async |_, [host, other]| {
        let lock = denying(&host);
        let held = lock.acquire(Infinite).await.unwrap();
        denied(&held, lock.acquire(Infinite).await);
        drop(held);
        let again = lock.acquire(Timeout(SECOND)).await.unwrap();
        host.network.set_faults(cut_off());
        again.lost().await;
        host.network
            .set_faults(fairlock::embedded::Faults::default());
        let next = acquire(&other).await;
        assert!(
            waits_on(lock.acquire(Infinite)).await,
            "the lost guard does not count"
        );
        next.release().await.unwrap();
        assert!(!again.is_held());
        has_turn(lock.acquire(Timeout(60 * SECOND))).await;
        drop(again);
    });
}

#[test]
fn callers_of_a_batch_are_not_refused_and_a_call_beside_the_turn_of_one_of_them_is() {
    in_lab(async |_, [host]| {
        let turns = (0..3).map(|_| {
            let lock = denying(&host);
            tokio::spawn(async move {
                let guard = lock.acquire(Infinite).await.unwrap();
                tokio::time::sleep(SECOND).await;
                guard
            })
        });
        let mut turns = turns.collect::<Vec<_>>().into_iter();
        let first = turns.next().unwrap().await.unwrap();
        // The other two wait behind it, at the same place.
        refused(&host, &first, denying(&host).acquire(Infinite)).await;
        first.release().await.unwrap();
        have_turns(turns).await;
        has_turn(denying(&host).acquire(NoWait)).await;
    });
}

#[test]
fn several_locks_of_which_one_is_held_are_refused_and_none_is_taken() {
    in_lab(async |lab, [host]| {
        let held = host
            .locks
            .fair_lock("b")
            .unwrap()
            .acquire(Infinite)
            .await
            .unwrap();
        let both = host
            .locks
            .multi_lock(["a", "b", "c"])
            .unwrap()
            .deny_self_wait();
        refused(&host, &held, both.acquire(Infinite)).await;
        assert!(silently(&host, both.try_acquire()).await.unwrap().is_none());
        assert!(lab.items("a").await.is_empty() && lab.items("c").await.is_empty());
        held.release().await.unwrap();
        let guard = both.acquire(Timeout(SECOND)).await.unwrap();
        refused(&host, &guard.guards()[0], both.acquire(Infinite)).await;
        guard.release().await.unwrap();
        assert!(both.try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn a_candidate_waits_for_its_own_client() {
    in_lab(async |lab, [host]| {
        let held = acquire(&host).await;
        let candidate = denying(&host).candidate();
        let leading = tokio::spawn(async move {
            candidate
                .lead(async |guard| ControlFlow::Break(guard.ticket()))
                .await
        });
        lab.wait(5 * SECOND).await;
        assert!(!leading.is_finished());
        let before = held.ticket();
        held.release().await.unwrap();
        assert!(leading.await.unwrap().unwrap() > Some(before));
    });
}
