//! A lock item as it is stored in a table.

use fairlock_protocol::codec::{self, FORMAT};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::value::{Map, Value};

use super::engine::TTL;
use super::some::Few;

/// The ticket of a place is in its entry. If the nonce came with its ticket, it is in an attribute beside the entry.
pub(crate) fn lock(item: &LockItem) -> Map {
    let mut beside = Map::new();
    let mut placed = |entry: &Entry| {
        let is_beside = Few::comes_by_itself(entry.nonce);
        if is_beside {
            beside.insert(entry.nonce.to_string(), Value::number(entry.ticket));
        }
        codec::entry(entry, (!is_beside).then_some(entry.ticket))
    };
    let sharers = item.sharers.iter();
    let sharers = sharers.map(|sharer| (sharer.nonce.to_string(), placed(sharer)));
    let sharers: Map = sharers.collect();
    let slots = item.slots.iter().map(placed).collect();
    let always = [
        ("format", Value::number(FORMAT)),
        ("permits", Value::number(item.permits)),
        ("last", Value::number(item.last)),
        ("watermark", Value::number(item.watermark)),
        ("departures", Value::number(item.departures)),
        ("room", Value::number(item.room)),
        ("sharers", Value::M(sharers)),
        ("slots", Value::L(slots)),
    ];
    let at_times = [
        (
            "data",
            item.data.as_ref().map(|data| Value::B(data.to_vec())),
        ),
        ("written", item.written.map(codec::written)),
        ("drawn_at", item.drawn.server.map(|at| Value::millis(at.0))),
        (
            "drawn_on_host",
            item.drawn.host.map(|at| Value::millis(at.0)),
        ),
        ("resized", item.resized.map(Value::number)),
        (
            "resizes",
            (item.resizes > 0).then(|| Value::number(item.resizes)),
        ),
        ("join_timeout_ms", item.join_timeout.map(Value::millis)),
        ("granted_at", item.granted_at.map(|at| Value::millis(at.0))),
        (
            "asked",
            { item.asked.as_deref() }.map(|asked| codec::asked(asked, item.asks)),
        ),
        ("broken", item.broken.as_deref().map(codec::notice)),
        (
            TTL,
            (item.expires_at > 0).then(|| Value::number(item.expires_at)),
        ),
    ];
    let at_times = at_times
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    let all = always.into_iter().chain(at_times);
    let all = all.map(|(name, value)| (name.to_owned(), value));
    all.chain(beside).collect()
}

/// Whether the item has tickets of nonces that have no place any more.
pub(crate) fn has_litter(item: &Map, read: &LockItem) -> bool {
    let nonces: Vec<_> = read
        .entries()
        .map(|entry| entry.nonce.to_string())
        .collect();
    let mut beside = item.keys().filter(|name| Nonce::parse(name).is_some());
    beside.any(|nonce| !nonces.contains(nonce))
}
