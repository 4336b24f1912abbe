//! Clients that stop believing in their holds before the leases end.

use std::time::Duration;

use fairlock::RecordWait::Infinite;
use fairlock::embedded::Faults;
use fairlock::{Error, HeldLocks, LockClient, LockClientBuilder, LockGuard, LossReason};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{Host, Lab, MS, SECOND, acquire, cut_off, in_lab, loss, waits};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

const LEASE: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_secs(100);
/// The server clock allowance, and the grain of dates.
const ALLOWED: Duration = Duration::from_secs(10 + 2);

/// A client that believes for `LEASE`, and keeps others waiting for longer.
fn cautious(lab: &Lab) -> Host {
    lab.host_with(|builder| with_margin(builder, MARGIN))
}

fn with_margin(builder: LockClientBuilder, margin: Duration) -> LockClientBuilder {
    let builder = builder.lease_duration(LEASE + margin);
    builder.safety_margin(margin)
}

/// Runs a test with clients of which only the first is cautious.
fn beside_one<const N: usize>(test: impl AsyncFnOnce(&Lab, [Host; N])) {
    in_lab(async |lab, []| {
        let mut number = 0..;
        let hosts = [(); N].map(|()| match number.next() {
            Some(0) => cautious(lab),
            _ => lab.host(),
        });
        test(lab, hosts).await;
    });
}

async fn hold(host: &Host) -> LockGuard {
    host.lock().acquire(Infinite).await.unwrap()
}

/// Notes when a hold is lost, by its owner.
fn loses(guard: &LockGuard) -> JoinHandle<Instant> {
    let lost = guard.lost();
    tokio::spawn(async move {
        lost.await;
        Instant::now()
    })
}

/// Notes when a waiter is granted the lock, and releases it.
fn turn(waiting: JoinHandle<LockGuard>) -> JoinHandle<Instant> {
    tokio::spawn(async move {
        let guard = waiting.await.unwrap();
        let granted = Instant::now();
        guard.release().await.unwrap();
        granted
    })
}

/// Asserts that the others were kept waiting for the margin, and for no longer than it takes to notice its end.
#[track_caller]
fn is_after_margin(lost: Instant, granted: Instant) {
    assert!(
        granted >= lost + MARGIN,
        "{:?} after the loss",
        granted - lost
    );
    let bound = lost + MARGIN + ALLOWED + 3 * SECOND;
    assert!(granted <= bound, "{:?} after the loss", granted - lost);
}

#[test]
fn a_holder_that_is_cut_off_is_lost_at_its_lease_and_the_next_has_the_lock_after_the_margin() {
    for cut in [0, 3, 9, 11, 25, 64] {
        beside_one(async |lab, [one, two]| {
            let guard = hold(&one).await;
            let (begun, lost) = (Instant::now(), loses(&guard));
            let next = turn(waits(lab, &two).await);
            sleep_until(begun + SECOND + cut * SECOND).await;
            one.network.set_faults(cut_off());
            let cut = Instant::now();
            let lost = lost.await.unwrap();
            assert!(lost <= cut + LEASE && !guard.is_held(), "{:?}", lost - cut);
            is_after_margin(lost, next.await.unwrap());
        });
    }
}

/// The clock of the owner's host runs slow by as much as a clock may.
#[test]
fn the_margin_is_kept_whatever_the_clocks_do_within_their_margin() {
    for (owner, other) in [(0.98, 1.0), (1.0, 1.02), (0.99, 1.01)] {
        in_lab(async |lab, []| {
            let at_rate = |rate, margin| {
                let clock = lab.clock.clone().at_rate(rate);
                lab.host_with(|builder| with_margin(builder, margin).clock(clock))
            };
            let (one, two) = (at_rate(owner, MARGIN), at_rate(other, Duration::ZERO));
            let guard = hold(&one).await;
            let lost = loses(&guard);
            let next = turn(waits(lab, &two).await);
            one.network.set_faults(cut_off());
            let (lost, granted) = (lost.await.unwrap(), next.await.unwrap());
            // The other clock counts the margin too.
            assert!(
                granted >= lost + MARGIN.mul_f64(0.97),
                "{:?}",
                granted - lost
            );
        });
    }
}

