//! Several locks at once: all or none, whatever the order in which they are named, within one time, and with nothing left behind.

mod at_once;
mod bounds;
mod claims;
mod dinner;
mod gone;
mod history;
mod losses;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dinner::{Manners, Plan, bad_weather, dine, fair_weather};
use fairlock::embedded::{Faults, Latency};
use fairlock::{Closed, Error, HeldLocks, LockGuard, MultiLock, MultiLockGuard, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sized;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, SECOND, away, in_lab};
use fairlock_testkit::virtual_time;
use fastrand::Rng;
use futures::future::join_all;
use history::{Event, check};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The default request time-out.
const REQUEST: Duration = Duration::from_secs(2);
/// What timers round up to.
const TICK: Duration = Duration::from_millis(10);
/// The default.
const LEASE: Duration = Duration::from_secs(30);

fn several(host: &Host, names: &[&str]) -> MultiLock {
    host.locks.multi_lock(names).unwrap()
}

async fn acquire(host: &Host, lock: &str) -> LockGuard {
    let lock = host.locks.fair_lock(lock).unwrap();
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

/// Starts waiting for locks, and lets the call come to rest.
async fn waits(
    lab: &Lab,
    locks: MultiLock,
    wait: RecordWait,
) -> JoinHandle<Result<MultiLockGuard, Error>> {
    let waiting = tokio::spawn(async move { locks.acquire(wait).await });
    lab.settle().await;
    waiting
}

fn names(guard: &MultiLockGuard) -> Vec<&str> {
    guard.guards().iter().map(LockGuard::name).collect()
}

#[test]
fn locks_are_taken_in_the_order_of_their_bytes_each_once_however_they_are_named() {
    in_lab(async |_, [host]| {
        // This is neither alphabetical nor numerical order.
        let ordered = ["A", "a", "a/10", "a/9", "b", "é", "漢"];
        let mut named = [ordered, ordered].concat();
        for seed in 0..10 {
            Rng::with_seed(seed).shuffle(&mut named);
            assert!(several(&host, &named).names().eq(ordered));
        }
        let guard = several(&host, &named).acquire(RecordWait::NoWait).await;
        let guard = guard.unwrap();
        assert_eq!(names(&guard), ordered);
        for lock in guard.guards() {
            assert_eq!(guard.ticket(lock.name()), Some(lock.ticket()));
        }
        assert_eq!(guard.ticket("c"), None);
        guard.release().await.unwrap();
        // The first call asks whether the lock exists before it creates it.
        assert_eq!(
            host.network.counts().requests(),
            1 + 2 * ordered.len() as u64
        );
    });
}

#[test]
fn no_name_and_a_name_that_no_lock_can_have_are_refused_and_nothing_is_sent() {
    virtual_time(async {
        let host = Lab::new().await.host();
        let refused = host.locks.multi_lock([""; 0]).unwrap_err();
        assert!(is_invalid(&refused, "one name or more"), "{refused}");
        let refused = host.locks.multi_lock(["a", ""]).unwrap_err();
        assert!(is_invalid(&refused, "this one has 0"), "{refused}");
        let zero = RecordWait::Timeout(Duration::ZERO);
        let refused = several(&host, &["a", "b"]).acquire(zero).await;
        let refused = refused.unwrap_err();
        assert!(is_invalid(&refused, "say RecordWait::NoWait"), "{refused}");
        assert_eq!(host.network.counts().requests(), 0);
    });
}

#[test]
fn an_observer_learns_which_lock_is_waited_for_and_by_which_places_the_others_are_held() {
    in_lab(async |lab, [host, other]| {
        let held = acquire(&other, "b").await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&told);
        let locks = several(&host, &["a", "b", "c"]).observed(move |lock, waiting| {
            let place = waiting.place_id.clone();
            let heard = (lock.to_owned(), waiting.position, place);
            hears.lock().unwrap().push(heard);
        });
        let waiting = waits(lab, locks, RecordWait::Infinite).await;
        let so_far = told.lock().unwrap().clone();
        let [.., (a, Some(0), Some(of_a)), (b, Some(1), Some(of_b))] = &so_far[..] else {
            panic!("{so_far:?}")
        };
        assert_eq!((a.as_str(), of_a.lock()), ("a", "a"));
        assert_eq!((b.as_str(), of_b.lock()), ("b", "b"));
        // Another process gives up the hold, as if this one were killed.
        assert!(!lab.is_free("a").await);
        other.locks.give_up(of_a, Duration::ZERO).await.unwrap();
        assert!(lab.is_free("a").await);
        // The call learns of it, and begins again.
        lab.wait(LEASE).await;
        held.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        let told = told.lock().unwrap().clone();
        for hold in guard.guards() {
            let last = told.iter().rev().find(|(lock, ..)| lock == hold.name());
            let (_, position, place) = last.unwrap();
            assert_eq!((position, place), (&Some(0), &Some(hold.place_id())));
        }
    });
}

