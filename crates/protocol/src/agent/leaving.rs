//! The way out of a place: gives back whatever the lock item shows of it.

use super::again::{Policy, Sending};
use super::context::Context;
use super::fate::{Exit, Fate};
use super::{
    Answer, Done, Failed, Of, Output, Reply, ReplyId, RequestId, Shown, Terms, What, Work,
};
use crate::item::{ItemHold, ItemPosition, RowState, TicketRow};
use crate::moment::Moment;
use crate::place::{Act, Found};
use crate::ticket::Ticket;
use crate::write::{LockWrite, RowWrite};

/// A place that leaves. Any place of its nonce goes.
pub(super) struct Leaving {
    exit: Exit,
    sending: Option<Sending>,
    /// For as long as what is left could be in another client's way.
    policy: Policy,
    /// The giver of the order, which waits until nothing of it is left.
    reply: Option<ReplyId>,
}

impl Leaving {
    pub(super) fn new(exit: Exit, (now, terms): (Moment, &Terms)) -> Self {
        let until = now + terms.lease * 2 + terms.join_timeout;
        Leaving {
            exit,
            sending: None,
            policy: Policy::until(until, terms),
            reply: None,
        }
    }

    /// A place of another process, which is tried as long as a caller waits for an answer.
    pub(super) fn of_another(
        exit: Exit,
        (reply, until): (ReplyId, Moment),
        (now, terms): (Moment, &Terms),
    ) -> Self {
        Leaving {
            policy: Policy {
                until,
                ..Policy::at_the_door(now, terms)
            },
            reply: Some(reply),
            ..Leaving::new(exit, (now, terms))
        }
    }

    /// When the next try is due.
    pub(super) fn due(&self) -> Option<Moment> {
        self.sending.and_then(|sending| sending.due())
    }

    /// Sends the next try.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) -> Fate {
        self.goes_on(cx)
    }

    /// Sends the next request, or ends.
    pub(super) fn goes_on(&mut self, cx: &mut Context<'_>) -> Fate {
        // Each round comes nearer to a request, or to the end.
        loop {
            self.exit.act = match self.exit.act {
                Act::Find if self.exit.seen.is_some() => self.exit.course.stands(self.found()),
                Act::Find => return self.sends(What::Read, cx),
                Act::VoidOwn | Act::Depart => match self.exit.ticket {
                    Some(ticket) => return self.sends(self.retires(ticket, cx), cx),
                    None => Act::Over,
                },
                Act::Release | Act::GiveUp => match self.gives_back(cx) {
                    Some(write) => return self.sends(What::shown(write), cx),
                    None => self.exit.course.stands(Found::Nowhere),
                },
                _ => {
                    match self.reply.take() {
                        Some(reply) => cx.shared.is_done(Some(reply), Ok(Done::Left)),
                        None => cx.doubts(&self.exit.attempt, Ticket::default()),
                    }
                    return Fate::Over;
                }
            };
        }
    }

    fn sends(&mut self, what: What, cx: &mut Context<'_>) -> Fate {
        cx.confirms_no_more();
        let (request, now) = (cx.send(Of::Nobody, what), cx.now());
        Sending::tries(&mut self.sending, self.policy, request, now);
        Fate::Stays
    }

    fn retires(&self, ticket: Ticket, cx: &Context<'_>) -> What {
        let attempt = &self.exit.attempt;
        match self.exit.act {
            Act::VoidOwn => {
                let expiry = cx.clocks.row_expiry(cx.terms.retention);
                let void = RowWrite::void_own(attempt.nonce, attempt.tickets, expiry);
                What::WriteRow(ticket, void)
            }
            _ => What::shown(LockWrite::leave(cx.lock.permits, ticket)),
        }
    }

    fn gives_back(&self, cx: &Context<'_>) -> Option<LockWrite> {
        let (nonce, item) = (self.exit.attempt.nonce, self.exit.seen.as_ref()?);
        let permits = cx.lock.permits;
        Some(match item.position_of(nonce)? {
            ItemPosition::Has(at, entry) => {
                let held = ItemHold::of(item, at, entry);
                LockWrite::release(permits, nonce, held, cx.clocks.stamps().server)
            }
            ItemPosition::Successor(index, own) => {
                LockWrite::give_up_slot(permits, item.at_successor(index), own)
            }
        })
    }

    /// Takes in what became of a request.
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
                self.exit.attempt.is_in_doubt |= failure.is_ambiguous();
                let over = cx.failed(&mut sending, failure);
                self.sending = Some(sending);
                return over.map_or(Fate::Stays, |failure| self.gives_up(failure, cx));
            }
        };
        self.sending = None;
        self.exit.act = match self.exit.act {
            Act::VoidOwn => self.exit.course.voided(),
            Act::Depart => self.departed(answer, cx),
            _ => self.gave_back(answer),
        };
        self.goes_on(cx)
    }

    /// If the ticket was given a slot before, the row that was made void for nothing is deleted: the client that gave the slot deleted it once.
    fn departed(&mut self, answer: Answer, cx: &mut Context<'_>) -> Act {
        let is_applied = matches!(answer, Answer::Applied(_));
        self.exit.seen = match answer {
            Answer::Applied(Shown::Item(item))
            | Answer::ConditionFailed(Some(Shown::Item(item))) => Some(item),
            _ => None,
        };
        if let (false, Some(ticket)) = (is_applied, self.exit.ticket) {
            let clean = RowWrite::remove(&void_row(ticket));
            cx.send(Of::Nobody, What::WriteRow(ticket, clean));
        }
        self.exit.course.departed(is_applied, self.found())
    }

    fn gave_back(&mut self, answer: Answer) -> Act {
        match answer {
            Answer::Read(item) => {
                self.exit.seen = item;
                self.exit.course.stands(self.found())
            }
            Answer::Applied(Shown::Item(item)) => {
                self.exit.seen = Some(item);
                self.exit.course.gave_back(true, Found::Nowhere)
            }
            Answer::ConditionFailed(Some(Shown::Item(item))) => {
                self.exit.seen = Some(item);
                self.exit.course.gave_back(false, self.found())
            }
            _ => self.exit.course.stands(Found::Nowhere),
        }
    }

    /// What could not be left is passed by others in time. A place of another is not remembered: its process may live.
    fn gives_up(&mut self, failure: Failed, cx: &mut Context<'_>) -> Fate {
        if let Some(reply) = self.reply.take() {
            cx.shared.is_done(Some(reply), Err(failure));
            return Fate::Over;
        }
        cx.tell(Output::Undone {
            lock: cx.lock.clone(),
            ticket: self.exit.ticket,
            work: Work::Leave,
            failure,
        });
        cx.doubts(&self.exit.attempt, Ticket::default());
        Fate::Over
    }

    pub(super) fn ticket(&self) -> Option<Ticket> {
        self.exit.ticket
    }

    fn found(&self) -> Found {
        let item = self.exit.seen.as_ref();
        item.and_then(|item| item.position_of(self.exit.attempt.nonce))
            .into()
    }
}

/// The row that a place made void which leaves.
pub(super) fn void_row(ticket: Ticket) -> TicketRow {
    TicketRow {
        ticket,
        tickets: 1,
        state: RowState::Void(None),
        expires_at: 0,
    }
}
