//! What a call sends, made for each try: stamps are of the moment.

use super::{Asked, Door, Entering, Renewing};
use crate::agent::What;
use crate::agent::context::{Context, Stamped};
use crate::item::Footing;
use crate::ticket::{Sequence, Ticket};
use crate::write::{Entrance, LockWrite, RowWrite, below};

/// Rows that are read at once besides the lock item and as many as there are slots.
const SPARE_ROWS: usize = 16;
/// The most rows behind these that a query reads at once, and so watches.
const WATCHED: u64 = 128;

impl Door {
    pub(super) fn what(&mut self, asked: &mut Asked, cx: &Context<'_>) -> Option<What> {
        let permits = cx.lock.permits;
        match asked {
            Asked::RenewSlot(renewing, _) | Asked::RenewRow(renewing) => {
                self.renews_once_more(renewing, cx);
            }
            _ => {}
        }
        Some(match asked {
            Asked::Enter(entering) => self.enter(entering, cx),
            Asked::EnterOver(entering) => self.enter_over(entering, cx)?,
            Asked::Share(entering, first) => {
                entering.newest = Stamped::now(cx);
                let me = self.attempt.entry(&self.claim, Ticket::default(), cx);
                What::shown(LockWrite::share(permits, me, *first))
            }
            Asked::Draw(drawing, _) => {
                drawing.stamps = cx.clocks.stamps();
                let tickets = self.attempt.tickets;
                let below = below(self.most_drawn(cx)?, tickets);
                What::shown(LockWrite::draw(permits, tickets, below, *drawing))
            }
            Asked::Join(entering) => {
                entering.newest = Stamped::now(cx);
                let ticket = self.queue.as_ref()?.ticket;
                let entry = self.attempt.entry(&self.claim, ticket, cx);
                What::WriteRow(
                    ticket,
                    RowWrite::join(entry, cx.clocks.row_expiry(cx.terms.retention)),
                )
            }
            Asked::Read | Asked::Poll => What::Read,
            Asked::RenewSlot(renewing, footing) => self.renew_slot(renewing, *footing, cx),
            Asked::RenewRow(renewing) => self.renew_row(renewing, cx)?,
            Asked::Query(after) => What::Query {
                after: after.clone(),
                limit: match after {
                    None => {
                        let waiter = self.queue.as_ref();
                        let rows = waiter.map_or(WATCHED, |it| it.behind_the_slots().min(WATCHED));
                        1 + cx.terms.filled_slots + SPARE_ROWS + rows as usize
                    }
                    Some(_) => cx.terms.filled_slots + SPARE_ROWS,
                },
            },
            Asked::Delete(rows) => What::Delete(rows.clone()),
            Asked::Step(_, made) => made.0.clone(),
        })
    }

    fn enter(&self, entering: &mut Entering, cx: &Context<'_>) -> What {
        entering.newest = Stamped::now(cx);
        let entrance = Entrance {
            below: below(entering.most, self.attempt.tickets),
            slots: (!entering.is_for_a_free_lock).then_some(cx.terms.slots),
            join_timeout: cx.terms.join_timeout,
            new: cx
                .clocks
                .new_item(cx.terms.retention)
                .filter(|_| entering.makes),
        };
        // An attempt that may have been applied must see whether it was.
        entering.is_unread = entering.makes && entrance.new.is_none() && !self.attempt.is_in_doubt;
        let me = self.attempt.entry(&self.claim, Ticket::default(), cx);
        let write = LockWrite::enter(cx.lock.permits, me, entrance).keeping(entering.keeps);
        What::Write {
            write,
            shows: !entering.is_unread,
        }
    }

    fn enter_over(&self, entering: &mut Entering, cx: &Context<'_>) -> Option<What> {
        entering.newest = Stamped::now(cx);
        let seen = &self.way.as_ref()?.snapshot.item;
        let newest = seen.last.after(self.attempt.tickets)?;
        let me = self.attempt.entry(&self.claim, newest, cx);
        let write = LockWrite::enter_over(cx.lock.permits, me, seen);
        Some(What::shown(write.keeping(entering.keeps)))
    }

    /// Each try of a renewal has a beat and stamps of its own.
    fn renews_once_more(&mut self, renewing: &mut Renewing, cx: &Context<'_>) {
        if let Some(waiter) = &mut self.queue {
            renewing.stamped = Stamped::now(cx);
            renewing.beat = waiter.attempt.next_beat();
        }
    }

    fn renew_slot(&self, renewing: &mut Renewing, footing: Footing, cx: &Context<'_>) -> What {
        renewing.keeps = cx
            .clocks
            .keeps_for_longer(footing.expires_at, cx.terms.retention);
        let nonce = self
            .queue
            .as_ref()
            .map_or(self.attempt.nonce, |it| it.attempt.nonce);
        let beat = (renewing.beat, cx.terms.in_table(renewing.lease));
        let stamps = cx.clocks.stamps();
        let write = LockWrite::renew(cx.lock.permits, (nonce, footing), beat, stamps);
        What::shown(write.keeping(renewing.keeps))
    }

    fn renew_row(&self, renewing: &Renewing, cx: &Context<'_>) -> Option<What> {
        let waiter = self.queue.as_ref()?;
        let beat = (renewing.beat, cx.terms.in_table(renewing.lease));
        let (stamps, expiry) = (cx.clocks.stamps(), cx.clocks.row_expiry(cx.terms.retention));
        let renew = RowWrite::renew(waiter.attempt.nonce, beat, stamps, expiry);
        Some(What::WriteRow(waiter.ticket, renew))
    }
}
