//! Locks that several callers hold at one time: shared by readers, or of several permits, in one fair queue with exclusive callers.

mod downgrades;
mod parts;
mod permits;
mod waves;

use fairlock::{Error, LockGuard, RecordWait};
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, cut_off, in_lab, in_slots, shares, waits};
use futures::future::join_all;
use tokio::task::JoinHandle;

/// Takes permits of lock `s`, which has five by its callers' word.
pub(crate) async fn takes(host: &Host, permits: u64) -> LockGuard {
    let lock = host.locks.semaphore("s", 5).unwrap();
    let wait = RecordWait::Infinite;
    lock.acquire_many(permits, wait).await.unwrap()
}

/// Starts waiting for permits of lock `s`.
pub(crate) async fn waits_for(lab: &Lab, host: &Host, permits: u64) -> JoinHandle<LockGuard> {
    let lock = host.locks.semaphore("s", 5).unwrap();
    let wait = RecordWait::Infinite;
    let waiting = tokio::spawn(async move { lock.acquire_many(permits, wait).await.unwrap() });
    lab.settle().await;
    waiting
}

async fn requests_of<T>(host: &Host, work: impl Future<Output = T>) -> (T, u64) {
    let before = host.network.counts().requests();
    let done = work.await;
    (done, host.network.counts().requests() - before)
}

#[test]
fn who_shares_a_lock_that_nobody_waits_for_needs_one_request() {
    in_lab(async |_, hosts: [Host; 3]| {
        // A lock that was never used has no item yet. The client looks for it, makes sure that it is missing, and then creates it.
        let (first, requests) = requests_of(&hosts[0], shares(&hosts[0])).await;
        assert_eq!(requests, 3);
        let (second, requests) = requests_of(&hosts[1], shares(&hosts[1])).await;
        assert_eq!(requests, 1, "beside another");
        let (_, requests) = requests_of(&hosts[0], first.release()).await;
        assert_eq!(requests, 1);
        let (_, requests) = requests_of(&hosts[1], second.release()).await;
        assert_eq!(requests, 1);
        let (third, requests) = requests_of(&hosts[2], shares(&hosts[2])).await;
        assert_eq!(requests, 1, "free, and used before");
        third.release().await.unwrap();
    });
}

#[test]
fn the_tickets_of_readers_are_between_those_of_writers() {
    in_lab(async |_, hosts: [Host; 3]| {
        let writer = acquire(&hosts[0]).await;
        let before = writer.ticket();
        writer.release().await.unwrap();
        let readers = join_all(hosts.iter().map(shares)).await;
        let mut tickets: Vec<_> = readers.iter().map(LockGuard::ticket).collect();
        for reader in readers {
            reader.release().await.unwrap();
        }
        let writer = acquire(&hosts[1]).await;
        tickets.sort();
        tickets.dedup();
        assert_eq!(tickets.len(), 3, "each has its own");
        assert!(before < tickets[0] && tickets[2] < writer.ticket());
    });
}

#[test]
fn readers_that_release_at_once_hand_off_to_the_writer() {
    in_lab(async |lab, hosts: [Host; 6]| {
        let readers = join_all(hosts[1..].iter().map(shares)).await;
        let writer = waits(lab, &hosts[0]).await;
        let released = join_all(readers.into_iter().map(LockGuard::release)).await;
        assert!(released.iter().all(Result::is_ok), "{released:?}");
        writer.await.unwrap().release().await.unwrap();
    });
}

/// The dead are a successor, and waiters that joined behind the slots after others had died.
#[test]
fn who_does_not_wait_passes_the_dead_in_queue_while_readers_live() {
    for behind in [0, 2] {
        in_slots(1, async |lab, hosts: [Host; 3]| {
            let [reader, cron] = [&hosts[0], &hosts[1]];
            let reading = shares(reader).await;
            for _ in 0..=behind {
                let dead = lab.host_with(|builder| builder.successor_slots(1));
                let writer = waits(lab, &dead).await;
                dead.network.set_faults(cut_off());
                writer.abort();
            }
            let lock = cron.lock();
            let refused = lock.acquire_shared(RecordWait::NoWait).await;
            assert!(matches!(refused, Err(Error::NotGranted { .. })));
            // The lease of the dead, the allowance, and the grain of dates.
            lab.wait((30 + 10 + 4) * SECOND).await;
            let shared = lock.acquire_shared(RecordWait::NoWait).await.unwrap();
            assert!(shared.is_held() && reading.is_held());
        });
    }
}

#[test]
fn who_does_not_wait_passes_nobody_alive_in_queue() {
    in_slots(1, async |lab, hosts: [Host; 3]| {
        let reading = shares(&hosts[0]).await;
        let writer = waits(lab, &hosts[1]).await;
        let dead = lab.host_with(|builder| builder.successor_slots(1));
        let behind = waits(lab, &dead).await;
        dead.network.set_faults(cut_off());
        behind.abort();
        lab.wait(60 * SECOND).await;
        let refused = hosts[2].lock().acquire_shared(RecordWait::NoWait).await;
        assert!(matches!(refused, Err(Error::NotGranted { .. })));
        reading.release().await.unwrap();
        assert!(writer.await.unwrap().is_held());
    });
}
