//! The data that a lock carries from holder to holder.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::embedded::Fault::Duplicate;
use fairlock::embedded::{Fault, Faults, Gate, When};
use fairlock::{Error, LockGuard, RecordWait, Ticket};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off, waits};
use fairlock_testkit::verbs::meets;
use fairlock_testkit::virtual_time;
use futures::future::{join_all, join3};

const SECOND: Duration = Duration::from_secs(1);

/// The data of the lock, as an observer sees it.
async fn carried(host: &Host) -> Option<(Vec<u8>, Ticket)> {
    let state = host.locks.fair_lock("a").unwrap().inspect().await.unwrap();
    state.data.map(|data| (data.bytes.to_vec(), data.ticket))
}

fn with(guard: &LockGuard) -> Option<(Vec<u8>, Ticket)> {
    guard.data().map(|data| (data.bytes.to_vec(), data.ticket))
}

#[test]
fn data_goes_to_the_next_holder_is_read_by_others_and_stays_after_the_release() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let guard = acquire(&a).await;
        assert_eq!((with(&guard), carried(&b).await), (None, None));
        let before = a.network.counts().requests();
        guard.set_data("page 7").await.unwrap();
        assert_eq!(a.network.counts().requests() - before, 1);
        let left = Some((b"page 7".to_vec(), guard.ticket()));
        assert_eq!(
            (with(&guard), carried(&b).await),
            (left.clone(), left.clone())
        );
        let next = waits(&lab, &b).await;
        guard.release().await.unwrap();
        let next = next.await.unwrap();
        assert_eq!(with(&next), left);
        next.release().await.unwrap();
        lab.wait(60 * SECOND).await;
        assert_eq!(carried(&a).await, left);
        let guard = acquire(&a).await;
        assert_eq!(with(&guard), left);
        guard.clear_data().await.unwrap();
        assert_eq!((with(&guard), carried(&b).await), (None, None));
        guard.set_data([]).await.unwrap();
        assert_eq!(carried(&b).await, Some((Vec::new(), guard.ticket())));
    });
}

#[test]
fn who_lost_the_lock_writes_nothing_over_what_the_next_wrote() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let stale = acquire(&a).await;
        stale.set_data("stale").await.unwrap();
        let next = waits(&lab, &b).await;
        let network = a.network.clone().faults(cut_off());
        let next = next.await.unwrap();
        next.set_data("fresh").await.unwrap();
        let _ = network.faults(Faults::default());
        let refused = stale.set_data("late").await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        assert_eq!(carried(&a).await, Some((b"fresh".to_vec(), next.ticket())));
    });
}

#[test]
fn a_write_that_comes_when_the_lock_is_lost_is_refused_by_the_table_and_ends_the_hold() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        let stale = acquire(&a).await;
        lab.delete_lock_item("a").await;
        let next = acquire(&b).await;
        next.set_data("fresh").await.unwrap();
        assert!(stale.is_held(), "nobody has told it");
        let refused = stale.set_data("late").await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        assert!(!stale.is_held());
        assert_eq!(carried(&a).await, Some((b"fresh".to_vec(), next.ticket())));
    });
}

#[test]
fn a_write_whose_answer_is_lost_is_known_again() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        for fault in [
            Fault::Lose(When::After),
            Fault::Lose(When::Before),
            Fault::Close(When::After),
            Fault::Close(When::Before),
            Fault::Conflict,
        ] {
            meets(&host.network, "write data", 1, fault);
            guard.set_data("once").await.unwrap();
            assert_eq!(with(&guard), Some((b"once".to_vec(), guard.ticket())));
            meets(&host.network, "write data", 1, Fault::Lose(When::After));
            guard.clear_data().await.unwrap();
            assert_eq!(carried(&host).await, None);
        }
    });
}

#[test]
fn a_late_copy_of_a_write_takes_no_later_one_back() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let late = Duplicate { after: 2 * SECOND };
        meets(&host.network, "write data", 1, late.clone());
        guard.set_data("first").await.unwrap();
        guard.set_data("second").await.unwrap();
        lab.wait(5 * SECOND).await;
        assert_eq!(
            carried(&host).await,
            Some((b"second".to_vec(), guard.ticket()))
        );
        meets(&host.network, "write data", 1, late);
        guard.set_data("third").await.unwrap();
        guard.clear_data().await.unwrap();
        lab.wait(5 * SECOND).await;
        assert_eq!(carried(&host).await, None);
    });
}

#[test]
fn callers_of_one_client_hand_data_on_with_their_tickets() {
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let lock = host.locks.fair_lock("a").unwrap();
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
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let most = vec![7; 64 * 1024];
        guard.set_data(&most).await.unwrap();
        assert_eq!(carried(&host).await, Some((most, guard.ticket())));
        let before = host.network.counts().requests();
        let refused = guard.set_data(vec![7; 64 * 1024 + 1]).await.unwrap_err();
        assert!(is_invalid(&refused, "at most 65536"), "{refused}");
        assert_eq!(host.network.counts().requests(), before);
        guard.release().await.unwrap();
        let lock = host.locks.fair_lock("a").unwrap();
        let sharer = lock.acquire_shared(RecordWait::Infinite).await.unwrap();
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
        virtual_time(async {
            let lab = Lab::new().await;
            let (a, b) = (lab.host(), lab.host());
            let guard = acquire(&b).await;
            // The first caller goes alone, and those that come meanwhile go together.
            let (before, first, second) =
                join3(waits(&lab, &a), waits(&lab, &a), waits(&lab, &a)).await;
            guard.release().await.unwrap();
            before.await.unwrap().release().await.unwrap();
            let first = first.await.unwrap();
            let state = b.locks.fair_lock("a").unwrap().inspect().await.unwrap();
            assert_eq!(state.holder.unwrap().tickets, 2);
            meets(&a.network, "write data", 1, lost(when));
            tokio::select! {
                biased;
                written = first.set_data("late") => panic!("{written:?}"),
                () = lab.wait(SECOND / 10) => {}
            }
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
    virtual_time(async {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let late = Fault::Delay(When::After, Duration::from_millis(1_013));
        let renewed = meets(&host.network, "renew hold", 100, late);
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
    virtual_time(async {
        let lab = Lab::new().await;
        let (a, b) = (lab.host(), lab.host());
        acquire(&a).await.release().await.unwrap();
        let (enter, write) = (Gate::closed(), Gate::closed());
        let late = Fault::Hold(When::Before, enter.clone());
        let entered = meets(&a.network, "enter", 1, late);
        let stale = acquire(&a).await;
        assert_eq!(entered.load(Ordering::SeqCst), 1);
        let late = Fault::Hold(When::Before, write.clone());
        let written = meets(&a.network, "write data", 100, late);
        let dropped =
            futures::future::select(Box::pin(stale.set_data("old")), Box::pin(lab.wait(SECOND)));
        drop(dropped.await);
        assert!(written.load(Ordering::SeqCst) > 0);
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
