//! How much of the lock item an entry takes at its largest, and how much of it each entry may take.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::store::size::{CONTAINER, ELEMENT, LARGEST_ITEM, bytes_of_value};
use crate::vocabulary::config::{ALL_SLOTS, MAX_DATA};
use crate::vocabulary::error::Invalid;
use fairlock_protocol::entry::{Attributes, Entry, Nonce, ServerTime, Unknown};
use fairlock_protocol::moment::HostTime;
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::Ticket;

use super::codec;
use fairlock_protocol::codec as protocol;

/// What the lock item has besides data and entries: its keys, which have 3 KB at the most, names and numbers.
const REST: usize = 8 * 1024;

/// What is left for all entries together.
const ROOM: usize = LARGEST_ITEM - MAX_DATA - REST;

/// What a sharer takes besides its entry: its nonce in `sharers`, and its nonce with its ticket on the item. An entry in a slot
/// takes less.
const PLACE: usize = 2 * (1 + 32) + 11;

/// What a client writes into an entry besides numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) owner: &'a str,
    pub(crate) attributes: &'a Attributes,
    pub(crate) address: Option<&'a str>,
    /// The id of a lease.
    pub(crate) id: Option<&'a str>,
}

/// Checks that an entry takes no more than its share of the lock item, with every number in it at its largest. If each client
/// checks its own entry, every entry can be written and renewed. That holds even when all permits and all slots are taken and the
/// lock carries as much data as it may.
pub(crate) fn check_room(said: Said<'_>, permits: u64) -> Result<(), Invalid> {
    let permits_there = usize::try_from(permits).unwrap_or(usize::MAX);
    let share = ROOM / permits_there.saturating_add(ALL_SLOTS);
    let bytes = said.bytes();
    let most = share.saturating_sub(*NOTHING);
    match bytes > most {
        true => Err(Invalid::new(format!(
            "an owner's name, attributes and the id of a lease take {bytes} bytes on the lock's item, and at a lock of {permits} permits \
             they may take {most}: shorten them, or have fewer permits"
        ))),
        false => Ok(()),
    }
}

/// The most permits that there can be while callers name `named` of them, whichever owners and attributes these callers have.
pub(crate) fn most_permits(named: u64) -> u64 {
    named.max(ALWAYS_FIT)
}

/// An entry with the longest owner, attributes, address and id takes its share of the item where there are this many permits.
const ALWAYS_FIT: u64 = 80;

/// What an entry takes that says nothing.
static NOTHING: LazyLock<usize> = LazyLock::new(|| {
    let attributes = Attributes::default();
    taken(Said {
        owner: "",
        attributes: &attributes,
        address: None,
        id: None,
    })
});

impl Said<'_> {
    /// What it takes. No entry is made for this, because every turn asks.
    fn bytes(self) -> usize {
        let each = |(name, value): (&String, &String)| ELEMENT + name.len() + value.len();
        let described = match self.attributes.is_empty() {
            true => 0,
            false => {
                let all: usize = self.attributes.iter().map(each).sum();
                ELEMENT + "attributes".len() + CONTAINER + all
            }
        };
        let text = |name: &str, value: &str| ELEMENT + name.len() + value.len();
        let reached = self.address.map_or(0, |address| text("address", address));
        let named = self.id.map_or(0, |id| text("id", id));
        self.owner.len() + described + reached + named
    }
}

fn taken(said: Said<'_>) -> usize {
    let largest = largest(said);
    let stored = protocol::entry(&largest, Some(largest.ticket));
    PLACE + bytes_of_value(&codec::attribute(stored))
}

