//! What a client knows of the time at one moment, and what it dates, keeps and makes by that.

use std::time::Duration;

use crate::entry::ServerTime;
use crate::judge;
use crate::moment::{HostTime, Moment};
use crate::stamps::{Reading, Stamps, Wall};
use crate::ticket::Ticket;
use crate::told::ToldTime;
use crate::write::NewItem;

/// A renewal that may bring a date comes after this long.
const DATE_SOON: Duration = Duration::from_secs(1);
/// A `Date` has whole seconds.
const DATE_GRAIN: Duration = Duration::from_secs(1);

/// The times of a turn. `now` is read before the wall clock: a lease counts from before its stamp is taken.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Clocks {
    /// By the client's own clock.
    pub now: Moment,
    /// By its host's wall clock.
    pub host: HostTime,
    /// What answers have told.
    pub told: ToldTime,
    /// When the only machine whose processes use the table was started, if answers say so. Its wall clock is no witness then.
    pub boot: Option<ServerTime>,
}

impl Clocks {
    /// The host's wall clock. It is no witness beside a `Date` that the same clock tells.
    pub fn wall(&self) -> Wall {
        match self.boot {
            Some(_) => Wall::IsNoWitness,
            None => Wall::Shows(self.host),
        }
    }

    /// What is written into an entry now.
    pub fn stamps(&self) -> Stamps {
        self.told.stamps(self.now, self.wall())
    }

    /// A time that has passed by both clocks, for a lease whose owner counts from it. `None` if no answer has told the time.
    pub fn past(&self) -> Option<Stamps> {
        self.told.past(self.now, self.wall())
    }

    /// What a judge goes by that was shown this.
    pub fn judges(&self, reading: Reading, join_timeout: Duration) -> judge::Now {
        judge::Now {
            moment: self.now,
            reading,
            boot: self.boot,
            join_timeout,
        }
    }

    /// After how long a place is renewed: soon, if that may bring the date that it lacks.
    pub fn heartbeat(&self, is_dated: bool, heartbeat: Duration) -> Duration {
        match !is_dated && !self.told.is_silent() {
            true => heartbeat.min(DATE_SOON),
            false => heartbeat,
        }
    }

    /// The lock item to create. `None` before an answer has told the time: one clock alone does not decide where a counter begins.
    pub fn new_item(&self, retention: Duration) -> Option<NewItem> {
        let (now, expiry) = (self.time_of_items()?, self.expiry(retention)?);
        let start = self.start_of_tickets(now).as_micros();
        Some(NewItem {
            start: Ticket::new(u64::try_from(start).unwrap_or_default()),
            expiry,
        })
    }

    /// Where the tickets of a new lock begin: at this host's time, if DynamoDB's may be the same. A time that was carried on is late, and the
    /// next client's tickets would be smaller if the item were deleted at once.
    fn start_of_tickets(&self, now: Duration) -> Duration {
        let bounds = self
            .past()
            .and_then(|past| past.server)
            .zip(self.stamps().server);
        let is_same = bounds
            .is_some_and(|(from, to)| from.0 <= self.host.0 && self.host.0 <= to.0 + DATE_GRAIN);
        if is_same { self.host.0 } else { now }
    }

    /// When DynamoDB may delete what is written now.
    pub fn expiry(&self, retention: Duration) -> Option<u64> {
        let now = self.time_of_items()?;
        Some(now.saturating_add(retention).as_secs())
    }

    /// When DynamoDB may delete a row that is written now.
    pub fn row_expiry(&self, retention: Duration) -> u64 {
        let by_host = || self.host.0.saturating_add(retention).as_secs();
        self.expiry(retention).unwrap_or_else(by_host)
    }

    /// Whether an item that may go at `expires_at` stays for as long as any participant that is on it now relies on it.
    pub fn is_kept(&self, expires_at: u64, retention: Duration) -> bool {
        self.stays_for(expires_at, retention / 2)
    }

    /// Until when an item is to stay for a client that takes a place on it. `None` if it stays long enough.
    pub fn keeps(&self, expires_at: u64, retention: Duration) -> Option<u64> {
        self.expiry(retention)
            .filter(|_| !self.is_kept(expires_at, retention))
    }

    /// Until when a renewal has an item stay. `None` if not even an eighth of the retention has passed.
    pub fn keeps_for_longer(&self, expires_at: u64, retention: Duration) -> Option<u64> {
        let long = retention - retention / 8;
        let goes_early = expires_at == 0 || !self.stays_for(expires_at, long);
        self.expiry(retention).filter(|_| goes_early)
    }

    fn stays_for(&self, expires_at: u64, span: Duration) -> bool {
        let Some(now) = self.time_of_items() else {
            return true;
        };
        // An item without an expiry is never deleted.
        expires_at == 0 || now.saturating_add(span).as_secs() <= expires_at
    }

    /// The time by which items expire: the later of both clocks, because it is safe to keep an item for too long.
    fn time_of_items(&self) -> Option<Duration> {
        let is_settled = self.told.is_settled();
        self.stamps().later().filter(|_| is_settled)
    }
}
