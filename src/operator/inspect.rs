//! Reads for observers: the holders of a lock, its queue, and which locks there are.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};

use crate::agent::client_state::ClientInner;
use crate::lock::client::LockClient;
use crate::lock::fair_lock::FairLock;
use crate::operator::state_reader;
use crate::store::ScanPlace;
use crate::vocabulary::error::Error;
use crate::vocabulary::state::LockState;
use fairlock_protocol::failure::Failure;

impl FairLock {
    /// Reads the holders of the lock and its queue, without taking part: nothing is written.
    ///
    /// A consistent read of the lock item and the whole queue: one request for each thousand waiters. The lock may have changed
    /// by the time the state is shown: never decide by it whether to go ahead.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Refused`] or [`Error::InvalidItem`] if the lock could not be read, [`Error::ShutDown`] if
    /// the client is shut down. Each request of a call that inspects or administers locks is tried four times at the most, with a request
    /// time-out for each.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use fairlock::{LockClient, embedded::Engine};
    /// # let locks = LockClient::builder(Engine::memory()?.client()).build()?;
    /// # locks.create_table().await?;
    /// let lock = locks.fair_lock("account/42")?;
    /// let guard = lock.try_acquire().await?.ok_or("it is free")?;
    /// let holder = lock.inspect().await?.holder.ok_or("it is held")?;
    /// assert_eq!(holder.ticket, guard.ticket());
    /// # guard.release().await?;
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "embedded"))]
    /// # fn main() {}
    /// ```
    pub async fn inspect(&self) -> Result<LockState, Error> {
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let name = self.name.as_found();
        let read = state_reader::lock(&self.inner.requests, &name, &policy);
        let told = self.inner.used().map(|it| it.mean_turn(&self.name));
        let state = self.inner.for_caller(read).await?;
        let mean_turn = told.and_then(|mut told| told.try_recv().ok());
        Ok(LockState { mean_turn, ..state })
    }
}

impl LockClient {
    /// Reads the locks of this client's namespace, held and idle, one after the other and in no order. Of each queue it reads
    /// only the successors; [`FairLock::inspect`] reads all of it.
    ///
    /// Reads the whole table with `Scan`, which is not strongly consistent and costs by the table's size. The stream reads a page
    /// when it is polled for it. An item that cannot be read is an [`Error::InvalidItem`] in its place, and the stream goes on;
    /// any other error ends it.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A stream that is dropped reads no more.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn list(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// use futures::TryStreamExt;
    ///
    /// let mut states = std::pin::pin!(locks.locks());
    /// while let Some(state) = states.try_next().await? {
    ///     println!("{}: {} wait", state.lock, state.waiting);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn locks(&self) -> impl Stream<Item = Result<LockState, Error>> + Send + use<> {
        stream::unfold(Listing::new(&self.inner), Listing::next).fuse()
    }
}

/// How far a listing has come.
struct Listing {
    inner: Arc<ClientInner>,
    /// Read, and not returned yet.
    found: VecDeque<Result<LockState, Failure>>,
    from: Option<ScanPlace>,
    is_over: bool,
}

impl Listing {
    fn new(inner: &Arc<ClientInner>) -> Self {
        Listing {
            inner: Arc::clone(inner),
            found: VecDeque::new(),
            from: None,
            is_over: false,
        }
    }

    /// The loop ends because each page of a scan starts behind the one before.
    async fn next(mut self) -> Option<(Result<LockState, Error>, Listing)> {
        while self.found.is_empty() && !self.is_over {
            if let Err(error) = self.read_on().await {
                self.is_over = true;
                return Some((Err(error), self));
            }
        }
        let state = self.found.pop_front()?;
        let state = self.inner.for_caller(async { state }).await;
        if !matches!(state, Ok(_) | Err(Error::InvalidItem { .. })) {
            self.is_over = true;
            self.found.clear();
        }
        Some((state, self))
    }

    async fn read_on(&mut self) -> Result<(), Error> {
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let read = state_reader::page(&self.inner.requests, &policy, self.from.take());
        let (found, from) = self.inner.for_caller(read).await?;
        self.is_over = from.is_none();
        self.from = from;
        self.found = found.into();
        Ok(())
    }
}
