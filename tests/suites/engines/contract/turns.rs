//! Turns: one at a time, in the order of their tickets.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock::{Error, RecordWait, Ticket};
use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::rig::{MS, Rig, SECOND, granted, until};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, acquire};

pub(crate) async fn an_uncontended_turn_is_two_requests_and_leaves_one_item(rig: &Rig) {
    let host = rig.host();
    // Creates the lock, and tells the client the time.
    acquire(&host).await.release().await.unwrap();
    let before = host.network.counts().requests();
    let guard = acquire(&host).await;
    assert!(guard.is_held());
    let first = guard.ticket();
    guard.release().await.unwrap();
    let counts = host.network.counts();
    assert_eq!(counts.requests(), before + 2, "{counts:?}");
    rig.comes_to_rest().await;
    let guard = acquire(&host).await;
    assert!(guard.ticket() > first);
    guard.release().await.unwrap();
}

/// The callers that held the lock, and their tickets.
#[derive(Default)]
pub(crate) struct Visits {
    inside: AtomicUsize,
    tickets: Mutex<Vec<Ticket>>,
}

impl Visits {
    pub(crate) async fn visit(&self, host: &Host, turns: usize) {
        let lock = host.lock();
        let mut had = 0;
        while had < turns {
            let guard = match lock.acquire(RecordWait::Infinite).await {
                Ok(guard) => guard,
                // On a bad network.
                Err(Error::Unavailable { .. }) => continue,
                Err(other) => unreachable!("{other}"),
            };
            assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
            self.tickets.lock().unwrap().push(guard.ticket());
            sleep(5 * MS).await;
            self.inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
            had += 1;
        }
    }

    pub(crate) fn assert_in_order(&self, turns: usize) {
        let tickets = self.tickets.lock().unwrap();
        assert_eq!(tickets.len(), turns);
        assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
    }
}

pub(crate) async fn eight_workers_take_ten_turns_each_in_the_order_of_their_tickets_and_never_two_at_once(
    rig: &Rig,
) {
    let (visits, hosts) = (Visits::default(), [(); 8].map(|()| rig.host()));
    join_all(hosts.iter().map(|host| visits.visit(host, 10))).await;
    visits.assert_in_order(80);
    rig.comes_to_rest().await;
}

pub(crate) async fn tickets_grow_over_a_lock_item_that_was_deleted(rig: &Rig) {
    let (host, other) = (rig.host(), rig.host());
    let mut newest = Ticket::default();
    for host in [&host, &other, &host] {
        let guard = acquire(host).await;
        assert!(guard.ticket() > newest, "{} after {newest}", guard.ticket());
        newest = guard.ticket();
        // New tickets come from the clock, in microseconds.
        sleep(MS).await;
        guard.release().await.unwrap();
        rig.delete_lock_item().await;
    }
    assert!(rig.items().await.is_empty());
}

pub(crate) async fn those_who_stop_waiting_are_passed(rig: &Rig) {
    let hosts = [(); 4].map(|()| rig.single());
    let guard = acquire(&hosts[0]).await;
    let successor = rig.waits_behind(0, &hosts[1]).await;
    let in_queue = rig.waits_behind(1, &hosts[2]).await;
    let behind = rig.waits_behind(2, &hosts[3]).await;
    successor.abort();
    in_queue.abort();
    guard.release().await.unwrap();
    granted(behind).await.release().await.unwrap();
    rig.comes_to_rest().await;
}

pub(crate) async fn every_record_wait_is_granted_a_free_lock_and_a_time_out_of_zero_is_refused(
    rig: &Rig,
) {
    let lock = rig.host().lock();
    for wait in [
        RecordWait::NoWait,
        RecordWait::Timeout(60 * SECOND),
        RecordWait::Infinite,
    ] {
        let guard = lock.acquire(wait).await.unwrap();
        guard.release().await.unwrap();
    }
    let guard = lock.try_acquire().await.unwrap().unwrap();
    let refused = lock.acquire(RecordWait::Timeout(Duration::ZERO)).await;
    assert!(is_invalid(&refused.unwrap_err(), "say RecordWait::NoWait"));
    guard.release().await.unwrap();
    rig.comes_to_rest().await;
}

pub(crate) async fn a_wait_that_times_out_leaves_nothing(rig: &Rig) {
    let guard = acquire(&rig.host()).await;
    // More than there are slots, so that some wait in the queue behind them.
    let hosts = [(); 6].map(|()| rig.host_with(|builder| builder.successor_slots(4)));
    let waits = hosts.iter().map(|host| {
        let lock = host.lock();
        async move {
            let started = Instant::now();
            let refused = lock.acquire(RecordWait::Timeout(SECOND)).await;
            (refused.unwrap_err(), started.elapsed())
        }
    });
    for (refused, took) in join_all(waits).await {
        assert!(matches!(refused, Error::NotGranted { .. }), "{refused}");
        assert!(took >= SECOND, "{took:?}");
    }
    let onlooker = rig.host().lock();
    until(async || onlooker.inspect().await.unwrap().queue.is_empty()).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    acquire(&hosts[0]).await.release().await.unwrap();
    rig.comes_to_rest().await;
}
