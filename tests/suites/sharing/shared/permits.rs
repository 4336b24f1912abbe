//! Locks of several permits: a caller holds one or more of them at a time.

use std::future::pending;
use std::sync::{Arc, Mutex};

use fairlock::embedded::{Faults, Latency};
use fairlock::{Error, Lease, LockGuard, RecordWait};
use futures::future::join_all;

use super::{shares, waits_for};
use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, SECOND, cut_off, in_lab, waits_to_share};

#[test]
fn who_waits_for_many_permits_is_not_passed_by_who_wants_one() {
    in_lab(async |lab, hosts: [Host; 4]| {
        let three = waits_for(lab, &hosts[0], 3).await.await.unwrap();
        let one = waits_for(lab, &hosts[1], 1).await.await.unwrap();
        let late = hosts[3].locks.semaphore("s", 5).unwrap();
        assert!(late.try_acquire_many(2).await.unwrap().is_none());
        assert!(late.try_acquire_many(6).await.is_err(), "there are five");
        let four = waits_for(lab, &hosts[2], 4).await;
        assert!(late.try_acquire().await.unwrap().is_none(), "others wait");
        let last = waits_for(lab, &hosts[3], 1).await;
        assert!(!four.is_finished() && !last.is_finished(), "one is left");
        three.release().await.unwrap();
        let (four, ()) = (four.await.unwrap(), lab.settle().await);
        assert!(!last.is_finished(), "none is left");
        one.release().await.unwrap();
        let last = last.await.unwrap();
        assert_eq!((four.permits(), last.permits()), (4, 1));
        assert!(four.is_held() && last.is_held());
    });
}

#[test]
fn a_queue_for_permits_may_be_bounded_and_observed() {
    in_lab(async |lab, hosts: [Host; 4]| {
        let places = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&places);
        let of = |host: &Host| host.locks.semaphore("s", 5).unwrap().max_waiters(1);
        let bounded = of(&hosts[0]);
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(bounded.acquire(RecordWait::Infinite).await.unwrap());
        }
        let observed = of(&hosts[1]).observed(move |it| told.lock().unwrap().push(it.position));
        let waits = tokio::spawn(async move { observed.acquire(RecordWait::Infinite).await });
        lab.settle().await;
        for host in &hosts[2..] {
            let refused = of(host).acquire(RecordWait::Infinite).await.unwrap_err();
            let is_full = matches!(
                refused,
                Error::QueueFull {
                    waiting: 1,
                    limit: 1,
                    ..
                }
            );
            assert!(is_full, "{refused}");
        }
        held.pop().unwrap().release().await.unwrap();
        assert!(waits.await.unwrap().unwrap().is_held());
        assert_eq!(*places.lock().unwrap(), [Some(1), Some(0)]);
    });
}

#[test]
fn work_under_a_permit_is_dropped_when_the_permit_is_lost() {
    in_lab(async |_, [host]| {
        let lock = host.locks.semaphore("s", 2).unwrap();
        let other = lock.acquire(RecordWait::NoWait).await.unwrap();
        let both = async |permit: &LockGuard| (permit.is_held(), other.is_held());
        let ran = lock.run(RecordWait::NoWait, both).await.unwrap();
        assert_eq!(ran.into_result().unwrap(), (true, true));
        let work = async |_: &LockGuard| {
            host.network.set_faults(cut_off());
            pending::<()>().await
        };
        let lost = lock.run(RecordWait::NoWait, work).await.unwrap_err();
        assert_is!(lost, Error::Lost { .. });
    });
}

#[test]
fn all_who_come_at_once_to_a_semaphore_that_was_never_used_have_their_permits() {
    in_lab(async |lab, []| {
        let round_trip = Latency::Constant(SECOND / 50);
        let faults = Faults {
            round_trip,
            ..Faults::default()
        };
        let hosts = [(); 20].map(|()| lab.host());
        let permits = join_all(hosts.iter().map(|host| async {
            host.network.set_faults(faults);
            let lock = host.locks.semaphore("s", 50).unwrap();
            lock.acquire(RecordWait::NoWait).await
        }));
        for permit in permits.await {
            assert!(permit.unwrap().is_held());
        }
    });
}

