//! A value that tasks wait for.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Wakes waiting tasks in the order in which they came, so that a run from a seed repeats; `tokio::sync::watch` wakes them in a
/// random order.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Watched<T> {
    pub(crate) fn new(value: T) -> Self {
        Watched {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.value())
    }

    /// Changes the value. If `change` returns `true`, the tasks that wait for the value read it again.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let changed = change(&mut self.value());
        if changed {
            self.changed.notify_waiters();
        }
        changed
    }

    /// Changes a part of the value that no task waits for.
    pub(crate) fn note<R>(&self, note: impl FnOnce(&mut T) -> R) -> R {
        note(&mut self.value())
    }

    /// Waits until `read` finds something in the value, which may be so already. Cancel safe.
    pub(crate) async fn wait_for<R>(&self, read: impl Fn(&T) -> Option<R>) -> R {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let value = self.read(&read);
            if let Some(value) = value {
                return value;
            }
            changed.await;
        }
    }

    fn value(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
