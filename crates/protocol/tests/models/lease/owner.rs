//! The owner of an entry: what it sent when, and until when it believes that it holds the lock.

use std::time::Duration;

use super::rules::{LEASE, LONG_LEASE, Mutant, Rules};
use fairlock_protocol::lease::{RenewalHistory, believed};
use fairlock_protocol::moment::Moment;

/// Where a write goes, and whether it takes the place or renews it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    Enter,
    Join,
    RenewRow,
    /// Renews the row for a longer lease.
    StretchRow,
    RenewSlot,
    /// Renews the slot for a longer lease.
    StretchSlot,
}

impl Write {
    pub(crate) fn lease(self) -> Duration {
        match self {
            Write::StretchRow | Write::StretchSlot => LONG_LEASE,
            Write::Enter | Write::Join | Write::RenewRow | Write::RenewSlot => LEASE,
        }
    }
}

/// What a place in the table shows of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    pub(crate) beat: u8,
    pub(crate) lease: Duration,
}

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) write: Write,
    /// What it writes as the beat: zero to take the place, and otherwise how many renewals were sent.
    pub(crate) beat: u8,
    /// A time before the first of its copies was sent, by the owner's clock.
    pub(crate) sent: u8,
    /// The lease that the owner asked for before it.
    pub(crate) before: Option<Duration>,
    pub(crate) course: Course,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Course {
    Sent,
    /// Applied; the answer shows this.
    Applied(Mark),
    /// Its condition failed.
    Failed,
}

/// The owner sends and reads a poll in one step: sending changes nothing, so it may as well be sent just before it is read.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Owner {
    pub(crate) beats: Option<RenewalHistory>,
    /// What the lock item showed when the owner last heard of it, and when that was, for an owner whose lease counts from then.
    pub(crate) held: Option<(Mark, u8)>,
    /// Whether the owner has stopped believing, for good.
    pub(crate) lost: bool,
    pub(crate) row: Option<Flight>,
    pub(crate) slot: Option<Flight>,
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) renewals: u8,
    /// Renewals sent; a renewal that is sent again counts again.
    pub(crate) sent: u8,
    pub(crate) polls: u8,
}

/// A poll of the lock item by the owner: what it showed of the owner's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Snapshot(pub(crate) Option<Mark>);

impl Owner {
    pub(crate) fn send(&mut self, write: Write, now: u8) {
        let beats = self.beats.as_mut();
        let before = beats.map(|beats| beats.asks_for(write.lease()));
        let flight = Flight {
            write,
            beat: self.next_beat(write),
            sent: now,
            before,
            course: Course::Sent,
        };
        *self.flight(write) = Some(flight);
    }

    /// No answer came: sends the same request again.
    pub(crate) fn send_again(&mut self, flight: Flight, now: u8, rules: &Rules) {
        let takes = matches!(flight.write, Write::Enter | Write::Join);
        let again = Flight {
            beat: self.next_beat(flight.write),
            // A renewal that is sent again is another renewal.
            sent: match takes && !rules.broken(Mutant::LeaseFromTheRetry) {
                true => flight.sent,
                false => now,
            },
            course: Course::Sent,
            ..flight
        };
        *self.flight(flight.write) = Some(again);
    }

    fn next_beat(&mut self, write: Write) -> u8 {
        if matches!(write, Write::Enter | Write::Join) {
            return 0;
        }
        self.sent += 1;
        self.sent
    }

    pub(crate) fn flight(&mut self, write: Write) -> &mut Option<Flight> {
        match write {
            Write::Join | Write::RenewRow | Write::StretchRow => &mut self.row,
            Write::Enter | Write::RenewSlot | Write::StretchSlot => &mut self.slot,
        }
    }

    /// The answer to a write arrives.
    pub(crate) fn answered(&mut self, flight: Flight, now: u8, rules: &Rules) {
        *self.flight(flight.write) = None;
        let Course::Applied(mark) = flight.course else {
            return self.refused(flight);
        };
        let from = match rules.broken(Mutant::LeaseFromTheAnswer) {
            true => now,
            false => flight.sent,
        };
        self.note(flight.write, mark.beat, rules.by_owner(from));
        match flight.write {
            Write::Enter | Write::RenewSlot | Write::StretchSlot => self.shown(mark, now, rules),
            Write::Join | Write::RenewRow | Write::StretchRow => {}
        }
    }

    /// A renewal was refused: no observer judges by the lease that it asked for, unless another renewal is under way.
    fn refused(&mut self, flight: Flight) {
        let is_alone = self.row.is_none() && self.slot.is_none();
        if let (Some(beats), Some(before)) = (&mut self.beats, flight.before.filter(|_| is_alone)) {
            beats.renewal_refused(before);
        }
    }

    fn note(&mut self, write: Write, beat: u8, sent: Moment) {
        let sent = (sent, Duration::ZERO);
        match (&mut self.beats, write) {
            (Some(beats), write) if !matches!(write, Write::Enter | Write::Join) => {
                beats.renewed(beat.into(), sent);
            }
            (beats, _) => *beats = Some(RenewalHistory::taken(sent, write.lease())),
        }
    }

    /// Takes in that the lock item shows the owner like this.
    pub(crate) fn shown(&mut self, mark: Mark, now: u8, rules: &Rules) {
        let seen = match rules.broken(Mutant::LeaseFromTheLastLook) {
            true => now,
            false => 0,
        };
        self.held = Some((mark, seen));
        self.watch_the_clock(now, rules);
    }

    /// Lets the owner stop believing in time. Once lost, the lock stays lost, whatever answer comes later.
    pub(crate) fn watch_the_clock(&mut self, now: u8, rules: &Rules) {
        let until = self.until(rules);
        if self.held.is_some() && until.is_none_or(|until| rules.by_owner(now) >= until) {
            // The owner never believes again, so no property can see what it does from now on.
            *self = Owner {
                lost: true,
                ..Owner::default()
            };
        }
    }

    pub(crate) fn believes(&self) -> bool {
        self.held.is_some() && !self.lost
    }

    fn until(&self, rules: &Rules) -> Option<Moment> {
        let (Mark { beat, lease }, seen) = self.held?;
        let beats = self.beats.as_ref()?;
        let for_all_of = |lease| Some(beats.established(beat.into())? + believed(lease));
        match rules.mutant {
            Some(Mutant::LeaseFromTheLastLook) => Some(rules.by_owner(seen) + believed(lease)),
            Some(Mutant::LeaseFromTheNewestRenewal) => beats.believed_until(u64::MAX, lease),
            Some(Mutant::NoMargin) => beats.established(beat.into()).map(|sent| sent + lease),
            Some(Mutant::LeaseLongerThanWritten) => for_all_of(lease + Duration::from_millis(100)),
            Some(Mutant::LongestLease) => for_all_of(LONG_LEASE),
            Some(Mutant::LeaseAsShown) => for_all_of(lease),
            _ => beats.believed_until(beat.into(), lease),
        }
    }
}
