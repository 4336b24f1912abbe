//! Locks for the tests of this folder.

use std::time::{Duration, SystemTime};

use super::lock::{Lock, Place};

/// When all samples are held since: the epoch of these tests.
pub(crate) const THEN: SystemTime = SystemTime::UNIX_EPOCH;

/// A place of one caller, with half a minute of its lease left.
pub(crate) fn place(owner: &str, stage: &str, ticket: u64) -> Place {
    Place {
        ticket: ticket.to_string(),
        tickets: 1,
        owner: owner.to_owned(),
        stage: stage.to_owned(),
        permits: None,
        since: Some(THEN),
        lease_left: Some(Duration::from_secs(30)),
    }
}

/// A lock whose newest ticket is this, that is held, and for which so many wait.
pub(crate) fn contended(name: &str, newest: u64, waiting: u64) -> Lock {
    let first = newest.saturating_sub(waiting);
    let queue = (1..=waiting).map(|nth| {
        let stage = if nth <= 8 { "successor" } else { "waiting" };
        place(&format!("host-{nth}"), stage, first + nth)
    });
    Lock {
        name: name.to_owned(),
        newest_ticket: Some(newest),
        holders: vec![place(&format!("holder-of-{name}"), "holder", first)],
        queue: queue.collect(),
        waiting,
        held_since: Some(THEN),
    }
}

/// A lock whose newest ticket is this, and that no caller holds or waits for.
pub(crate) fn free(name: &str, newest: u64) -> Lock {
    Lock {
        name: name.to_owned(),
        newest_ticket: Some(newest),
        ..Lock::default()
    }
}
