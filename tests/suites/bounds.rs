//! Holds that last for a time at least, or at most.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; a caller's task, not the client's"
)]

use std::time::Duration;

use fairlock::embedded::Fault;
use fairlock::{Error, FairLock, HeldLocks, LockGuard, LossReason, RecordWait};
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{EPOCH, Host, Lab, acquire, cut_off, waits};
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn lock(host: &Host) -> FairLock {
    host.locks.fair_lock("a").unwrap()
}

async fn at_most(host: &Host, most: Duration) -> LockGuard {
    let lock = lock(host).max_hold(most);
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

async fn at_least(host: &Host, least: Duration) -> LockGuard {
    let lock = lock(host).min_hold(least);
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

async fn is_held(host: &Host) -> bool {
    match lock(host).try_acquire().await.unwrap() {
        Some(guard) => {
            guard.release().await.unwrap();
            false
        }
        None => true,
    }
}

#[test]
fn a_hold_ends_at_its_longest_and_the_next_has_the_lock_then() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (lab.host(), lab.host());
        for longest in [SECOND, 5 * SECOND, 45 * SECOND, 600 * SECOND] {
            let guard = at_most(&one, longest).await;
            let begun = Instant::now();
            let next = waits(&lab, &two).await;
            let lost = guard.lost().await;
            assert_eq!(begun.elapsed(), longest);
            assert_eq!(lost.reason, LossReason::MaxHold { limit: longest });
            assert!(!guard.is_held());
            let next = next.await.unwrap();
            assert!(begun.elapsed() < longest + SECOND, "{longest:?}");
            assert!(next.ticket() > guard.ticket());
            let released = guard.release().await.unwrap_err();
            assert!(matches!(released, Error::Lost { .. }), "{released}");
            // The release of the lost guard took nothing from the next.
            lab.settle().await;
            assert!(next.is_held());
            next.release().await.unwrap();
        }
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_hold_that_is_released_before_its_longest_costs_nothing_unless_that_is_shorter_than_the_lease()
{
    virtual_time(async {
        let lab = Lab::new().await;
        let one = lab.host();
        acquire(&one).await.release().await.unwrap();
        for (longest, requests) in [(600 * SECOND, 2), (30 * SECOND, 2), (5 * SECOND, 3)] {
            let before = one.network.counts();
            at_most(&one, longest).await.release().await.unwrap();
            lab.wait(60 * SECOND).await;
            let sent = one.network.counts() - before;
            assert_eq!(sent.requests(), requests, "{longest:?}");
        }
    });
}

/// A process is cut off at any moment of holds of any length. The next caller waits for what the hold and its lease leave, and no longer.
#[test]
fn nobody_holds_the_lock_beside_a_hold_that_is_cut_off_and_nobody_waits_longer_than_it_may_last() {
    let longest = [
        500, 2_000, 9_000, 14_000, 20_000, 29_900, 31_000, 39_000, 41_000, 64_000,
    ];
    let cuts = [
        0, 400, 3_000, 9_900, 10_100, 19_000, 25_000, 33_000, 45_000, 60_000,
    ];
    let pairs = longest
        .into_iter()
        .flat_map(|most| cuts.map(|cut| (most, cut)));
    for (most, cut) in sampled(pairs, 34) {
        let (most, cut) = (MS * most, MS * cut);
        virtual_time(async {
            let lab = Lab::new().await;
            let (one, two) = (lab.host(), lab.host());
            // The next one knows the time.
            acquire(&two).await.release().await.unwrap();
            let guard = at_most(&one, most).await;
            let begun = Instant::now();
            let lost = guard.lost();
            let lost = tokio::spawn(async move {
                lost.await;
                begun.elapsed()
            });
            let next = waits(&lab, &two).await;
            let next = tokio::spawn(async move { (next.await.unwrap(), begun.elapsed()) });
            tokio::time::sleep_until(begun + cut).await;
            one.network.set_faults(cut_off());
            let lost = lost.await.unwrap();
            assert!(lost <= most, "{most:?} {cut:?}: lost after {lost:?}");
            let (next, granted) = next.await.unwrap();
            assert!(
                granted >= lost,
                "{most:?} {cut:?}: {granted:?} before {lost:?}"
            );
            // A tenth of the lease, the margin of clocks, the allowance of the server's clock, and a poll.
            let bound = most + 12 * SECOND;
            assert!(granted <= bound, "{most:?} {cut:?}: {granted:?}");
            next.release().await.unwrap();
        });
    }
}

/// DynamoDB is cut off, or refuses, while the renewals ask for shorter and shorter leases, because the longest hold ends soon.
#[test]
fn renewals_without_an_answer_take_nothing_from_the_lease_that_the_table_shows() {
    let spans = [(40, 9), (50, 12), (60, 35), (75, 45)];
    for (is_refused, (most, cut)) in [false, true]
        .into_iter()
        .flat_map(|it| spans.map(|of| (it, of)))
    {
        virtual_time(async {
            let lab = Lab::new().await;
            let one = lab.host();
            let guard = at_most(&one, SECOND * most).await;
            let lost = guard.lost();
            lab.wait(SECOND * cut).await;
            let deadline = Instant::now() + guard.remaining();
            match is_refused {
                false => one.network.set_faults(cut_off()),
                true => {
                    let denied = || Some(Fault::Refuse("AccessDeniedException"));
                    let _ = one.network.clone().script(move |_| denied());
                }
            }
            while Instant::now() + 2 * MS < deadline {
                let left = deadline - Instant::now();
                let remaining = guard.remaining();
                assert!(
                    remaining.abs_diff(left) <= 2 * MS,
                    "{most} {cut}: {remaining:?} of {left:?}"
                );
                tokio::time::sleep((SECOND / 10).min(left - MS)).await;
            }
            lost.await;
            assert!(
                Instant::now() <= deadline + 2 * MS,
                "{most} {cut}: lost late"
            );
            assert!(!guard.is_held());
        });
    }
}

/// How long a holder of a lock with this longest hold takes to see a request that is made after this time.
async fn asked_after(most: Duration, after: Duration, (lease, heartbeat): (u32, u32)) -> Duration {
    let lab = Lab::new().await;
    let one = lab.host_with(|builder| {
        let builder = builder.lease_duration(SECOND * lease);
        builder.heartbeat_interval(SECOND * heartbeat)
    });
    let guard = at_most(&one, most).await;
    lab.wait(after).await;
    let ops = lab.host();
    assert_eq!(ops.locks.ask_to_yield("a", "please").await.unwrap(), 1);
    let asked = Instant::now();
    guard.asked_to_yield().await;
    assert!(guard.is_held());
    asked.elapsed()
}

#[test]
fn a_holder_whose_lease_outlasts_its_longest_hold_hears_within_a_heartbeat_that_it_is_asked() {
    for (most, after, times) in [
        (25, 1, (30, 10)),
        (100, 81, (30, 10)),
        (600, 1, (30, 10)),
        (1_800, 1, (3_600, 60)),
        (1_800, 1_700, (3_600, 60)),
    ] {
        let seen = virtual_time(asked_after(SECOND * most, SECOND * after, times));
        assert!(seen <= SECOND * times.1, "{most} {after}: {seen:?}");
    }
}

/// The holder is also cut off later on: its entry must not last for longer than the hold may, however often it was renewed.
#[test]
fn the_renewals_of_a_lease_that_outlasts_the_hold_never_prolong_it() {
    for (most, cut) in [(12, 11), (25, 21), (100, 91), (100, 99)] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (one, two) = (lab.host(), lab.host());
            acquire(&two).await.release().await.unwrap();
            let guard = at_most(&one, SECOND * most).await;
            let begun = Instant::now();
            let next = waits(&lab, &two).await;
            tokio::time::sleep_until(begun + SECOND * cut).await;
            one.network.set_faults(cut_off());
            assert!(matches!(
                guard.lost().await.reason,
                LossReason::MaxHold { .. }
            ));
            assert_eq!(begun.elapsed(), SECOND * most);
            next.await.unwrap().release().await.unwrap();
            // A tenth of the lease, the margin of clocks, and some polls.
            let bound = SECOND * most + 7 * SECOND;
            assert!(begun.elapsed() <= bound, "{most}: {:?}", begun.elapsed());
        });
    }
}

