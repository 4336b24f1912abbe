//! A value that tasks wait for.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Those who wait are woken in the order in which they came, so that a run from a seed repeats; `tokio::sync::watch` wakes
/// them in a random order.
#[derive(Debug, Default)]
pub(crate) struct Signal<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone> Signal<T> {
    pub(crate) fn new(value: T) -> Self {
        Signal {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    pub(crate) fn get(&self) -> T {
        self.value().clone()
    }

    /// Changes the value, or says that it did not.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let changed = change(&mut self.value());
        if changed {
            self.changed.notify_waiters();
        }
        changed
    }

    /// Waits until the value is such, which it may be already. Cancel safe.
    pub(crate) async fn is(&self, such: impl Fn(&T) -> bool) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let value = self.get();
            if such(&value) {
                return value;
            }
            changed.await;
        }
    }

    fn value(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
