//! Leases without comparing clocks: until when an owner may believe in its lease, and when an observer may judge it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::moment::Moment;
use crate::stamps::{self, Reading};
use crate::ticket::Ticket;

/// The share of a lease that its owner gives up at the end, against clocks that run at different rates: 2 %.
const MARGIN_DIVISOR: u32 = 50;

/// How long the owner of a lease believes in it, counted from before it sent the write that the table shows.
pub fn believed(lease: Duration) -> Duration {
    lease - lease / MARGIN_DIVISOR
}

/// The lease in which its owner believes for this long.
pub fn believed_for(span: Duration) -> Duration {
    span.saturating_add(span / (MARGIN_DIVISOR - 1))
}

/// How long until a third of the lease is left: the articles' danger zone. Zero means that the lease is in danger.
pub fn until_danger(lease: Duration, left: Duration) -> Duration {
    left.saturating_sub(lease / 3)
}

/// Whether less than half of the lease is left: too little to start a hold with.
pub fn is_short(lease: Duration, left: Duration) -> bool {
    left < lease / 2
}

/// The longest time between two renewals, also of a stretched lease. The model of dates explores how far a `Date` is carried on up to here.
pub const MAX_HEARTBEAT: Duration = Duration::from_secs(240);
/// The most by which the lease of a place far back in the queue is stretched.
const MAX_STRETCH: f64 = 8.0;

/// The longest lease of a place far back in the queue, where a hold has this lease and this heartbeat.
pub fn longest(lease: Duration, heartbeat: Duration) -> Duration {
    let most = MAX_HEARTBEAT.div_duration_f64(heartbeat);
    lease.mul_f64(most.clamp(1.0, MAX_STRETCH))
}

/// The lease of a place in the queue whose turn comes after `left` at the earliest: three quarters of `left`. So a waiter that crashes
/// there has expired for every client before its turn comes. The lease is at most `most`, but never less than the lease of a hold.
pub fn stretched(lease: Duration, most: Duration, left: Duration) -> Duration {
    (left * 3 / 4).min(most).max(lease)
}

/// What became of a renewal that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// A copy of it had been applied before, or a later renewal: the place is renewed.
    Stands,
    /// The place is there, and neither this renewal nor a later one has been applied. An owner that took the older beat for this renewal
    /// would believe for as much longer as the one is older than the other.
    Older,
    /// The place is not there any more.
    Gone,
}

impl Renewal {
    /// What became of the renewal with this beat, where its refusal shows the place with another beat, or no such place.
    pub fn refused(shown: Option<u64>, beat: u64) -> Self {
        match shown {
            Some(shown) if shown >= beat => Renewal::Stands,
            Some(_) => Renewal::Older,
            None => Renewal::Gone,
        }
    }
}

/// Which of an owner's writes established which beat, and when the owner *sent* that write.
///
/// A slot gets the beat of the row as the client that gave the slot saw it. So the lease of a slot counts from that beat's write, however
/// often the owner has renewed the row since.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RenewalHistory {
    /// In order of beats, so in order of sending too.
    sent: Vec<Sent>,
    /// The lease that the owner asked for last.
    asked: Duration,
    /// By how much the leases in the table are longer than the leases that the owner asks for.
    margin: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sent {
    beat: u64,
    at: Moment,
    /// By how much its stamps are [early](stamps::early), as the answer showed: others may end the lease by as much sooner.
    early: Duration,
}

/// How many writes are remembered. An owner that is shown a beat from before them has long lost its lease.
const REMEMBERED: usize = 16;

impl RenewalHistory {
    /// The write that took the place for a lease, `beat` zero, first sent at `at`, with stamps that are `early`.
    pub fn taken((at, early): (Moment, Duration), lease: Duration) -> Self {
        let beat = 0;
        RenewalHistory {
            sent: vec![Sent { beat, at, early }],
            asked: lease,
            margin: Duration::ZERO,
        }
    }

    /// The same history of an owner that stops believing so much before the lease in its entry ends.
    #[must_use]
    pub fn with_margin(self, margin: Duration) -> Self {
        RenewalHistory { margin, ..self }
    }

    /// Notes that a renewal is about to be sent that asks for this lease. Observers may judge by a shorter lease from the moment the write
    /// applies, of which the owner may hear later or never. Returns the lease that was asked for before.
    pub fn asks_for(&mut self, lease: Duration) -> Duration {
        std::mem::replace(&mut self.asked, lease)
    }

