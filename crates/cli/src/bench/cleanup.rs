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
            match deleted.map_err(|error| Failure::of(&error, &self.options.place))? {
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
        let command = self.options.place.command("delete");
        say(&format!(
            "leaves the idle lock `{lock}`, one item, which TTL deletes in time: `{command} {lock}` deletes it"
        ));
        Ok(())
    }
}