/// An entry none of whose numbers can grow any more.
fn largest(said: Said<'_>) -> Entry {
    let longest = Duration::from_millis(u64::MAX);
    Entry {
        nonce: Nonce::new(u128::MAX),
        owner: said.owner.to_owned(),
        ticket: Ticket::new(u64::MAX),
        tickets: u64::MAX,
        permits: u64::MAX,
        attributes: said.attributes.clone(),
        id: said.id.map(str::to_owned),
        beat: u64::MAX,
        lease: longest,
        session: None,
        stamps: Stamps {
            server: Some(ServerTime(longest)),
            host: Some(HostTime(longest)),
        },
        since: Some(ServerTime(longest)),
        address: said.address.map(Arc::from),
        given_back: true,
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
    use crate::store::codec::{Item, number, text};
    use crate::store::size::bytes_of;
    use crate::vocabulary::config::{MAX_NOTICE, SHARERS};

    /// The lock item with as many participants as there can be, all with this entry, and with keys as long as they can be.
    fn fullest(said: Said<'_>, permits: u64) -> Item {
        let entry = largest(said);
        let nonce = |sharer: u64| format!("{sharer:032x}");
        let sharers = (0..permits).map(|sharer| {
            (
                nonce(sharer),
                codec::attribute(protocol::entry(&entry, Some(entry.ticket))),
            )
        });
        let tickets = (0..permits + ALL_SLOTS as u64).map(|one| (nonce(one), number(u64::MAX)));
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
            (
                "slots".to_owned(),
                AttributeValue::L(vec![waiting; ALL_SLOTS]),
            ),
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
        let asked = codec::attribute(protocol::asked(&notice, u64::MAX));
        let broken = codec::attribute(protocol::notice(&notice));
        item.extend([("asked".to_owned(), asked), ("broken".to_owned(), broken)]);
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

    /// The longest owner that is accepted with what is said besides.
    fn longest_owner(said: Said<'_>, permits: u64) -> Option<String> {
        let owners = (1..=512).rev().map(|bytes| "o".repeat(bytes));
        let accepts = |owner: &String| check_room(Said { owner, ..said }, permits).is_ok();
        owners.into_iter().find(accepts)
    }

    /// The most that an entry can say.
    fn longest<'a>(attributes: &'a Attributes, texts: &'a [String; 3]) -> Said<'a> {
        let [owner, address, id] = texts;
        Said {
            owner,
            attributes,
            address: Some(address),
            id: Some(id),
        }
    }

    fn longest_texts() -> [String; 3] {
        [("o", 512), ("a", MAX_ADDRESS), ("i", 256)].map(|(letter, bytes)| letter.repeat(bytes))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn whatever_is_accepted_fits_when_everybody_has_as_much(
            permits in 1..=1000_u64,
            attributes in prop::collection::btree_map("[a-z]{1,9}|.{1,3}", ".{0,9}", 0..40),
            address in prop::option::of("[a-z.:]{1,128}"),
            id in prop::option::of("[a-z]{1,256}"),
        ) {
            let attributes = Attributes::of(attributes);
            let said = Said {
                owner: "",
                attributes: &attributes,
                address: address.as_deref(),
                id: id.as_deref(),
            };
            if let Some(owner) = longest_owner(said, permits) {
                let bytes = bytes_of(&fullest(Said { owner: &owner, ..said }, permits));
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
            id in prop::option::of(".{1,9}"),
        ) {
            let attributes = Attributes::of(attributes);
            let said = Said {
                owner: &owner,
                attributes: &attributes,
                address: address.as_deref(),
                id: id.as_deref(),
            };
            prop_assert_eq!(said.bytes(), taken(said) - *NOTHING);
        }
    }

    #[test]
    fn many_tiny_attributes_are_counted_with_what_each_of_them_costs() {
        let tiny = tiny();
        assert_eq!((tiny.bytes(), tiny.iter().count()), (1024, 559));
        let said = Said {
            owner: "",
            attributes: &tiny,
            address: None,
            id: None,
        };
        let owner = longest_owner(said, 130).unwrap();
        let owner = owner.as_str();
        let bytes = bytes_of(&fullest(Said { owner, ..said }, 130));
        assert!(
            (LARGEST_ITEM - 16 * 1024..=LARGEST_ITEM).contains(&bytes),
            "{bytes}"
        );
        let owner = "o".repeat(512);
        let owner = owner.as_str();
        assert!(check_room(Said { owner, ..said }, 170).is_err());
    }

    #[test]
    fn every_caller_fits_where_eighty_permits_are_given_out() {
        let (tiny, texts) = (tiny(), longest_texts());
        let said = longest(&tiny, &texts);
        assert!(check_room(said, ALWAYS_FIT).is_ok());
        assert!(check_room(said, 2 * ALWAYS_FIT).is_err());
    }

    #[test]
    fn who_shares_a_fair_lock_may_say_all_that_there_is_to_be_said() {
        let (tiny, texts) = (tiny(), longest_texts());
        let said = longest(&tiny, &texts);
        assert!(check_room(said, SHARERS).is_ok());
        assert!(bytes_of(&fullest(said, SHARERS)) <= LARGEST_ITEM);
    }
}
