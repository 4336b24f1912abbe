//! How long a lease lasts by DynamoDB's clock, and whose answers tell it.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use fairlock::embedded::{Engine, Fault, When};
use fairlock::{Clock, Lease, LossReason};
use tokio::time::Instant;

use super::{ALLOWED, MINUTE, in_processes, is_refused, named, process};
use fairlock_testkit::lab::{EPOCH, Host, Lab, SECOND, acquire, in_lab, loss, waits};
use fairlock_testkit::virtual_time;

#[test]
fn a_process_whose_first_request_it_is_asks_for_the_time_first() {
    in_lab(async |lab, []| {
        let (a, b) = (lab.host(), process(lab).await);
        named(&a).acquire("one", MINUTE).await.unwrap();
        assert_eq!(a.network.counts().requests(), 2);
        lab.wait(MINUTE + ALLOWED).await;
        assert!(named(&b).acquire("other", MINUTE).await.is_ok());
    });
}

/// How long a lease lasts from now on, by DynamoDB's clock.
fn left(lease: &Lease, began: Instant) -> Duration {
    let now = SystemTime::UNIX_EPOCH + EPOCH + began.elapsed();
    lease.expires_at().duration_since(now).unwrap_or_default()
}

/// A lease may end up to a second and a half early, because of the grain of a `Date` and the age of the answers that told it.
fn is_as_long_as(span: Duration, left: Duration) -> bool {
    left <= span && span - left <= SECOND * 3 / 2 + span / 50
}

#[test]
fn a_lease_lasts_for_as_long_as_was_asked_for_however_long_its_client_was_quiet() {
    virtual_time(async {
        let began = Instant::now();
        let lab = Lab::new().await;
        let host = process(&lab).await;
        for (quiet, span) in [(10, 5), (100, 5), (290, 2), (290, 60), (3_600, 5)] {
            let span = span * SECOND;
            lab.wait(quiet * SECOND).await;
            let lock = named(&host);
            let lease = lock.acquire("one", span).await.unwrap();
            assert!(is_as_long_as(span, left(&lease, began)), "{lease:?}");
            lab.wait(quiet * SECOND).await;
            let again = lock.acquire("one", span).await.unwrap();
            assert!(is_as_long_as(span, left(&again, began)), "{again:?}");
            let longer = lock.extend(&again, 2 * span).await.unwrap();
            assert!(is_as_long_as(2 * span, left(&longer, began)), "{longer:?}");
            lock.release(&longer).await.unwrap();
        }
    });
}

#[test]
fn one_answer_that_tells_a_wrong_time_makes_no_lease_longer() {
    virtual_time(async {
        let each = [0, 1, 2, 6].into_iter().flat_map(|known| {
            (1..=known + 4).flat_map(move |wrong| [-3_600, 3_600].map(|by| (known, wrong, by)))
        });
        for (known, wrong, by) in each {
            let began = Instant::now();
            let lab = Lab::new().await;
            let host = lab.host();
            for _ in 0..known {
                named(&host).find("one").await.unwrap();
            }
            host.script(move |request| (request.number() == wrong).then_some(Fault::Skew(by)));
            let lease = named(&host).acquire("one", MINUTE).await.unwrap();
            let left = left(&lease, began);
            assert!(left <= MINUTE, "{known}, {wrong}, {by}: {left:?}");
            let is_right = by > 0 || is_as_long_as(MINUTE, left);
            // Only an answer that is behind, and is the newest then, makes the end that is told earlier.
            assert!(
                is_right || left.is_zero(),
                "{known}, {wrong}, {by}: {left:?}"
            );
        }
    });
}

/// A process that sends its first request, on a host whose wall clock tells nothing.
fn new_process(lab: &Lab) -> Host {
    lab.host_with(|to| to.clock(lab.clock.clone().ahead(1_000 * SECOND)))
}

/// Two young answers exist when the call begins, and are old when the write is sent again.
#[test]
fn a_lease_lasts_for_as_long_as_was_asked_for_though_the_first_write_had_no_answer() {
    virtual_time(async {
        let began = Instant::now();
        let lab = Lab::new().await;
        let host = lab.host();
        let lock = named(&host);
        for _ in 0..3 {
            lock.find("one").await.unwrap();
        }
        lab.wait(263 * SECOND).await;
        let lease = lock.acquire("two", 28 * SECOND).await.unwrap();
        lab.wait(SECOND * 47 / 2).await;
        host.meets("extend", 1, Fault::Hang(When::Before));
        let longer = lock.extend(&lease, 20 * SECOND).await.unwrap();
        assert!(
            is_as_long_as(20 * SECOND, left(&longer, began)),
            "{longer:?}"
        );
    });
}

