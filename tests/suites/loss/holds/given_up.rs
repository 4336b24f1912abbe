//! Places that another process gives up, by their names, because their owner was killed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::{Error, LossReason, PlaceId, RecordWait};
use tokio::time::Instant;

use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, cut_off, in_lab, in_slots, waits};

/// The place after it was carried to another process as text.
fn carried(place: &PlaceId) -> PlaceId {
    place.to_string().parse().unwrap()
}

/// Waits for the lock on a host. Returns the place once its observer has been told of it.
async fn waits_observed(lab: &Lab, host: &Host) -> PlaceId {
    let told = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&told);
    let lock = host.lock();
    let lock = lock.observed(move |waiting| {
        if waiting.place_id.is_some() {
            seen.lock().unwrap().clone_from(&waiting.place_id);
        }
    });
    let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
    lab.settle().await;
    assert!(!waiting.is_finished());
    let place = told.lock().unwrap().clone();
    place.unwrap()
}

/// A holder, two successors and two rows. A client is killed, and its place is given up. The next living waiter is granted the lock as soon
/// as the one before it ends, and not after a lease.
#[test]
fn a_place_that_is_given_up_is_not_waited_for_wherever_it_is() {
    for killed in 0..5 {
        in_slots(2, async |lab, hosts: [Host; 6]| {
            let (first, rest) = hosts.split_first().unwrap();
            let guard = acquire(first).await;
            let mut places = vec![guard.place_id()];
            for host in &rest[..4] {
                places.push(waits_observed(lab, host).await);
            }
            let last = waits(lab, &rest[4]).await;
            hosts[killed].network.set_faults(cut_off());
            let other = lab.host();
            let place = carried(&places[killed]);
            assert_eq!((place.lock(), &place), ("a", &places[killed]));
            other.locks.give_up(&place, Duration::ZERO).await.unwrap();
            // A second call does nothing to whatever is there now.
            other.locks.give_up(&place, Duration::ZERO).await.unwrap();
            let started = Instant::now();
            let mut turn = Some(guard);
            if killed == 0 {
                std::mem::forget(turn.take());
            }
            drop(turn);
            let last = last.await.unwrap();
            assert!(
                started.elapsed() < SECOND,
                "{killed}: {:?}",
                started.elapsed()
            );
            last.release().await.unwrap();
            hosts[killed].network.set_faults(Default::default());
            lab.wait(3 * SECOND).await;
        });
    }
}

#[test]
fn a_part_of_a_lock_is_given_up_and_the_others_keep_theirs() {
    in_lab(async |lab, [one, two, three]| {
        let of = |host: &Host| host.locks.semaphore("a", 2).unwrap();
        let stays = of(&one).acquire(RecordWait::NoWait).await.unwrap();
        let goes = of(&two).acquire(RecordWait::NoWait).await.unwrap();
        two.network.set_faults(cut_off());
        let place = carried(&goes.place_id());
        three.locks.give_up(&place, Duration::ZERO).await.unwrap();
        let next = of(&three).acquire(RecordWait::NoWait).await.unwrap();
        lab.wait(9 * SECOND).await;
        assert!(stays.is_held() && next.is_held());
    });
}

#[test]
fn whoever_lives_learns_that_its_place_was_given_up() {
    in_lab(async |lab, [one, two, other]| {
        let guard = acquire(&one).await;
        let waiting = waits_observed(lab, &two).await;
        other.locks.give_up(&waiting, Duration::ZERO).await.unwrap();
        // The waiter has drawn another ticket, and has its turn by that one.
        lab.wait(2 * SECOND).await;
        let queue = other.inspect().await;
        assert_eq!(queue.queue.len(), 1);
        assert!(queue.queue[0].ticket > guard.ticket());
        let place = guard.place_id();
        other.locks.give_up(&place, Duration::ZERO).await.unwrap();
        let reason = guard.lost().await.reason;
        assert_is!(reason, LossReason::Evicted { .. });
    });
}

#[test]
fn a_place_in_a_table_or_by_a_client_that_is_gone_is_told() {
    in_lab(async |lab, [one, other]| {
        let place = acquire(&one).await.place_id();
        lab.delete_lock_item("a").await;
        other.locks.give_up(&place, Duration::ZERO).await.unwrap();
        other.network.set_faults(cut_off());
        let started = Instant::now();
        let unanswered = other
            .locks
            .give_up(&place, Duration::ZERO)
            .await
            .unwrap_err();
        assert_is!(unanswered, Error::Unavailable { .. });
        assert!(started.elapsed() < 30 * SECOND, "{:?}", started.elapsed());
    });
}