/// All callers set attributes of the largest size, beside data of the largest size.
#[test]
fn a_semaphore_has_room_for_all_its_permits_and_their_renewals() {
    in_lab(async |lab, hosts: [Host; 2]| {
        // Attributes take 14 bytes together, and one each, besides what they contain.
        let besides = "host-0".len() + 15;
        let said = |host: &Host, bytes: usize| {
            let lock = host.locks.semaphore("s", 250).unwrap();
            lock.attributes([("job", "x".repeat(bytes - 3))])
        };
        let all = said(&hosts[0], 10)
            .acquire_many(250, RecordWait::NoWait)
            .await;
        let all = all.unwrap();
        all.set_data(vec![7; 64 * 1024]).await.unwrap();
        all.release().await.unwrap();
        let refused = said(&hosts[0], 892 - besides)
            .acquire(RecordWait::NoWait)
            .await;
        assert_eq!(
            refused.unwrap_err().to_string(),
            "an owner's name, attributes and the id of a lease take 892 bytes on the lock's item, and at a lock of 250 permits they may \
             take 891: shorten them, or have fewer permits"
        );
        let mut permits = Vec::new();
        for number in 0..250 {
            let lock = said(&hosts[number % 2], 891 - besides);
            permits.push(lock.acquire(RecordWait::NoWait).await.unwrap());
        }
        // Each was renewed once.
        lab.wait(12 * SECOND).await;
        let is_renewed = |permit: &LockGuard| permit.remaining() > 18 * SECOND;
        assert!(permits.iter().all(is_renewed));
    });
}

/// A lease has its id besides. Where every holder had one of this length, they would not fit.
#[test]
fn the_id_of_a_lease_counts_for_the_room() {
    in_lab(async |lab, []| {
        let (host, id) = (lab.host(), "i".repeat(256));
        let is_too_large = |refused: Result<Lease, Error>| {
            let refused = refused.unwrap_err();
            assert!(is_invalid(&refused, "have fewer permits"), "{refused}");
        };
        let many = host.locks.semaphore("many", 1000).unwrap();
        is_too_large(many.lease_lock(1).unwrap().acquire(&id, 60 * SECOND).await);
        assert!(lab.items("many").await.is_empty());
        let guard = many.acquire(RecordWait::NoWait).await.unwrap();
        is_too_large(guard.into_lease(&id, 60 * SECOND).await);
        lab.settle().await;
        let state = host.locks.fair_lock("many").unwrap().inspect().await;
        let holders = state.map(|state| state.holder.iter().chain(&state.sharers).count());
        assert_eq!(holders.unwrap(), 0);
        let few = host.locks.semaphore("few", 80).unwrap();
        let lease = few.lease_lock(1).unwrap().acquire(&id, 60 * SECOND).await;
        assert_eq!(lease.unwrap().id(), id);
    });
}

#[test]
fn permits_that_there_cannot_be_are_refused() {
    in_lab(async |_, [host]| {
        assert!(matches!(
            host.locks.semaphore("s", 0),
            Err(Error::Invalid(_))
        ));
        assert!(matches!(
            host.locks.semaphore("s", 1001),
            Err(Error::Invalid(_))
        ));
        let five = host.locks.semaphore("s", 5).unwrap();
        for permits in [0, 6] {
            let refused = five
                .acquire_many(permits, RecordWait::NoWait)
                .await
                .unwrap_err();
            let words = format!("{permits} permits were asked for, where there are 1 to 5");
            assert!(is_invalid(&refused, &words), "{refused}");
        }
        assert_eq!(host.network.counts().requests(), 0);
    });
}

#[test]
fn more_readers_than_a_lock_has_permits_wait_for_their_turn() {
    in_lab(async |lab, [host]| {
        let readers = join_all((0..64).map(|_| shares(&host))).await;
        let late = waits_to_share(lab, &host).await;
        assert!(!late.is_finished());
        for reader in readers {
            reader.release().await.unwrap();
        }
        assert!(late.await.unwrap().is_held());
    });
}

#[test]
fn who_says_another_number_of_permits_is_told_what_the_lock_is_and_what_to_do() {
    in_lab(async |lab, []| {
        let locks = lab.host().locks;
        let fair = locks.fair_lock("fair").unwrap();
        let used = [
            fair.try_acquire().await,
            locks.semaphore("five", 5).unwrap().try_acquire().await,
            locks.semaphore("one", 1).unwrap().try_acquire().await,
        ];
        let semaphore = async |name, permits| {
            let semaphore = locks.semaphore(name, permits).unwrap();
            semaphore.try_acquire().await.unwrap_err().to_string()
        };
        let as_fair = "a semaphore of 5 permits, used here as a fair lock or a lease lock: use it as a semaphore of 5, or";
        let lease = locks.lease_lock("five").unwrap();
        for (told, words) in [
            (
                locks
                    .fair_lock("five")
                    .unwrap()
                    .try_acquire()
                    .await
                    .unwrap_err()
                    .to_string(),
                as_fair,
            ),
            (
                lease
                    .acquire("id", 60 * SECOND)
                    .await
                    .unwrap_err()
                    .to_string(),
                as_fair,
            ),
            (
                semaphore("fair", 5).await,
                "a fair lock or a lease lock, used here as a semaphore of 5 permits: use it as what it is, or",
            ),
            (
                semaphore("five", 6).await,
                "used here as one of 6: say 5 as its other users do, and let `resize` change how many there are, or",
            ),
            (
                semaphore("one", 2).await,
                "a semaphore of 1 permit, used here as one of 2: say 1, or",
            ),
        ] {
            assert!(told.contains(words), "{told}");
        }
        drop(used);
    });
}
