//! A value that tasks wait for.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A value that tasks wait for. Tasks are woken in the order in which they came, so that a run of a test repeats; `tokio::sync::watch`
/// wakes them in a random order.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let count = fairlock_embedded::Signal::new(0);
/// tokio::join!(count.is(|count| *count == 2), async {
///     count.change(|count| *count += 1);
///     count.change(|count| *count += 1);
/// });
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Signal<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Clone> Signal<T> {
    /// Makes a signal with a first value.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(fairlock_embedded::Signal::new(1).get(), 1);
    /// ```
    pub fn new(value: T) -> Self {
        Signal {
            value: Mutex::new(value),
            changed: Notify::new(),
        }
    }

    /// Returns the value as it is now.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!fairlock_embedded::Signal::<bool>::default().get());
    /// ```
    pub fn get(&self) -> T {
        self.value().clone()
    }

    /// Changes the value, and lets every task that waits check it.
    ///
    /// # Examples
    ///
    /// ```
    /// let count = fairlock_embedded::Signal::new(1);
    /// count.change(|count| *count += 1);
    /// assert_eq!(count.get(), 2);
    /// ```
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.value());
        self.changed.notify_waiters();
    }

    /// Waits until `such` holds of the value, and returns the value. It may hold already. Cancel safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(fairlock_embedded::Signal::new(1).is(|value| *value > 0).await, 1);
    /// # }
    /// ```
    pub async fn is(&self, such: impl Fn(&T) -> bool) -> T {
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
