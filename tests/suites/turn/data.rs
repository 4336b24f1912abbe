//! The data that a lock carries from holder to holder.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::embedded::Fault::Duplicate;
use fairlock::embedded::{Fault, When};
use fairlock::{LockGuard, RecordWait, Ticket};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, SECOND, acquire, in_lab, waits};
use futures::future::{join_all, join3};

/// The data of the lock, as an observer sees it.
async fn carried(host: &Host) -> Option<(Vec<u8>, Ticket)> {
    let state = host.inspect().await;
    state.data.map(|data| (data.bytes.to_vec(), data.ticket))
}

fn with(guard: &LockGuard) -> Option<(Vec<u8>, Ticket)> {
    guard.data().map(|data| (data.bytes.to_vec(), data.ticket))
}

#[test]
fn callers_of_one_client_hand_data_on_with_their_tickets() {
    in_lab(async |_, [host]| {
        let lock = host.lock();
        let turns = (0..4).map(|_| async {
            let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
            let before = with(&guard);
            guard.set_data(guard.ticket().to_string()).await.unwrap();
            let ticket = guard.ticket();
            guard.release().await.unwrap();
            (ticket, before)
        });
        let mut turns = join_all(turns).await;
        turns.sort_by_key(|(ticket, _)| *ticket);
        assert_eq!(turns[0].1, None);
        for pair in turns.windows(2) {
            let (ticket, before) = (pair[0].0, &pair[1].1);
            assert_eq!(*before, Some((ticket.to_string().into_bytes(), ticket)));
        }
    });
}

#[test]
fn too_much_and_what_is_shared_are_refused_and_nothing_is_sent() {
    in_lab(async |_, [host]| {
        let guard = acquire(&host).await;
        let most = vec![7; 64 * 1024];
        guard.set_data(&most).await.unwrap();
        assert_eq!(carried(&host).await, Some((most, guard.ticket())));
        let before = host.network.counts().requests();
        let refused = guard.set_data(vec![7; 64 * 1024 + 1]).await.unwrap_err();
        assert!(is_invalid(&refused, "at most 65536"), "{refused}");
        assert_eq!(host.network.counts().requests(), before);
        guard.release().await.unwrap();
        let sharer = host
            .lock()
            .acquire_shared(RecordWait::Infinite)
            .await
            .unwrap();
        assert!(with(&sharer).is_some(), "it reads what is there");
        let refused = sharer.set_data("x").await.unwrap_err();
        assert!(is_invalid(&refused, "this hold shares it"), "{refused}");
    });
}

/// Two callers of one client stand at one place. The table knows that place by one nonce for the turns of both.
#[test]
fn a_write_that_nobody_waited_for_never_comes_in_the_next_turn_at_the_same_place() {
    let late = Duplicate { after: SECOND };
    let lost = |when| Fault::Both(Box::new(Fault::Hang(when)), Box::new(late.clone()));
    for when in [When::Before, When::After] {
        in_lab(async |lab, [a, b]| {
            let guard = acquire(&b).await;
            // The first caller goes alone, and those that come meanwhile go together.
            let (before, first, second) =
                join3(waits(lab, &a), waits(lab, &a), waits(lab, &a)).await;
            guard.release().await.unwrap();
            before.await.unwrap().release().await.unwrap();
            let first = first.await.unwrap();
            let state = b.inspect().await;
            assert_eq!(state.holder.unwrap().tickets, 2);
            a.meets("write data", 1, lost(when));
            lab.drops(SECOND / 10, first.set_data("late")).await;
            let ticket = first.ticket();
            drop(first);
            let second = second.await.unwrap();
            let found = with(&second);
            let is_there = when == When::After;
            assert_eq!(found, is_there.then(|| (b"late".to_vec(), ticket)));
            lab.wait(2 * SECOND).await;
            assert_eq!((carried(&b).await, with(&second)), (found.clone(), found));
            second.set_data("in time").await.unwrap();
            second.release().await.unwrap();
        });
    }
}

/// The answers to renewals come late, and show older data of the lock.
#[test]
fn a_renewal_that_is_answered_late_takes_no_data_back() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let late = Fault::Delay(When::After, Duration::from_millis(1_013));
        let renewed = host.meets("renew hold", 100, late);
        for count in 0..600 {
            let left = count.to_string();
            guard.set_data(left.as_str()).await.unwrap();
            lab.wait(SECOND / 20).await;
            assert_eq!(with(&guard), Some((left.into_bytes(), guard.ticket())));
        }
        assert!(renewed.load(Ordering::SeqCst) > 1);
    });
}

/// The first enter of a hold and its write of data are held up. The hold ends, and another has its turn. Then the enter arrives, and after
/// it the write.
#[test]
fn a_late_copy_of_an_enter_brings_no_late_write_through() {
    in_lab(async |lab, [a, b]| {
        acquire(&a).await.release().await.unwrap();
        let enter = a.held("enter", 1, When::Before);
        let stale = acquire(&a).await;
        enter.reached(1).await;
        let write = a.held("write data", 100, When::Before);
        lab.drops(SECOND, stale.set_data("old")).await;
        write.reached(1).await;
        stale.release().await.unwrap();
        let fresh = acquire(&b).await;
        assert_eq!(with(&fresh), None);
        fresh.release().await.unwrap();
        enter.open();
        lab.wait(SECOND / 10).await;
        write.open();
        lab.wait(100 * SECOND).await;
        assert_eq!(with(&acquire(&b).await), None);
    });
}