#[test]
fn a_bounded_holder_that_is_broken_learns_it_within_a_heartbeat() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, ops) = (lab.host(), lab.host());
        let guard = at_most(&one, 25 * SECOND).await;
        let seen = lock(&ops).inspect().await.unwrap().holder.unwrap();
        ops.locks.break_hold("a", &seen, "away").await.unwrap();
        let broken = Instant::now();
        assert!(matches!(
            guard.lost().await.reason,
            LossReason::Broken { .. }
        ));
        assert!(broken.elapsed() <= 10 * SECOND, "{:?}", broken.elapsed());
    });
}

/// A check names where the hold stands, which its owner must have heard.
#[test]
fn a_bounded_hold_is_checked_a_heartbeat_after_the_permits_were_changed() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, ops) = (lab.host(), lab.host());
        let five = one.locks.semaphore("s", 5).unwrap().max_hold(25 * SECOND);
        let two = five.acquire_many(2, RecordWait::Infinite).await.unwrap();
        ops.locks.resize("s", 3).await.unwrap();
        lab.wait(11 * SECOND).await;
        let check = two.check_item().unwrap();
        let transaction = lab.engine.client().transact_write_items();
        transaction.transact_items(check).send().await.unwrap();
    });
}

#[test]
fn readers_and_permits_end_one_by_one() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (lab.host(), lab.host());
        let short = lock(&one).max_hold(20 * SECOND);
        let short = short.acquire_shared(RecordWait::Infinite).await.unwrap();
        let long = lock(&two)
            .acquire_shared(RecordWait::Infinite)
            .await
            .unwrap();
        short.lost().await;
        lab.settle().await;
        assert!(long.is_held());
        let states = lock(&two).inspect().await.unwrap();
        assert_eq!(
            states.holder.map(|holder| holder.ticket),
            Some(long.ticket())
        );
        long.release().await.unwrap();
        let permits = one.locks.semaphore("s", 2).unwrap().max_hold(5 * SECOND);
        let permit = permits.acquire(RecordWait::Infinite).await.unwrap();
        let reason = permit.lost().await.reason;
        assert_eq!(reason, LossReason::MaxHold { limit: 5 * SECOND });
        assert!(lab.is_free("a").await);
        let permits = two.locks.semaphore("s", 2).unwrap();
        let both = permits.acquire_many(2, RecordWait::NoWait).await.unwrap();
        both.release().await.unwrap();
    });
}

