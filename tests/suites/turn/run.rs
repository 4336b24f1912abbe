//! Work under a lock as a scope: it is dropped when the lock is lost, its result comes back unchanged, and the lock is released whatever
//! became of the work.

use std::future::pending;
use std::panic::{AssertUnwindSafe, panic_any};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use fairlock::{Error, FairLock, HeldLocks, LockGuard, LossReason, RecordWait};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::{Host, SECOND, acquire, cut_off, in_lab, loss, waits};
use futures::{FutureExt, poll};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// The default lease without its margin.
const BELIEVED: Duration = Duration::from_millis(29_400);
const WAIT: RecordWait = RecordWait::Timeout(Duration::from_secs(60));

fn lock_of(host: &Host) -> FairLock {
    host.lock()
}

/// When the work that owns this is dropped, records whether the lock is still held.
struct HeldAtTheEnd<'a>(&'a LockGuard, Arc<AtomicBool>);

impl Drop for HeldAtTheEnd<'_> {
    fn drop(&mut self) {
        self.1.store(self.0.is_held(), Ordering::SeqCst);
    }
}

#[derive(Debug, PartialEq, Eq)]
struct WorksOwn(&'static str);

#[test]
fn the_work_is_given_the_guard_and_what_it_returns_comes_back_when_the_lock_is_free() {
    in_lab(async |lab, [host]| {
        let before = acquire(&host).await;
        let last = before.ticket();
        before.release().await.unwrap();
        let lock = lock_of(&host);
        let ran = lock.run(WAIT, async |guard| {
            sleep(100 * SECOND).await;
            assert!(guard.is_held());
            (guard.name().to_owned(), guard.ticket())
        });
        let ran = ran.await.unwrap();
        ran.released.unwrap();
        assert_eq!(ran.value.0, "a");
        assert!(ran.value.1 > last);
        // The release was awaited: nothing is left to background tasks.
        assert!(lock_of(&lab.host()).try_acquire().await.unwrap().is_some());
    });
}

#[test]
fn the_works_own_error_comes_back_unchanged_and_the_lock_is_released() {
    in_lab(async |lab, [host]| {
        let work = async |_: &LockGuard| Err::<(), _>(WorksOwn("error"));
        let ran = lock_of(&host).run(WAIT, work).await.unwrap();
        assert_eq!(ran.into_result().unwrap(), Err(WorksOwn("error")));
        assert!(lab.is_free("a").await);
        let guard = acquire(&host).await;
        let ran = guard.run(async { Err::<(), _>(WorksOwn("error")) });
        assert_eq!(ran.await.unwrap().value, Err(WorksOwn("error")));
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn the_works_panic_comes_through_and_the_lock_is_released() {
    in_lab(async |lab, [host]| {
        let lock = lock_of(&host);
        let ran = lock.run(WAIT, async |_| panic_any(WorksOwn("panic")));
        let Err(panicked) = AssertUnwindSafe(ran).catch_unwind().await else {
            panic!("it goes on");
        };
        assert_eq!(*panicked.downcast::<WorksOwn>().unwrap(), WorksOwn("panic"));
        lab.settle().await;
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn work_is_never_begun_without_the_lock() {
    in_lab(async |_, [host, other]| {
        let guard = acquire(&other).await;
        for wait in [RecordWait::NoWait, RecordWait::Timeout(5 * SECOND)] {
            let lock = lock_of(&host);
            let ran = lock.run(wait, async |_| panic!("it was begun"));
            let refused = ran.await.unwrap_err();
            assert_is!(refused, Error::NotGranted { .. });
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn a_future_that_is_dropped_drops_its_work_and_then_releases() {
    in_lab(async |lab, []| {
        let (host, held) = (lab.host(), Arc::new(AtomicBool::new(false)));
        let lock = lock_of(&host);
        let running = lock.run(WAIT, async |guard| {
            let _at_the_end = HeldAtTheEnd(guard, Arc::clone(&held));
            pending::<()>().await;
        });
        lab.drops(SECOND, running).await;
        assert!(held.load(Ordering::SeqCst), "released under the work");
        lab.settle().await;
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn work_is_dropped_where_it_awaits_when_the_lock_is_lost_before_anybody_else_has_it() {
    in_lab(async |lab, [a, b]| {
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        a.network.set_faults(cut_off());
        let (ticket, cut, held) = (guard.ticket(), Instant::now(), Arc::clone(&dropped));
        let ran = guard.run(async move {
            let _dropped = scope(held);
            sleep(3600 * SECOND).await;
        });
        let lost = ran.await.unwrap_err();
        let Error::Lost {
            lock,
            ticket: of,
            reason: LossReason::Unreachable { .. },
        } = lost
        else {
            panic!("{lost}");
        };
        assert_eq!((lock.as_str(), of), ("a", ticket));
        assert!(dropped.load(Ordering::SeqCst) && cut.elapsed() <= BELIEVED);
        assert!(!waiting.is_finished(), "two at a time");
        waiting.await.unwrap().release().await.unwrap();
    });
}

/// Records that it was dropped.
fn scope(dropped: Arc<AtomicBool>) -> impl Sized {
    struct Scope(Arc<AtomicBool>);
    impl Drop for Scope {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    Scope(dropped)
}

/// Lets time pass in which no task runs, not even the heartbeat, as if the process were stopped.
fn stopped(span: Duration) {
    let _ = tokio::time::advance(span).now_or_never();
}

#[test]
fn work_that_ends_after_its_hold_has_lost_it_though_nobody_noticed_and_a_moment_before_has_not() {
    for (stands_still, is_done) in [(BELIEVED, false), (BELIEVED - SECOND, true)] {
        in_lab(async |_, [host]| {
            let (done, work) = oneshot::channel::<u32>();
            let guard = acquire(&host).await;
            let mut ran = pin!(guard.run(work));
            assert!(poll!(&mut ran).is_pending());
            stopped(stands_still);
            done.send(42).unwrap();
            if is_done {
                let ran = ran.await.unwrap();
                assert_eq!(ran.value, Ok(42));
                ran.released.unwrap();
                return;
            }
            match poll!(&mut ran) {
                Poll::Ready(ended) => assert_eq!(loss(ended), LossReason::Expired),
                Poll::Pending => panic!("it goes on"),
            }
        });
    }
}

#[test]
fn a_release_that_fails_takes_nothing_from_what_the_work_returned() {
    in_lab(async |_, [host]| {
        let cut = async |_: &LockGuard| {
            host.network.set_faults(cut_off());
            42
        };
        let ran = lock_of(&host).run(WAIT, cut).await.unwrap();
        assert_eq!(ran.value, 42);
        let failed = ran.released.as_ref().unwrap_err();
        assert_is!(failed, Error::Unavailable { .. });
        assert!(matches!(ran.into_result(), Err(Error::Unavailable { .. })));
    });
}

#[test]
fn a_lock_that_turns_out_not_to_be_ours_at_the_release_is_told_beside_the_value() {
    in_lab(async |lab, [host]| {
        let lock = lock_of(&host);
        let ran = lock.run(WAIT, async |guard| {
            lab.delete_lock_item("a").await;
            assert!(guard.is_held(), "it cannot know");
            42
        });
        let ran = ran.await.unwrap();
        assert_eq!(ran.value, 42);
        assert_eq!(loss(ran.into_result()), LossReason::Deleted);
    });
}

#[test]
fn a_shutdown_that_releases_ends_the_work() {
    in_lab(async |lab, [host]| {
        let guard = acquire(&host).await;
        let (ran, report) = tokio::join!(
            guard.run(pending::<()>()),
            host.locks.shutdown(HeldLocks::Release, 5 * SECOND)
        );
        assert_eq!(loss(ran), LossReason::ShutDown);
        assert!(report.unfinished.is_empty(), "{report:?}");
        assert!(lab.is_free("a").await);
    });
}
