//! Conversions of a ticket, to and from a number and to and from text.

use std::fmt;
use std::str::FromStr;

use crate::ticket::Ticket;

impl From<u64> for Ticket {
    fn from(number: u64) -> Self {
        Ticket::new(number)
    }
}

impl From<Ticket> for u64 {
    fn from(ticket: Ticket) -> Self {
        ticket.get()
    }
}

/// A text that is no ticket. A ticket is written in decimal digits, and is below 2^64.
///
/// # Examples
///
/// ```
/// # use fairlock_protocol::ticket as fairlock;
/// let refused = "+7".parse::<fairlock::Ticket>().unwrap_err();
/// assert_eq!(refused.to_string(), "\"+7\" is no ticket: it must be a number below 2^64, in decimal digits");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseTicketError(String);

impl fmt::Display for ParseTicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "{text:?} is no ticket: it must be a number below 2^64, in decimal digits"
        )
    }
}

impl std::error::Error for ParseTicketError {}

impl FromStr for Ticket {
    type Err = ParseTicketError;

    /// Reads what [`Display`](fmt::Display) writes. Leading zeros are allowed.
    fn from_str(text: &str) -> Result<Self, ParseTicketError> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| text.parse().ok()).flatten();
        number
            .map(Ticket::new)
            .ok_or_else(|| ParseTicketError(text.to_owned()))
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Ticket {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Ticket {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Ticket::new)
    }
}
