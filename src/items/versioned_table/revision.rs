//! The version of an item that was read, the condition of a write on it, and whether a later version shows that the write
//! applied.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::AttributeValue;

use super::Item;
use super::ids::Ids;

/// What stands at a key, as far as versions go.
///
/// # Examples
///
/// ```
/// use fairlock::Version;
///
/// assert_eq!(Version::Number(7).to_string(), "version 7");
/// assert_eq!(Version::Absent.to_string(), "no item");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Version {
    /// No item.
    Absent,
    /// An item without the version attribute, as a writer leaves it that knows nothing of versions.
    Unversioned,
    /// An item of this version.
    Number(u64),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Absent => f.write_str("no item"),
            Version::Unversioned => f.write_str("an item without a version"),
            Version::Number(number) => write!(f, "version {number}"),
        }
    }
}

/// The attributes of an item that belong to fairlock.
#[derive(Clone, Debug)]
pub(super) struct Attributes {
    pub(super) version: String,
    /// A map from the newest versions to the ids of the writes that made them.
    pub(super) writes: String,
}

/// An item as it was read: its version, and the ids of the writes that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) version: Version,
    ids: Ids,
}

/// A value in an attribute of fairlock that no write of this kind has put there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    pub(super) attribute: String,
    pub(super) value: String,
}

/// The condition of a write, ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) expression: &'static str,
    pub(super) names: HashMap<String, String>,
    pub(super) values: Option<Item>,
}

/// What became of a write that was sent and not answered, and whose condition no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Applied,
    /// Not applied, and never will be.
    NotApplied,
    Unknown,
}

impl Attributes {
    /// The version of what was found.
    pub(super) fn version(&self, item: Option<&Item>) -> Result<Version, Foreign> {
        let Some(item) = item else {
            return Ok(Version::Absent);
        };
        let Some(value) = item.get(&self.version) else {
            return Ok(Version::Unversioned);
        };
        let number = value.as_n().ok().and_then(|digits| digits.parse().ok());
        // No number follows the largest one.
        let number = number.filter(|number| *number < u64::MAX);
        number
            .map(Version::Number)
            .ok_or_else(|| foreign(&self.version, value))
    }

    pub(super) fn revision(&self, item: Option<&Item>) -> Result<Revision, Foreign> {
        let version = self.version(item)?;
        let ids = self.ids(item)?;
        // Without its version an item is not the one that the ids were written for.
        let ids = match version {
            Version::Number(_) => ids,
            Version::Absent | Version::Unversioned => Ids::default(),
        };
        Ok(Revision { version, ids })
    }

    /// The item as the caller's closure sees it.
    pub(super) fn stripped(&self, mut item: Item) -> Item {
        item.remove(&self.version);
        item.remove(&self.writes);
        item
    }

    /// The item as the write `id` puts it over `seen`, with the next version.
    pub(super) fn marked(&self, mut item: Item, id: &str, seen: &Revision) -> Item {
        let number = seen.next();
        let version = AttributeValue::N(number.to_string());
        item.remove(&self.writes);
        item.insert(self.version.clone(), version);
        let ids = seen.ids.clone().and(number, id);
        ids.put_into(&mut item, &self.writes);
        item
    }

    fn ids(&self, item: Option<&Item>) -> Result<Ids, Foreign> {
        let value = item.and_then(|item| item.get(&self.writes));
        value.map_or(Ok(Ids::default()), |value| {
            Ids::read(value).ok_or_else(|| foreign(&self.writes, value))
        })
    }
}

fn foreign(attribute: &str, value: &AttributeValue) -> Foreign {
    Foreign {
        attribute: attribute.to_owned(),
        value: format!("{value:?}"),
    }
}

impl Revision {
    /// The version of the next write.
    pub(super) fn next(&self) -> u64 {
        match self.version {
            Version::Absent | Version::Unversioned => 1,
            Version::Number(number) => number + 1,
        }
    }

    /// The id of the write that made this version. Returns `None` if a writer made it that leaves no ids.
    pub(super) fn write(&self) -> Option<&str> {
        match self.version {
            Version::Number(number) => self.ids.at(number),
            Version::Absent | Version::Unversioned => None,
        }
    }

    #[cfg(test)]
    pub(super) fn ids_at(&self, version: u64) -> Option<&str> {
        self.ids.at(version)
    }

    /// The condition that the item is unchanged since it was read. The id of the last write tells the item from another one that
    /// was made again under the same key and has come to the same version.
    pub(super) fn condition(&self, attributes: &Attributes, key: &str) -> Condition {
        let (expression, number) = match (&self.version, self.write()) {
            (Version::Absent, _) => ("attribute_not_exists(#key)", None),
            (Version::Unversioned, _) => (
                "attribute_exists(#key) AND attribute_not_exists(#version)",
                None,
            ),
            (Version::Number(number), Some(_)) => (
                "#version = :version AND #writes.#number = :write",
                Some(number),
            ),
            (Version::Number(number), None) => (
                "#version = :version AND attribute_not_exists(#writes.#number)",
                Some(number),
            ),
        };
        let number = number.map(u64::to_string);
        let names = [
            ("#key", Some(key)),
            ("#version", Some(attributes.version.as_str())),
            ("#writes", Some(attributes.writes.as_str())),
            ("#number", number.as_deref()),
        ];
        let values = [
            (":version", number.clone().map(AttributeValue::N)),
            (
                ":write",
                self.write().map(|id| AttributeValue::S(id.to_owned())),
            ),
        ];
        let names = names
            .into_iter()
            .filter_map(|(name, it)| Some((name, it?.to_owned())));
        let values = values
            .into_iter()
            .filter_map(|(name, it)| Some((name, it?)));
        Condition {
            expression,
            names: used(expression, names),
            values: Some(used(expression, values)).filter(|values| !values.is_empty()),
        }
    }

