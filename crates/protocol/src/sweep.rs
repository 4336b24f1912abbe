//! One look of a sweeper -> the next removal: the order in which what is over goes.
//!
//! The product's sweeper and the model's call this same function.

use crate::line::{Has, Known, Step, Unsettled, View, Walk, remove_the_dead, survey};
use crate::ticket::Ticket;

/// What a sweeper does next. What it removes is removed on the condition that it is as the look showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepStep {
    /// This one who has the lock is dead.
    Evict(Has),
    /// The successor at this index is dead: take its slot away.
    Unseat(usize),
    /// The decision needs rows that this look has not read.
    ReadOn,
    /// The rows up to this ticket are settled, and nobody decides by them.
    Delete(Ticket),
    /// These stand in the queue and are over: make them void.
    Settle(Vec<Unsettled>),
    /// Every ticket up to this one is settled: say so on the lock item.
    Pass(Ticket),
    /// Nobody holds the lock or waits for it, and no row is left: the lock item may go, if it is out of use.
    Idle,
    /// Nothing is over.
    Done,
}

/// The next removal of a sweeper. `ripe` tells up to which ticket a gap has outlived the join timeout, as for a waiter.
///
/// The dead on the lock item come first, because an eviction hands the lock to somebody who waits. Then the settled rows, so that no
/// later look reads them again.
pub fn next_sweep(view: &View<'_>, ripe: impl Fn(Ticket) -> Option<Ticket>) -> SweepStep {
    match remove_the_dead(view) {
        Some(Step::Evict(has)) => return SweepStep::Evict(has),
        Some(Step::Unseat(index)) => return SweepStep::Unseat(index),
        _ if view.known == Known::Nothing => return SweepStep::ReadOn,
        _ => {}
    }
    if view.rows.iter().any(|at| at.ticket <= view.seated) {
        return SweepStep::Delete(view.seated);
    }
    let Walk {
        found,
        upto,
        unsettled,
        ..
    } = survey(view, ripe);
    match view.known {
        _ if !unsettled.is_empty() => SweepStep::Settle(unsettled),
        // The first of those who wait passes what is settled before it.
        _ if found.is_empty() && upto > view.seated => SweepStep::Pass(upto),
        Known::Nothing | Known::UpTo(_) => SweepStep::ReadOn,
        Known::All if view.is_idle() => SweepStep::Idle,
        Known::All => SweepStep::Done,
    }
}

impl View<'_> {
    fn is_idle(&self) -> bool {
        let is_free = self.holder.is_none() && self.sharers.is_empty() && self.heirs.is_empty();
        is_free && self.seated == self.last && self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{Digest, Occupant, Row, RowAt};

    fn free(seated: u64, last: u64) -> Digest {
        Digest {
            holder: None,
            sharers: Vec::new(),
            heirs: Vec::new(),
            admitted: 0,
            rows: Vec::new(),
            last: Ticket::new(last),
            seated: Ticket::new(seated),
            known: Known::All,
        }
    }

    fn row(ticket: u64, row: Row) -> RowAt {
        let ticket = Ticket::new(ticket);
        RowAt {
            first: ticket,
            ticket,
            row,
        }
    }

    fn sweep(digest: &Digest) -> SweepStep {
        next_sweep(&digest.view(), |_| None)
    }

    #[test]
    fn the_dead_on_the_lock_item_come_before_anything_that_needs_rows() {
        let digest = Digest {
            holder: Some(Occupant::Alive),
            heirs: vec![Occupant::Alive, Occupant::Dead],
            known: Known::Nothing,
            ..free(3, 3)
        };
        assert_eq!(sweep(&digest), SweepStep::Unseat(1));
        let holder = Some(Occupant::Dead);
        assert_eq!(
            sweep(&Digest { holder, ..digest }),
            SweepStep::Evict(Has::Holder)
        );
    }

    #[test]
    fn nothing_is_idle_before_its_rows_were_read() {
        let unread = Digest {
            known: Known::Nothing,
            ..free(3, 3)
        };
        assert_eq!(sweep(&unread), SweepStep::ReadOn);
        assert_eq!(sweep(&free(3, 3)), SweepStep::Idle);
    }

    #[test]
    fn settled_rows_go_then_what_is_over_is_passed() {
        let with_litter = Digest {
            rows: vec![row(2, Row::Void), row(4, Row::Void)],
            ..free(3, 4)
        };
        assert_eq!(sweep(&with_litter), SweepStep::Delete(Ticket::new(3)));
        let void = Digest {
            rows: vec![row(4, Row::Void)],
            ..free(3, 4)
        };
        assert_eq!(sweep(&void), SweepStep::Pass(Ticket::new(4)));
    }

    #[test]
    fn a_page_of_the_dead_is_settled_before_the_next_is_read() {
        let dead = row(4, Row::Waiting(Occupant::Dead));
        let page = Digest {
            rows: vec![dead],
            known: Known::UpTo(Ticket::new(4)),
            ..free(3, 9)
        };
        let over = vec![Unsettled::Dead(Ticket::new(4))];
        assert_eq!(sweep(&page), SweepStep::Settle(over));
    }

    #[test]
    fn whoever_is_alive_is_left_and_so_is_what_it_passes_itself() {
        let alive = row(5, Row::Waiting(Occupant::Alive));
        let line = Digest {
            rows: vec![row(4, Row::Void), alive],
            ..free(3, 5)
        };
        assert_eq!(sweep(&line), SweepStep::Done);
        let page = Digest {
            known: Known::UpTo(Ticket::new(5)),
            last: Ticket::new(9),
            ..line
        };
        assert_eq!(sweep(&page), SweepStep::ReadOn);
    }
}
