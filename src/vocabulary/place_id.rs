//! A name for a place in the queue of a lock, or for the hold that came of it, by which another process knows it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::vocabulary::error::{Error, Invalid};
use crate::vocabulary::name::LockName;
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::ticket::Ticket;

/// Names a place in the queue of a lock, and the hold that comes of it, so that another process can
/// [give it up](crate::LockClient::give_up). [`Waiting::place_id`](crate::Waiting::place_id) is the name of a place, and
/// [`LockGuard::place_id`](crate::LockGuard::place_id) that of a hold. Parsing its text form returns the same name.
///
/// Callers of one client that form a batch have one place, and one name for it.
///
/// # Examples
///
/// ```
/// # fn keep(guard: &fairlock::LockGuard) -> Result<(), fairlock::Error> {
/// let text = guard.place_id().to_string();
/// let again: fairlock::PlaceId = text.parse()?;
/// assert_eq!(again, guard.place_id());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceId {
    lock: Arc<str>,
    pub(crate) nonce: Nonce,
    pub(crate) ticket: Ticket,
    pub(crate) tickets: u64,
    pub(crate) permits: u64,
}

impl PlaceId {
    /// Names a place with `tickets` tickets up to `ticket`, each of which takes `permits` permits.
    pub(crate) fn of(
        name: &LockName,
        nonce: Nonce,
        (ticket, tickets): (Ticket, u64),
        permits: u64,
    ) -> Self {
        PlaceId {
            lock: name.lock().into(),
            nonce,
            ticket,
            tickets,
            permits,
        }
    }

    /// The lock's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(guard: &fairlock::LockGuard) {
    /// assert_eq!(guard.place_id().lock(), guard.name());
    /// # }
    /// ```
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// The newest of the place's tickets.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn show(guard: &fairlock::LockGuard) {
    /// assert!(guard.place_id().ticket() >= guard.ticket());
    /// # }
    /// ```
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }
}

/// A single line, if the lock's name is one. The name comes last, because it may contain anything.
impl fmt::Display for PlaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlaceId {
            lock,
            nonce,
            ticket,
            tickets,
            permits,
        } = self;
        write!(f, "place {nonce} {ticket} {tickets} {permits} {lock}")
    }
}

impl FromStr for PlaceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rule = "is not the text form of a place";
        parse(text).ok_or_else(|| Invalid::text("the text", text, rule).into())
    }
}

fn parse(text: &str) -> Option<PlaceId> {
    let mut words = text.splitn(6, ' ');
    let (kind, nonce, ticket) = (words.next()?, words.next()?, words.next()?);
    let (tickets, permits, lock) = (words.next()?, words.next()?, words.next()?);
    let place = PlaceId {
        lock: lock.into(),
        nonce: Nonce::parse(nonce)?,
        ticket: Ticket::new(ticket.parse().ok()?),
        tickets: tickets.parse().ok().filter(|tickets| *tickets > 0)?,
        permits: permits.parse().ok().filter(|permits| *permits > 0)?,
    };
    (kind == "place" && !lock.is_empty()).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_place_reads_back_and_any_other_is_refused() {
        let name = LockName::new("a b\n", &"jobs".into()).unwrap();
        let place = PlaceId::of(&name, Nonce::new(7), (Ticket::new(12), 2), 64);
        let text = place.to_string();
        assert_eq!(text.parse::<PlaceId>().unwrap(), place);
        let nonce = Nonce::new(7);
        for bad in [
            "",
            "place",
            &text.replace("place", "lease"),
            &format!("place {nonce} 12 2 64 "),
            &format!("place {nonce} 12 0 64 a"),
            &format!("place {nonce} 12 2 0 a"),
            &format!("place {nonce} x 2 64 a"),
            "place 7 12 2 64 a",
        ] {
            assert!(bad.parse::<PlaceId>().is_err(), "{bad}");
        }
    }
}