    /// What the item that stands there now tells of the write `id` on this revision.
    ///
    /// Another write in its place shows that this write was never applied, but only if the item still has the id of the very
    /// write that was read. Otherwise this write may have been applied, and the item deleted and made again.
    pub(super) fn fate(&self, attributes: &Attributes, id: &str, found: Option<&Item>) -> Fate {
        let ids = attributes.ids(found).unwrap_or_default();
        let next = self.next();
        let read = self.write();
        let is_same_item = read.is_some_and(|read| ids.at(next - 1) == Some(read));
        match ids.at(next) {
            Some(write) if write == id => Fate::Applied,
            Some(_) if is_same_item => Fate::NotApplied,
            _ => Fate::Unknown,
        }
    }
}

/// The names or values that the expression uses: DynamoDB refuses unused ones.
fn used<T>(expression: &str, all: impl Iterator<Item = (&'static str, T)>) -> HashMap<String, T> {
    all.filter(|(name, _)| expression.contains(name))
        .map(|(name, it)| (name.to_owned(), it))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::ids::REMEMBERED;
    use super::*;

    fn attributes() -> Attributes {
        Attributes {
            version: "version".into(),
            writes: "writes".into(),
        }
    }

    /// The item after `ids`, one write after the other.
    fn written(ids: &[&str]) -> Option<Item> {
        ids.iter().fold(None, |seen, id| {
            let revision = attributes().revision(seen.as_ref()).unwrap();
            Some(attributes().marked(Item::new(), id, &revision))
        })
    }

    fn fate(base: &[&str], id: &str, found: &[&str]) -> Fate {
        let base = attributes().revision(written(base).as_ref()).unwrap();
        base.fate(&attributes(), id, written(found).as_ref())
    }

    #[test]
    fn a_write_is_recognised_under_those_that_came_after_it() {
        assert_eq!(fate(&["a"], "b", &["a", "b"]), Fate::Applied);
        assert_eq!(fate(&["a"], "b", &["a", "b", "c", "d"]), Fate::Applied);
        assert_eq!(fate(&[], "a", &["a", "b"]), Fate::Applied);
    }

    #[test]
    fn another_write_in_its_place_shows_that_it_never_applied() {
        assert_eq!(fate(&["a"], "b", &["a", "c"]), Fate::NotApplied);
        assert_eq!(fate(&["a"], "b", &["a", "c", "d"]), Fate::NotApplied);
    }

    #[test]
    fn another_first_write_shows_nothing_for_the_item_may_have_been_made_anew() {
        assert_eq!(fate(&[], "a", &["b"]), Fate::Unknown);
    }

    #[test]
    fn an_item_that_was_made_anew_tells_nothing() {
        assert_eq!(fate(&["a"], "b", &["x", "y"]), Fate::Unknown);
        assert_eq!(fate(&["a"], "b", &["x"]), Fate::Unknown);
        assert_eq!(fate(&["a"], "b", &[]), Fate::Unknown);
    }

    #[test]
    fn so_many_later_writes_leave_room_for_the_one_in_doubt_and_no_more() {
        let later: Vec<_> = (0..REMEMBERED).map(|n| format!("later {n}")).collect();
        let of = |first: &str, later: &[String]| {
            let ids = [first, "b"]
                .into_iter()
                .chain(later.iter().map(String::as_str));
            ids.map(str::to_owned).collect::<Vec<_>>()
        };
        for (count, fate_is) in [
            (14, Fate::Applied),
            (15, Fate::Applied),
            (16, Fate::Unknown),
        ] {
            let ids = of("a", &later[..count]);
            let ids: Vec<_> = ids.iter().map(String::as_str).collect();
            assert_eq!(fate(&["a"], "b", &ids), fate_is, "{count} later writes");
        }
        // The write that was read must be there too, to tell another write from the first ones of a new item.
        for (count, fate_is) in [(14, Fate::NotApplied), (15, Fate::Unknown)] {
            let ids = of("a", &later[..count]);
            let ids: Vec<_> = ids.iter().map(String::as_str).collect();
            assert_eq!(fate(&["a"], "other", &ids), fate_is, "{count} later writes");
        }
    }

    #[test]
    fn what_is_no_number_or_the_last_one_is_no_version() {
        for value in [
            AttributeValue::S("7".into()),
            AttributeValue::N("-1".into()),
            AttributeValue::N("1.5".into()),
            AttributeValue::N(u64::MAX.to_string()),
        ] {
            let item = Item::from([("version".to_owned(), value)]);
            assert!(attributes().version(Some(&item)).is_err(), "{item:?}");
        }
        let item = Item::from([("version".to_owned(), AttributeValue::N("0".into()))]);
        assert_eq!(attributes().version(Some(&item)), Ok(Version::Number(0)));
    }

    #[test]
    fn a_condition_names_what_it_uses_and_nothing_else() {
        let unversioned = Some(Item::new());
        let foreign = Some(Item::from([(
            "version".into(),
            AttributeValue::N("3".into()),
        )]));
        for (seen, names, values) in [
            (None, 1, 0),
            (unversioned, 2, 0),
            (foreign, 3, 1),
            (written(&["a", "b"]), 3, 2),
        ] {
            let revision = attributes().revision(seen.as_ref()).unwrap();
            let condition = revision.condition(&attributes(), "id");
            assert_eq!(condition.names.len(), names, "{condition:?}");
            assert_eq!(condition.values.map_or(0, |all| all.len()), values);
        }
    }
}