#[test]
fn work_that_takes_longer_than_its_longest_hold_ends_with_it() {
    virtual_time(async {
        let lab = Lab::new().await;
        let one = lab.host();
        let lock = lock(&one).max_hold(3 * SECOND);
        let work = async |_: &LockGuard| lab.wait(60 * SECOND).await;
        let Err(Error::Lost { reason, .. }) = lock.run(RecordWait::Infinite, work).await else {
            panic!("it was lost");
        };
        assert_eq!(reason, LossReason::MaxHold { limit: 3 * SECOND });
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_lock_that_is_released_early_is_held_for_its_shortest_time_and_then_handed_over() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two, three) = (lab.host(), lab.host(), lab.host());
        acquire(&one).await.release().await.unwrap();
        for least in [SECOND, 20 * SECOND, 3_600 * SECOND] {
            let before = one.network.counts();
            let guard = at_least(&one, least).await;
            let begun = Instant::now();
            let next = waits(&lab, &two).await;
            if least > SECOND {
                guard.release().await.unwrap();
                assert!(begun.elapsed() < 2 * SECOND, "it does not wait");
                tokio::time::sleep_until(begun + least - MS).await;
                assert!(is_held(&three).await);
            } else {
                drop(guard);
            }
            let next = next.await.unwrap();
            let granted = begun.elapsed();
            assert!(
                granted >= least && granted < least + 2 * SECOND,
                "{granted:?}"
            );
            next.release().await.unwrap();
            let sent = one.network.counts() - before;
            assert!(sent.requests() <= 3, "{sent:?}");
        }
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_lock_whose_process_ends_after_the_release_is_held_for_its_shortest_time() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two, three) = (lab.host(), lab.host(), lab.host());
        acquire(&two).await.release().await.unwrap();
        for least in [5 * SECOND, 45 * SECOND, 300 * SECOND] {
            let guard = at_least(&one, least).await;
            let begun = Instant::now();
            guard.release().await.unwrap();
            one.network.set_faults(cut_off());
            let next = waits(&lab, &two).await;
            tokio::time::sleep_until(begun + least - MS).await;
            assert!(is_held(&three).await);
            let next = next.await.unwrap();
            let granted = begun.elapsed();
            let bound = least + SECOND + MS * 300;
            assert!(
                granted >= least && granted <= bound,
                "{least:?}: {granted:?}"
            );
            next.release().await.unwrap();
            one.network
                .set_faults(fairlock::embedded::Faults::default());
        }
    });
}

