//! Leases without comparing clocks: until when an owner may believe, and when an observer may judge.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::moment::Moment;
use crate::ticket::Ticket;

/// The share of a lease that its owner gives up at the end, against clocks that run at different rates: 2 %.
const MARGIN_DIVISOR: u32 = 50;

/// How long the owner of a lease believes in it, counted from before it sent the write that the table shows.
pub fn believed(lease: Duration) -> Duration {
    lease - lease / MARGIN_DIVISOR
}

/// How long until a third of the lease is left: the articles' danger zone. Zero: it is in danger.
pub fn until_danger(lease: Duration, left: Duration) -> Duration {
    left.saturating_sub(lease / 3)
}

/// Less than half of the lease is left: too little to start a hold with.
pub fn is_short(lease: Duration, left: Duration) -> bool {
    left < lease / 2
}

/// The most by which the lease of a place far back in the queue is stretched.
pub const MAX_STRETCH: f64 = 8.0;

/// The lease of a place in the queue whose turn comes after `left` at the earliest: three quarters of that, so that whoever dies there
/// is dead to all before its turn comes, but not less than the lease of a hold, nor more than `most`.
pub fn stretched(lease: Duration, most: Duration, left: Duration) -> Duration {
    (left * 3 / 4).min(most).max(lease)
}

/// Which of its own writes established which beat, and when that write was *sent*.
///
/// A slot is given with the beat of the row as the giver saw it, so the lease of a slot counts from that beat's
/// write, however often the row was renewed since.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RenewalHistory {
    /// In order of beats, so in order of sending too.
    sent: Vec<(u64, Moment)>,
    /// The lease that was asked for last.
    asked: Duration,
}

/// Older writes are forgotten: whoever is shown a beat from before them has long lost its lease.
const REMEMBERED: usize = 16;

impl RenewalHistory {
    /// The write that took the place for a lease, `beat` zero, first sent at `sent`.
    pub fn taken(sent: Moment, lease: Duration) -> Self {
        RenewalHistory {
            sent: vec![(0, sent)],
            asked: lease,
        }
    }

    /// A renewal is about to be sent that asks for this lease. If it is a shorter one, others may judge by it from the
    /// moment at which it is applied, of which the owner may hear later or never. What was asked for before it.
    pub fn asks_for(&mut self, lease: Duration) -> Duration {
        std::mem::replace(&mut self.asked, lease)
    }

    /// A renewal was refused, and no other one is under way: who was promoted meanwhile has its place for as long as it had asked for
    /// `before`. A copy that was applied first is in what the refusal showed, and none is applied later: places shift to the front
    /// only, and rows go for ever.
    pub fn is_refused(&mut self, before: Duration) {
        self.asked = before;
    }

    /// A renewal sent at `sent` was answered with `beat`.
    ///
    /// A late answer to one sent earlier, of the row perhaps when the slot has been renewed since, takes nothing
    /// away: the newer write stands at or before any beat that the table shows after it.
    pub fn renewed(&mut self, beat: u64, sent: Moment) {
        if self.sent.last().is_some_and(|(_, newest)| sent < *newest) {
            return;
        }
        self.sent.retain(|(known, _)| *known < beat);
        self.sent.push((beat, sent));
        if self.sent.len() > REMEMBERED {
            self.sent.remove(0);
        }
    }

    /// When the lease behind `beat` began, at the latest. A beat between two known ones came of a write whose
    /// answer was lost; the earlier of the two was certainly sent before it. None: the beat is from before all
    /// that is remembered.
    pub fn established(&self, beat: u64) -> Option<Moment> {
        self.sent
            .iter()
            .rev()
            .find(|(known, _)| *known <= beat)
            .map(|(_, sent)| *sent)
    }

    /// Until when the owner may believe in a place that shows `beat` and `lease`, which others judge it by.
    pub fn believed_until(&self, beat: u64, lease: Duration) -> Option<Moment> {
        let lease = believed(lease.min(self.asked));
        self.established(beat).map(|sent| sent + lease)
    }
}

/// Where an entry was seen. The slot and the holder's place are one: promotion changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// On the lock item.
    LockItem,
    /// In the row of that ticket.
    Row(Ticket),
}

/// Since when this observer has seen a beat stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Watch {
    beat: u64,
    since: Moment,
}

/// An observer's watches over everyone it has seen: one for each place, nonce and ticket, on its own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LivenessTracker {
    seen: BTreeMap<(Place, Nonce, Ticket), Watch>,
}

impl LivenessTracker {
    /// Takes in a look whose answer arrived at `arrival`. `read` tells which places the look covered: an entry it
    /// did not show there is watched no more, and afresh when it comes back.
    pub fn poll<'a>(
        &mut self,
        arrival: Moment,
        read: impl Fn(Place) -> bool,
        shown: impl Iterator<Item = (Place, &'a Entry)>,
    ) {
        let mut kept = BTreeMap::new();
        for (place, entry) in shown {
            let key = (place, entry.nonce, entry.ticket);
            let watch = self
                .seen
                .remove(&key)
                .filter(|watch| watch.beat == entry.beat);
            kept.insert(
                key,
                watch.unwrap_or(Watch {
                    beat: entry.beat,
                    since: arrival,
                }),
            );
        }
        self.seen.retain(|(place, ..), _| !read(*place));
        self.seen.append(&mut kept);
    }

    /// Whether nobody is watched.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Whether the entry's beat has stood still for its whole lease by `now`, at which the removal is sent.
    pub fn is_dead(&self, place: Place, entry: &Entry, now: Moment) -> bool {
        self.has_stood_still(place, entry, entry.lease, now)
    }

    /// Whether the entry's beat has stood still for half of its lease by `now`: a renewal is overdue.
    pub fn is_late(&self, place: Place, entry: &Entry, now: Moment) -> bool {
        self.has_stood_still(place, entry, entry.lease / 2, now)
    }

    fn has_stood_still(&self, place: Place, entry: &Entry, span: Duration, now: Moment) -> bool {
        let watch = self.seen.get(&(place, entry.nonce, entry.ticket));
        let watch = watch.filter(|watch| watch.beat == entry.beat);
        watch.is_some_and(|watch| now.since(watch.since) >= span)
    }
}

/// Whether an entry has lapsed by DynamoDB's own clock, on which it was written and by which `now` is read. Never
/// where either is unknown.
pub fn is_over(entry: &Entry, allowance: Duration, now: Option<ServerTime>) -> bool {
    is_past(entry.renewed_at, entry.lease + allowance, now)
}

/// Whether `span` has passed since `then` by DynamoDB's own clock.
pub fn is_past(then: Option<ServerTime>, span: Duration, now: Option<ServerTime>) -> bool {
    then.zip(now)
        .is_some_and(|(then, now)| now.0.saturating_sub(then.0) > span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_whose_renewal_was_not_answered_counts_from_the_one_before() {
        let at = |seconds| Moment::default() + Duration::from_secs(seconds);
        let lease = Duration::from_secs(30);
        let mut beats = RenewalHistory::taken(at(0), lease);
        beats.renewed(1, at(10));
        // The second was not answered, and a slot is given with it.
        beats.renewed(3, at(50));
        assert_eq!(beats.established(2), Some(at(10)));
        assert_eq!(
            beats.believed_until(2, lease),
            Some(at(10) + believed(lease))
        );
        assert_eq!(beats.established(3), Some(at(50)));
    }
}
