//! Locks that are held for a time by a name, across processes that come and go.
#![cfg(feature = "embedded")]
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/verbs.rs"]
mod verbs;

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveSpecification};
use common::virtual_time;
use fairlock::embedded::{Engine, Fault, Faults, Latency, Network, When};
use fairlock::{Clock, Error, Invalid, Lease, LeaseLock};
use futures::future::join;
use lab::{EPOCH, Host, Lab, acquire, waits};
use tokio::time::Instant;
use verbs::meets;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// The allowance of the common clock, and the grain of its dates.
const ALLOWED: Duration = Duration::from_secs(10 + 2);

fn named(host: &Host) -> LeaseLock {
    host.locks.lease_lock("a").unwrap()
}

/// A process that knows the time, as all do after their first answer.
async fn process(lab: &Lab) -> Host {
    let host = lab.host();
    let _ = host
        .locks
        .fair_lock("what time is it?")
        .unwrap()
        .sweep()
        .await;
    host
}

fn is_refused(refused: &Result<Lease, Error>) -> bool {
    matches!(refused, Err(Error::NotGranted { .. }))
}

#[test]
fn a_lock_can_be_acquired_if_none_exists() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = process(&lab).await;
        let before = host.network.counts().requests();
        let lease = named(&host).acquire("one", MINUTE).await.unwrap();
        assert_eq!(host.network.counts().requests() - before, 1);
        assert_eq!((lease.lock(), lease.id()), ("a", "one"));
        let state = host.locks.fair_lock("a").unwrap().inspect().await.unwrap();
        let holder = state.holder.unwrap();
        assert_eq!(holder.ticket, lease.ticket());
        assert_eq!(holder.lease_id.as_deref(), Some(lease.id()));
        lab.wait(10 * MINUTE).await;
        assert_eq!(
            host.network.counts().requests() - before,
            2,
            "nothing runs behind"
        );
    });
}

#[test]
fn a_lock_can_be_acquired_if_the_old_one_is_expired() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        let old = named(&a).acquire("one", MINUTE).await.unwrap();
        lab.wait(MINUTE - SECOND).await;
        assert!(is_refused(&named(&b).acquire("other", MINUTE).await));
        lab.wait(SECOND + ALLOWED).await;
        let new = named(&b).acquire("other", MINUTE).await.unwrap();
        assert!(old.ticket() < new.ticket() && old.expires_at() < new.expires_at());
    });
}

#[test]
fn a_lock_is_rejected_if_another_exists() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        let lease = named(&a).acquire("one", MINUTE).await.unwrap();
        let Err(Error::NotGranted { holder, .. }) = named(&b).acquire("other", MINUTE).await else {
            panic!("two have it")
        };
        assert_eq!(holder.unwrap().ticket, lease.ticket());
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}

#[test]
fn a_lock_can_be_released_with_the_name_that_acquired_it_by_another_process() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        let lease = named(&a).acquire("one", MINUTE).await.unwrap();
        let found = named(&b).find("one").await.unwrap().unwrap();
        assert_eq!(found, lease);
        named(&b).release(&found).await.unwrap();
        assert!(acquire(&a).await.is_held());
    });
}

#[test]
fn a_lock_cannot_be_released_that_does_not_exist() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = process(&lab).await;
        assert_eq!(named(&host).find("one").await.unwrap(), None);
        let lease = named(&host).acquire("one", MINUTE).await.unwrap();
        lab.delete_lock_item("a").await;
        let refused = named(&host).release(&lease).await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        assert_eq!(lab.items("a").await, [""; 0]);
    });
}

#[test]
fn a_lock_cannot_be_released_if_the_name_does_not_match() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        let stale = named(&a).acquire("one", SECOND).await.unwrap();
        lab.wait(SECOND + ALLOWED).await;
        let lease = named(&b).acquire("other", MINUTE).await.unwrap();
        assert_eq!(named(&a).find("one").await.unwrap(), None);
        for refused in [
            named(&a).release(&stale).await.unwrap_err(),
            named(&a).extend(&stale, MINUTE).await.unwrap_err(),
        ] {
            assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        }
        assert_eq!(named(&b).find("other").await.unwrap(), Some(lease));
    });
}

#[test]
fn the_same_name_again_is_recognised_also_by_another_process_and_lasts_no_longer() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        let lease = named(&a).acquire("one", MINUTE).await.unwrap();
        lab.wait(MINUTE / 2).await;
        assert_eq!(named(&b).acquire("one", MINUTE).await.unwrap(), lease);
        lab.wait(MINUTE / 2 + ALLOWED).await;
        let again = named(&b).acquire("one", MINUTE).await.unwrap();
        assert!(
            lease.ticket() < again.ticket(),
            "it was over, and is another"
        );
    });
}

