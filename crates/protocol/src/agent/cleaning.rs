//! Deletes rows of settled tickets, in batches. What stays is left to the next client that cleans, and to TTL.

use super::again::{Policy, Sending};
use super::context::Context;
use super::fate::Fate;
use super::{Of, Reply, RequestId, What};
use crate::moment::Moment;
use crate::ticket::Ticket;

/// DynamoDB's limit for one batch of deletes.
const BATCH: usize = 25;

pub(super) struct Cleaning {
    /// The rows that are not deleted yet.
    rows: Vec<Ticket>,
    sending: Option<Sending>,
}

impl Cleaning {
    pub(super) fn new(rows: Vec<Ticket>) -> Self {
        Cleaning {
            rows,
            sending: None,
        }
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.sending.and_then(|sending| sending.due())
    }

    /// Sends the next try, or ends if no rows are left.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) -> Fate {
        let batch: Vec<_> = self.rows.iter().copied().take(BATCH).collect();
        if batch.is_empty() {
            return Fate::Over;
        }
        let (request, now) = (cx.send(Of::Nobody, What::Delete(batch)), cx.now());
        match &mut self.sending {
            Some(sending) => sending.sent(request, now),
            None => {
                let policy = Policy::at_the_door(now, cx.terms);
                self.sending = Some(Sending::new(policy, request, now));
            }
        }
        Fate::Stays
    }

    pub(super) fn answered(
        &mut self,
        request: RequestId,
        reply: Reply,
        cx: &mut Context<'_>,
    ) -> Fate {
        let Some(mut sending) = self.sending.filter(|sending| sending.is(request)) else {
            return Fate::Stays;
        };
        match reply.answer {
            Ok(_) => {
                self.rows.drain(..self.rows.len().min(BATCH));
                self.sending = None;
                self.on_time(cx)
            }
            Err(failure) => match cx.failed(&mut sending, failure) {
                None => {
                    self.sending = Some(sending);
                    Fate::Stays
                }
                Some(_) => Fate::Over,
            },
        }
    }
}
