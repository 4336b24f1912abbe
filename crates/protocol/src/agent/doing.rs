//! A client does something for others.

use super::again::{Policy, Sending};
use super::chore::{BATCH, Chore};
use super::context::Context;
use super::fate::Fate;
use super::{Answer, Of, Reply, RequestId};
use crate::moment::Moment;

/// A chore, and the request for it.
pub(super) struct Doing {
    pub(super) chore: Chore,
    sending: Option<Sending>,
}

impl Doing {
    pub(super) fn new(chore: Chore) -> Self {
        let sending = None;
        Doing { chore, sending }
    }

    pub(super) fn due(&self) -> Option<Moment> {
        self.sending.and_then(|sending| sending.due())
    }

    /// Sends the next try, or ends if nothing is left to do.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) -> Fate {
        let Some(what) = self.chore.what(cx.lock.permits) else {
            return Fate::Over;
        };
        let (request, now) = (cx.send(Of::Nobody, what), cx.now());
        let policy = Policy::at_the_door(now, cx.terms);
        Sending::tries(&mut self.sending, policy, request, now);
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
        let answer = match reply.answer {
            Ok(answer) => answer,
            Err(failure) => {
                let is_over = cx.failed(&mut sending, failure).is_some();
                self.sending = Some(sending);
                return if is_over { Fate::Over } else { Fate::Stays };
            }
        };
        self.sending = None;
        match &mut self.chore {
            Chore::Delete(rows) => {
                rows.drain(..rows.len().min(BATCH));
                self.on_time(cx)
            }
            Chore::Admit(_, admitted) => {
                if let Answer::Applied(_) = answer {
                    cx.tells_admitted(admitted);
                }
                Fate::Over
            }
        }
    }
}
