//! What stands in the way of a call, and what is removed of it.

use std::sync::Arc;

use super::{Asked, Door, Step, first_of};
use crate::agent::chore::BATCH;
use crate::agent::context::Context;
use crate::agent::fate::Fate;
use crate::agent::waiter::Heard;
use crate::agent::{Answer, Cursor, Note, Page, Took, What};
use crate::clearing::Clearing;
use crate::doorway::Seen;
use crate::entry::Entry;
use crate::item::{LockItem, RowState, TicketRow};
use crate::place::Act;
use crate::redating::{Redating, next_redating};
use crate::snapshot::Snapshot;
use crate::stamps::Reading;
use crate::step::{ClearingStep, Removal, Unsettled};
use crate::ticket::Ticket;
use crate::write::{LockWrite, RowWrite};

/// What is to be cleared.
pub(super) struct Way {
    pub(super) snapshot: Snapshot<Cursor>,
    pub(super) reading: Reading,
    clearing: Clearing,
}

impl Door {
    /// The verdict on what stands in the way. `None` if there is no item.
    pub(super) fn clears(&mut self, cx: &Context<'_>) -> Option<ClearingStep> {
        if let Some(item) = self.seen.take() {
            self.way = Some(Way::of(item, self.reading));
        }
        let (permits, way) = (self.claim.takes(cx.lock), self.way.as_mut()?);
        let now = cx.clocks.judges(way.reading, cx.terms.join_timeout);
        Some(way.clearing.next(&way.snapshot, &now, permits))
    }

    pub(super) fn judged(&mut self, refusal: ClearingStep, cx: &mut Context<'_>) -> Act {
        let shown = self.way.as_ref().map(|way| &*way.snapshot.item);
        self.first = shown.and_then(first_of);
        let seen = match &self.way {
            Some(way) => self.sight_of(&way.snapshot.item, cx.terms.filled_slots, cx),
            None => Seen::Nobody,
        };
        if refusal == ClearingStep::Taken {
            // What is in the way may have a slot left, for which it asks next.
            self.seen = self.way.take().map(|way| way.snapshot.item);
        }
        self.course.clears(refusal, seen)
    }

    /// Whether a caller goes on behind what stands in the way: it waits, and the queue is not too long for it. The others are refused.
    pub(super) fn goes_on_behind(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.way.as_ref().map_or(0, |way| way.snapshot.item.turns());
        if !self.claim.waits() || cx.callers.are_unwilling(before) {
            return false;
        }
        let unwilling = cx.callers.unwilling(before);
        cx.refuse(unwilling);
        true
    }

    /// A live entry stands in the way. What keeps the next caller from judging it is stamped first.
    pub(super) fn meets_live_entry(&mut self, cx: &mut Context<'_>) -> Fate {
        match self.redating(cx).filter(|_| !self.is_over(cx)) {
            Some(what) => {
                self.giving_in = Some(self.why_not(cx));
                self.steps(Some((Step::Redate, what)), cx)
            }
            None => self.gives_in(cx),
        }
    }

    pub(super) fn redating(&self, cx: &Context<'_>) -> Option<What> {
        let way = self.way.as_ref()?;
        let (item, rows) = (&way.snapshot.item, &way.snapshot.rows);
        Some(
            match next_redating(cx.lock.permits, item, rows, way.reading)? {
                Redating::OnItem(write) => What::shown(write),
                Redating::InRow(ticket, write) => What::WriteRow(ticket, write),
            },
        )
    }

    pub(super) fn reads_on(&mut self, cx: &mut Context<'_>) -> Fate {
        let queue = self.queue.as_mut().map(|waiter| &mut waiter.snapshot);
        let snapshot = queue.or(self.way.as_mut().map(|way| &mut way.snapshot));
        let next = snapshot.and_then(|snapshot| {
            let cursor = snapshot.next.take()?;
            Some(snapshot.skips_to().map_or(cursor, Cursor::Ticket))
        });
        self.asks(Asked::Query(next), cx)
    }

    pub(super) fn removes(&mut self, removal: Removal, cx: &mut Context<'_>) -> Fate {
        let Removal::Void(over) = removal else {
            let Some((step, what, dead)) = self.removal(&removal, cx) else {
                return self.asks_no_more(cx);
            };
            return self.steps_and_notes((step, what), dead, cx);
        };
        // All at once, and all are awaited.
        let voids = over.iter().filter_map(|one| self.voids(one, cx));
        for (void, note) in voids.collect::<Vec<_>>() {
            let fate = self.steps_and_notes((Step::Void, void), note, cx);
            if !matches!(fate, Fate::Stays) {
                return fate;
            }
        }
        self.asks_no_more(cx)
    }

