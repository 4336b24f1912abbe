//! Stamps what has no date and stands in a caller's way.

use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, LockItem, TicketRow};
use fairlock_protocol::write::{LockWrite, RowWrite};

use crate::name::LockName;
use crate::queue;
use crate::requests::Requests;
use crate::snapshot::Snapshot;
use crate::store::{Store, all_of};

/// The most holds that one write stamps: an expression has 4 KB, and each hold some 150 bytes of the condition.
const DATED_AT_ONCE: usize = 16;

/// Stamps what has no date, if the time is known. A process that enters before any answer told it the time leaves no date before its
/// first renewal. If it dies before that, callers that do not wait could never tell. So a caller that meets the entry stamps it, by one
/// write at most. The same goes for anything else without a date. A failure is left to the next caller.
pub(crate) async fn stamp(requests: &Requests, name: &LockName, snapshot: &Snapshot) {
    if let Err(failure) = send(&requests.store, name, snapshot).await {
        requests.note_throttling(&failure);
        tracing::debug!(lock = %name, %failure, "left what has no date to the next who comes");
    }
}

/// Stamps holds first, the oldest before the others and as many as one write takes. If no hold lacks a date, then the first successor,
/// else the newest ticket of which a row is missing, else the first row. A refusal means that something was renewed, stamped or ended
/// since the snapshot. The next caller stamps what is left.
async fn send(store: &Store, name: &LockName, snapshot: &Snapshot) -> Result<(), Failure> {
    let Some(now) = store.stamp() else {
        return Ok(());
    };
    let permits = all_of(name);
    let write = match first_undated(snapshot) {
        Some(Undated::Holds(holds)) => LockWrite::date_holds(permits, &holds, now),
        Some(Undated::Successor(at, successor)) => {
            LockWrite::date_successor(permits, at, successor, now)
        }
        Some(Undated::Draw) => LockWrite::date_draw(permits, snapshot.item.last, now),
        Some(Undated::Row(entry)) => {
            let write = RowWrite::date(entry, now);
            let dated = queue::write(store, name, entry.ticket, &write).await;
            return dated.map(drop);
        }
        None => return Ok(()),
    };
    store.write(name, &write).await.map(drop)
}

/// What is to be stamped next.
enum Undated<'a> {
    /// As many as one write takes.
    Holds(Vec<(At, &'a Entry)>),
    Successor(At, &'a Entry),
    /// The newest ticket that was drawn.
    Draw,
    Row(&'a Entry),
}

/// Whether anything in the item or the rows has no date.
pub(crate) fn lacks_a_date(snapshot: &Snapshot) -> bool {
    first_undated(snapshot).is_some()
}

fn first_undated(Snapshot { item, rows, .. }: &Snapshot) -> Option<Undated<'_>> {
    let is_undated = |entry: &Entry| entry.renewed_at.is_none();
    let holds = undated_holds(item);
    if !holds.is_empty() {
        return Some(Undated::Holds(holds));
    }
    let successors = item.successors();
    if let Some(index) = successors.iter().position(is_undated) {
        return Some(Undated::Successor(
            item.at_successor(index),
            &successors[index],
        ));
    }
    if item.watermark < item.last && item.drawn_at.is_none() {
        return Some(Undated::Draw);
    }
    let waiting = rows.iter().filter(|row| row.ticket > item.watermark);
    let mut waiting = waiting.filter_map(TicketRow::waiting);
    let row = waiting.find(|entry| is_undated(entry));
    row.map(Undated::Row)
}

/// The holds that one write stamps. They have the same beat, which the write names once. The beat of a hold that was never
/// renewed is zero.
fn undated_holds(item: &LockItem) -> Vec<(At, &Entry)> {
    let holder = item.holder().map(|holder| (At::Slot(0), holder));
    let sharers = item.sharers.iter();
    let sharers = sharers.map(|sharer| (At::Sharer(sharer.nonce), sharer));
    let mut undated: Vec<_> = holder.into_iter().chain(sharers).collect();
    undated.retain(|(_, entry)| entry.renewed_at.is_none());
    undated.sort_by_key(|(_, entry)| entry.ticket);
    let beat = undated.first().map(|(_, oldest)| oldest.beat);
    undated.retain(|(_, entry)| Some(entry.beat) == beat);
    undated.truncate(DATED_AT_ONCE);
    undated
}
