//! How much of the lock item an entry takes at its largest, and how much of it each entry may take.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::config::{MAX_DATA, MAX_SLOTS};
use crate::error::Invalid;
use crate::size::{CONTAINER, ELEMENT, LARGEST_ITEM, bytes_of_value};
use fairlock_protocol::entry::{Attributes, Entry, Nonce, ServerTime, Unknown};
use fairlock_protocol::ticket::Ticket;

use super::codec;
use fairlock_protocol::codec as protocol;

/// What the lock item has besides data and entries: its keys, which have 3 KB at the most, names and numbers.
const REST: usize = 8 * 1024;

/// What is left for all entries together.
const ROOM: usize = LARGEST_ITEM - MAX_DATA - REST;

/// The slots of the successors, and the first slot, in which a participant may wait behind sharers that have all permits.
const SLOTS: usize = MAX_SLOTS + 1;

/// What a sharer takes besides its entry: its nonce in `sharers`, and its nonce with its ticket on the item. An entry in a slot
/// takes less.
const PLACE: usize = 2 * (1 + 32) + 11;

/// Checks that an entry takes no more than its share of the lock item, with every number in it at its largest. If each client
/// checks its own entry, every entry can be written and renewed. That holds even when all permits and all slots are taken and the
/// lock carries as much data as it may.
pub(crate) fn check_room(
    owner: &str,
    attributes: &Attributes,
    address: Option<&str>,
    permits: u64,
) -> Result<(), Invalid> {
    let permits_there = usize::try_from(permits).unwrap_or(usize::MAX);
    let share = ROOM / permits_there.saturating_add(SLOTS);
    let bytes = said(owner, attributes, address);
    let most = share.saturating_sub(*NOTHING);
    match bytes > most {
        true => Err(Invalid::TooLargeForPermits {
            bytes,
            most,
            permits,
        }),
        false => Ok(()),
    }
}

/// The most permits that there can be while callers name `named` of them, whichever owners and attributes these callers have.
pub(crate) fn most_permits(named: u64) -> u64 {
    named.max(ALWAYS_FIT)
}

/// An entry with the longest owner, attributes and address takes its share of the item where there are this many permits.
const ALWAYS_FIT: u64 = 100;

/// What an entry takes that has no owner, no attributes and no address.
static NOTHING: LazyLock<usize> = LazyLock::new(|| taken("", &Attributes::default(), None));

/// What owner, attributes and address take besides. No entry is made for this, because every turn asks.
fn said(owner: &str, attributes: &Attributes, address: Option<&str>) -> usize {
    let each = |(name, value): (&String, &String)| ELEMENT + name.len() + value.len();
    let described = match attributes.is_empty() {
        true => 0,
        false => {
            let all: usize = attributes.iter().map(each).sum();
            ELEMENT + "attributes".len() + CONTAINER + all
        }
    };
    let reached = address.map_or(0, |address| ELEMENT + "address".len() + address.len());
    owner.len() + described + reached
}

fn taken(owner: &str, attributes: &Attributes, address: Option<&str>) -> usize {
    let largest = largest(owner.to_owned(), attributes.clone(), address);
    let stored = protocol::entry(&largest, Some(largest.ticket));
    PLACE + bytes_of_value(&codec::attribute(stored))
}