#[test]
fn a_caller_that_does_not_wait_is_refused_until_the_margin_is_over_by_the_servers_clock() {
    beside_one(async |lab, [one, two]| {
        let guard = hold(&one).await;
        let lost = loses(&guard);
        lab.wait(15 * SECOND).await;
        one.network.set_faults(cut_off());
        let lost = lost.await.unwrap();
        let granted = loop {
            if let Some(guard) = two.try_acquire().await {
                drop(guard);
                break Instant::now();
            }
            lab.wait(SECOND).await;
        };
        is_after_margin(lost, granted);
    });
}

#[test]
fn a_reader_that_is_lost_keeps_a_writer_waiting_and_a_lost_permit_its_place() {
    beside_one(async |lab, [one, two]| {
        let reading = one.lock().acquire_shared(Infinite).await.unwrap();
        let permits = one.locks.semaphore("s", 2).unwrap();
        let permit = permits.acquire(Infinite).await.unwrap();
        let (lost, lost_permit) = (loses(&reading), loses(&permit));
        let next = turn(waits(lab, &two).await);
        let both = two.locks.semaphore("s", 2).unwrap();
        let both = async move { both.acquire_many(2, Infinite).await.unwrap() };
        let both = turn(tokio::spawn(both));
        lab.settle().await;
        one.network.set_faults(cut_off());
        is_after_margin(lost.await.unwrap(), next.await.unwrap());
        is_after_margin(lost_permit.await.unwrap(), both.await.unwrap());
    });
}

#[test]
fn a_release_in_time_hands_over_at_once_and_so_does_all_else_that_ends_a_hold_on_purpose() {
    for how in ["release", "drop", "break", "shutdown"] {
        beside_one(async |lab, [one, two, three]| {
            let guard = hold(&one).await;
            let next = turn(waits(lab, &two).await);
            lab.wait(45 * SECOND).await;
            let ended = Instant::now();
            match how {
                "release" => guard.release().await.unwrap(),
                "drop" => drop(guard),
                "break" => {
                    let seen = three.inspect().await.holder.unwrap();
                    three.locks.break_hold("a", &seen, "").await.unwrap();
                    std::mem::forget(guard);
                }
                _ => {
                    let report = one.locks.shutdown(HeldLocks::Release, 10 * SECOND).await;
                    assert!(report.held.is_empty(), "{report:?}");
                    std::mem::forget(guard);
                }
            }
            let took = next.await.unwrap() - ended;
            assert!(took <= 3 * SECOND, "{how}: {took:?}");
        });
    }
}

/// After the loss, the network is back.
#[test]
fn nothing_that_is_done_with_a_lost_guard_shortens_the_margin() {
    for how in ["release", "drop", "keep", "run"] {
        beside_one(async |lab, [one, two]| {
            let guard = hold(&one).await;
            let lost = loses(&guard);
            let next = turn(waits(lab, &two).await);
            let ran = match how {
                "run" => Err(tokio::spawn(guard.run(std::future::pending::<()>()))),
                _ => Ok(guard),
            };
            lab.wait(12 * SECOND).await;
            one.network.set_faults(cut_off());
            let lost = lost.await.unwrap();
            one.network.set_faults(Faults::default());
            match ran {
                Ok(guard) if how == "release" => {
                    let began = Instant::now();
                    let released = guard.release().await.unwrap_err();
                    assert_is!(released, Error::Lost { .. });
                    assert_eq!(began.elapsed(), Duration::ZERO, "nothing is sent");
                }
                Ok(guard) if how == "drop" => drop(guard),
                Ok(guard) => std::mem::forget(guard),
                Err(ran) => {
                    let ran = ran.await.unwrap().map(drop).unwrap_err();
                    assert_is!(ran, Error::Lost { .. });
                }
            }
            is_after_margin(lost, next.await.unwrap());
        });
    }
}