    /// Notes that a renewal was refused while no other was under way. A waiter that was promoted meanwhile has its place for the lease
    /// `before`, for which it had asked. If a copy of the renewal was applied first, the refusal shows it, and no copy is applied later:
    /// places shift to the front only, and rows go for ever.
    pub fn renewal_refused(&mut self, before: Duration) {
        self.asked = before;
    }

    /// Notes that a renewal sent at `at`, with stamps that are `early`, was answered with `beat`.
    ///
    /// A late answer to an earlier renewal takes nothing away; that renewal may have been of the row, while the slot has been renewed
    /// since. The newer write stands at or before any beat that the table shows after it.
    pub fn renewed(&mut self, beat: u64, (at, early): (Moment, Duration)) {
        if self.sent.last().is_some_and(|newest| at < newest.at) {
            return;
        }
        self.sent.retain(|known| known.beat < beat);
        self.sent.push(Sent { beat, at, early });
        if self.sent.len() > REMEMBERED {
            self.sent.remove(0);
        }
    }

    /// Returns a moment no later than the beginning of the lease behind `beat`. A beat between two known ones came of a write whose answer
    /// was lost; the owner certainly sent the earlier of the two before that write. Returns `None` if the beat is from before all that is
    /// remembered.
    pub fn established(&self, beat: u64) -> Option<Moment> {
        self.upto(beat).last().map(|sent| sent.at)
    }

    /// Until when the owner may believe in a place that shows `beat` and `lease`, by which others judge it: not in the margin, which is a part
    /// of that lease. A renewal with early stamps takes nothing away that an earlier one gave. Returns `None` where `established` does.
    pub fn believed_until(&self, beat: u64, lease: Duration) -> Option<Moment> {
        let lease = self.believed(lease);
        let ends = |sent: &Sent| sent.at + lease.saturating_sub(sent.early);
        self.upto(beat).map(ends).max()
    }

    /// The same by the owner's clock alone, which may have stood still before: whether a renewal may find the place.
    pub fn counted_until(&self, beat: u64, lease: Duration) -> Option<Moment> {
        Some(self.established(beat)? + self.believed(lease))
    }

    fn upto(&self, beat: u64) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.beat <= beat)
    }

    fn believed(&self, lease: Duration) -> Duration {
        believed(lease.saturating_sub(self.margin).min(self.asked))
    }
}

/// Where an entry was seen. The slots and the holder's place count as one: promotion changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryLocation {
    /// On the lock item.
    LockItem,
    /// In the row of that ticket.
    Row(Ticket),
}

/// Since when this observer has seen a beat stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnchangedBeat {
    beat: u64,
    since: Moment,
}

/// An observer's watches over every entry that it has seen: one watch per place, nonce and ticket, on the observer's own clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LivenessTracker {
    seen: BTreeMap<(EntryLocation, Nonce, Ticket), UnchangedBeat>,
}

impl LivenessTracker {
    /// Takes in a poll whose answer arrived at `arrival`. `read` returns which places the poll covered. An entry that the poll did not show
    /// there is no longer watched; if it comes back, its watch begins again.
    pub fn poll<'a>(
        &mut self,
        arrival: Moment,
        read: impl Fn(EntryLocation) -> bool,
        shown: impl Iterator<Item = (EntryLocation, &'a Entry)>,
    ) {
        let mut kept = BTreeMap::new();
        let beats = shown.filter_map(|(place, entry)| Some((place, entry, entry.own_beat()?)));
        for (place, entry, beat) in beats {
            let key = (place, entry.nonce, entry.ticket);
            let watch = self.seen.remove(&key).filter(|watch| watch.beat == beat);
            let new = UnchangedBeat {
                beat,
                since: arrival,
            };
            kept.insert(key, watch.unwrap_or(new));
        }
        self.seen.retain(|(place, ..), _| !read(*place));
        self.seen.append(&mut kept);
    }

    /// Whether no entry is watched.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Whether the entry's beat has stood still for its whole lease by `now`, the moment at which the removal is sent.
    pub fn is_dead(&self, place: EntryLocation, entry: &Entry, now: Moment) -> bool {
        self.has_stood_still(place, entry, entry.lease, now)
    }

    /// When the entry counts as dead, unless it is renewed before.
    pub fn dead_at(&self, place: EntryLocation, entry: &Entry) -> Option<Moment> {
        Some(self.watch(place, entry)?.since + entry.lease)
    }

    /// Whether the entry's beat has stood still for half of its lease by `now`: a renewal is overdue. None is of what was given back.
    pub fn is_late(&self, place: EntryLocation, entry: &Entry, now: Moment) -> bool {
        !entry.given_back && self.has_stood_still(place, entry, entry.lease / 2, now)
    }

