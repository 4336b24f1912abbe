//! A lock item as it stands in a table.

use fairlock_protocol::codec::{self, FORMAT};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::value::{Map, Value};

use crate::some::Few;

/// A place has its ticket in its entry, or beside it, if it is of a nonce that came by a seat or a share: that of a holder which entered
/// stands by itself.
pub(crate) fn lock(item: &LockItem, some: &mut Few) -> Map {
    let (mut entered, mut drawn) = (1, Map::new());
    let mut placed = |entry: &Entry| {
        let is_beside = Few::comes_by_itself(entry.nonce);
        if is_beside {
            drawn.insert(entry.nonce.to_string(), Value::number(entry.ticket));
        }
        codec::entry(entry, (!is_beside).then_some(entry.ticket))
    };
    let holder = item.holder.as_ref().map(|holder| {
        if !Few::comes_by_itself(holder.nonce) && some.once_in(2) {
            entered = holder.ticket.get();
            return codec::entry(holder, None);
        }
        placed(holder)
    });
    let sharers = item.sharers.iter();
    let sharers = sharers.map(|sharer| (sharer.nonce.to_string(), placed(sharer)));
    let sharers: Map = sharers.collect();
    let heirs = item.heirs.iter().map(placed).collect();
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
        ("heirs", Value::L(heirs)),
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

/// Whether it has tickets beside its places of somebody who has none.
pub(crate) fn has_litter(item: &Map, read: &LockItem) -> bool {
    let nonces: Vec<_> = read
        .entries()
        .map(|entry| entry.nonce.to_string())
        .collect();
    let drawn = item.get("drawn").and_then(Value::as_m);
    let mut drawn = drawn.into_iter().flat_map(Map::keys);
    drawn.any(|nonce| !nonces.contains(nonce))
}