    fn removal(&self, removal: &Removal, cx: &Context<'_>) -> Option<(Step, What, Option<Note>)> {
        let (permits, item) = (cx.lock.permits, &self.snapshot()?.item);
        let (step, write, note) = match removal {
            Removal::Evict(has) => {
                let (dead, held) = item.who(*has)?;
                let date = cx.clocks.stamps().server;
                let note = evicts(Took::Hold, dead);
                (
                    Step::Evict,
                    LockWrite::evict(permits, dead, held, date),
                    note,
                )
            }
            Removal::EvictSuccessor(index) => {
                let (dead, at) = (item.successors().get(*index)?, item.at_successor(*index));
                let write = LockWrite::evict_successor(permits, at, dead);
                (Step::Evict, write, evicts(Took::Slot, dead))
            }
            Removal::Settle(upto) => {
                let write = LockWrite::settle(permits, item, *upto);
                (Step::Settle(*upto), write, None)
            }
            Removal::Void(_) => return None,
        };
        Some((step, What::shown(write), note))
    }

    fn voids(&self, over: &Unsettled, cx: &Context<'_>) -> Option<(What, Option<Note>)> {
        Some(match *over {
            Unsettled::Gap(first, last) => {
                let gap = TicketRow {
                    ticket: last,
                    tickets: last.get() - first.get() + 1,
                    state: RowState::Void(None),
                    expires_at: cx.clocks.row_expiry(cx.terms.retention),
                };
                let note = Note::GapClosed(last, gap.tickets);
                let what = What::WriteRow(last, RowWrite::void_gap(gap));
                (what, Some(note))
            }
            Unsettled::Dead(ticket) => {
                let dead = self.snapshot()?.waiting(ticket)?;
                let what = What::WriteRow(ticket, RowWrite::void_dead(dead));
                (what, evicts(Took::Row, dead))
            }
        })
    }

    /// Deletes the rows over which the watermark was raised, because they would have to be read again.
    pub(super) fn settled(&mut self, upto: Ticket, cx: &mut Context<'_>) -> Fate {
        let rows = self
            .way
            .iter()
            .flat_map(|way| way.snapshot.settled_rows(upto));
        let rows: Vec<_> = rows.map(|row| row.ticket).take(BATCH).collect();
        match rows.is_empty() {
            true => self.asks(Asked::Query(None), cx),
            false => self.asks(Asked::Delete(rows), cx),
        }
    }

    pub(super) fn read_page(
        &mut self,
        is_more: bool,
        answer: Answer,
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        let Answer::Page(Page { item, rows, next }) = answer else {
            return self.polled(None, heard, cx);
        };
        let (before, reading) = match (&self.queue, &self.way) {
            (Some(waiter), _) => (Some(&waiter.snapshot), waiter.reading),
            (None, Some(way)) => (Some(&way.snapshot), way.reading),
            (None, None) => (None, heard.reading),
        };
        let (snapshot, reading) = match before.filter(|_| is_more) {
            Some(before) => (Some(before.clone()), reading.and_then(heard.reading)),
            None => {
                let first = item.map(Snapshot::of);
                (first, heard.reading)
            }
        };
        let snapshot = snapshot.map(|snapshot| snapshot.with(rows, next));
        self.polled(snapshot, Heard { reading, ..heard }, cx)
    }

    /// Takes in what is seen, or that there is no lock item any more.
    pub(super) fn polled(
        &mut self,
        snapshot: Option<Snapshot<Cursor>>,
        heard: Heard,
        cx: &mut Context<'_>,
    ) -> Fate {
        self.pauses_until = None;
        let act = match (snapshot, &mut self.queue, &mut self.way) {
            (Some(snapshot), Some(waiter), _) => {
                waiter.saw(snapshot, heard);
                waiter.has_polled(cx);
                self.course.polled()
            }
            (None, Some(waiter), _) => {
                let is_settled = waiter.ticket <= waiter.snapshot.item.watermark;
                waiter.is_lock_gone = true;
                self.course.lock_gone(is_settled)
            }
            (Some(snapshot), None, Some(way)) => {
                (way.snapshot, way.reading) = (snapshot, heard.reading);
                self.course.polled()
            }
            (Some(snapshot), None, None) => {
                let way = Way::of(Arc::clone(&snapshot.item), heard.reading);
                self.way = Some(Way { snapshot, ..way });
                self.course.polled()
            }
            (None, None, _) => {
                self.way = None;
                self.course.lock_gone(false)
            }
        };
        self.acts(act, cx)
    }
}

/// What was given back is no takeover: its time was over.
fn evicts(took: Took, dead: &Entry) -> Option<Note> {
    (!dead.given_back).then(|| Note::Evicted(took, Box::new(dead.clone())))
}

impl Way {
    pub(super) fn of(item: Arc<LockItem>, reading: Reading) -> Self {
        Way {
            snapshot: Snapshot::of(item),
            reading,
            clearing: Clearing::default(),
        }
    }
}
