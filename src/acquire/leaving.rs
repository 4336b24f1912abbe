//! Places that a task leaves beside its other work, and after that work.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::join_all;

use crate::client_state::{ClientInner, Departure};
use crate::name::LockName;
use crate::runtime::background::Task;

type Leaves = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Places that a task still has in the table and does not want any more.
pub(super) struct Leaving {
    inner: Arc<ClientInner>,
    name: LockName,
    under_way: Mutex<Vec<Leaves>>,
}

impl Leaving {
    pub(super) fn new(inner: &Arc<ClientInner>, name: &LockName) -> Leaving {
        Leaving {
            inner: Arc::clone(inner),
            name: name.clone(),
            under_way: Mutex::default(),
        }
    }

    /// Adds a place to leave. The client lists this work at once. The task sends the first request when it comes to
    /// [`Leaving::keep_leaving`] or [`Leaving::wait_done`].
    pub(super) fn add(&self, departure: Departure) {
        let leaves = Arc::clone(&self.inner).leaves(self.name.clone(), departure);
        self.under_way().push(Box::pin(leaves));
    }

    /// Leaves places for as long as other work goes on. The caller must poll that work first. Cancel safe.
    pub(super) async fn keep_leaving<T>(&self) -> T {
        poll_fn(|context| {
            let _whether_all_are_left = self.poll(context);
            Poll::Pending
        })
        .await
    }

    /// Ends when every place has been left, or cannot be left. Cancel safe.
    pub(super) async fn wait_done(&self) {
        poll_fn(|context| self.poll(context)).await;
    }

    /// Polls every departure while the list is locked. A departure adds nothing to the list.
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut under_way = self.under_way();
        under_way.retain_mut(|leaves| leaves.as_mut().poll(context).is_pending());
        match under_way.is_empty() {
            true => {
                // A long wait keeps no memory for places that were left earlier.
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

/// A task that ends before its places are left has panicked, or its runtime is gone. After a panic, another task leaves them.
impl Drop for Leaving {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.under_way());
        if !left.is_empty() {
            let all = join_all(left).map(drop);
            self.inner.spawn(&self.name, None, Task::Leave, all);
        }
    }
}
