//! A successor that expects the lock at any moment sends the next poll before the last one is answered.

use std::fmt;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{self, BoxFuture, Either};

use super::Waiter;
use crate::requests::RetryPolicy;
use crate::store::Timed;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{ItemPosition, LockItem};
use fairlock_protocol::moment::Moment;

type Answer = Result<Timed<Option<LockItem>>, Failure>;

/// A poll that is under way.
pub(crate) struct Sent {
    at: Moment,
    answer: BoxFuture<'static, Answer>,
}

impl Sent {
    /// Awaits the answer, which no caller needs, so that the connection that it comes over is free again.
    pub(crate) async fn drain(self) {
        // The waiter that sent it waits for nothing any more.
        let _ = self.answer.await;
    }
}

impl Waiter {
    /// Reads the lock item, by the poll that is under way if there is one.
    pub(super) async fn read_lock(&mut self, policy: &RetryPolicy) -> Result<Option<()>, Failure> {
        let overlap = self.overlap();
        if let Some(sent) = self.recent().or_else(|| overlap.map(|_| self.send())) {
            let at = sent.at;
            let answer = match overlap {
                Some(overlap) => self.overlapping(sent, overlap).await,
                None => sent.answer.await,
            };
            match self.requests.heard_read(at, answer) {
                Ok(answer) => return Ok(self.saw_item(answer)),
                Err(failure) if !self.requests.has_time_left(policy) => return Err(failure),
                // The read below tries again, with the policy.
                Err(failure) => self.requests.note_throttling(&failure),
            }
        }
        let read = || self.requests.store.read_lock(&self.name);
        let answer = self.requests.retry_read(policy, read).await?;
        Ok(self.saw_item(answer))
    }

    /// The poll that is under way, unless something else, a pause or a renewal, came between.
    fn recent(&mut self) -> Option<Sent> {
        let now = self.requests.store.now();
        let sent = self.ahead.take();
        sent.filter(|sent| self.pace.is_news(sent.at, now))
    }

    /// A poll that is under way and of no more use.
    pub(crate) fn take_ahead(&mut self) -> Option<Sent> {
        self.ahead.take()
    }

    /// Sends another poll `overlap` after the one that is under way, if no answer has come. The first answer counts. The later
    /// poll makes the earlier one old; the earlier poll leaves the later one under way.
    async fn overlapping(&mut self, mut sent: Sent, overlap: Duration) -> Answer {
        let next = sent.at + overlap;
        let clock = self.requests.store.config().clock.clone();
        tokio::select! {
            biased;
            answer = &mut sent.answer => return answer,
            () = clock.sleep_closely_until(next) => {}
        }
        let Sent { at, answer } = self.send();
        match future::select(sent.answer, answer).await {
            Either::Left((earlier, answer)) => {
                self.ahead = Some(Sent { at, answer });
                earlier
            }
            Either::Right((later, _)) => later,
        }
    }

    /// How long after a poll the next one is sent, by a successor that may hold the lock at any moment.
    fn overlap(&self) -> Option<Duration> {
        if self.path.expects_release {
            return Some(self.pace.second_poll());
        }
        match self.item_position()? {
            ItemPosition::Successor(before, _)
                if self.requests.slowed() == 1 && !self.is_told() =>
            {
                self.pace.overlap(before, self.requests.store.now())
            }
            ItemPosition::Successor(..) | ItemPosition::Has(..) => None,
        }
    }

    fn send(&self) -> Sent {
        let (store, name) = (self.requests.store.clone(), self.name.clone());
        Sent {
            at: store.now(),
            answer: async move { store.read_lock(&name).await }.boxed(),
        }
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