#[test]
fn a_lease_is_carried_as_text_extended_and_released_by_whoever_has_it() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b, c) = (
            process(&lab).await,
            process(&lab).await,
            process(&lab).await,
        );
        let lock = a.locks.lease_lock("a lock: with spaces").unwrap();
        let lease = lock.acquire("one id", MINUTE).await.unwrap();
        let text = lease.to_string();
        assert!(!text.contains('\n'));
        let carried: Lease = text.parse().unwrap();
        assert_eq!(carried, lease);
        lab.wait(MINUTE / 2).await;
        let lock = b.locks.lease_lock("a lock: with spaces").unwrap();
        let longer = lock.extend(&carried, 10 * MINUTE).await.unwrap();
        assert_eq!(longer.ticket(), lease.ticket());
        assert!(longer.expires_at() > lease.expires_at() + 5 * MINUTE);
        lab.wait(5 * MINUTE).await;
        let other = c.locks.lease_lock("a lock: with spaces").unwrap();
        assert!(is_refused(&other.acquire("other", MINUTE).await));
        // The older text still names the same lease.
        lock.release(&carried).await.unwrap();
        assert!(other.acquire("other", MINUTE).await.is_ok());
        for text in [
            "",
            "lease",
            "lease x 1 1 1 aa",
            &text[1..],
            &text.replace(' ', ""),
        ] {
            assert!(text.parse::<Lease>().is_err(), "{text}");
        }
    });
}

#[test]
fn who_waits_in_line_has_the_lock_when_a_lease_is_released_or_over() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        for is_released in [true, false] {
            let lease = named(&a).acquire("one", MINUTE).await.unwrap();
            let next = waits(&lab, &b).await;
            assert!(!next.is_finished());
            assert_eq!(named(&a).acquire("one", MINUTE).await.unwrap(), lease);
            if is_released {
                named(&a).release(&lease).await.unwrap();
            }
            let next = next.await.unwrap();
            assert!(is_refused(&named(&a).acquire("late", MINUTE).await));
            next.release().await.unwrap();
        }
    });
}

#[test]
fn nobody_who_waits_is_passed_by_a_lease() {
    virtual_time(async {
        let lab = Lab::new().await;
        let hosts = [
            process(&lab).await,
            process(&lab).await,
            process(&lab).await,
        ];
        let guard = acquire(&hosts[0]).await;
        let waiting = waits(&lab, &hosts[1]).await;
        assert!(is_refused(&named(&hosts[2]).acquire("one", MINUTE).await));
        guard.release().await.unwrap();
        assert!(waiting.await.unwrap().is_held());
    });
}

#[test]
fn a_process_whose_first_request_it_is_asks_for_the_time_first() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), process(&lab).await);
        named(&a).acquire("one", MINUTE).await.unwrap();
        assert_eq!(a.network.counts().requests(), 2);
        lab.wait(MINUTE + ALLOWED).await;
        assert!(named(&b).acquire("other", MINUTE).await.is_ok());
    });
}

/// As DynamoDB Local is.
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
    virtual_time(async {
        let lab = Lab::new().await;
        let old = process(&lab).await;
        let lease = named(&old).acquire("one", MINUTE).await.unwrap();
        let text = lease.to_string();
        let new = lab.host();
        let carried = text.parse().unwrap();
        let longer = named(&new).extend(&carried, 10 * MINUTE).await.unwrap();
        assert_eq!(longer.id(), "one");
        assert!(longer.expires_at() > lease.expires_at() + 5 * MINUTE);
        assert_eq!(new.network.counts().requests(), 2);
        // A shorter time takes nothing from those who have been told of a longer one.
        let same = named(&new).extend(&longer, MINUTE).await.unwrap();
        assert!(longer.expires_at() <= same.expires_at());
        // One that has been quiet for so long that it does not know the time any more.
        lab.wait(8 * MINUTE).await;
        let longer = named(&new).extend(&longer, 10 * MINUTE).await.unwrap();
        let newest = lab.host();
        named(&newest).release(&longer).await.unwrap();
        assert_eq!(newest.network.counts().requests(), 1);
        assert!(acquire(&new).await.is_held());
    });
}

#[test]
fn a_lease_that_is_over_begins_again_when_its_name_asks_before_anybody_else() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        let old = named(&a).acquire("one", 10 * SECOND).await.unwrap();
        lab.wait(14 * SECOND).await;
        assert!(is_refused(&named(&b).acquire("other", MINUTE).await));
        let new = named(&b).acquire("one", MINUTE).await.unwrap();
        assert_eq!(new.ticket(), old.ticket());
        assert!(new.expires_at() > old.expires_at() + MINUTE);
        lab.wait(MINUTE / 2).await;
        assert!(is_refused(&named(&a).acquire("other", MINUTE).await));
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
                meets(&a.network, "read lock", 1, late);
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

