//! What the locks protect: one cell for each lock, which remembers the newest token and refuses older ones.

use std::collections::BTreeMap;
use std::sync::Mutex;

#[derive(Debug, Default)]
pub(crate) struct Registers(Mutex<BTreeMap<String, u64>>);

impl Registers {
    /// Returns whether the write was accepted.
    pub(crate) fn write(&self, lock: &str, token: u64) -> bool {
        let mut newest = self.0.lock().unwrap();
        let newest = newest.entry(lock.to_owned()).or_default();
        let accepted = token >= *newest;
        *newest = token.max(*newest);
        accepted
    }
}
