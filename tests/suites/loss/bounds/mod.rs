//! Holds that last for a time at least, or at most.

mod shortest;

use std::time::Duration;

use fairlock::embedded::Fault;
use fairlock::{Error, LockGuard, LossReason, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sampled;
use fairlock_testkit::lab::{Host, Lab, MS, SECOND, acquire, cut_off, in_lab, waits};
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

async fn at_most(host: &Host, most: Duration) -> LockGuard {
    let lock = host.lock().max_hold(most);
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

async fn at_least(host: &Host, least: Duration) -> LockGuard {
    let lock = host.lock().min_hold(least);
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

async fn is_held(host: &Host) -> bool {
    match host.try_acquire().await {
        Some(guard) => {
            guard.release().await.unwrap();
            false
        }
        None => true,
    }
}

#[test]
fn a_hold_ends_at_its_longest_and_the_next_has_the_lock_then() {
    in_lab(async |lab, [one, two]| {
        for longest in [SECOND, 5 * SECOND, 45 * SECOND, 600 * SECOND] {
            let guard = at_most(&one, longest).await;
            let begun = Instant::now();
            let next = waits(lab, &two).await;
            let lost = guard.lost().await;
            assert_eq!(begun.elapsed(), longest);
            assert_eq!(lost.reason, LossReason::MaxHold { limit: longest });
            assert!(!guard.is_held());
            let next = next.await.unwrap();
            assert!(begun.elapsed() < longest + SECOND, "{longest:?}");
            assert!(next.ticket() > guard.ticket());
            let released = guard.release().await.unwrap_err();
            assert_is!(released, Error::Lost { .. });
            // The release of the lost guard took nothing from the next.
            lab.settle().await;
            assert!(next.is_held());
            next.release().await.unwrap();
        }
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_hold_that_is_released_before_its_longest_costs_nothing() {
    in_lab(async |lab, [one]| {
        acquire(&one).await.release().await.unwrap();
        // The first request asks for a short lease already.
        for longest in [600 * SECOND, 30 * SECOND, 5 * SECOND] {
            let before = one.network.counts();
            at_most(&one, longest).await.release().await.unwrap();
            lab.wait(60 * SECOND).await;
            let sent = one.network.counts() - before;
            assert_eq!(sent.requests(), 2, "{longest:?}");
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
        in_lab(async |lab, [one, two]| {
            // The next one knows the time.
            acquire(&two).await.release().await.unwrap();
            let guard = at_most(&one, most).await;
            let begun = Instant::now();
            let lost = guard.lost();
            let lost = tokio::spawn(async move {
                lost.await;
                begun.elapsed()
            });
            let next = waits(lab, &two).await;
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
        in_lab(async |lab, [one]| {
            let guard = at_most(&one, SECOND * most).await;
            let lost = guard.lost();
            lab.wait(SECOND * cut).await;
            let deadline = Instant::now() + guard.remaining();
            match is_refused {
                false => one.network.set_faults(cut_off()),
                true => {
                    let denied = || Some(Fault::Refuse("AccessDeniedException"));
                    one.script(move |_| denied());
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
        in_lab(async |lab, [one, two]| {
            acquire(&two).await.release().await.unwrap();
            let guard = at_most(&one, SECOND * most).await;
            let begun = Instant::now();
            let next = waits(lab, &two).await;
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

/// A check names where the hold stands, which its owner must have heard.
#[test]
fn a_bounded_hold_is_checked_a_heartbeat_after_the_permits_were_changed() {
    in_lab(async |lab, [one, ops]| {
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
    in_lab(async |lab, [one, two]| {
        let short = one.lock().max_hold(20 * SECOND);
        let short = short.acquire_shared(RecordWait::Infinite).await.unwrap();
        let long = two
            .lock()
            .acquire_shared(RecordWait::Infinite)
            .await
            .unwrap();
        short.lost().await;
        lab.settle().await;
        assert!(long.is_held());
        let states = two.inspect().await;
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
fn callers_of_one_client_each_have_their_own_shortest_and_longest_time() {
    in_lab(async |_, [one]| {
        let least = one.lock().min_hold(10 * SECOND);
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
    in_lab(async |lab, [one]| {
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
    in_lab(async |_, [one]| {
        let year = 366 * 86_400 * SECOND;
        for bad in [
            one.lock().max_hold(Duration::ZERO),
            one.lock().min_hold(Duration::ZERO),
            one.lock().min_hold(year),
            one.lock().min_hold(2 * SECOND).max_hold(SECOND),
        ] {
            let refused = bad.try_acquire().await.unwrap_err();
            assert_is!(refused, Error::Invalid(_));
            let told = refused.to_string();
            assert!(told.contains("_hold"), "{told}");
        }
        assert_eq!(one.network.counts().requests(), 0);
    });
}
