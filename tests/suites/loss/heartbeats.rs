//! The renewals of a client with many holds are spread over the heartbeat, and none is ever late because of that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::embedded::Faults;
use fairlock::{LockGuard, RecordWait};
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, away, cut_off, in_lab};
use fairlock_testkit::verbs::verb;
use futures::future::join_all;
use tokio::time::Instant;

const HEARTBEAT: Duration = Duration::from_secs(10);

/// When each lock was renewed.
type Renewals = Arc<Mutex<BTreeMap<String, Vec<Instant>>>>;

fn listens(host: &Host) -> Renewals {
    let renewals = Renewals::default();
    let heard = Arc::clone(&renewals);
    host.script(move |request| {
        if verb(request) == "renew hold" {
            let lock = request.key("pk").unwrap().to_owned();
            heard
                .lock()
                .unwrap()
                .entry(lock)
                .or_default()
                .push(Instant::now());
        }
        None
    });
    renewals
}

/// Acquires `count` locks at one moment.
async fn burst(host: &Host, count: usize) -> Vec<LockGuard> {
    let acquire = async |lock: usize| {
        let lock = host.locks.fair_lock(lock.to_string()).unwrap();
        lock.acquire(RecordWait::Infinite).await.unwrap()
    };
    join_all((0..count).map(acquire)).await
}

/// How many renewals were sent in each tenth of a heartbeat since `since`.
fn tenths(renewals: &Renewals, since: Instant) -> [usize; 10] {
    let mut tenths = [0; 10];
    for at in renewals.lock().unwrap().values().flatten() {
        let span = at.saturating_duration_since(since);
        if *at >= since && span < HEARTBEAT {
            tenths[(span.as_millis() / 1_000) as usize] += 1;
        }
    }
    tenths
}

/// A host that has learned DynamoDB's time, as after any answer.
async fn dated(lab: &Lab) -> Host {
    let host = lab.host();
    acquire(&host).await.release().await.unwrap();
    host
}

/// Multiples of the golden ratio fall into a tenth of the interval as often as expected, give or take two. The grain of timers adds one
/// more either way.
const OFF: usize = 3;

#[track_caller]
fn assert_even(tenths: [usize; 10], holds: usize) {
    let is_even = |count: &usize| count.abs_diff(holds / 10) <= OFF;
    assert!(tenths.iter().all(is_even), "{tenths:?}");
}

#[test]
fn three_hundred_holds_acquired_at_one_moment_are_renewed_evenly_over_the_heartbeat() {
    in_lab(async |lab, []| {
        let host = dated(lab).await;
        let renewals = listens(&host);
        let guards = burst(&host, 300).await;
        lab.wait(3 * HEARTBEAT).await;
        for _ in 0..5 {
            let since = Instant::now();
            lab.wait(HEARTBEAT).await;
            assert_even(tenths(&renewals, since), 300);
        }
        assert!(guards.iter().all(|guard| guard.remaining() > 19 * SECOND));
    });
}

#[test]
fn a_process_that_begins_with_a_burst_spreads_its_renewals_too() {
    in_lab(async |lab, []| {
        // A client that creates a lock already knows the time, and has no date to add. So the locks exist beforehand.
        drop(burst(&lab.host(), 300).await);
        lab.settle().await;
        let host = lab.host();
        // All ask before the first answer tells the time.
        host.network.set_faults(away(SECOND / 50));
        let renewals = listens(&host);
        let began = Instant::now();
        let guards = burst(&host, 300).await;
        lab.wait(SECOND).await;
        // To add a date, within a second.
        assert!(tenths(&renewals, began)[0] >= 295);
        lab.wait(3 * HEARTBEAT).await;
        let since = Instant::now();
        lab.wait(HEARTBEAT).await;
        let tenths = tenths(&renewals, since);
        // The renewals that add a date were spread as well, which puts a twentieth of all twice into one tenth.
        let is_even = |count: &usize| (30 - 2 * OFF..=45 + OFF).contains(count);
        assert!(tenths.iter().all(is_even), "{tenths:?}");
        drop(guards);
    });
}

#[test]
fn after_an_outage_they_are_spread_anew() {
    in_lab(async |lab, [host]| {
        let renewals = listens(&host);
        let guards = burst(&host, 300).await;
        lab.wait(3 * HEARTBEAT).await;
        host.network.set_faults(cut_off());
        lab.wait(HEARTBEAT + 5 * SECOND).await;
        host.network.set_faults(Faults::default());
        lab.wait(4 * HEARTBEAT).await;
        let since = Instant::now();
        lab.wait(HEARTBEAT).await;
        let tenths = tenths(&renewals, since);
        // Each renewal came back at a moment of its own, so they are not where one burst would put them.
        assert!(
            tenths.iter().all(|count| (15..=45).contains(count)),
            "{tenths:?}"
        );
        assert!(guards.iter().all(LockGuard::is_held));
    });
}

#[test]
fn no_renewal_is_later_than_a_heartbeat_after_the_last_and_each_hold_has_one_more_at_the_most() {
    in_lab(async |lab, []| {
        let host = dated(lab).await;
        let renewals = listens(&host);
        let began = Instant::now();
        let guards = burst(&host, 100).await;
        lab.wait(10 * HEARTBEAT + SECOND / 2).await;
        let renewals = renewals.lock().unwrap();
        assert_eq!(renewals.len(), 100);
        for (lock, sent) in renewals.iter() {
            assert!(
                (10..=11).contains(&sent.len()),
                "{lock}: {} renewals",
                sent.len()
            );
            let mut before = began;
            for at in sent {
                let span = *at - before;
                assert!(
                    HEARTBEAT / 2 <= span && span <= HEARTBEAT + SECOND / 100,
                    "{span:?}"
                );
                before = *at;
            }
        }
        drop(guards);
    });
}

#[test]
fn holds_one_after_the_other_and_short_ones_beside_others_cost_nothing_more() {
    in_lab(async |lab, []| {
        let host = dated(lab).await;
        let renewals = listens(&host);
        for _ in 0..20 {
            let guard = acquire(&host).await;
            lab.wait(HEARTBEAT - SECOND / 2).await;
            guard.release().await.unwrap();
        }
        assert_eq!(renewals.lock().unwrap().len(), 0);
        for _ in 0..10 {
            let guards = burst(&host, 50).await;
            lab.wait(HEARTBEAT / 2 - SECOND / 10).await;
            join_all(guards.into_iter().map(LockGuard::release)).await;
        }
        assert_eq!(renewals.lock().unwrap().len(), 0);
    });
}
