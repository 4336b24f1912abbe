//! Places that a task leaves beside its other work, and after it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::client_inner::{ClientInner, Departure};
use crate::name::LockName;

type Leaves = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the task of a place has in the table and does not want any more.
#[derive(Default)]
pub(super) struct Leaving {
    under_way: Mutex<Vec<Leaves>>,
}

impl Leaving {
    /// Adds a place that is to be left. It is on the list of the client's work at once, and its first request is sent when the task
    /// comes to [`Leaving::goes_on`] or [`Leaving::is_done`].
    pub(super) fn add(&self, inner: &Arc<ClientInner>, name: &LockName, departure: Departure) {
        let leaves = Arc::clone(inner).leaves(name.clone(), departure);
        self.under_way().push(Box::pin(leaves));
    }

    /// Leaves places for as long as something else goes on, which is to be polled first. Cancel safe.
    pub(super) async fn goes_on<T>(&self) -> T {
        poll_fn(|context| {
            let _whether_all_are_left = self.poll(context);
            Poll::Pending
        })
        .await
    }

    /// Ends when all places are left, or cannot be left. Cancel safe.
    pub(super) async fn is_done(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    /// What it polls adds nothing to what is under way.
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut under_way = self.under_way();
        under_way.retain_mut(|leaves| leaves.as_mut().poll(context).is_pending());
        match under_way.is_empty() {
            true => {
                // One who waits for long has no room for what was left on the way.
                under_way.shrink_to_fit();
                Poll::Ready(())
            }
            false => Poll::Pending,
        }
    }

    fn under_way(&self) -> MutexGuard<'_, Vec<Leaves>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