/// The owner finds the deadline passed before any task has noticed, and gives the hold back, or shuts down: as a process that was stopped,
/// and ends first of all when it goes on.
#[test]
fn no_release_after_the_deadline_shortens_the_margin_though_no_task_noticed_the_loss() {
    for shuts_down in [false, true] {
        beside_one(async |lab, [one, two]| {
            let guard = hold(&one).await;
            let next = turn(waits(lab, &two).await);
            let begun = Instant::now();
            let goes_on = async {
                if shuts_down {
                    let report = one.locks.shutdown(HeldLocks::Release, 5 * SECOND).await;
                    assert!(report.held.is_empty(), "{report:?}");
                    assert_eq!(guard.lost().await.reason, LossReason::Expired);
                } else {
                    assert_eq!(loss(guard.release().await), LossReason::Expired);
                }
            };
            tokio::join!(biased; tokio::time::advance(LEASE + SECOND), goes_on);
            let granted = next.await.unwrap() - begun;
            assert!(
                granted >= LEASE + MARGIN - SECOND,
                "{shuts_down}: {granted:?}"
            );
        });
    }
}

#[test]
fn a_longest_hold_ends_in_time_and_the_next_has_the_lock_after_the_margin() {
    for longest in [5, 20, 45] {
        let longest = longest * SECOND;
        for (is_cut, is_dropped) in [(false, false), (false, true), (true, false)] {
            beside_one(async |lab, [one, two, three]| {
                let lock_of_one = one.lock().max_hold(longest);
                let guard = lock_of_one.acquire(Infinite).await.unwrap();
                let begun = Instant::now();
                let next = turn(waits(lab, &two).await);
                if is_cut {
                    lab.wait(2 * SECOND).await;
                    one.network.set_faults(cut_off());
                }
                let lost = guard.lost().await;
                let ended = Instant::now();
                assert!(ended <= begun + longest);
                let ticket = guard.ticket();
                let guard = (!is_dropped).then_some(guard);
                if !is_cut {
                    assert_eq!(lost.reason, LossReason::MaxHold { limit: longest });
                    assert_eq!(ended, begun + longest);
                    let is_kept = async |at| {
                        sleep_until(at).await;
                        let state = three.inspect().await;
                        state.holder.is_some_and(|holder| holder.ticket == ticket)
                    };
                    assert!(is_kept(ended + MARGIN - MS).await);
                    // The client waits 2 % longer, because its clock may run fast. The lease in the table lasts for three seconds more.
                    assert!(!is_kept(ended + MARGIN * 50 / 49 + SECOND).await);
                }
                is_after_margin(ended, next.await.unwrap());
                drop(guard);
            });
        }
    }
}

#[test]
fn a_shortest_hold_that_is_given_back_has_no_margin() {
    for lives in [true, false] {
        beside_one(async |lab, [one, two]| {
            let least = 20 * SECOND;
            let lock = one.lock().min_hold(least);
            let guard = lock.acquire(Infinite).await.unwrap();
            let begun = Instant::now();
            let next = turn(waits(lab, &two).await);
            guard.release().await.unwrap();
            if !lives {
                one.network.set_faults(cut_off());
            }
            let granted = next.await.unwrap() - begun;
            let bound = if lives {
                least + 2 * SECOND
            } else {
                least + ALLOWED + 2 * SECOND
            };
            assert!(granted >= least && granted <= bound, "{granted:?}");
        });
    }
}