#[test]
fn an_observer_that_panics_at_a_lock_that_is_taken_ends_the_call_alone_and_is_told_as_such() {
    in_lab(async |_, [host]| {
        let both = several(&host, &["a", "b"]);
        let observed = both
            .clone()
            .observed(|_, waiting| assert_ne!(waiting.position, Some(0), "the caller's own"));
        for wait in [RecordWait::NoWait, RecordWait::Infinite] {
            let ended = observed.acquire(wait).await;
            let is_told = matches!(ended, Err(Error::ShutDown(Closed::ObserverPanicked)));
            assert!(is_told, "{ended:?}");
        }
        let guard = both.acquire(RecordWait::NoWait).await.unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn who_does_not_wait_has_all_or_none() {
    in_lab(async |lab, [host, other]| {
        let all = several(&host, &["a", "b", "c"]);
        let guard = acquire(&other, "b").await;
        assert!(all.try_acquire().await.unwrap().is_none());
        let refused = all.acquire(RecordWait::NoWait).await.unwrap_err();
        let Error::NotGranted { lock, holder, .. } = &refused else {
            panic!("{refused}");
        };
        let holder = holder.as_ref().unwrap();
        assert_eq!((lock.as_str(), holder.ticket), ("b", guard.ticket()));
        assert!(lab.is_free("a").await && lab.is_free("c").await);
        guard.release().await.unwrap();
        let guard = all.try_acquire().await.unwrap().unwrap();
        assert!(guard.is_held() && guard.remaining() > LEASE / 2);
    });
}

#[test]
fn of_those_who_do_not_wait_and_are_in_each_others_way_one_has_its_locks() {
    for seed in 0..30 {
        virtual_time(async {
            let (lab, mut rng) = (Lab::new().await, Rng::with_seed(seed));
            let round_trip = Latency::HeavyTailed {
                median: SECOND / 20,
                p99: SECOND / 2,
            };
            let hosts: Vec<_> = (0..4).map(|_| lab.host()).collect();
            let calls = hosts.iter().map(|host| {
                host.network.set_faults(Faults {
                    round_trip,
                    ..Faults::default()
                });
                let mut names = ["a", "b", "c", "d"];
                rng.shuffle(&mut names);
                let names = &names[..3];
                several(host, names)
            });
            let calls: Vec<_> = calls.collect();
            let had = join_all(calls.iter().map(MultiLock::try_acquire)).await;
            let had: Vec<_> = had.into_iter().filter_map(Result::unwrap).collect();
            assert_eq!(had.len(), 1, "seed {seed}: any two want a lock in common");
        });
    }
}

#[test]
fn one_time_is_that_of_all_and_the_error_says_which_lock_could_not_be_had_and_who_has_it() {
    in_lab(async |lab, [host, one, other]| {
        let (a, b) = (acquire(&one, "a").await, acquire(&other, "b").await);
        let started = Instant::now();
        let both = several(&host, &["b", "a"]);
        let waiting = waits(lab, both, RecordWait::Timeout(10 * SECOND)).await;
        lab.wait(5 * SECOND).await;
        a.release().await.unwrap();
        let refused = waiting.await.unwrap().unwrap_err();
        let Error::NotGranted {
            lock,
            holder: Some(holder),
            waited,
            ..
        } = refused
        else {
            panic!("{refused}");
        };
        assert_eq!((lock.as_str(), holder.ticket), ("b", b.ticket()));
        assert_eq!(holder.owner, "host-2");
        assert_eq!(waited, started.elapsed());
        assert!(
            (10 * SECOND..10 * SECOND + REQUEST).contains(&waited),
            "{waited:?}"
        );
        assert!(lab.is_free("a").await, "what was taken is released");
        b.release().await.unwrap();
        assert!(lab.is_free("b").await, "the queue is left");
    });
}

#[test]
fn a_time_that_is_over_between_two_locks_ends_the_call_with_the_name_of_the_next() {
    in_lab(async |lab, [host, other]| {
        let _b = acquire(&other, "b").await;
        acquire(&host, "a").await.release().await.unwrap();
        // The first lock takes all of the time.
        host.network.set_faults(away(SECOND));
        let wait = RecordWait::Timeout(SECOND);
        let started = Instant::now();
        let refused = several(&host, &["a", "b"]).acquire(wait).await.unwrap_err();
        assert_is!(refused, Error::NotGranted { lock, .. } if lock == "b");
        assert!(started.elapsed() <= SECOND + REQUEST);
        lab.wait(10 * SECOND).await;
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_client_that_is_shut_down_ends_the_call_and_leaves_nothing() {
    in_lab(async |lab, [host, other]| {
        let b = acquire(&other, "b").await;
        for how in [HeldLocks::Release, HeldLocks::Keep] {
            let host = lab.host();
            let both = several(&host, &["a", "b"]);
            let waiting = waits(lab, both, RecordWait::Infinite).await;
            let report = host.locks.shutdown(how, 5 * SECOND).await;
            assert!(report.unfinished.is_empty(), "{report:?}");
            assert!(matches!(waiting.await.unwrap(), Err(Error::ShutDown(_))));
            assert!(lab.is_free("a").await, "{how:?}");
        }
        b.release().await.unwrap();
        let both = several(&host, &["a", "b"]).try_acquire().await.unwrap();
        assert!(both.is_some());
    });
}

fn dinner(seed: u64, manners: Manners) -> Plan {
    Plan {
        seed,
        manners,
        weather: fair_weather(),
        deaths: 0,
        absences: 0,
    }
}

#[test]
fn philosophers_who_name_their_forks_in_any_order_all_dine_whatever_befalls_the_others() {
    let mut forks = 0;
    for seed in 0..sized(7, 40) {
        let plan = Plan {
            weather: bad_weather(),
            deaths: seed as usize % 3,
            absences: 2,
            ..dinner(seed, Manners::Several)
        };
        forks += virtual_time(dine(plan)).unwrap_or_else(|why| panic!("{why}: {plan:?}"));
    }
    println!("{forks} forks were had");
}

#[test]
fn philosophers_who_take_their_forks_as_they_name_them_starve() {
    let starved = |seed: &u64| virtual_time(dine(dinner(*seed, Manners::AsNamed))).is_err();
    let seeds = sized(1, 3);
    assert!((0..seeds).all(|seed| starved(&seed)));
    for seed in 0..seeds {
        virtual_time(dine(dinner(seed, Manners::Several))).unwrap();
    }
}

#[test]
fn philosophers_who_believe_on_are_found() {
    let found = |seed| virtual_time(dine(dinner(seed, Manners::Greedy))).unwrap_err();
    assert!(found(0).contains(" while "), "{}", found(0));
}

#[test]
fn a_history_of_two_at_once_and_one_of_falling_tickets_are_found() {
    let granted = |ticket| Event::Granted {
        lock: "a".into(),
        ticket,
    };
    let ended = |ticket| Event::Ended {
        lock: "a".into(),
        ticket,
    };
    assert!(check(&[granted(1), ended(1), granted(2)]).is_ok());
    assert!(check(&[granted(1), granted(2)]).is_err());
    assert!(check(&[granted(2), ended(2), granted(1)]).is_err());
    assert!(check(&[granted(2), ended(2), granted(2)]).is_err());
}
