//! Says which entries are dead, and which tickets can get no row any more: the judge of waiters, of callers who do not wait, and of sweepers.

use std::time::Duration;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::gaps::Gaps;
use crate::item::LockItem;
use crate::lease::{self, EntryLocation, LivenessTracker};
use crate::moment::Moment;
use crate::snapshot::Snapshot;
use crate::stamps::{self, Reading};
use crate::step::{JudgedSnapshot, Known, Occupant};
use crate::ticket::Ticket;

/// Since when each entry and each gap of a lock has been seen unchanged. A judge that has seen nothing before goes by two clocks alone.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The judge's own place, if it has one.
    own: Option<(Nonce, Ticket)>,
    watches: LivenessTracker,
    gaps: Gaps,
}

/// What a judge goes by at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// By the clock of its watches: the moment at which a removal is sent.
    pub moment: Moment,
    /// What the answer to the snapshot told of the time.
    pub reading: Reading,
    /// When the only machine whose processes use the table was started, if that is known.
    pub boot: Option<ServerTime>,
    /// How long a row may be under way, at the least.
    pub join_timeout: Duration,
}

impl Judge {
    /// The judge of a waiter, which does not judge itself.
    pub fn of(nonce: Nonce, ticket: Ticket) -> Self {
        Judge {
            own: Some((nonce, ticket)),
            ..Judge::default()
        }
    }

    /// Watches what a snapshot shows from its arrival on: its entries, and its gaps up to this ticket.
    pub fn saw<Next>(&mut self, snapshot: &Snapshot<Next>, upto: Ticket, arrived: Moment) {
        let covers = |place| snapshot.covers(place);
        self.watches.poll(arrived, covers, snapshot.entries());
        if snapshot.known != Known::Nothing {
            let (read_to, gaps) = (snapshot.known.end(), snapshot.gaps(upto));
            self.gaps.poll(arrived, read_to, gaps);
        }
    }

    /// Whether there is anything to be remembered.
    pub fn watches_anything(&self) -> bool {
        !self.watches.is_empty() || !self.gaps.is_empty()
    }

    /// The snapshot with every entry in it judged.
    pub fn view<Next>(&self, snapshot: &Snapshot<Next>, now: &Now) -> JudgedSnapshot {
        snapshot.digest(|place, entry| self.occupant(place, entry, now))
    }

    /// Judges an entry by watching it, or by two clocks: whichever tells first.
    pub fn occupant(&self, place: EntryLocation, entry: &Entry, now: &Now) -> Occupant {
        let is_dead = || {
            self.watches.is_dead(place, entry, now.moment)
                || lease::is_over(entry, now.reading)
                || lease::ended_before(entry, now.boot)
        };
        if self.own == Some((entry.nonce, entry.ticket)) {
            Occupant::Me
        } else if is_dead() {
            Occupant::Dead
        } else if self.watches.is_late(place, entry, now.moment) {
            Occupant::Suspect
        } else {
            Occupant::Alive
        }
    }

    /// Returns up to which ticket a gap can get no row any more, from this ticket of it on: it has been seen for its join timeout, or the
    /// newest ticket was drawn so long ago by two clocks, or by a process of an earlier boot.
    pub fn expired(&self, item: &LockItem, now: &Now, gap: Ticket) -> Option<Ticket> {
        let join_timeout = item.join_timeout(now.join_timeout);
        let is_over = stamps::is_over(item.drawn, join_timeout, now.reading)
            || lease::is_before(item.drawn.server, now.boot);
        match is_over {
            true => Some(item.last),
            false => self.gaps.expired_to(gap, join_timeout, now.moment),
        }
    }

