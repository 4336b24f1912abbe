//! A lock item as it stands in a table.

use fairlock_protocol::codec::{self, FORMAT};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::value::{Map, Value};

use crate::some::Few;

/// A holder that entered, or a sharer, has its ticket beside its entry, and every other place in it.
pub(crate) fn lock(item: &LockItem, some: &mut Few) -> Map {
    let own = |entry: &Entry| codec::entry(entry, Some(entry.ticket));
    let mut entered = 1;
    let holder = item.holder.as_ref().map(|holder| {
        let is_beside = some.once_in(2);
        if is_beside {
            entered = holder.ticket.get();
        }
        codec::entry(holder, (!is_beside).then_some(holder.ticket))
    });
    let mut drawn = Map::new();
    let sharers = item.sharers.iter().map(|sharer| {
        let (nonce, is_beside) = (sharer.nonce.to_string(), some.once_in(2));
        if is_beside {
            drawn.insert(nonce.clone(), Value::number(sharer.ticket));
        }
        (
            nonce,
            codec::entry(sharer, (!is_beside).then_some(sharer.ticket)),
        )
    });
    let sharers: Map = sharers.collect();
    let always = [
        ("format", Value::number(FORMAT)),
        ("permits", Value::number(item.permits)),
        ("last", Value::number(item.last)),
        ("seated", Value::number(item.seated)),
        ("left", Value::number(item.left)),
        ("entered", Value::number(entered)),
        ("taken", Value::number(item.taken)),
        ("holder", holder.unwrap_or(Value::M(Map::new()))),
        ("sharers", Value::M(sharers)),
        ("drawn", Value::M(drawn)),
        ("heirs", Value::L(item.heirs.iter().map(own).collect())),
    ];
    let at_times = [
        (
            "data",
            item.data.as_ref().map(|data| Value::B(data.to_vec())),
        ),
        ("written", item.written.map(codec::written)),
        ("drawn_at", item.drawn_at.map(|at| Value::millis(at.0))),
        ("grace_ms", item.grace.map(Value::millis)),
        ("granted_at", item.granted_at.map(|at| Value::millis(at.0))),
        (
            "expires_at",
            (item.expires_at > 0).then(|| Value::number(item.expires_at)),
        ),
    ];
    let at_times = at_times
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let all = always.into_iter().chain(at_times);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}
