//! Attempts that are over, of which a request may still be applied: what it brings is given up as soon as it is seen.

use std::collections::BTreeMap;

use fairlock_protocol::entry::Nonce;

/// So many are kept at the most.
const MOST: usize = 1024;

/// By nonce, and by when they were noted: where there are too many the oldest goes, for which the least is still to come.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    nonces: BTreeMap<Nonce, u64>,
    ages: BTreeMap<u64, Nonce>,
}

impl Doubts {
    /// Notes one, as the youngest.
    pub(super) fn note(&mut self, nonce: Nonce) {
        self.settle(nonce);
        while self.nonces.len() >= MOST {
            if let Some((_, oldest)) = self.ages.pop_first() {
                self.nonces.remove(&oldest);
            }
        }
        let youngest = self.ages.last_key_value();
        let noted = youngest.map_or(0, |(noted, _)| noted + 1);
        self.nonces.insert(nonce, noted);
        self.ages.insert(noted, nonce);
    }

    /// Forgets one. Whether it was noted.
    pub(super) fn settle(&mut self, nonce: Nonce) -> bool {
        let noted = self.nonces.remove(&nonce);
        noted.is_some_and(|noted| self.ages.remove(&noted).is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nonces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_too_many_the_oldest_goes_whatever_its_nonce() {
        let nonce = |number: usize| Nonce::new(u128::MAX - number as u128);
        let mut doubts = Doubts::default();
        (0..=MOST).for_each(|number| doubts.note(nonce(number)));
        assert!(!doubts.settle(nonce(0)));
        // Noted once more it is the youngest.
        doubts.note(nonce(1));
        doubts.note(nonce(MOST + 1));
        assert!(doubts.settle(nonce(1)) && doubts.settle(nonce(MOST + 1)));
        assert!(!doubts.settle(nonce(2)) && doubts.settle(nonce(3)));
    }

    #[test]
    fn what_is_settled_takes_no_room() {
        let mut doubts = Doubts::default();
        for number in 0..3 * MOST as u128 {
            doubts.note(Nonce::new(number));
            assert!(doubts.settle(Nonce::new(number)));
        }
        assert!(doubts.is_empty() && doubts.ages.is_empty());
    }
}
