//! A lease as one process passes it on to another.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::vocabulary::error::{Error, Invalid};
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::system_time;
use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::lease;
use fairlock_protocol::ticket::Ticket;

const MAX_ID: usize = 256;

/// A handle to a lease of a [`LeaseLock`](crate::LeaseLock). Any process that has it may extend or release the lease. Parsing its
/// text form returns the same handle.
///
/// # Examples
///
/// ```
/// # fn keep(lease: &fairlock::Lease) -> Result<(), fairlock::Error> {
/// let again: fairlock::Lease = lease.to_string().parse()?;
/// assert_eq!(again, *lease);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub(super) lock: String,
    pub(super) id: String,
    pub(super) nonce: Nonce,
    pub(super) ticket: Ticket,
    /// By DynamoDB's clock.
    pub(super) expires: ServerTime,
}

impl Lease {
    /// Returns `None` if the entry is no lease of this kind, or has no date. Its owner is told the earlier end of the two clocks': one that
    /// is wrong makes no lease longer.
    pub(super) fn of(name: &LockName, entry: &Entry) -> Option<Self> {
        let by_server = ends(entry)?;
        let by_host = entry.stamps.host.map(|at| end(at.0, entry));
        let expires = by_host.map_or(by_server, |host| by_server.min(ServerTime(host)));
        Some(Lease {
            lock: name.lock().to_owned(),
            id: entry.id.clone()?,
            nonce: entry.nonce,
            ticket: entry.ticket,
            expires,
        })
    }

    /// The lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(lease: &fairlock::Lease) {
    /// println!("{} has {} until {:?}", lease.id(), lease.lock(), lease.expires_at());
    /// # }
    /// ```
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// The id that the caller gave to the lease.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn is_mine(lease: &fairlock::Lease) -> bool {
    /// lease.id() == "transaction-1234"
    /// # }
    /// ```
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The fencing token.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn fence(lease: &fairlock::Lease) -> fairlock::Fence {
    /// fairlock::Fence::new("fence", lease.ticket())
    /// # }
    /// ```
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// When the owner must stop relying on the lease: 2 % of it before others may take the lock. It is the earlier of two ends, by DynamoDB's
    /// clock and by that of the host that took or extended the lease.
    ///
    /// If one of the two is behind, the time that is told is early by as much. An owner that measures what is left by a clock that may be
    /// slower, for example this host's, must stop earlier by as much.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn is_over(lease: &fairlock::Lease) -> bool {
    /// lease.expires_at() < std::time::SystemTime::now() // if this host's clock is right
    /// # }
    /// ```
    pub fn expires_at(&self) -> SystemTime {
        system_time(self.expires)
    }
}

/// When the owner of a lease must stop relying on it, by DynamoDB's clock.
pub(super) fn ends(entry: &Entry) -> Option<ServerTime> {
    entry.stamps.server.map(|at| ServerTime(end(at.0, entry)))
}

fn end(begins: Duration, entry: &Entry) -> Duration {
    in_millis(begins.saturating_add(lease::believed(entry.lease)))
}

pub(super) fn check_id(id: &str) -> Result<(), Invalid> {
    if id.is_empty() || id.len() > MAX_ID {
        return Err(Invalid::text(
            "the id of a lease",
            id,
            "takes 1 to 256 bytes",
        ));
    }
    Ok(())
}

/// Rounds the end of a lease down to a whole millisecond, as its text form has it, so that it reads back the same. The lease ends
/// earlier by that, never later.
fn in_millis(span: Duration) -> Duration {
    let nanos = span.subsec_nanos();
    Duration::new(span.as_secs(), nanos - nanos % 1_000_000)
}

/// A single line. The names come last, because they may contain anything.
impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nonce, ticket) = (self.nonce, self.ticket);
        let (expires, id) = (self.expires.0.as_millis(), &self.id);
        write!(
            f,
            "lease {nonce} {ticket} {expires} {} {id}{}",
            id.len(),
            self.lock
        )
    }
}

impl FromStr for Lease {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rule = "is not the text form of a lease";
        parse(text).ok_or_else(|| Invalid::text("the text", text, rule).into())
    }
}

fn parse(text: &str) -> Option<Lease> {
    let mut words = text.splitn(6, ' ');
    let (kind, nonce, ticket) = (words.next()?, words.next()?, words.next()?);
    let (expires, length, names) = (words.next()?, words.next()?, words.next()?);
    let (id, lock) = names.split_at_checked(length.parse().ok()?)?;
    let is_named = kind == "lease" && check_id(id).is_ok() && !lock.is_empty();
    is_named.then_some(())?;
    Some(Lease {
        lock: lock.to_owned(),
        id: id.to_owned(),
        nonce: Nonce::parse(nonce)?,
        ticket: Ticket::new(ticket.parse().ok()?),
        expires: ServerTime(Duration::from_millis(expires.parse().ok()?)),
    })
}
