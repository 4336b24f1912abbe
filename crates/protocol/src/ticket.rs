//! A ticket: a place in the queue, and the fencing token of the turn that it buys.

use std::fmt;

/// The number of digits of the key form: as many as a DynamoDB number can have, so that string order is number order.
const DIGITS: usize = 38;

/// A place in the queue, and the fencing token of the turn that it buys.
///
/// Tickets of one lock only grow, whichever client draws them and however often the lock is removed when idle. A resource that remembers
/// the newest ticket it has seen and refuses smaller ones never accepts a stale writer.
///
/// # Examples
///
/// ```
/// # use fairlock_protocol::ticket as fairlock;
/// use fairlock::Ticket;
///
/// let ticket = Ticket::new(42);
/// assert_eq!(ticket.get(), 42);
/// assert_eq!(ticket.to_string(), "42");
/// assert!(ticket < Ticket::new(100));
/// ```
///
/// With the feature `serde` a ticket is written and read as its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// The ticket with this number, to compare with a ticket that a resource remembered.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fairlock_protocol::ticket as fairlock;
    /// assert!(fairlock::Ticket::new(7) < fairlock::Ticket::new(8));
    /// ```
    pub const fn new(number: u64) -> Self {
        Ticket(number)
    }

    /// The number, to store beside fenced data.
    ///
    /// # Examples
    ///
    /// ```
    /// # use fairlock_protocol::ticket as fairlock;
    /// assert_eq!(fairlock::Ticket::new(7).get(), 7);
    /// ```
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What a counter and a queue do with tickets. Users of fairlock only compare tickets, so this trait is no part of their API.
pub trait Sequence: Sized {
    /// Returns the next ticket that the counter hands out, or `None` after the last `u64`.
    fn next(self) -> Option<Self>;

    /// Returns the ticket before this one, or `None` before zero.
    fn before(self) -> Option<Self>;

    /// Returns the newest of the next `tickets` tickets, or `None` after the last `u64`.
    fn after(self, tickets: u64) -> Option<Self>;

    /// The first of `tickets` tickets of which this is the newest.
    fn first_of(self, tickets: u64) -> Self;

    /// The key form: zero-padded, so that sort keys compare as the numbers do.
    fn key(self) -> String;

    /// Reads the key form. Returns `None` if the text is anything else.
    fn from_key(text: &str) -> Option<Self>;
}

impl Sequence for Ticket {
    fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Ticket)
    }

    fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Ticket)
    }

    fn after(self, tickets: u64) -> Option<Self> {
        self.0.checked_add(tickets).map(Ticket)
    }

    fn first_of(self, tickets: u64) -> Self {
        Ticket(self.0.saturating_sub(tickets.saturating_sub(1)))
    }

    fn key(self) -> String {
        format!("{:0width$}", self.0, width = DIGITS)
    }

    fn from_key(text: &str) -> Option<Self> {
        let digits = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().map(Ticket)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sequence, Ticket};

    #[test]
    fn the_key_form_orders_as_the_numbers_do() {
        let numbers = [
            0,
            1,
            9,
            10,
            99,
            1_700_000_000_000_000,
            u64::MAX - 1,
            u64::MAX,
        ];
        let keys: Vec<_> = numbers.iter().map(|&n| Ticket::new(n).key()).collect();
        assert!(keys.is_sorted());
        assert!(keys.iter().all(|key| key.len() == 38));
    }

    #[test]
    fn the_key_form_reads_back_and_nothing_else_is_a_ticket() {
        for number in [0, 7, u64::MAX] {
            assert_eq!(
                Ticket::from_key(&Ticket::new(number).key()),
                Some(Ticket::new(number))
            );
        }
        let too_large = format!("{:038}", u128::from(u64::MAX) + 1);
        for text in [
            "",
            "7",
            "#lock",
            &"9".repeat(38),
            &too_large,
            &format!("+{:037}", 1),
        ] {
            assert_eq!(Ticket::from_key(text), None, "{text}");
        }
    }

    #[test]
    fn there_is_no_ticket_after_the_last() {
        assert_eq!(Ticket::new(u64::MAX).next(), None);
    }
}
