//! A snapshot of a sweeper -> the next removal: in which order a sweeper removes what has ended.
//!
//! The library's sweeper and the models' call this same function.

use crate::step::{End, JudgedSnapshot, Known, Removal, Walk, remove_the_dead, survey};
use crate::ticket::Ticket;

/// What a sweeper does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepStep {
    /// This has ended: remove it.
    Remove(Removal),
    /// The decision needs rows that this snapshot has not read.
    ReadOn,
    /// The rows up to this ticket are settled, and no client decides by them.
    Delete(Ticket),
    /// No entry holds the lock or waits for it, and no row is left: the lock item may go, if it is out of use.
    Idle,
    /// There is nothing to remove.
    Done,
}

/// Returns the next removal of a sweeper. `expired` returns up to which ticket a gap has outlived the join timeout, as for a waiter.
///
/// Expired entries on the lock item come first, because an eviction hands the lock to a waiter. Then come the settled rows, so that no
/// later poll reads them again.
pub fn next_sweep(view: &JudgedSnapshot, expired: impl Fn(Ticket) -> Option<Ticket>) -> SweepStep {
    if let Some(removal) = remove_the_dead(view) {
        return SweepStep::Remove(removal);
    }
    if view.known == Known::Nothing {
        return SweepStep::ReadOn;
    }
    if view.rows.iter().any(|at| at.ticket <= view.watermark) {
        return SweepStep::Delete(view.watermark);
    }
    let Walk {
        found,
        upto,
        unsettled,
        end,
        ..
    } = survey(view, expired);
    match view.known {
        _ if !unsettled.is_empty() => SweepStep::Remove(Removal::Void(unsettled)),
        // If a waiter was found, the first waiter raises the watermark over what is settled before it.
        _ if found.is_empty() && upto > view.watermark => SweepStep::Remove(Removal::Settle(upto)),
        // Rows behind the blocking ticket cannot be judged yet.
        _ if end == End::Blocked => SweepStep::Done,
        Known::Nothing | Known::UpTo(_) => SweepStep::ReadOn,
        Known::All if view.is_idle() => SweepStep::Idle,
        Known::All => SweepStep::Done,
    }
}

impl JudgedSnapshot {
    fn is_idle(&self) -> bool {
        let is_free =
            self.holder.is_none() && self.sharers.is_empty() && self.successors.is_empty();
        is_free && self.watermark == self.last && self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Has, Occupant, Row, RowAt, Unsettled};

    fn free(watermark: u64, last: u64) -> JudgedSnapshot {
        JudgedSnapshot {
            holder: None,
            sharers: Vec::new(),
            successors: Vec::new(),
            admitted: 0,
            rows: Vec::new(),
            last: Ticket::new(last),
            watermark: Ticket::new(watermark),
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

    fn sweep(digest: &JudgedSnapshot) -> SweepStep {
        next_sweep(digest, |_| None)
    }

    #[test]
    fn the_dead_on_the_lock_item_come_before_anything_that_needs_rows() {
        let digest = JudgedSnapshot {
            holder: Some(Occupant::Alive),
            successors: vec![Occupant::Alive, Occupant::Dead],
            known: Known::Nothing,
            ..free(3, 3)
        };
        let removal = Removal::EvictSuccessor(1);
        assert_eq!(sweep(&digest), SweepStep::Remove(removal));
        let holder = Some(Occupant::Dead);
        assert_eq!(
            sweep(&JudgedSnapshot { holder, ..digest }),
            SweepStep::Remove(Removal::Evict(Has::Holder))
        );
    }

    #[test]
    fn nothing_is_idle_before_its_rows_were_read() {
        let unread = JudgedSnapshot {
            known: Known::Nothing,
            ..free(3, 3)
        };
        assert_eq!(sweep(&unread), SweepStep::ReadOn);
        assert_eq!(sweep(&free(3, 3)), SweepStep::Idle);
    }

    #[test]
    fn settled_rows_go_then_what_is_over_is_passed() {
        let with_litter = JudgedSnapshot {
            rows: vec![row(2, Row::Void), row(4, Row::Void)],
            ..free(3, 4)
        };
        assert_eq!(sweep(&with_litter), SweepStep::Delete(Ticket::new(3)));
        let void = JudgedSnapshot {
            rows: vec![row(4, Row::Void)],
            ..free(3, 4)
        };
        let settle = Removal::Settle(Ticket::new(4));
        assert_eq!(sweep(&void), SweepStep::Remove(settle));
    }

    #[test]
    fn a_page_of_the_dead_is_settled_before_the_next_is_read() {
        let dead = row(4, Row::Waiting(Occupant::Dead));
        let page = JudgedSnapshot {
            rows: vec![dead],
            known: Known::UpTo(Ticket::new(4)),
            ..free(3, 9)
        };
        let over = vec![Unsettled::Dead(Ticket::new(4))];
        assert_eq!(sweep(&page), SweepStep::Remove(Removal::Void(over)));
    }

    #[test]
    fn whoever_is_alive_is_left_and_so_is_what_it_passes_itself() {
        let alive = row(5, Row::Waiting(Occupant::Alive));
        let queue = JudgedSnapshot {
            rows: vec![row(4, Row::Void), alive],
            ..free(3, 5)
        };
        assert_eq!(sweep(&queue), SweepStep::Done);
        let page = JudgedSnapshot {
            known: Known::UpTo(Ticket::new(5)),
            last: Ticket::new(9),
            ..queue
        };
        assert_eq!(sweep(&page), SweepStep::ReadOn);
    }
}
