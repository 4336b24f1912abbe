//! What happens when: a queue of events in the order of their times, and at one time in the order in which they were noted.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use fairlock_protocol::agent::{HoldId, Input};

use crate::parcel::{Delivery, Parcel};

pub(crate) use crate::parcel::Process;
pub(crate) use crate::times::{At, HOUR, MS, SECOND};

/// What happens.
pub(crate) enum Event {
    /// A request reaches the table.
    Arrives(Box<Parcel>),
    /// An answer, or the lack of one, reaches a host.
    Answers(Box<Delivery>),
    /// The driver of a client finds this in its mailbox, so much later.
    Mail(Process, Box<Input>, At),
    /// A datagram reaches a host.
    Datagram(Process, Box<[u8]>),
    /// The timer of a driver fires that was armed so often.
    Wakes(Process, u32),
    /// A caller goes on.
    Acts(Process, usize),
    /// The caller of this call goes away.
    Cancels(Process, u64),
    /// A holder looks at its deadline.
    Notices(Process, HoldId),
    /// The way to the table changes for a host.
    Mood(usize),
    /// A host stops, and handles nothing for a while.
    Stops(usize),
    /// A host crashes.
    Crashes(usize),
    /// A host begins anew.
    Starts(usize),
    /// A client is shut down.
    Closes(usize),
    /// A clock is set: a host's, or a front end's.
    ClockStep,
    /// Items expire.
    Ttl,
    /// An operator does something.
    Operates,
    /// What is left of a dead process appears.
    Plants,
    /// A scripted waiter goes on.
    Waits(usize),
    /// By now the holder knows that its hold was broken.
    BreakIsDue(u32),
    /// By now the holder knows that it was asked to give way.
    AskIsDue(u32),
    /// A lock becomes one of a newer format, or ends being one.
    Format(usize, bool),
}

struct Noted {
    at: At,
    seq: u64,
    event: Event,
}

impl Noted {
    fn key(&self) -> (At, u64) {
        (self.at, self.seq)
    }
}

impl PartialEq for Noted {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Noted {}

impl PartialOrd for Noted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Noted {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The events to come.
#[derive(Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Noted>>,
    seq: u64,
}

impl Agenda {
    pub(crate) fn note(&mut self, at: At, event: Event) {
        self.seq += 1;
        let seq = self.seq;
        self.heap.push(Reverse(Noted { at, seq, event }));
    }

    pub(crate) fn next(&mut self) -> Option<(At, Event)> {
        self.heap.pop().map(|Reverse(it)| (it.at, it.event))
    }

    /// How many events were noted.
    pub(crate) fn noted(&self) -> u64 {
        self.seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times_and_then_as_they_were_noted() {
        let mut agenda = Agenda::default();
        for (at, host) in [(5, 0), (3, 1), (5, 2), (1, 3)] {
            agenda.note(at, Event::Stops(host));
        }
        let hosts = std::iter::from_fn(|| match agenda.next()? {
            (_, Event::Stops(host)) => Some(host),
            _ => None,
        });
        assert_eq!(hosts.collect::<Vec<_>>(), [3, 1, 0, 2]);
    }
}
