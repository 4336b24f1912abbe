//! What a turn in a queue costs, by the formula of docs/cost.md. The suite `cost` holds it against queues, and the page against it.

use std::time::Duration;

/// A queue as the formula sees it, by the names of the page.
#[derive(Clone, Copy, Debug)]
pub struct QueueCost {
    /// `N`: the waiters.
    pub waiters: f64,
    /// `H`: how long each holds the lock.
    pub hold: Duration,
    /// `R`: a round trip.
    pub round_trip: Duration,
    /// `M`: the longest time between two polls.
    pub longest_poll: Duration,
    /// `L`: the lease.
    pub lease: Duration,
    /// `s`: the slots.
    pub slots: f64,
    /// Whether all processes notify each other.
    pub are_notified: bool,
    /// `U`: the units of a write of the lock item.
    pub item_units: f64,
    /// The bytes of a row.
    pub row_bytes: f64,
    /// The numbers that the page explains.
    pub constants: Constants,
}

/// The numbers of the formula, which the page explains in a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// A poll is late by one part in so many of the hold.
    pub hold_share: f64,
    /// The polls that are under way when a hold is about to end.
    pub overlap: f64,
    /// A handoff in round trips.
    pub handoff: f64,
    /// The same with notifications.
    pub notified_handoff: f64,
    /// The polls of the first successor with notifications.
    pub notified_first: f64,
    /// The writes of a turn whose caller finds a slot.
    pub slot_writes: f64,
    /// The writes of a turn whose caller has a row.
    pub row_writes: f64,
    /// The part of the slots that is taken on average while waiters stand behind them.
    pub taken: f64,
    /// By how much the turns before a successor shrink from one of its polls to the next.
    pub successor_base: f64,
    /// The same of a waiter behind the slots.
    pub row_base: f64,
    /// The writes of the lock item in a turn whose caller has a row.
    pub item_writes: f64,
    /// The writes of other items in such a turn.
    pub other_writes: f64,
    /// The polls of a turn that read rows.
    pub polls_of_rows: f64,
    /// The rows that a poll reads at most.
    pub watched: f64,
    /// Renewals in a lease.
    pub heartbeats: f64,
    /// A waiter asks for a lease of this part of its wait.
    pub lease_share: f64,
    /// It asks for this many leases at most.
    pub most_leases: f64,
}

impl Default for Constants {
    fn default() -> Self {
        Constants {
            hold_share: 20.0,
            overlap: 1.0,
            handoff: 1.3,
            notified_handoff: 1.0,
            notified_first: 2.0,
            slot_writes: 2.0,
            row_writes: 3.5,
            taken: 0.75,
            successor_base: 2.0,
            row_base: 4.0,
            item_writes: 2.25,
            other_writes: 2.0,
            polls_of_rows: 2.6,
            watched: 128.0,
            heartbeats: 3.0,
            lease_share: 0.75,
            most_leases: 8.0,
        }
    }
}

/// What a turn costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnCost {
    /// Requests.
    pub requests: f64,
    /// Write units.
    pub write_units: f64,
    /// Read units.
    pub read_units: f64,
}

/// The renewals in a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Renewals {
    /// The renewals of the holder.
    pub of_the_holder: f64,
    /// The renewals of all waiters together.
    pub of_waiters: f64,
}

/// A read unit.
const READ_BYTES: f64 = 4096.0;
/// A write unit.
const WRITE_BYTES: f64 = 1024.0;

impl QueueCost {
    /// A queue of the defaults, whose entries are short.
    pub fn new(waiters: f64, hold: Duration, round_trip: Duration) -> Self {
        QueueCost {
            waiters,
            hold,
            round_trip,
            longest_poll: Duration::from_secs(1),
            lease: Duration::from_secs(30),
            slots: 8.0,
            are_notified: false,
            item_units: 1.0,
            row_bytes: 250.0,
            constants: Constants::default(),
        }
    }

