//! Every snapshot of a lock item shows its places in ticket order, none above `watermark`. The rows that wait behind the slots are in order
//! too. No two places have a ticket in common.

use super::{Events, exchanges};
use crate::shown::{Row, Shown, State};

pub(super) fn check(events: &Events) -> Result<(), String> {
    for (at, exchange) in exchanges(events) {
        if let Some(shown) = &exchange.shown {
            let (verb, rows) = (exchange.verb, &exchange.rows);
            if !is_in_order(shown) {
                return Err(format!("{at:?}: {verb} shows {shown:?}"));
            }
            if !is_behind(shown.watermark, exchange.behind_the_slots()) {
                return Err(format!("{at:?}: {verb} shows {shown:?} and {rows:?}"));
            }
        }
    }
    Ok(())
}

fn is_in_order(shown: &Shown) -> bool {
    let places = shown.places().map(|place| (place.first, place.ticket));
    let watermark = shown.places().all(|place| place.ticket <= shown.watermark);
    is_apart(0, places) && watermark && is_counted(shown) && shown.watermark <= shown.last
}

/// Whether no more permits are taken than there are, and the count is right. If an operator has changed the number, there may have been
/// more when they were taken.
fn is_counted(shown: &Shown) -> bool {
    let (room, named) = shown.room;
    let permits = shown.resized.unwrap_or(named);
    let held: u64 = shown.holders().iter().map(|holder| holder.permits).sum();
    let shared: u64 = shown.sharers.iter().map(|sharer| sharer.permits).sum();
    room.checked_add_unsigned(shared) == i64::try_from(permits).ok()
        && (held <= permits || shown.resized.is_some())
}

fn is_behind<'a>(watermark: u64, rows: impl Iterator<Item = &'a Row>) -> bool {
    let waiting = rows.filter(|row| row.state != State::Void);
    is_apart(watermark, waiting.map(|row| (row.first, row.ticket)))
}

/// Whether each place begins after the one before it.
fn is_apart(before: u64, mut places: impl Iterator<Item = (u64, u64)>) -> bool {
    let begins = |before, (first, last)| (before < first && first <= last).then_some(last);
    places.try_fold(before, begins).is_some()
}