    /// When an entry of the lock item counts as dead by watching it, unless it is renewed before.
    pub fn dead_at(&self, entry: &Entry) -> Option<Moment> {
        self.watches.dead_at(EntryLocation::LockItem, entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Attributes, Unknown};
    use crate::item::{RowState, TicketRow};
    use crate::moment::HostTime;
    use crate::stamps::{Stamps, Wall};

    const LEASE: u64 = 30;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn stamps(seconds: u64) -> Stamps {
        Stamps {
            server: Some(ServerTime(at(seconds))),
            host: Some(HostTime(at(seconds))),
        }
    }

    /// Both clocks show this, and the judge's own clock that.
    fn now(clocks: u64, own: u64) -> Now {
        Now {
            moment: Moment(at(own)),
            reading: Reading {
                date: Some(ServerTime(at(clocks))),
                wall: Wall::Shows(HostTime(at(clocks))),
            },
            boot: None,
            join_timeout: at(5),
        }
    }

    fn entry(ticket: u64) -> Entry {
        Entry {
            nonce: Nonce::new(u128::from(ticket)),
            owner: "o".into(),
            ticket: Ticket::new(ticket),
            tickets: 1,
            permits: 1,
            attributes: Attributes::default(),
            id: None,
            beat: 0,
            session: None,
            lease: at(LEASE),
            stamps: stamps(100),
            since: None,
            given_back: false,
            address: None,
            unknown: Unknown::default(),
        }
    }

    /// A free lock with the row of ticket 3, of which 2 and 4 are gaps.
    fn snapshot() -> Snapshot<()> {
        let item = LockItem {
            permits: 1,
            resized: None,
            resizes: 0,
            room: 1,
            last: Ticket::new(4),
            watermark: Ticket::new(1),
            departures: 0,
            sharers: Vec::new(),
            slots: Vec::new(),
            data: None,
            written: None,
            drawn: stamps(100),
            join_timeout: None,
            granted_at: None,
            expires_at: 0,
            asks: 0,
            asked: None,
            broken: None,
        };
        let row = TicketRow {
            ticket: Ticket::new(3),
            tickets: 1,
            state: RowState::Waiting(entry(3)),
            expires_at: 0,
        };
        Snapshot::of(item).with(vec![row], None)
    }

    fn row(judge: &Judge, now: Now) -> Occupant {
        let place = EntryLocation::Row(Ticket::new(3));
        judge.occupant(place, &entry(3), &now)
    }

    #[test]
    fn an_entry_is_dead_by_a_watch_or_by_two_clocks_whichever_tells_first() {
        let (unseen, mut watches) = (Judge::default(), Judge::default());
        watches.saw(&snapshot(), Ticket::new(4), Moment(at(0)));
        assert!(watches.watches_anything() && !unseen.watches_anything());
        let by_clocks = 100 + LEASE + 6;
        for (judge, clocks, own, occupant) in [
            (&unseen, 100, LEASE, Occupant::Alive),
            (&unseen, by_clocks, 0, Occupant::Dead),
            (&watches, 100, LEASE / 2 - 1, Occupant::Alive),
            (&watches, 100, LEASE / 2, Occupant::Suspect),
            (&watches, 100, LEASE, Occupant::Dead),
            (&watches, by_clocks, 0, Occupant::Dead),
        ] {
            assert_eq!(row(judge, now(clocks, own)), occupant, "{clocks} {own}");
        }
        let boot = Some(ServerTime(at(101)));
        let rebooted = Now {
            boot,
            ..now(100, 0)
        };
        assert_eq!(row(&unseen, rebooted), Occupant::Dead);
    }

    #[test]
    fn a_waiter_does_not_judge_itself() {
        let judge = Judge::of(entry(3).nonce, Ticket::new(3));
        assert_eq!(row(&judge, now(1000, 1000)), Occupant::Me);
    }

    #[test]
    fn a_gap_is_over_by_a_watch_or_by_two_clocks() {
        let (unseen, mut watches) = (Judge::default(), Judge::default());
        watches.saw(&snapshot(), Ticket::new(4), Moment(at(0)));
        let item = &snapshot().item;
        let over = |judge: &Judge, now: Now, gap| {
            let over = judge.expired(item, &now, Ticket::new(gap));
            over.map(Ticket::get)
        };
        assert_eq!(over(&unseen, now(100, 60), 2), None);
        assert_eq!(over(&unseen, now(111, 0), 2), Some(4));
        assert_eq!(over(&watches, now(100, 4), 2), None);
        assert_eq!(over(&watches, now(100, 5), 2), Some(2));
        assert_eq!(over(&watches, now(100, 5), 4), Some(4));
    }

    #[test]
    fn gaps_of_rows_that_were_not_read_are_kept_in_mind() {
        let mut judge = Judge::default();
        judge.saw(&snapshot(), Ticket::new(4), Moment(at(0)));
        let item = snapshot().item;
        let alone: Snapshot<()> = Snapshot::of(item.clone());
        judge.saw(&alone, Ticket::new(4), Moment(at(4)));
        assert!(judge.expired(&item, &now(100, 5), Ticket::new(2)).is_some());
    }
}
