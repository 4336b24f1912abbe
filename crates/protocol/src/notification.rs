//! What the hosts of a lock tell each other: when to poll.
//!
//! A notification is never believed. The table alone says who holds a lock, so a notification that is lost, late, repeated or forged changes
//! when a client polls, and nothing else. It travels as one datagram:
//!
//! | bytes | what |
//! |---|---|
//! | 0, 1 | `fl` |
//! | 2 | the version, 1 |
//! | 3 | the kind: 1 subscribe, 2 confirm, 3 releasing, 4 changed |
//! | 4 to 19 | the key of the place that it is for |
//! | 20 to 35 | of a subscription: the key of the place that subscribes |
//! | 36 and on | of a subscription: the address of that place, in UTF-8 |

use std::fmt;

use sha2::{Digest, Sha256};

use crate::entry::Nonce;

/// The longest address, in bytes.
pub const MAX_ADDRESS: usize = 128;
/// The longest datagram, in bytes.
pub const MAX_DATAGRAM: usize = TO.end + KEY + MAX_ADDRESS;

const MARK: [u8; 3] = [b'f', b'l', VERSION];
const VERSION: u8 = 1;
const KEY: usize = 16;
const TO: std::ops::Range<usize> = 4..4 + KEY;

/// Names a place in a notification. A client that can read the place's nonce in the table can compute the key. The nonce does not follow
/// from the key. So a datagram that is overheard gives nothing away that a condition of a write asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceKey([u8; KEY]);

impl PlaceKey {
    /// The key of the place of an attempt: the first half of the SHA-256 of the nonce's stored form, after a prefix.
    pub fn of(nonce: Nonce) -> Self {
        let digest = Sha256::digest(format!("fairlock notification {VERSION} {nonce}"));
        let mut key = [0; KEY];
        key.copy_from_slice(&digest[..KEY]);
        PlaceKey(key)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(PlaceKey(bytes.try_into().ok()?))
    }
}

impl fmt::Debug for PlaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlaceKey({:032x})", u128::from_be_bytes(self.0))
    }
}

/// A notification for one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The place that it is for.
    pub to: PlaceKey,
    /// What it says.
    pub kind: Kind,
}

/// What a notification says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The place behind asks to be notified, and whether anybody is there.
    Subscribe {
        /// The place that asks.
        from: PlaceKey,
        /// Where that place can be notified.
        address: String,
    },
    /// The answer to a subscription: the place before is there, and still has what it had.
    Confirm,
    /// The place before has just sent its release.
    Releasing,
    /// Something that concerns the place has changed in the table.
    Changed,
}

impl Notification {
    /// The notification as a datagram.
    pub fn datagram(&self) -> Vec<u8> {
        let mut datagram = MARK.to_vec();
        datagram.push(match self.kind {
            Kind::Subscribe { .. } => 1,
            Kind::Confirm => 2,
            Kind::Releasing => 3,
            Kind::Changed => 4,
        });
        datagram.extend(self.to.0);
        if let Kind::Subscribe { from, address } = &self.kind {
            datagram.extend(from.0);
            datagram.extend(address.as_bytes());
        }
        datagram
    }

    /// Reads a datagram. Returns `None` if it is none of this version's, whatever it is.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let (head, body) = datagram.split_at_checked(TO.end)?;
        let kind = head.strip_prefix(&MARK)?.first()?;
        let to = PlaceKey::read(&head[TO])?;
        let kind = match (kind, body.split_at_checked(KEY)) {
            (1, Some((from, address))) => Kind::Subscribe {
                from: PlaceKey::read(from)?,
                address: read_address(address)?,
            },
            (2, None) if body.is_empty() => Kind::Confirm,
            (3, None) if body.is_empty() => Kind::Releasing,
            (4, None) if body.is_empty() => Kind::Changed,
            _ => return None,
        };
        Some(Notification { to, kind })
    }
}

fn read_address(bytes: &[u8]) -> Option<String> {
    let address = std::str::from_utf8(bytes).ok()?;
    is_address(address).then(|| address.to_owned())
}

/// Whether a text can be an address: 1 to [`MAX_ADDRESS`] bytes without control characters.
pub fn is_address(text: &str) -> bool {
    (1..=MAX_ADDRESS).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u128) -> PlaceKey {
        PlaceKey::of(Nonce::new(n))
    }

    fn all() -> Vec<Notification> {
        let kinds = [
            Kind::Subscribe {
                from: key(2),
                address: "10.0.0.1:7000".into(),
            },
            Kind::Confirm,
            Kind::Releasing,
            Kind::Changed,
        ];
        let to = |kind| Notification { to: key(1), kind };
        kinds.into_iter().map(to).collect()
    }

    #[test]
    fn a_notification_is_read_as_it_was_written() {
        for notification in all() {
            let datagram = notification.datagram();
            assert!(datagram.len() <= MAX_DATAGRAM);
            assert_eq!(Notification::read(&datagram), Some(notification));
        }
    }

    #[test]
    fn what_is_cut_lengthened_or_of_another_version_or_kind_is_no_notification() {
        for notification in all() {
            let datagram = notification.datagram();
            for end in 0..TO.end {
                assert_eq!(Notification::read(&datagram[..end]), None);
            }
            for (at, other) in [(0, b'g'), (1, 0), (2, 2), (3, 0), (3, 9)] {
                let mut bent = datagram.clone();
                bent[at] = other;
                assert_eq!(Notification::read(&bent), None, "byte {at}");
            }
            if !matches!(notification.kind, Kind::Subscribe { .. }) {
                let longer = [&datagram[..], &[0]].concat();
                assert_eq!(Notification::read(&longer), None);
            }
        }
    }

    #[test]
    fn an_address_is_short_and_can_be_shown() {
        let subscribe = |address: &str| Notification {
            to: key(1),
            kind: Kind::Subscribe {
                from: key(2),
                address: address.into(),
            },
        };
        let longest = "a".repeat(MAX_ADDRESS);
        for (address, is_one) in [
            ("", false),
            ("a", true),
            (&longest, true),
            (&format!("{longest}a"), false),
            ("a\nb", false),
        ] {
            let read = Notification::read(&subscribe(address).datagram());
            assert_eq!(read.is_some(), is_one, "{address:?}");
        }
        let mut bytes = subscribe("abc").datagram();
        bytes.extend([0xff, 0xfe]);
        assert_eq!(Notification::read(&bytes), None, "not UTF-8");
    }

    #[test]
    fn a_key_is_fixed_for_ever_and_shows_no_nonce() {
        assert_eq!(
            format!("{:?}", key(0)),
            "PlaceKey(eb027900a0b4fd3b5df30955bd9c585e)",
            "another key would make clients of two versions deaf to each other"
        );
        let nonce = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
        assert_ne!(key(nonce).0, u128::to_be_bytes(nonce));
    }
}