    fn has_stood_still(
        &self,
        place: EntryLocation,
        entry: &Entry,
        span: Duration,
        now: Moment,
    ) -> bool {
        let watch = self.watch(place, entry);
        watch.is_some_and(|watch| now.since(watch.since) >= span)
    }

    fn watch(&self, place: EntryLocation, entry: &Entry) -> Option<&UnchangedBeat> {
        let watch = self.seen.get(&(place, entry.nonce, entry.ticket));
        watch.filter(|watch| Some(watch.beat) == entry.own_beat())
    }
}

/// Whether an entry has expired by both clocks, for a judge that has not watched it. An entry with a session has not: its stamps stand still
/// while the session lives.
pub fn is_over(entry: &Entry, now: Reading) -> bool {
    let is_over = match entry.given_back {
        true => stamps::is_over_given_back,
        false => stamps::is_over,
    };
    entry.session.is_none() && is_over(entry.stamps, entry.lease, now)
}

/// Whether an entry is of a process that ended before the boot of the only machine whose processes use the table. A lease by name is of no
/// process, nor is what was given back. Returns `false` if either time is unknown.
pub fn ended_before(entry: &Entry, boot: Option<ServerTime>) -> bool {
    let is_of_a_process = entry.id.is_none() && !entry.given_back && entry.session.is_none();
    is_of_a_process && is_before(entry.stamps.server, boot)
}

/// Whether `then` was before the boot of the only machine whose processes use the table.
pub fn is_before(then: Option<ServerTime>, boot: Option<ServerTime>) -> bool {
    then.zip(boot).is_some_and(|(then, boot)| then < boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_does_not_believe_in_the_margin_of_its_entry() {
        let lease = Duration::from_secs(30);
        let at = Moment::default() + Duration::from_secs(1);
        let mut beats = RenewalHistory::taken((at, Duration::ZERO), lease).with_margin(4 * lease);
        let until = |beats: &RenewalHistory, shown| beats.believed_until(0, shown);
        assert_eq!(until(&beats, 5 * lease), Some(at + believed(lease)));
        // By a shorter lease in the table others may judge sooner.
        assert_eq!(
            until(&beats, 4 * lease + lease / 2),
            Some(at + believed(lease / 2))
        );
        assert_eq!(until(&beats, lease), Some(at));
        beats.asks_for(lease / 3);
        assert_eq!(until(&beats, 5 * lease), Some(at + believed(lease / 3)));
    }

    #[test]
    fn a_refused_renewal_counts_only_if_it_or_a_later_one_is_shown() {
        for (shown, became) in [
            (Some(6), Renewal::Stands),
            (Some(5), Renewal::Stands),
            (Some(4), Renewal::Older),
            (None, Renewal::Gone),
        ] {
            assert_eq!(Renewal::refused(shown, 5), became);
        }
    }

    #[test]
    fn a_beat_whose_renewal_was_not_answered_counts_from_the_one_before() {
        let at = |seconds| Moment::default() + Duration::from_secs(seconds);
        let (lease, early) = (Duration::from_secs(30), Duration::ZERO);
        let mut beats = RenewalHistory::taken((at(0), early), lease);
        beats.renewed(1, (at(10), early));
        // The second renewal was not answered, and a slot is given with its beat.
        beats.renewed(3, (at(50), early));
        assert_eq!(beats.established(2), Some(at(10)));
        assert_eq!(
            beats.believed_until(2, lease),
            Some(at(10) + believed(lease))
        );
        assert_eq!(beats.established(3), Some(at(50)));
    }

    #[test]
    fn what_stamps_are_early_by_is_taken_off_and_takes_nothing_else_away() {
        let at = |seconds| Moment::default() + Duration::from_secs(seconds);
        let (lease, hour) = (Duration::from_secs(100), Duration::from_secs(3600));
        let mut beats = RenewalHistory::taken((at(1), hour), lease);
        assert_eq!(beats.believed_until(0, lease), Some(at(1)));
        assert_eq!(beats.counted_until(0, lease), Some(at(99)));
        beats.renewed(1, (at(10), Duration::from_secs(8)));
        assert_eq!(beats.believed_until(1, lease), Some(at(100)));
        beats.renewed(2, (at(20), hour));
        assert_eq!(beats.believed_until(2, lease), Some(at(100)));
        assert_eq!(beats.established(2), Some(at(20)));
    }
}