/// Who comes for a hold that was given back early, by a process that is gone since.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Comer {
    /// It waited already when the hold was given back.
    Before,
    After,
    /// It asks again and again, and never waits.
    NoWait,
}

/// Nobody believes in such a hold. A `Date` has whole seconds, of which a right wall clock tells the parts.
#[test]
fn a_hold_that_was_given_back_ends_with_its_shortest_time_for_all_who_come() {
    for comer in [Comer::Before, Comer::After, Comer::NoWait] {
        for (off, part) in [(0, 1), (0, 450), (0, 999), (3, 1), (3, 500), (1_000, 999)] {
            let (off, part) = (SECOND * off, MS * part);
            virtual_time(async {
                let lab = Lab::new().await;
                let host = || lab.host_with(|to| to.clock(lab.clock.clone().ahead(off)));
                for least in [SECOND, 5 * SECOND, 50 * SECOND, 600 * SECOND] {
                    tokio::time::sleep(part).await;
                    let granted = next_after(&lab, [host(), host()], comer, least).await;
                    // A wrong wall clock tells nothing of the parts of a second, nor of what the clock of leases may have drifted.
                    let differ = if off.is_zero() { 0 } else { 2 };
                    let bound = least + SECOND * (1 + differ) + MS * 300;
                    assert!(
                        granted >= least && granted <= bound,
                        "{comer:?}, clocks {off:?} off, {part:?}: {granted:?} of {least:?}"
                    );
                }
            });
        }
    }
}

/// One host gives a hold back early and is gone. Returns when the other has the lock.
async fn next_after(lab: &Lab, hosts: [Host; 2], comer: Comer, least: Duration) -> Duration {
    let [one, two] = hosts;
    let guard = at_least(&one, least).await;
    let begun = Instant::now();
    let waiter = match comer {
        Comer::Before => Some(waits(lab, &two).await),
        Comer::After | Comer::NoWait => None,
    };
    tokio::time::sleep(least / 5).await;
    guard.release().await.unwrap();
    one.network.set_faults(cut_off());
    let next = match waiter {
        Some(waiter) => waiter.await.unwrap(),
        None if comer == Comer::After => acquire(&two).await,
        None => {
            tokio::time::sleep_until(begun + least - SECOND).await;
            loop {
                match lock(&two).try_acquire().await.unwrap() {
                    Some(guard) => break guard,
                    None => tokio::time::sleep(MS * 50).await,
                }
            }
        }
    };
    let granted = begun.elapsed();
    next.release().await.unwrap();
    lab.settle().await;
    granted
}

#[test]
fn a_hold_that_was_given_back_is_shown_as_such_and_is_no_takeover() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two, began) = (lab.host(), lab.host(), Instant::now());
        let guard = at_least(&one, 20 * SECOND).await;
        assert_eq!(
            lock(&two)
                .inspect()
                .await
                .unwrap()
                .holder
                .unwrap()
                .kept_until,
            None
        );
        lab.wait(SECOND).await;
        guard.release().await.unwrap();
        one.network.set_faults(cut_off());
        let holder = lock(&two).inspect().await.unwrap().holder.unwrap();
        let until = holder.kept_until.unwrap();
        let until = until.duration_since(std::time::UNIX_EPOCH + EPOCH).unwrap();
        let passed = began.elapsed();
        assert!(
            until > passed + 18 * SECOND && until < passed + 20 * SECOND,
            "{until:?}"
        );
        let refused = lock(&two).acquire(RecordWait::Timeout(SECOND)).await;
        let told = refused.unwrap_err().to_string();
        assert!(
            told.contains("it is kept until ") && told.contains("gave ticket"),
            "{told}"
        );
        assert!(!told.contains("has it"), "{told}");
    });
}

#[test]
fn a_shutdown_leaves_the_rest_of_the_shortest_time_to_the_lease() {
    for held in [HeldLocks::Keep, HeldLocks::Release] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (one, two) = (lab.host(), lab.host());
            acquire(&two).await.release().await.unwrap();
            let guard = at_least(&one, 40 * SECOND).await;
            let begun = Instant::now();
            // The shutdown that releases finds the guard in use.
            let _guard = match held {
                HeldLocks::Keep => {
                    guard.release().await.unwrap();
                    None
                }
                HeldLocks::Release => Some(guard),
            };
            let report = one.locks.shutdown(held, 60 * SECOND).await;
            let took = begun.elapsed();
            assert!(took < SECOND, "{held:?}: {report:?} after {took:?}");
            tokio::time::sleep_until(begun + 39 * SECOND).await;
            assert!(is_held(&two).await, "{held:?}");
            tokio::time::sleep_until(begun + 55 * SECOND).await;
            assert!(!is_held(&two).await, "{held:?}");
        });
    }
}

