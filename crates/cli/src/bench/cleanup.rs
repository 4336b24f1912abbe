//! The lock that a contest leaves: deleted as soon as that may be.

use std::time::Duration;

use fairlock::{DeleteOutcome, LockClient};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use crate::args::bench::Bench;
use crate::failure::{Failure, say};

/// How often the deletion is tried while the lock is too new. A lock may be deleted a minute after it was first used.
const AGAIN: Duration = Duration::from_secs(5);
/// The deletion is tried for no longer: more than a minute, because the table's clock tells when that is over.
const AT_MOST: u32 = 18;

/// What is left in the table.
pub(super) struct Cleanup<'a> {
    locks: &'a LockClient,
    options: &'a Bench,
}

impl<'a> Cleanup<'a> {
    pub(super) fn of(locks: &'a LockClient, options: &'a Bench) -> Cleanup<'a> {
        Cleanup { locks, options }
    }

    /// Deletes the lock, or says what is left. A signal ends the wait for that, and so does `--leave`.
    pub(super) async fn remove(self, signals: &mut UnboundedReceiver<i32>) -> Result<(), Failure> {
        let lock = self.options.lock();
        for attempt in 0..AT_MOST {
            let deleted = self.locks.delete_lock(&lock).await;
            match deleted.map_err(|error| Failure::of(&error, &self.options.location))? {
                DeleteOutcome::TooNew => {}
                // Another process uses the lock by now, and it is that process's.
                DeleteOutcome::InUse { .. } => break,
                _ => return Ok(()),
            }
            if self.options.leave {
                break;
            }
            if attempt == 0 {
                say("waits until its lock is a minute old, and may be deleted; Ctrl-C leaves it");
            }
            tokio::select! {
                biased;
                Some(_) = signals.recv() => break,
                () = sleep(AGAIN) => {}
            }
        }
        let command = self.options.location.command("delete");
        say(&format!(
            "leaves the idle lock `{lock}`, one item, which TTL deletes in time: `{command} {lock}` deletes it"
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::Parser;
    use fairlock_testkit::lab::Lab;
    use fairlock_testkit::virtual_time;
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::Instant;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: Bench,
    }

    fn options<T: AsRef<OsStr>>(flags: &[T]) -> Bench {
        let flags = flags.iter().map(AsRef::as_ref);
        Line::parse_from([OsStr::new("bench")].into_iter().chain(flags)).bench
    }

    /// Removes the lock of a bench, of which there was a turn. Returns how long that took, and whether the lock is gone.
    async fn removed(flags: &[&str], signal: Option<i32>) -> (Duration, bool) {
        let lab = Lab::new().await;
        let host = lab.host();
        let options = options(flags);
        let lock = host.locks.fair_lock(options.lock()).unwrap();
        let guard = lock.try_acquire().await.unwrap().unwrap();
        guard.release().await.unwrap();
        let (tell, mut signals) = unbounded_channel();
        signal.into_iter().for_each(|it| tell.send(it).unwrap());
        let begun = Instant::now();
        let cleanup = Cleanup::of(&host.locks, &options);
        assert!(cleanup.remove(&mut signals).await.is_ok());
        let took = begun.elapsed();
        let gone = host.locks.delete_lock(options.lock()).await.unwrap();
        (took, matches!(gone, DeleteOutcome::NotThere))
    }

    #[test]
    fn its_own_lock_is_deleted_when_it_is_a_minute_old() {
        virtual_time(async {
            let (took, is_gone) = removed(&[], None).await;
            assert!(is_gone);
            let minute = Duration::from_secs(60);
            assert!(took >= minute && took <= minute + 3 * AGAIN, "{took:?}");
        });
    }

    #[test]
    fn a_signal_and_a_flag_end_the_wait_for_that() {
        for (flags, signal) in [(&["--leave"][..], None), (&[], Some(2))] {
            virtual_time(async {
                let (took, is_gone) = removed(flags, signal).await;
                assert!(!is_gone && took < AGAIN, "{flags:?}: {took:?}");
            });
        }
    }
}
