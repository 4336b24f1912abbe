//! Many callers of one client that may hold a lock together. Callers with slots are admitted at once, and the others as soon as there are
//! slots for them.

use std::time::Duration;

use fairlock::{LockGuard, RecordWait};
use futures::future::join_all;
use tokio::time::Instant;

use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, away, in_lab, waits_to_share};
use fairlock_testkit::virtual_time;

/// Several times as many as there are slots.
const CALLERS: usize = 40;

fn host(lab: &Lab) -> Host {
    let host = lab.host();
    host.network.set_faults(away(Duration::from_millis(10)));
    host
}

/// How long readers of one client wait after its holder leaves, or makes room.
async fn until_all_share(goes: impl AsyncFnOnce(LockGuard) -> Option<LockGuard>) -> Duration {
    let lab = Lab::new().await;
    let host = host(&lab);
    let holder = acquire(&host).await;
    let mut waiting = Vec::new();
    for _ in 0..CALLERS {
        waiting.push(waits_to_share(&lab, &host).await);
        lab.wait(SECOND / 10).await;
    }
    lab.wait(5 * SECOND).await;
    let gone = Instant::now();
    let still = goes(holder).await;
    let held = join_all(waiting).await;
    let took = gone.elapsed();
    assert!(held.iter().all(|guard| guard.as_ref().unwrap().is_held()));
    assert!(still.is_none_or(|reader| reader.is_held()));
    took
}

#[test]
fn readers_of_one_client_all_come_in_when_its_writer_goes_or_downgrades() {
    for downgrades in [false, true] {
        let took = virtual_time(until_all_share(async |mut writer| {
            if downgrades {
                writer.downgrade().await.unwrap();
                return Some(writer);
            }
            writer.release().await.unwrap();
            None
        }));
        assert!(took < SECOND, "{downgrades}: {took:?}");
    }
}

#[test]
fn callers_of_one_client_all_have_their_permits_when_there_are_enough() {
    in_lab(async |lab, []| {
        let host = host(lab);
        let lock = host.locks.semaphore("s", 64).unwrap();
        let all = lock.acquire_many(64, RecordWait::NoWait).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..CALLERS {
            let lock = lock.clone();
            waiting.push(tokio::spawn(async move {
                lock.acquire(RecordWait::Infinite).await.unwrap()
            }));
            lab.wait(SECOND / 10).await;
        }
        let gone = Instant::now();
        all.release().await.unwrap();
        let held = join_all(waiting).await;
        let took = gone.elapsed();
        assert!(held.iter().all(|guard| guard.as_ref().unwrap().is_held()));
        assert!(took < SECOND, "{took:?}");
    });
}
