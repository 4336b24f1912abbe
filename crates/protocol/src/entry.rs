//! What stands in the table for one attempt to get a place: its owner, its tickets, and whether it is alive.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::moment::ServerTime;
use crate::stamps::{self, Reading, Stamps};
use crate::ticket::{Sequence, Ticket};
use crate::value::Map;

/// 128 random bits that name one attempt to get a place (an enter, a share or a draw) over all its retries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u128);

impl Nonce {
    /// A nonce of these bits.
    pub const fn new(bits: u128) -> Self {
        Nonce(bits)
    }

    /// Reads the stored form. Anything but 32 hexadecimal digits is not a nonce. Capitals are not accepted either, because the conditions
    /// of writes would not match them.
    pub fn parse(text: &str) -> Option<Self> {
        let nonce = Nonce(u128::from_str_radix(text, 16).ok()?);
        (nonce.to_string() == text).then_some(nonce)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({self})")
    }
}

/// What a caller says of itself to clients that inspect the lock; no decision depends on it. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Attributes(Option<Arc<BTreeMap<String, String>>>);

impl Attributes {
    /// The attributes that a caller gives.
    pub fn said<N: Into<String>, V: Into<String>>(
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let each = attributes.into_iter();
        Attributes::of(
            each.map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }

    /// Attributes with these names and values.
    pub fn of(attributes: BTreeMap<String, String>) -> Self {
        Attributes((!attributes.is_empty()).then(|| Arc::new(attributes)))
    }

    /// Whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Iterates in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter().flat_map(|attributes| attributes.iter())
    }

    /// An owned copy of the attributes.
    pub fn pairs(&self) -> BTreeMap<String, String> {
        self.0.as_deref().cloned().unwrap_or_default()
    }

    /// How many bytes the names and the values have.
    pub fn bytes(&self) -> usize {
        self.iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }
}

/// What another version says in an entry, and this version does not know: it stays where the entry goes. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Unknown(Option<Arc<Map>>);

impl Unknown {
    /// Unknown attributes as they were read.
    pub fn of(attributes: Map) -> Self {
        Unknown((!attributes.is_empty()).then(|| Arc::new(attributes)))
    }

    /// A copy of the attributes, as they were read.
    pub fn attributes(&self) -> Map {
        self.0.as_deref().cloned().unwrap_or_default()
    }
}

/// A place in the table: the holder's, a successor's, or that of a ticket row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Entry {
    /// The attempt that it is of.
    pub nonce: Nonce,
    /// The owner's name, for people; no decision depends on it.
    pub owner: String,
    /// The newest of its tickets.
    pub ticket: Ticket,
    /// How many tickets it has: its own, and those just before it, which were drawn together with it.
    pub tickets: u64,
    /// How many of the lock's permits it takes: all of them, if it holds the lock alone.
    pub permits: u64,
    /// What its caller says of itself.
    pub attributes: Attributes,
    /// The caller's own name for a lease that no process renews by itself.
    pub id: Option<String>,
    /// Grows with every renewal. An entry whose beat stands still for a whole lease has expired. If the entry names a session, the number
    /// that its beat had before.
    pub beat: u64,
    /// The session whose beat counts instead of the entry's own. This version names none, and does not know how long one lives. So nothing
    /// here takes an entry with a session for expired, and no write names its beat.
    pub session: Option<Arc<str>>,
    /// For how long it lasts from its last renewal on.
    pub lease: Duration,
    /// When it was last renewed, by two clocks.
    pub stamps: Stamps,
    /// When it took its place in the queue, by DynamoDB's clock; for people.
    pub since: Option<ServerTime>,
    /// Whether its owner gave it back, and it is kept for a shortest time. No client believes in it.
    pub given_back: bool,
    /// Where its owner can be notified, if it can. It is never believed more than any other notification.
    pub address: Option<Arc<str>>,
    /// What another version says there.
    pub unknown: Unknown,
}

impl Entry {
    /// The first of its tickets.
    pub fn first(&self) -> Ticket {
        self.ticket.first_of(self.tickets)
    }

    /// What a caller writes over its stamps, as it saw them. The stamps of an entry with a session stay: no write would apply.
    pub fn redated(&self, now: Reading) -> Option<Stamps> {
        let redated = stamps::redated(self.stamps, now);
        redated.filter(|_| self.session.is_none())
    }

    /// Until when it is kept that was given back, by DynamoDB's clock.
    pub fn kept_until(&self) -> Option<ServerTime> {
        let then = self.stamps.server.filter(|_| self.given_back)?;
        Some(ServerTime(then.0.saturating_add(self.lease)))
    }

    /// The beat by which observers judge it. Returns `None` if a session's counts.
    pub fn own_beat(&self) -> Option<u64> {
        self.session.is_none().then_some(self.beat)
    }
}
