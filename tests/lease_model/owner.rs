//! The owner of one entry: what it sent when, and until when it believes that it holds.

use std::time::Duration;

use crate::by_debug::ByDebug;
use crate::lease::{Beats, believed};
use crate::moment::Moment;
use crate::rules::{LEASE, Mutant, Rules};

/// Where a write goes, and whether it takes the place or renews it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    Enter,
    Join,
    RenewRow,
    RenewSeat,
}

/// A request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) write: Write,
    /// Before the first of its copies was sent, by the owner's clock.
    pub(crate) sent: u8,
    pub(crate) course: Course,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Course {
    Sent,
    /// Applied; the answer shows this beat.
    Applied(u8),
    /// Its condition failed.
    Failed,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Owner {
    pub(crate) beats: Option<ByDebug<Beats>>,
    /// The beat that the lock item showed when last heard of, and when that was.
    pub(crate) held: Option<(u8, u8)>,
    /// Has stopped believing, for good.
    pub(crate) lost: bool,
    pub(crate) row: Option<Flight>,
    pub(crate) seat: Option<Flight>,
    pub(crate) look: Option<Look>,
    pub(crate) renewals: u8,
    pub(crate) looks: u8,
    pub(crate) renewed_seat: bool,
}

/// A look of the owner at the lock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Look {
    Sent,
    /// What it showed: the beat of the owner's seat.
    Read(Option<u8>),
}

impl Owner {
    pub(crate) fn send(&mut self, write: Write, now: u8) {
        let flight = Flight {
            write,
            sent: now,
            course: Course::Sent,
        };
        *self.flight(write) = Some(flight);
    }

    pub(crate) fn flight(&mut self, write: Write) -> &mut Option<Flight> {
        match write {
            Write::Join | Write::RenewRow => &mut self.row,
            Write::Enter | Write::RenewSeat => &mut self.seat,
        }
    }

    /// The answer to a write arrives.
    pub(crate) fn answered(&mut self, flight: Flight, now: u8, rules: &Rules) {
        *self.flight(flight.write) = None;
        let Course::Applied(beat) = flight.course else {
            return;
        };
        let from = if rules.broken(Mutant::LeaseFromTheAnswer) {
            now
        } else {
            flight.sent
        };
        self.note(flight.write, beat, rules.by_owner(from));
        if matches!(flight.write, Write::Enter | Write::RenewSeat) {
            self.renewed_seat |= flight.write == Write::RenewSeat;
            self.shown(beat, now, rules);
        }
    }

    fn note(&mut self, write: Write, beat: u8, sent: Moment) {
        match (&mut self.beats, write) {
            (Some(ByDebug(beats)), Write::RenewRow | Write::RenewSeat) => {
                beats.renewed(beat.into(), sent);
            }
            (beats, _) => *beats = Some(ByDebug(Beats::taken(sent))),
        }
    }

    /// The lock item shows it with this beat.
    pub(crate) fn shown(&mut self, beat: u8, now: u8, rules: &Rules) {
        self.held = Some((beat, now));
        self.watch_the_clock(now, rules);
    }

    /// Lost is lost, whatever answer comes later.
    pub(crate) fn watch_the_clock(&mut self, now: u8, rules: &Rules) {
        let until = self.until(rules);
        self.lost |= self.held.is_some() && until.is_none_or(|until| rules.by_owner(now) >= until);
    }

    pub(crate) fn believes(&self) -> bool {
        self.held.is_some() && !self.lost
    }

    fn until(&self, rules: &Rules) -> Option<Moment> {
        let (beat, seen) = self.held?;
        let ByDebug(beats) = self.beats.as_ref()?;
        match rules.mutant {
            Some(Mutant::LeaseFromTheLastLook) => Some(rules.by_owner(seen) + believed(LEASE)),
            Some(Mutant::LeaseFromTheNewestRenewal) => beats.believed_until(u64::MAX, LEASE),
            Some(Mutant::NoMargin) => beats.established(beat.into()).map(|sent| sent + LEASE),
            Some(Mutant::LeaseLongerThanWritten) => {
                beats.believed_until(beat.into(), LEASE + Duration::from_millis(100))
            }
            _ => beats.believed_until(beat.into(), LEASE),
        }
    }
}
