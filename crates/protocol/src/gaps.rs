//! When a client first saw the gaps in the queue: each ticket of a gap gets its join timeout from then on.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::moment::Moment;
use crate::ticket::{Sequence, Ticket};

/// How many ranges are remembered at most. Each range is a gap, or a piece of it that was drawn later. The rows between gaps, and the
/// polls, bound how many there are; the value of a counter does not.
const REMEMBERED: usize = 1000;

/// Ranges of tickets without a row, by their first tickets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    seen: BTreeMap<Ticket, Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    last: Ticket,
    first_seen: Moment,
}

impl Gaps {
    /// Takes in the gaps that one poll showed, in ticket order; its answer arrived at `arrival`. The poll has read the queue up to
    /// `read_to`: gaps up to there that it did not show are forgotten.
    pub(crate) fn poll(
        &mut self,
        arrival: Moment,
        read_to: Ticket,
        shown: impl Iterator<Item = (Ticket, Ticket)>,
    ) {
        let mut kept = BTreeMap::new();
        for (first, last) in shown.take(REMEMBERED) {
            self.sight(arrival, (first, last), &mut kept);
        }
        if let Some(unread) = read_to.next() {
            kept.extend(self.pieces(unread, Ticket::new(u64::MAX)));
        }
        while kept.len() > REMEMBERED {
            kept.pop_last();
        }
        self.seen = kept;
    }

    /// A piece of a gap that was seen before keeps its moment, and the pieces between count from now. Each turn of the loop passes a piece
    /// that is remembered.
    fn sight(
        &self,
        arrival: Moment,
        (first, last): (Ticket, Ticket),
        kept: &mut BTreeMap<Ticket, Seen>,
    ) {
        let mut next = Some(first);
        for (start, piece) in self.pieces(first, last) {
            if let Some((new, before)) = next.zip(start.before())
                && new <= before
            {
                kept.insert(
                    new,
                    Seen {
                        last: before,
                        first_seen: arrival,
                    },
                );
            }
            kept.insert(start, piece);
            next = piece.last.next();
        }
        if let Some(rest) = next.filter(|rest| *rest <= last) {
            kept.insert(
                rest,
                Seen {
                    last,
                    first_seen: arrival,
                },
            );
        }
    }

    /// What is remembered of the tickets from the first to the last.
    fn pieces(&self, first: Ticket, last: Ticket) -> impl Iterator<Item = (Ticket, Seen)> {
        let before = self.seen.range(..first).next_back();
        let within = self.seen.range(first..=last);
        let touching = before.into_iter().chain(within);
        touching.filter_map(move |(start, seen)| {
            let (start, end) = ((*start).max(first), seen.last.min(last));
            (start <= end).then_some((start, Seen { last: end, ..*seen }))
        })
    }

    /// Whether no gap is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Returns up to which ticket a gap has outlived its join timeout by `now`, from the ticket `gap` on. Returns `None` if `gap` itself
    /// has not.
    pub(crate) fn expired_to(
        &self,
        gap: Ticket,
        join_timeout: Duration,
        now: Moment,
    ) -> Option<Ticket> {
        let (_, seen) = self.seen.range(..=gap).next_back()?;
        let has_expired = gap <= seen.last && now.since(seen.first_seen) >= join_timeout;
        has_expired.then_some(seen.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn polls(gaps: &mut Gaps, seconds: u64, read_to: u64, shown: &[(u64, u64)]) {
        let ticket = Ticket::new;
        let shown = shown
            .iter()
            .map(|(first, last)| (ticket(*first), ticket(*last)));
        gaps.poll(at(seconds), ticket(read_to), shown);
    }

    fn expired(gaps: &Gaps, gap: u64, seconds: u64) -> Option<u64> {
        let last = gaps.expired_to(Ticket::new(gap), GRACE, at(seconds));
        last.map(Ticket::get)
    }

    #[test]
    fn a_gap_that_a_poll_did_not_get_to_keeps_its_first_sight() {
        let mut gaps = Gaps::default();
        polls(&mut gaps, 0, u64::MAX, &[(30, 30)]);
        // A first page that ends before the gap.
        polls(&mut gaps, 4, 29, &[]);
        polls(&mut gaps, 4, u64::MAX, &[(30, 30)]);
        assert_eq!(expired(&gaps, 30, 4), None);
        assert_eq!(expired(&gaps, 30, 5), Some(30));
        polls(&mut gaps, 6, u64::MAX, &[]);
        assert!(gaps.is_empty());
    }

    #[test]
    fn all_tickets_of_a_gap_ripen_at_once_whatever_their_number() {
        let mut gaps = Gaps::default();
        polls(&mut gaps, 0, u64::MAX, &[(1, u64::MAX - 1)]);
        assert_eq!(gaps.seen.len(), 1);
        assert_eq!(expired(&gaps, 1, 4), None);
        assert_eq!(expired(&gaps, 1, 5), Some(u64::MAX - 1));
        assert_eq!(expired(&gaps, u64::MAX, 5), None);
    }

    #[test]
    fn tickets_drawn_later_behind_a_gap_get_their_own_time() {
        let mut gaps = Gaps::default();
        polls(&mut gaps, 0, u64::MAX, &[(3, 5)]);
        polls(&mut gaps, 2, u64::MAX, &[(2, 9)]);
        assert_eq!(
            [2, 3, 6].map(|gap| expired(&gaps, gap, 5)),
            [None, Some(5), None]
        );
        assert_eq!(
            [2, 3, 6].map(|gap| expired(&gaps, gap, 7)),
            [Some(2), Some(5), Some(9)]
        );
    }

    #[test]
    fn a_row_that_came_into_a_gap_parts_it_and_leaves_the_rest_its_first_sight() {
        let mut gaps = Gaps::default();
        polls(&mut gaps, 0, u64::MAX, &[(1, 9)]);
        polls(&mut gaps, 3, u64::MAX, &[(1, 4), (6, 9)]);
        assert_eq!(
            [1, 5, 6].map(|gap| expired(&gaps, gap, 5)),
            [Some(4), None, Some(9)]
        );
    }

    #[test]
    fn a_gap_that_a_page_ends_in_keeps_what_lies_behind_the_page() {
        let mut gaps = Gaps::default();
        polls(&mut gaps, 0, u64::MAX, &[(1, 9)]);
        polls(&mut gaps, 3, 4, &[(2, 4)]);
        assert_eq!(
            [1, 2, 5].map(|gap| expired(&gaps, gap, 5)),
            [None, Some(4), Some(9)]
        );
    }

    #[test]
    fn what_is_remembered_is_bounded_by_ranges() {
        let mut gaps = Gaps::default();
        let every_other: Vec<_> = (1..=3000).map(|n| (2 * n, 2 * n)).collect();
        polls(&mut gaps, 0, u64::MAX, &every_other);
        assert_eq!(gaps.seen.len(), REMEMBERED);
        assert_eq!(
            (expired(&gaps, 2000, 5), expired(&gaps, 2002, 5)),
            (Some(2000), None)
        );
    }
}