/// An entry none of whose numbers can grow any more.
fn largest(owner: String, attributes: Attributes, address: Option<&str>) -> Entry {
    let longest = Duration::from_millis(u64::MAX);
    Entry {
        nonce: Nonce::new(u128::MAX),
        owner,
        ticket: Ticket::new(u64::MAX),
        tickets: u64::MAX,
        permits: u64::MAX,
        attributes,
        // Leases with an id of the caller's own are on locks with the permits of a fair lock, where there is room for the id.
        id: None,
        beat: u64::MAX,
        lease: longest,
        renewed_at: Some(ServerTime(longest)),
        since: Some(ServerTime(longest)),
        address: address.map(Arc::from),
        unknown: Unknown::default(),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;
    use aws_smithy_types::Blob;
    use proptest::prelude::*;

    use fairlock_protocol::item::Notice;
    use fairlock_protocol::notification::MAX_ADDRESS;

    use super::*;
    use crate::config::{MAX_NOTICE, SHARERS};
    use crate::size::bytes_of;
    use crate::store::codec::{Item, number, text};

    /// The lock item with as many participants as there can be, all with this entry, and with keys as long as they can be.
    fn fullest(owner: &str, attributes: &Attributes, address: Option<&str>, permits: u64) -> Item {
        let entry = largest(owner.to_owned(), attributes.clone(), address);
        let nonce = |sharer: u64| format!("{sharer:032x}");
        let sharers = (0..permits).map(|sharer| {
            (
                nonce(sharer),
                codec::attribute(protocol::entry(&entry, Some(entry.ticket))),
            )
        });
        let tickets = (0..permits + SLOTS as u64).map(|one| (nonce(one), number(u64::MAX)));
        let waiting = codec::attribute(protocol::entry(&entry, Some(entry.ticket)));
        let numbers = [
            "format",
            "permits",
            "last",
            "watermark",
            "room",
            "resized",
            "resizes",
            "departures",
            "join_timeout_ms",
            "drawn_at",
            "granted_at",
        ];
        let long = |letter: &str| letter.repeat(255);
        let mut item: Item = numbers
            .map(|name| (name.to_owned(), number(u64::MAX)))
            .into();
        item.extend([
            (long("p"), text("x".repeat(2048))),
            (long("s"), text("x".repeat(1024))),
            (long("t"), number(u64::MAX)),
            ("sharers".to_owned(), AttributeValue::M(sharers.collect())),
            ("slots".to_owned(), AttributeValue::L(vec![waiting; SLOTS])),
            (
                "data".to_owned(),
                AttributeValue::B(Blob::new(vec![7; MAX_DATA])),
            ),
            (
                "written".to_owned(),
                AttributeValue::M(
                    [("ticket", u64::MAX), ("count", u64::MAX)]
                        .map(|(name, it)| (name.to_owned(), number(it)))
                        .into(),
                ),
            ),
        ]);
        let notice = Notice {
            from: Ticket::new(u64::MAX),
            to: Ticket::new(u64::MAX),
            by: "b".repeat(MAX_NOTICE),
            reason: "r".repeat(MAX_NOTICE),
        };
        let notice = || codec::attribute(protocol::notice(&notice));
        item.extend([
            ("asked".to_owned(), notice()),
            ("broken".to_owned(), notice()),
        ]);
        item.extend(tickets);
        item
    }

    /// As many attributes as fit into a kilobyte, each of as few bytes as possible.
    fn tiny() -> Attributes {
        let letters: Vec<char> = ('!'..='~').collect();
        let pairs = letters
            .iter()
            .flat_map(|a| letters.iter().map(move |b| format!("{a}{b}")));
        let single = letters.iter().map(char::to_string);
        let names = single.chain(pairs).scan(0, |bytes, name| {
            *bytes += name.len();
            (*bytes <= 1024).then_some(name)
        });
        Attributes::said(names.map(|name| (name, "")))
    }

    /// The longest owner that is accepted with these attributes.
    fn longest_owner(
        attributes: &Attributes,
        address: Option<&str>,
        permits: u64,
    ) -> Option<String> {
        let owner = |bytes: usize| "o".repeat(bytes);
        let accepts =
            |bytes: &usize| check_room(&owner(*bytes), attributes, address, permits).is_ok();
        (1..=512).rev().find(accepts).map(|bytes| "o".repeat(bytes))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn whatever_is_accepted_fits_when_everybody_has_as_much(
            permits in 1..=1000_u64,
            attributes in prop::collection::btree_map("[a-z]{1,9}|.{1,3}", ".{0,9}", 0..40),
            address in prop::option::of("[a-z.:]{1,128}"),
        ) {
            let (attributes, address) = (Attributes::of(attributes), address.as_deref());
            if let Some(owner) = longest_owner(&attributes, address, permits) {
                let bytes = bytes_of(&fullest(&owner, &attributes, address, permits));
                prop_assert!(bytes <= LARGEST_ITEM, "{bytes} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_said_takes_as_much_as_an_entry_is_larger_with_it(
            owner in ".{0,20}",
            attributes in prop::collection::btree_map(".{0,9}", ".{0,9}", 0..9),
            address in prop::option::of(".{1,9}"),
        ) {
            let (attributes, address) = (Attributes::of(attributes), address.as_deref());
            let nothing = taken("", &Attributes::default(), None);
            let larger = taken(&owner, &attributes, address) - nothing;
            prop_assert_eq!(said(&owner, &attributes, address), larger);
        }
    }

    #[test]
    fn many_tiny_attributes_are_counted_with_what_each_of_them_costs() {
        let tiny = tiny();
        assert_eq!((tiny.bytes(), tiny.iter().count()), (1024, 559));
        let owner = longest_owner(&tiny, None, 130).unwrap();
        let bytes = bytes_of(&fullest(&owner, &tiny, None, 130));
        assert!(
            (LARGEST_ITEM - 16 * 1024..=LARGEST_ITEM).contains(&bytes),
            "{bytes}"
        );
        assert!(check_room(&"o".repeat(512), &tiny, None, 170).is_err());
    }

    #[test]
    fn every_caller_fits_where_a_hundred_permits_are_given_out() {
        let (owner, tiny) = ("o".repeat(512), tiny());
        let address = "a".repeat(MAX_ADDRESS);
        assert!(check_room(&owner, &tiny, Some(&address), ALWAYS_FIT).is_ok());
        assert!(check_room(&owner, &tiny, Some(&address), 2 * ALWAYS_FIT).is_err());
    }

    #[test]
    fn who_shares_a_fair_lock_may_say_all_that_there_is_to_be_said() {
        let (owner, tiny) = ("o".repeat(512), tiny());
        let address = "a".repeat(MAX_ADDRESS);
        assert!(check_room(&owner, &tiny, Some(&address), SHARERS).is_ok());
        // Each entry may have the id of a lease besides.
        let spare = LARGEST_ITEM - bytes_of(&fullest(&owner, &tiny, Some(&address), SHARERS));
        assert!(spare > (SHARERS as usize + SLOTS) * (256 + 3));
    }
}
