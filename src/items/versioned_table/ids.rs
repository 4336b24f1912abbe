//! The ids of an item's newest writes, by the versions that they made.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::store::size::{LARGEST_ITEM, bytes_of};

use super::Item;

/// The most ids that an item keeps. A writer whose answer was lost finds its own id among them, or the id of the write in its
/// place. It finds neither if more writes came before it read the item.
pub(super) const REMEMBERED: usize = 16;

/// The ids of an item's newest writes, by the versions that they made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ids(BTreeMap<u64, String>);

impl Ids {
    /// The ids in an attribute's value. Returns `None` if the value is something else, which a write here would destroy.
    pub(super) fn read(value: &AttributeValue) -> Option<Self> {
        let ids = value.as_m().ok()?.iter().map(|(version, id)| {
            let id = id.as_s().ok()?.clone();
            Some((version.parse().ok()?, id))
        });
        ids.collect::<Option<_>>().map(Ids)
    }

    /// The id of the write that made `version`.
    pub(super) fn at(&self, version: u64) -> Option<&str> {
        self.0.get(&version).map(String::as_str)
    }

    /// These ids after the write `id` has made `version`. Ids of later versions belong to an item that was there before, and are
    /// forgotten.
    pub(super) fn and(mut self, version: u64, id: &str) -> Self {
        self.0.split_off(&version);
        self.0.insert(version, id.to_owned());
        // Ends because each turn removes an id.
        while self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
        self
    }

    /// Adds the ids to an item, without the oldest ones if the item would otherwise be too large for DynamoDB. The newest stays
    /// in any case: without it no write could be told from another.
    pub(super) fn put_into(mut self, item: &mut Item, attribute: &str) {
        let rest = bytes_of(item);
        loop {
            let ids = Item::from([(attribute.to_owned(), self.value())]);
            // Ends because each turn removes an id, down to a single one.
            if rest + bytes_of(&ids) <= LARGEST_ITEM || self.0.len() <= 1 {
                item.extend(ids);
                return;
            }
            self.0.pop_first();
        }
    }

    fn value(&self) -> AttributeValue {
        let ids = self
            .0
            .iter()
            .map(|(version, id)| (version.to_string(), AttributeValue::S(id.clone())));
        AttributeValue::M(ids.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: u64) -> Ids {
        (1..=count).fold(Ids::default(), |ids, version| {
            ids.and(version, &format!("{version:032}"))
        })
    }

    fn versions(item: &Item) -> Vec<u64> {
        Ids::read(&item["ids"]).unwrap().0.into_keys().collect()
    }

    #[test]
    fn the_newest_are_kept_and_those_of_an_item_before_it_are_not() {
        assert_eq!(ids(3).at(2), Some(format!("{:032}", 2).as_str()));
        let many: Vec<_> = ids(40).0.into_keys().collect();
        assert_eq!(many, (25..=40).collect::<Vec<_>>());
        let again: Vec<_> = ids(5).and(2, "again").0.into_keys().collect();
        assert_eq!(again, [1, 2]);
    }

    #[test]
    fn as_many_are_kept_as_the_item_has_room_for_and_at_least_the_newest() {
        // An id takes its 32 bytes, one or two for its version and one as an element; the map three, its name three.
        let large = |left: usize| {
            let text = "x".repeat(LARGEST_ITEM - "big".len() - left);
            Item::from([("big".to_owned(), AttributeValue::S(text))])
        };
        for (left, kept) in [
            (1000, (1..=9).collect()),
            (6 + 9 * 34, (1..=9).collect()),
            (6 + 9 * 34 - 1, (2..=9).collect::<Vec<_>>()),
            (6 + 34, vec![9]),
            (0, vec![9]),
        ] {
            let mut item = large(left);
            ids(9).put_into(&mut item, "ids");
            assert_eq!(versions(&item), kept, "{left} bytes are left");
        }
    }

    #[test]
    fn what_is_no_map_of_versions_to_ids_is_not_ours() {
        let map = |key: &str, value| AttributeValue::M([(key.to_owned(), value)].into());
        let text = || AttributeValue::S("x".into());
        for value in [
            text(),
            AttributeValue::Null(true),
            map("one", text()),
            map("1", AttributeValue::Bool(true)),
        ] {
            assert_eq!(Ids::read(&value), None, "{value:?}");
        }
        assert_eq!(Ids::read(&map("1", text())).unwrap().at(1), Some("x"));
    }
}