#[test]
fn the_lease_that_others_see_has_the_margin_from_the_first_write_on_and_heartbeats_are_as_ever() {
    in_lab(async |lab, []| {
        let in_a_slot = || lab.host_with(|builder| with_margin(builder, MARGIN).successor_slots(1));
        let [one, two, three] = &[(); 3].map(|()| in_a_slot());
        let guard = hold(one).await;
        let second = waits(lab, two).await;
        // It has a row.
        let third = waits(lab, three).await;
        for seconds in [0, 60] {
            lab.wait(seconds * SECOND).await;
            let state = lab.host().inspect().await;
            let queue = state.queue.iter().map(|waiter| waiter.lease);
            let shown: Vec<_> = state
                .holder
                .iter()
                .map(|holder| holder.lease)
                .chain(queue)
                .collect();
            assert_eq!(shown[..2], [LEASE + MARGIN; 2]);
            assert!(shown[2] >= LEASE + MARGIN, "{shown:?}");
            assert!(guard.remaining() <= LEASE && guard.remaining() > LEASE / 2);
        }
        let before = one.network.counts().of("UpdateItem");
        lab.wait(60 * SECOND).await;
        let renewals = one.network.counts().of("UpdateItem") - before;
        assert!((5..=7).contains(&renewals), "{renewals}");
        guard.release().await.unwrap();
        let guard = second.await.unwrap();
        assert!(guard.remaining() <= LEASE);
        guard.release().await.unwrap();
        third.await.unwrap().release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

/// A waiter is cut off. The lock comes to its place after its lease, and before the margin of its entry is over.
#[test]
fn a_waiter_that_comes_back_after_its_lease_is_not_granted_the_lock_of_its_old_place() {
    in_lab(async |lab, []| {
        let (one, two, three) = (lab.host(), cautious(lab), lab.host());
        let first = acquire(&one).await;
        let waiting = waits(lab, &two).await;
        let drawn = three.inspect().await.queue[0].ticket;
        two.network.set_faults(cut_off());
        let cut = Instant::now();
        lab.wait(LEASE + 5 * SECOND).await;
        first.release().await.unwrap();
        let held_by = three.inspect().await.holder.unwrap();
        assert_eq!(
            held_by.ticket, drawn,
            "the place of the waiter that was cut off"
        );
        lab.wait(5 * SECOND).await;
        assert!(three.try_acquire().await.is_none());
        two.network.set_faults(Faults::default());
        let granted = waiting.await.unwrap();
        assert!(granted.ticket() > drawn, "its old place is given up");
        // No work was done at the old place, so nothing waits for its margin.
        assert!(cut.elapsed() < LEASE + MARGIN);
        assert!(granted.remaining() > LEASE / 2);
        granted.release().await.unwrap();
    });
}

/// The call waits for the second lock while it loses the first.
#[test]
fn a_lock_of_several_that_is_lost_before_the_last_is_granted_has_no_margin() {
    beside_one(async |lab, [one, two]| {
        let second = two.locks.fair_lock("b").unwrap();
        let second = second.acquire(Infinite).await.unwrap();
        let both = one.locks.multi_lock(["a", "b"]).unwrap();
        let both = tokio::spawn(async move { both.acquire(Infinite).await.unwrap() });
        lab.settle().await;
        one.network.set_faults(cut_off());
        lab.wait(LEASE + SECOND).await;
        one.network.set_faults(Faults::default());
        lab.wait(5 * SECOND).await;
        let back = Instant::now();
        second.release().await.unwrap();
        let both = both.await.unwrap();
        assert!(back.elapsed() < MARGIN / 2, "{:?}", back.elapsed());
        let lost = loses(&both.guards()[0]);
        let next = turn(waits(lab, &two).await);
        one.network.set_faults(cut_off());
        is_after_margin(lost.await.unwrap(), next.await.unwrap());
    });
}

#[test]
fn callers_of_one_client_share_a_place_and_its_margin() {
    beside_one(async |lab, [one, two]| {
        let first = acquire(&two).await;
        let calls = [(); 3].map(|()| {
            let lock = one.lock();
            tokio::spawn(async move { lock.acquire(Infinite).await.unwrap() })
        });
        lab.settle().await;
        let queue = two.inspect().await.queue;
        assert!(queue.iter().all(|waiter| waiter.lease == LEASE + MARGIN));
        first.release().await.unwrap();
        let [a, b, c] = calls;
        a.await.unwrap().release().await.unwrap();
        let guard = b.await.unwrap();
        let (lost, next) = (loses(&guard), turn(waits(lab, &two).await));
        one.network.set_faults(cut_off());
        is_after_margin(lost.await.unwrap(), next.await.unwrap());
        c.abort();
    });
}

#[test]
fn a_margin_that_leaves_no_lease_is_refused() {
    in_lab(async |lab, []| {
        for (lease, margin) in [(30, 30), (30, 31), (30, u64::MAX)] {
            let builder = LockClient::builder(lab.engine.client());
            let builder = builder.lease_duration(SECOND * lease);
            let refused = builder.safety_margin(Duration::from_secs(margin)).build();
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("safety margin"), "{refused}");
        }
    });
}