    /// What a turn of this queue costs.
    pub fn turn(&self) -> TurnCost {
        let renewals = self.renewals();
        let in_slots = match self.has_rows() {
            true => renewals.of_the_holder,
            false => renewals.total(),
        };
        let renewals = renewals.total();
        let (writes, of_others) = self.writes();
        TurnCost {
            requests: self.requests_to_write() + self.polls() + renewals,
            write_units: self.item_units * (writes + in_slots) + of_others + renewals - in_slots,
            read_units: self.polls() + self.units_of_rows(),
        }
    }

    fn has_rows(&self) -> bool {
        self.waiters > self.slots
    }

    /// The requests that write, without renewals.
    pub fn requests_to_write(&self) -> f64 {
        match self.has_rows() {
            true => self.constants.row_writes,
            false => self.constants.slot_writes,
        }
    }

    /// The writes of the lock item, and those of other items.
    fn writes(&self) -> (f64, f64) {
        let of = &self.constants;
        match self.has_rows() {
            true => (of.item_writes, of.other_writes),
            false => (of.slot_writes, 0.0),
        }
    }

    fn polls(&self) -> f64 {
        self.first() + self.successors() + self.rows()
    }

    /// The polls of the first successor.
    pub fn first(&self) -> f64 {
        let of = &self.constants;
        if self.are_notified {
            return of.notified_first;
        }
        let share = of.hold_share;
        let holds = self.hold.div_duration_f64(self.round_trip);
        let most = self.longest_poll.div_duration_f64(self.round_trip);
        if holds <= share {
            holds + of.overlap
        } else if holds <= share * most {
            share + share * (holds / share).ln()
        } else {
            share + share * most.ln() + (holds - share * most) / most
        }
    }

    /// The polls of the successors behind it.
    pub fn successors(&self) -> f64 {
        let in_slots = match self.has_rows() {
            true => self.constants.taken * self.slots,
            false => self.waiters,
        };
        match self.are_notified || in_slots <= 1.0 {
            true => 0.0,
            false => 1.0 + in_slots.log(self.constants.successor_base),
        }
    }

    /// The polls of the waiters behind the slots.
    fn rows(&self) -> f64 {
        let behind = self.waiters - self.slots;
        match self.has_rows() {
            true => behind.max(1.0).log(self.constants.row_base),
            false => 0.0,
        }
    }

    fn units_of_rows(&self) -> f64 {
        if !self.has_rows() {
            return 0.0;
        }
        let behind = (self.waiters - self.slots).min(self.constants.watched);
        // A read of rows reads the lock item too.
        let bytes = self.item_units * WRITE_BYTES + behind * self.row_bytes;
        // The first unit is that of the poll. The last one begun is half used on average.
        self.constants.polls_of_rows * (bytes / READ_BYTES - 0.5).max(0.0)
    }

    /// The renewals in a turn.
    pub fn renewals(&self) -> Renewals {
        let of = &self.constants;
        let leases = |time: Duration| time.div_duration_f64(self.lease);
        // The first renewals of a hold come early by a share of its own, so that holds have this many on average.
        let beats = of.heartbeats * leases(self.hold);
        let holder = if beats < 1.0 { 0.0 } else { beats };
        let handoff = match self.are_notified {
            true => of.notified_handoff,
            false => of.handoff,
        };
        let turn = self.hold + self.round_trip.mul_f64(handoff);
        let wait = self.waiters * leases(turn);
        // From the first limit on, a waiter renews at all. From the second on a row asks for longer leases, up to the third. A waiter in a
        // slot asks for the plain one.
        let (first, second) = (1.0 / of.heartbeats, 1.0 / of.lease_share);
        let third = of.most_leases * second;
        let while_they_grow = of.heartbeats / of.lease_share;
        let waiting = if wait < first {
            0.0
        } else if !self.has_rows() || wait <= second {
            of.heartbeats * wait
        } else if wait <= third {
            while_they_grow + while_they_grow * (wait / second).ln()
        } else {
            while_they_grow * of.most_leases.ln() + of.heartbeats * wait / of.most_leases
        };
        Renewals {
            of_the_holder: holder,
            of_waiters: waiting,
        }
    }
}

impl Renewals {
    /// All of them.
    pub fn total(self) -> f64 {
        self.of_the_holder + self.of_waiters
    }
}
