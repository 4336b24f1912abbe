//! Remembers the newest keys. If there are too many, the oldest key is forgotten, for which the least is still to come.

use std::collections::BTreeMap;
use std::ops::Range;

/// A bounded set of keys, ordered by when each was noted last.
#[derive(Debug)]
pub(super) struct Recent<K> {
    max: usize,
    keys: BTreeMap<K, u64>,
    ages: BTreeMap<u64, K>,
}

impl<K: Clone + Ord> Recent<K> {
    /// Keeps `max` keys at the most.
    pub(super) fn new(max: usize) -> Self {
        Recent {
            max,
            keys: BTreeMap::new(),
            ages: BTreeMap::new(),
        }
    }

    /// Notes a key as the youngest. Returns the key that is forgotten for it, if there are too many.
    pub(super) fn note(&mut self, key: K) -> Option<K> {
        self.settle(&key);
        let oldest = match self.keys.len() >= self.max {
            true => self.ages.pop_first().map(|(_, oldest)| oldest),
            false => None,
        };
        if let Some(oldest) = &oldest {
            self.keys.remove(oldest);
        }
        let youngest = self.ages.last_key_value();
        let noted = youngest.map_or(0, |(noted, _)| noted + 1);
        self.keys.insert(key.clone(), noted);
        self.ages.insert(noted, key);
        oldest
    }

    /// Forgets a key. Returns whether it was noted.
    pub(super) fn settle(&mut self, key: &K) -> bool {
        let noted = self.keys.remove(key);
        noted.is_some_and(|noted| self.ages.remove(&noted).is_some())
    }

    /// Forgets a key of a range. Returns whether one was noted.
    pub(super) fn settle_one_of(&mut self, keys: Range<K>) -> bool {
        let first = self.keys.range(keys).next().map(|(key, _)| key.clone());
        first.is_some_and(|key| self.settle(&key))
    }

    pub(super) fn oldest(&self) -> Option<&K> {
        self.ages.first_key_value().map(|(_, oldest)| oldest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1024;

    #[test]
    fn where_there_are_too_many_the_oldest_goes_whatever_its_key() {
        let key = |number: usize| u128::MAX - number as u128;
        let mut recent = Recent::new(MAX);
        let forgotten = (0..=MAX).filter_map(|number| recent.note(key(number)));
        assert_eq!(forgotten.collect::<Vec<_>>(), [key(0)]);
        assert!(!recent.settle(&key(0)));
        // Noted again, the key is the youngest, and no other key is forgotten for it.
        assert_eq!(recent.note(key(1)), None);
        assert_eq!(recent.note(key(MAX + 1)), Some(key(2)));
        assert!(recent.settle(&key(1)) && recent.settle(&key(MAX + 1)));
        assert!(!recent.settle(&key(2)) && recent.settle(&key(3)));
        assert!(recent.settle_one_of(key(4)..key(3)) && !recent.settle_one_of(key(4)..key(3)));
    }

    #[test]
    fn what_is_settled_takes_no_room() {
        let mut recent = Recent::new(MAX);
        for key in 0..3 * MAX {
            assert_eq!(recent.note(key), None);
            assert!(recent.settle(&key));
        }
        assert!(recent.is_empty() && recent.ages.is_empty());
    }
}
