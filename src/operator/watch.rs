//! Watches a lock: returns its state whenever that changes, for as long as the caller polls.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};

use crate::agent::client_state::ClientInner;
use crate::lock::fair_lock::FairLock;
use crate::vocabulary::config;
use crate::vocabulary::error::{Closed, Error};
use crate::vocabulary::state::{LockState, Participant};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::PollSchedule;

impl FairLock {
    /// Streams the state of the lock and all of its queue, now and whenever it changes: the holders, the waiters, and which of
    /// them look dead. What changes with time alone, such as the rest of a lease, is no news.
    ///
    /// Reads as [`inspect`](Self::inspect) does, at most once in `every`, and only while the stream is polled. Each read is one
    /// request, and one more for each further thousand waiters, and costs by the size of the queue. What comes and goes between
    /// two reads is not seen. The states say how long a turn takes, if this client or this watch saw a turn end. They say it to
    /// about the time between two reads.
    ///
    /// The stream returns [`Error::Unavailable`] whenever a read fails for want of an answer, and goes on; any other error ends
    /// it. It ends without an error when the client is shut down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a caller that stops waiting for the next state gets it by waiting again. A stream that is dropped reads no
    /// more.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect); and [`Error::Invalid`] if `every` is shorter than a millisecond.
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which measure its time.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn show(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use std::{pin::pin, time::Duration};
    /// use futures::TryStreamExt;
    ///
    /// let mut states = pin!(lock.watch(Duration::from_secs(1)));
    /// while let Some(state) = states.try_next().await? {
    ///     let holder = state.holder.as_ref().map_or("nobody", |holder| &holder.owner);
    ///     println!("{holder} has it, {} wait, a turn takes {:?}", state.waiting, state.mean_turn);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(
        &self,
        every: Duration,
    ) -> impl Stream<Item = Result<LockState, Error>> + Send + use<> {
        stream::unfold(Watch::new(self, every), Watch::next).fuse()
    }
}

struct Watch {
    lock: FairLock,
    every: Duration,
    /// When the next read may be sent.
    due: Moment,
    /// The state that the last read showed.
    seen: Option<LockState>,
    pace: PollSchedule,
    is_over: bool,
}

impl Watch {
    fn new(lock: &FairLock, every: Duration) -> Self {
        Watch {
            lock: lock.clone(),
            every,
            due: Moment::default(),
            seen: None,
            pace: PollSchedule::new(every, every),
            is_over: false,
        }
    }

    /// The loop ends with news, or with the client.
    async fn next(mut self) -> Option<(Result<LockState, Error>, Watch)> {
        while !self.is_over {
            if let Some(news) = self.poll().await {
                return Some((news, self));
            }
        }
        None
    }

    async fn poll(&mut self) -> Option<Result<LockState, Error>> {
        let inner = Arc::clone(&self.lock.inner);
        match self.poll_when_due(&inner).await {
            Ok(state) => self.changed(state, inner.store.now()).map(Ok),
            Err(Error::ShutDown(_)) => {
                self.is_over = true;
                None
            }
            Err(error) => {
                self.seen = None;
                self.is_over = !matches!(error, Error::Unavailable { .. });
                Some(Err(error))
            }
        }
    }

    async fn poll_when_due(&mut self, inner: &ClientInner) -> Result<LockState, Error> {
        config::check_span("every", self.every)?;
        tokio::select! {
            biased;
            () = inner.closed.cancelled() => return Err(Error::ShutDown(Closed::ShutDown)),
            () = inner.store.config().clock.sleep_until(self.due) => {}
        }
        self.due = inner.store.now() + self.every;
        self.lock.inspect().await
    }

    /// Returns `None` if the state is as it was.
    fn changed(&mut self, mut state: LockState, now: Moment) -> Option<LockState> {
        self.learn(&state, now);
        state.mean_turn = self.pace.mean().or(state.mean_turn);
        let before = self.seen.replace(state.clone());
        let is_news = before.is_none_or(|before| timeless(before) != timeless(state.clone()));
        is_news.then_some(state)
    }

    /// Learns how long a turn took. If the holder stood in the queue at the read before, the lock was not free before its turn.
    /// Of other holders that is not known.
    fn learn(&mut self, state: &LockState, now: Moment) {
        let holder = state.holder.as_ref().map(Participant::first);
        let newest = self.seen.as_ref().and_then(|seen| seen.newest_ticket);
        if holder > newest {
            self.pace.saw(None, now);
        }
        self.pace.saw(holder, now);
    }
}

/// A state without what changes with time alone.
fn timeless(mut state: LockState) -> LockState {
    state.mean_turn = None;
    let holders = state.holder.iter_mut().chain(&mut state.sharers);
    for one in holders.chain(&mut state.queue) {
        one.lease = Duration::ZERO;
        one.beat = 0;
        one.lease_left = one.lease_left.filter(Duration::is_zero);
    }
    state
}
