//! The caller that does not wait: ask for a free lock, or clear the dead out of the way, or be refused.

use super::client::{Client, Spot, Task};
use super::few::Few;
use super::look::Look;
use super::request::{Answer, Request, Seen};
use super::rules::Rules;
use super::table::{Entry, Item};
use super::waiter::{evict, settle, unseat};
use fairlock_protocol::line::{Occupant, Refusal, next_refusal};
use fairlock_protocol::ticket::Ticket;

/// Requests before it gives in: more than the dead that a run can have.
const TRIES: u8 = 8;

impl Client {
    /// Takes in an answer; true if the lock item in it, or a fresh look, must be decided on.
    pub(crate) fn caller_answered(
        &mut self,
        me: usize,
        rules: &Rules,
        request: Request,
        answer: Answer,
    ) -> Option<Look> {
        let item = answer.shown.item();
        self.task = Task::Waiting;
        self.tries += 1;
        match (request, self.spot(item, rules)) {
            (Request::Release { .. }, spot) => self.released(me, spot),
            (_, Spot::Holder(entry)) => self.granted(entry),
            _ if self.tries > TRIES => self.finish(),
            (Request::Share { .. }, _) if item.is_none() => self.ask_first(me, rules),
            (Request::Enter { .. } | Request::EnterOver { .. } | Request::Share { .. }, _) => {
                return item.map(Look::new);
            }
            // Whoever was dead is gone, or the next is to be looked at: the next request shows it.
            (Request::Evict { .. } | Request::Unseat { .. }, _) => self.ask_anew(me),
            _ => {}
        }
        None
    }

    fn ask_anew(&mut self, me: usize) {
        let tries = self.tries;
        self.start(me);
        self.tries = tries;
    }

    pub(crate) fn refused(
        &mut self,
        me: usize,
        rules: &Rules,
        look: Look,
        judge: impl Fn(Entry) -> Occupant,
        ripe: impl Fn(Ticket) -> bool,
    ) {
        let digest = look.digest(rules, judge);
        self.task = Task::Waiting;
        let is_left = look.item.has_left(self.share, rules);
        match next_refusal(&digest.view(), is_left, |gap| ripe(gap).then_some(gap)) {
            Refusal::Free => self.ask_anew(me),
            Refusal::Settled => self.ask_over(me, rules, &look.item),
            Refusal::Taken => self.finish(),
            Refusal::Evict(has) => self.send_some(evict(&look.item, has, rules)),
            Refusal::Unseat(index) => self.send_some(unseat(&look.item, index, rules)),
            Refusal::ReadOn => self.task = Task::Reading(look),
            Refusal::Settle(unsettled) => self.send_some(settle(&look, &unsettled)),
            Refusal::Pass(upto) => self.send(Request::Seat {
                seen: Seen::of(&look.item),
                found: Few::default(),
                seated: upto.get() as u8,
            }),
        }
    }

    fn ask_over(&mut self, me: usize, rules: &Rules, item: &Item) {
        let nonce = self.name(me, rules);
        let Item { last, seated, .. } = *item;
        let who = self.who(nonce);
        self.send(Request::EnterOver { who, last, seated });
    }
}