#[test]
fn a_release_that_comes_when_another_has_the_lock_says_so_whatever_becomes_of_its_requests() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        let lease = named(&a).acquire("one", 10 * SECOND).await.unwrap();
        lab.wait(10 * SECOND + ALLOWED).await;
        let guard = acquire(&b).await;
        meets(&a.network, "release", 1, Fault::Lose(When::Before));
        let late = named(&a).release(&lease).await;
        assert!(matches!(late, Err(Error::Lost { .. })), "{late:?}");
        assert!(guard.is_held());
    });
}

#[test]
fn lost_answers_and_late_copies_leave_one_lease() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (process(&lab).await, process(&lab).await);
        meets(&a.network, "enter", 1, Fault::Lose(When::After));
        let lease = named(&a).acquire("one", MINUTE).await.unwrap();
        assert_eq!(named(&b).find("one").await.unwrap(), Some(lease.clone()));
        meets(
            &a.network,
            "release",
            1,
            Fault::Duplicate { after: 5 * SECOND },
        );
        named(&a).release(&lease).await.unwrap();
        let next = named(&a).acquire("one", MINUTE).await.unwrap();
        lab.wait(10 * SECOND).await;
        assert_eq!(
            named(&b).find("one").await.unwrap(),
            Some(next),
            "a late copy of the release took the next lease of the same name"
        );
    });
}

/// Nothing renews its item before it is over, and TTL goes by the clock of whoever wrote it.
#[test]
fn no_lease_lasts_longer_than_ttl_keeps_its_item_on_a_host_whose_clock_is_late() {
    virtual_time(async {
        let (hour, clock) = (60 * MINUTE, Clock::of_tokio(EPOCH));
        let engine = Engine::memory().unwrap();
        let engine = engine.with_clock(clock.clone().ahead(11 * hour));
        let lab = Lab::on(engine, clock).await;
        let ttl = TimeToLiveSpecification::builder().enabled(true);
        let ttl = ttl.attribute_name("expires_at").build().unwrap();
        let switch = lab.engine.client().update_time_to_live();
        let switch = switch.table_name("locks").time_to_live_specification(ttl);
        switch.send().await.unwrap();
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

#[test]
fn names_and_times_that_cannot_be_are_refused_and_nothing_is_sent() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let lock = named(&host);
        let long = "x".repeat(257);
        for refused in [
            lock.acquire("", MINUTE).await,
            lock.acquire(long, MINUTE).await,
            lock.acquire("one", SECOND / 2).await,
            lock.acquire("one", 25 * 60 * MINUTE).await,
        ] {
            assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        }
        assert_eq!(host.network.counts().requests(), 0);
        let lease = lock.acquire("one", MINUTE).await.unwrap();
        let other = host.locks.lease_lock("b").unwrap();
        let refused = other.release(&lease).await.unwrap_err();
        assert!(
            matches!(refused, Error::Invalid(Invalid::Text { .. })),
            "{refused}"
        );
    });
}

/// The mutex that reads and then puts: an item that is there is a lock that is held.
async fn get_then_put(dynamodb: &Client) -> bool {
    let key = ("naive".to_owned(), "lock".to_owned());
    let (pk, sk) = (AttributeValue::S(key.0), AttributeValue::S(key.1));
    let get = dynamodb.get_item().table_name("locks");
    let get = get.key("pk", pk.clone()).key("sk", sk.clone());
    if get.send().await.unwrap().item.is_some() {
        return false;
    }
    let put = dynamodb.put_item().table_name("locks");
    put.item("pk", pk).item("sk", sk).send().await.unwrap();
    true
}

#[test]
fn a_mutex_that_reads_and_then_puts_lets_two_in_and_a_lease_does_not() {
    virtual_time(async {
        let lab = Lab::new().await;
        let slow = Faults {
            round_trip: Latency::Constant(SECOND / 100),
            ..Faults::default()
        };
        let [one, other] = [1, 2].map(|seed| {
            let network = Network::to(&lab.engine).seeded(seed);
            network.faults(slow).client()
        });
        let both = join(get_then_put(&one), get_then_put(&other)).await;
        assert_eq!(both, (true, true), "each read before the other had put");
        let (a, b) = (process(&lab).await, process(&lab).await);
        let (a, b) = (named(&a), named(&b));
        let (one, other) = join(a.acquire("one", MINUTE), b.acquire("other", MINUTE)).await;
        assert_eq!(u8::from(one.is_ok()) + u8::from(other.is_ok()), 1);
    });
}
