//! Violations, in words.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::tell::tell;

/// How many are kept in words. The rest are counted.
const KEPT: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Findings {
    count: AtomicU64,
    words: Mutex<Vec<String>>,
}

impl Findings {
    pub(crate) fn add(&self, what: String) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() < KEPT {
            tell(format_args!("violation    {what}"));
            words.push(what);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.words.lock();
        words.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
