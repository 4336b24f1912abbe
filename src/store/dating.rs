//! The verb that gives a date to whatever has none and stands in somebody's way.

use crate::name::LockName;
use fairlock_protocol::entry::{Entry, ServerTime};
use fairlock_protocol::item::{At, LockItem, TicketRow};

use super::codec::{self, number, text};
use super::failure::Failure;
use super::lock_item::{ours, placed, seen};
use super::{Store, forms};

/// Holds that one write dates at the most: an expression has 4 KB, and each hold some 150 bytes of the condition.
const DATED_AT_ONCE: usize = 16;

impl Store {
    /// Dates what has no date, if the time is known: holds, the oldest of them first and as many as one write takes; else the
    /// first heir, else the newest ticket of which a row is missing, else the first row. It is one write whatever is there, and
    /// sent only if something has no date. Refused: it was renewed, dated or ended since the look, and the next who comes
    /// dates what is left.
    pub(crate) async fn date(
        &self,
        name: &LockName,
        item: &LockItem,
        rows: &[TicketRow],
    ) -> Result<(), Failure> {
        let Some(now) = self.server.stamp() else {
            return Ok(());
        };
        match first_undated(item, rows) {
            Some(Undated::Holds(holds)) => self.date_holds(name, &holds, now).await,
            Some(Undated::Heir(index, heir)) => self.date_heir(name, index, heir, now).await,
            Some(Undated::Draw) => self.date_draw(name, item, now).await,
            Some(Undated::Row(entry)) => self.date_row(name, entry, now).await,
            None => Ok(()),
        }
    }

    async fn date_holds(
        &self,
        name: &LockName,
        places: &[(At, &Entry)],
        now: ServerTime,
    ) -> Result<(), Failure> {
        let beat = places.first().map_or(0, |(_, oldest)| oldest.beat);
        let mut values = vec![
            (":beat", number(beat)),
            (":renewed_at", codec::millis(now.0)),
        ];
        let holder = places.iter().find(|(at, _)| *at == At::Holder);
        values.extend(holder.map(|(_, holder)| (":nonce", text(holder.nonce.to_string()))));
        let update = joined(places, ", ", |_| forms::DATED);
        let condition = joined(places, " AND ", |at| match at {
            At::Holder => forms::UNDATED_HOLDER,
            At::Sharer(_) | At::Heir(_) => forms::UNDATED,
        });
        let expressions = [format!("SET {update}"), ours(&condition)];
        self.send(name, "date", expressions, values).await.map(drop)
    }

    async fn date_heir(
        &self,
        name: &LockName,
        index: usize,
        heir: &Entry,
        now: ServerTime,
    ) -> Result<(), Failure> {
        let mut values = seen(heir);
        values.push((":renewed_at", codec::millis(now.0)));
        let place = At::Heir(index);
        let dated = self.write_at(name, &forms::DATE_HEIR, place, values);
        dated.await.map(drop)
    }

    async fn date_draw(
        &self,
        name: &LockName,
        item: &LockItem,
        now: ServerTime,
    ) -> Result<(), Failure> {
        let values = vec![
            (":last", number(item.last.get())),
            (":drawn_at", codec::millis(now.0)),
        ];
        let dated = self.write_at(name, &forms::DATE_DRAW, At::Holder, values);
        dated.await.map(drop)
    }
}

/// What is to be dated next.
enum Undated<'a> {
    /// As many as one write takes.
    Holds(Vec<(At, &'a Entry)>),
    Heir(usize, &'a Entry),
    /// The newest ticket that was drawn.
    Draw,
    Row(&'a Entry),
}

/// Whether anything of this has no date.
pub(crate) fn lacks_a_date(item: &LockItem, rows: &[TicketRow]) -> bool {
    first_undated(item, rows).is_some()
}

fn first_undated<'a>(item: &'a LockItem, rows: &'a [TicketRow]) -> Option<Undated<'a>> {
    let is_undated = |entry: &Entry| entry.renewed_at.is_none();
    let holds = undated_holds(item);
    if !holds.is_empty() {
        return Some(Undated::Holds(holds));
    }
    if let Some(index) = item.heirs.iter().position(is_undated) {
        return Some(Undated::Heir(index, &item.heirs[index]));
    }
    if item.seated < item.last && item.drawn_at.is_none() {
        return Some(Undated::Draw);
    }
    let waiting = rows.iter().filter(|row| row.ticket > item.seated);
    let mut waiting = waiting.filter_map(TicketRow::waiting);
    let row = waiting.find(|entry| is_undated(entry));
    row.map(Undated::Row)
}

/// The holds of one write: their beats are the same, which it names once. The beat of a hold that was never renewed is zero.
fn undated_holds(item: &LockItem) -> Vec<(At, &Entry)> {
    let holder = item.holder.iter().map(|holder| (At::Holder, holder));
    let sharers = item.sharers.iter();
    let sharers = sharers.map(|sharer| (At::Sharer(sharer.nonce), sharer));
    let mut undated: Vec<_> = holder.chain(sharers).collect();
    undated.retain(|(_, entry)| entry.renewed_at.is_none());
    undated.sort_by_key(|(_, entry)| entry.ticket);
    let beat = undated.first().map(|(_, oldest)| oldest.beat);
    undated.retain(|(_, entry)| Some(entry.beat) == beat);
    undated.truncate(DATED_AT_ONCE);
    undated
}

/// What is to be said of each place, in one expression.
fn joined(places: &[(At, &Entry)], between: &str, form: impl Fn(At) -> &'static str) -> String {
    let each = places.iter().map(|(at, _)| placed(form(*at), *at));
    each.collect::<Vec<_>>().join(between)
}
