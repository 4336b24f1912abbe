//! Reads a lock, or all locks of a table, without taking part.

use std::time::Duration;

use crate::queue::{self, Page};
use crate::store::requests::{Requests, RetryPolicy};
use crate::store::{ScanPlace, Store, Timed};
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::{LockState, ReadAt};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::TicketRow;

/// Rows read at a time. A page ends at a megabyte, which is some 3,000 rows.
const ROWS: usize = 1000;
/// A `Date` is a whole second.
const GRAIN: Duration = Duration::from_secs(1);

/// Reads the lock item and all of the queue. The pages are not one snapshot: a waiter that got a slot meanwhile is shown once, where the
/// lock item had it.
pub(crate) async fn lock(
    requests: &Requests,
    name: &LockName,
    policy: &RetryPolicy,
) -> Result<LockState, Failure> {
    let store = &requests.store;
    let read = requests.retry(policy, || queue::read(store, name, None, ROWS));
    let Timed { value, reading, .. } = read.await?;
    let Page {
        lock,
        mut rows,
        mut next,
    } = value;
    let Some(item) = lock else {
        return Ok(LockState::unused(name));
    };
    // Ends because each page starts behind the page before, and there are no tickets after the newest.
    while let Some(from) = next.filter(|_| {
        rows.last()
            .is_none_or(|row: &TicketRow| row.ticket < item.last)
    }) {
        let read = || queue::read(store, name, Some(from.clone()), ROWS);
        let page = requests.retry(policy, read).await?.value;
        rows.extend(page.rows);
        next = page.next;
    }
    let at = read_at(store, reading.date);
    Ok(LockState::of(name, &item, at).with_queue(&item, &rows, at))
}

/// The locks on one page of the table, and where to go on. An item that is not a valid item of a lock is an error of its own.
pub(crate) async fn page(
    requests: &Requests,
    policy: &RetryPolicy,
    from: Option<ScanPlace>,
) -> Result<(Vec<Result<LockState, Failure>>, Option<ScanPlace>), Failure> {
    let store = &requests.store;
    let scan = || store.scan_lock_items(from.clone());
    let Timed {
        value: (found, next),
        reading,
        ..
    } = requests.retry(policy, scan).await?;
    let at = read_at(store, reading.date);
    let states = found
        .into_iter()
        .map(|(name, item)| item.map(|item| LockState::of(&name, &item, at)));
    Ok((states.collect(), next))
}

fn read_at(store: &Store, date: Option<ServerTime>) -> ReadAt {
    ReadAt {
        // A `Date` is a second coarse.
        now: date.map(|date| ServerTime(date.0.saturating_sub(GRAIN))),
        boot: store.boot_began(),
    }
}