#[test]
fn a_release_whose_answer_is_lost_is_one_in_a_process_that_knows_no_time_yet() {
    in_lab(async |lab, []| {
        let lease = named(&process(lab).await).acquire("one", MINUTE).await;
        let host = new_process(lab);
        let lost = host.meets("release", 1, Fault::Close(When::After));
        named(&host).release(&lease.unwrap()).await.unwrap();
        assert_eq!(lost.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_process_that_knows_no_time_yet_is_told_that_a_lease_was_released_before() {
    in_processes(async |lab, [first]| {
        let lease = named(&first).acquire("one", MINUTE).await.unwrap();
        named(&first).release(&lease).await.unwrap();
        let extended = named(&new_process(lab)).extend(&lease, MINUTE).await;
        let released = named(&new_process(lab)).release(&lease).await;
        for told in [extended.map(drop), released] {
            let reason = loss(told);
            assert_eq!(reason, LossReason::Released);
        }
    });
}

/// As on DynamoDB Local.
#[test]
fn where_answers_have_no_date_there_are_no_leases_and_nothing_is_left() {
    virtual_time(async {
        let clock = Clock::of_tokio(EPOCH);
        let engine = Engine::memory().unwrap().without_date();
        let lab = Lab::on(engine.with_clock(clock.clone()), clock).await;
        let (host, other) = (lab.host(), lab.host());
        for _ in 0..2 {
            let refused = named(&host).acquire("one", MINUTE).await.unwrap_err();
            assert_eq!(
                refused.to_string(),
                "table `locks` refuses `acquire a lease`: its answers have no `Date`, and leases end by it"
            );
        }
        assert!(acquire(&other).await.is_held());
    });
}

#[test]
fn a_process_whose_first_request_it_is_extends_a_lease_and_releases_another() {
    in_processes(async |lab, [old]| {
        let lease = named(&old).acquire("one", MINUTE).await.unwrap();
        let text = lease.to_string();
        let new = lab.host();
        let carried = text.parse().unwrap();
        let longer = named(&new).extend(&carried, 10 * MINUTE).await.unwrap();
        assert_eq!(longer.id(), "one");
        assert!(longer.expires_at() > lease.expires_at() + 5 * MINUTE);
        assert_eq!(new.network.counts().requests(), 2);
        // A shorter time takes nothing from callers that have been told the longer one.
        let same = named(&new).extend(&longer, MINUTE).await.unwrap();
        assert!(longer.expires_at() <= same.expires_at());
        // The client has been quiet for so long that it no longer knows the time.
        lab.wait(8 * MINUTE).await;
        let longer = named(&new).extend(&longer, 10 * MINUTE).await.unwrap();
        let newest = lab.host();
        named(&newest).release(&longer).await.unwrap();
        assert_eq!(newest.network.counts().requests(), 1);
        assert!(acquire(&new).await.is_held());
    });
}

/// Neither the grain of the item's times, nor what another client knows of the time, takes anything from the owner.
#[test]
fn an_extension_that_would_end_earlier_leaves_the_end_as_it_is() {
    in_processes(async |lab, [owner]| {
        let span = 5 * MINUTE + Duration::from_micros(1_777);
        let mut lease = named(&owner).acquire("one", span).await.unwrap();
        for round in 1..=40 {
            lab.wait(Duration::from_micros(333_777 * round)).await;
            // Every other client has just learned the time, and knows less of it than the owner's.
            let new = lab.host();
            let other = if round % 2 == 0 { &owner } else { &new };
            let same = named(other).extend(&lease, SECOND).await.unwrap();
            assert!(same.expires_at() >= lease.expires_at(), "{round}");
            lease = same;
        }
    });
}

/// However slow the answer was that told the time.
#[test]
fn nobody_who_waits_has_the_lock_before_a_lease_is_over_by_dynamodbs_clock() {
    for slow in [300, 800, 1_500] {
        for phase in 0..10 {
            virtual_time(async {
                let began = Instant::now();
                let lab = Lab::new().await;
                let (a, b) = (lab.host(), process(&lab).await);
                lab.wait(phase * SECOND / 10).await;
                let late = Fault::Delay(When::Before, Duration::from_millis(slow));
                a.meets("read lock", 1, late);
                let lease = named(&a).acquire("one", 5 * SECOND).await.unwrap();
                let over = lease.expires_at().duration_since(SystemTime::UNIX_EPOCH);
                let next = waits(&lab, &b).await.await.unwrap();
                assert!(
                    over.unwrap() <= EPOCH + began.elapsed(),
                    "{slow} ms, {phase}"
                );
                drop(next);
            });
        }
    }
}

/// Nothing renews the lease's item before it ends, and TTL goes by the clock of the client that wrote it.
#[test]
fn no_lease_lasts_longer_than_ttl_keeps_its_item_on_a_host_whose_clock_is_late() {
    virtual_time(async {
        let (hour, clock) = (60 * MINUTE, Clock::of_tokio(EPOCH));
        let engine = Engine::memory().unwrap();
        let engine = engine.with_clock(clock.clone().ahead(11 * hour));
        let lab = Lab::on(engine, clock).await;
        lab.switch_ttl_on().await;
        let lock = named(&lab.host_with(|builder| builder.idle_retention(24 * hour)));
        let refused = lock.acquire("one", 13 * hour).await.unwrap_err();
        let told =
            "the time of a lease is 46800s and must be at most 43200s: half of the idle retention";
        assert_eq!(refused.to_string(), told);
        let lease = lock.acquire("one", 12 * hour).await.unwrap();
        assert!(lock.extend(&lease, 13 * hour).await.is_err());
        lab.wait(12 * hour - MINUTE).await;
        assert_eq!(lab.engine.expire().await.unwrap(), 0);
        assert!(is_refused(&lock.acquire("other", MINUTE).await));
    });
}
