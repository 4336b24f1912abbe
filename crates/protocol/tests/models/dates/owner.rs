//! The owner of an entry: it hears `Date`s, stamps what it writes, and believes in the newest of its writes that applied.

use fairlock_protocol::lease::believed;
use fairlock_protocol::moment::ServerTime;
use fairlock_protocol::stamps::{self, LastDate, Stamps, Wall};

use super::hold::{Kind, Mark, Setup};
use super::rules::Mutant;

/// A write under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    pub(crate) mark: Mark,
    pub(crate) began: u8,
    /// Until when, in true time, its owner believes by it. Of what was given back, how long it is to stay.
    pub(crate) until: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) write: Write,
    pub(crate) sent: u8,
    /// What the answer tells, once it is under way, and whether the write was applied.
    pub(crate) served: Option<(ServerTime, bool)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// Whether it was decided what its client was told before.
    pub(crate) has_begun: bool,
    pub(crate) last: Option<LastDate>,
    /// What it is about to write, and since when.
    pub(crate) pending: Option<(Kind, u8)>,
    pub(crate) flight: Option<Flight>,
    /// A copy of a request whose answer the owner never hears.
    pub(crate) late: Option<Flight>,
    pub(crate) beats: u8,
    pub(crate) renewals: u8,
    pub(crate) losses: u8,
    /// Whether it has let go of its hold.
    pub(crate) has_let_go: bool,
}

impl Owner {
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_none() && self.flight.is_none()
    }

    /// By how many milliseconds its clocks are behind by now.
    pub(crate) fn stood_still(&self, setup: &Setup) -> i64 {
        let is_now = setup.ends != Kind::Lease || self.has_let_go;
        i64::from(setup.stood_still) * setup.rules.tick * i64::from(is_now)
    }

    /// Begins to write, with what its client knows by then. Belief counts from here.
    pub(crate) fn begins(&mut self, kind: Kind, now: u8) {
        match kind {
            Kind::Hold => self.renewals -= u8::from(self.beats > 0),
            Kind::GivenBack | Kind::Lease => self.has_let_go = true,
        }
        self.pending = Some((kind, now));
    }

    /// When it takes its stamps, with the tick at which belief begins.
    pub(crate) fn stamps_at(&self, now: u8, setup: &Setup) -> Option<(u8, u8)> {
        let (_, began) = self.pending?;
        Some(match setup.rules.broken(Mutant::BelievesFromTheStamps) {
            true => (began, now),
            false => (now, began),
        })
    }

    /// Stamps what it has begun to write, and sends it.
    pub(crate) fn sends(&mut self, wall: Wall, now: u8, setup: &Setup) {
        let (Some((stamped, began)), Some((kind, _))) =
            (self.stamps_at(now, setup), self.pending.take())
        else {
            return;
        };
        let (rules, lease) = (&setup.rules, setup.lease);
        let time = rules.time(stamped) - self.stood_still(setup);
        let own = rules.own_stamps(self.last, time, wall);
        let moment = rules.moment(time);
        let past = self.last.map(|last| last.past(moment, wall));
        let stamps = match kind {
            Kind::Lease if !rules.broken(Mutant::LeasesFromTheStamps) => past.unwrap_or(own),
            _ => own,
        };
        let lasts = match kind {
            Kind::Lease if !rules.broken(Mutant::ReliesFromTheWrite) => {
                rules.lasts(stamps::relied_on(stamps, believed(lease), own))
            }
            Kind::Lease | Kind::Hold => rules.lasts(believed(lease)),
            Kind::GivenBack => lease.as_millis().try_into().unwrap_or(0),
        };
        let mark = Mark {
            beat: self.beats,
            stamps,
            lease,
            kind,
        };
        self.beats += 1;
        self.flight = Some(Flight {
            write: Write {
                mark,
                began,
                until: rules.time(began) + lasts,
            },
            sent: now,
            served: None,
        });
    }

    /// Takes in the answer to the request under way. Returns a write that was applied, and until when the owner believes by it: for less
    /// time if its stamps turn out to be early.
    pub(crate) fn hears(&mut self, now: u8, setup: &Setup) -> Option<Write> {
        let rules = &setup.rules;
        let Flight {
            write,
            sent,
            served,
        } = self.flight.take()?;
        let (date, was_applied) = served?;
        let moment = |tick| rules.moment(rules.time(tick) - self.stood_still(setup));
        let heard = LastDate {
            date,
            sent: moment(sent),
            arrived: moment(now),
        };
        self.last = Some(self.last.map_or(heard, |last| last.or_newer(heard)));
        let told = Stamps {
            server: Some(date),
            host: None,
        };
        let Mark { stamps, lease, .. } = write.mark;
        let relied_on = rules.lasts(stamps::relied_on(stamps, believed(lease), told));
        let until = match rules.broken(Mutant::TrustsItsClocks) {
            true => write.until,
            false => write.until.min(rules.time(write.began) + relied_on),
        };
        was_applied.then_some(Write { until, ..write })
    }

    /// The owner never hears the answer. The request, or a copy of it, may be served at any time, or never.
    pub(crate) fn loses(&mut self) {
        self.losses -= 1;
        self.late = self.late.or(self.flight.take());
    }

    /// Forgets what it never reads again.
    pub(crate) fn forgets(&mut self, may_write: bool) {
        if !may_write && self.pending.is_none() {
            self.last = None;
        }
    }
}