#[test]
fn a_release_that_cannot_keep_the_lock_says_so_and_its_lease_ends_the_hold() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (lab.host(), lab.host());
        let guard = at_least(&one, 60 * SECOND).await;
        let next = waits(&lab, &two).await;
        one.network.set_faults(cut_off());
        let released = guard.release().await.unwrap_err();
        assert!(matches!(released, Error::Unavailable { .. }), "{released}");
        next.await.unwrap().release().await.unwrap();
    });
}

/// No work began under such a grant, so nothing is kept from the others.
#[test]
fn a_grant_that_its_call_did_not_take_is_given_back_before_its_shortest_time() {
    for is_dropped in [false, true] {
        virtual_time(async {
            let lab = Lab::new().await;
            let (one, two) = (lab.host(), lab.host());
            let least = lock(&one).min_hold(600 * SECOND);
            let mut call = Box::pin(least.acquire(RecordWait::Infinite));
            assert!(futures::poll!(call.as_mut()).is_pending());
            // It is granted by then, and the client takes no guard back yet.
            lab.settle().await;
            assert!(is_held(&two).await);
            match is_dropped {
                true => drop(call),
                false => {
                    lab.wait(5 * SECOND).await;
                    let untaken = call.await.unwrap_err();
                    assert!(matches!(untaken, Error::NotGranted { untaken: true, .. }));
                }
            }
            lab.settle().await;
            assert!(!is_held(&two).await, "{is_dropped}");
        });
    }
}

#[test]
fn a_lock_that_is_kept_can_be_broken() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (lab.host(), lab.host());
        at_least(&one, 600 * SECOND).await.release().await.unwrap();
        let seen = lock(&two).inspect().await.unwrap().holder.unwrap();
        two.locks.break_hold("a", &seen, "").await.unwrap();
        assert!(!is_held(&two).await);
        lab.wait(700 * SECOND).await;
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn callers_of_one_client_each_have_their_own_shortest_and_longest_time() {
    virtual_time(async {
        let lab = Lab::new().await;
        let one = lab.host();
        let least = lock(&one).min_hold(10 * SECOND);
        let begun = Instant::now();
        let turn = || async {
            let guard = least.acquire(RecordWait::Infinite).await.unwrap();
            let granted = begun.elapsed();
            guard.release().await.unwrap();
            granted
        };
        let (one, two, three) = tokio::join!(turn(), turn(), turn());
        let mut granted = [one, two, three];
        granted.sort();
        assert!(granted[1] >= granted[0] + 10 * SECOND, "{granted:?}");
        assert!(granted[2] >= granted[1] + 10 * SECOND, "{granted:?}");
        assert!(granted[2] < 23 * SECOND, "{granted:?}");
    });
}

#[test]
fn a_longest_hold_that_never_ends_is_none() {
    virtual_time(async {
        let lab = Lab::new().await;
        let one = lab.host();
        for longest in [Duration::MAX, Duration::from_secs(u64::MAX)] {
            let guard = at_most(&one, longest).await;
            lab.wait(100 * SECOND).await;
            assert!(guard.is_held(), "{longest:?}");
            guard.release().await.unwrap();
        }
    });
}

#[test]
fn bounds_that_no_hold_can_keep_are_refused_before_any_request() {
    virtual_time(async {
        let lab = Lab::new().await;
        let one = lab.host();
        let year = 366 * 86_400 * SECOND;
        for bad in [
            lock(&one).max_hold(Duration::ZERO),
            lock(&one).min_hold(Duration::ZERO),
            lock(&one).min_hold(year),
            lock(&one).min_hold(2 * SECOND).max_hold(SECOND),
        ] {
            let refused = bad.try_acquire().await.unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)), "{refused}");
            let told = refused.to_string();
            assert!(told.contains("_hold"), "{told}");
        }
        assert_eq!(one.network.counts().requests(), 0);
    });
}
