//! The items of a lock, to and from DynamoDB's attributes. An item that does not read as fairlock's is a typed problem.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::bytes::Bytes;
use crate::entry::{Attributes, Entry, Nonce, ServerTime, Unknown};
use crate::item::{LockItem, Notice, RowState, TicketRow, Written, signed, sum};
use crate::moment::HostTime;
use crate::notification::is_address;
use crate::problem::ItemProblem;
use crate::stamps::Stamps;
use crate::ticket::Ticket;
use crate::value::{Map, Value};

/// The format that this version writes, and the newest that it reads. Format 1 had no permits. In format 2, every successor had its ticket
/// in its entry. In format 3, a write promoted a holder. In format 4, one clock judged, and no entry had a session.
pub const FORMAT: u64 = 5;

/// What this version writes into an entry, except the address. Other attributes there are carried along.
const OF_ENTRY: [&str; 15] = [
    "nonce",
    "owner",
    "ticket",
    "tickets",
    "permits",
    "attributes",
    "id",
    "beat",
    "session",
    "bound_beat",
    "lease_ms",
    "renewed_at",
    "renewed_on_host",
    "since",
    "given_back",
];

/// What stands in an entry that was given back: that it stands there is all that counts.
pub(crate) const GIVEN_BACK: u64 = 1;

/// The attributes of an entry's stamps, by DynamoDB's clock and by a host's.
const RENEWED: [&str; 2] = ["renewed_at", "renewed_on_host"];
/// The attributes of the newest draw's stamps.
const DRAWN: [&str; 2] = ["drawn_at", "drawn_on_host"];

/// An entry as it is stored. It has no ticket of its own if the very write that gives the place draws the ticket: then the ticket stands on
/// the item, under the nonce.
pub fn entry(entry: &Entry, ticket: Option<Ticket>) -> Value {
    let mut map = entry.unknown.attributes();
    map.extend([
        ("nonce".into(), Value::text(entry.nonce.to_string())),
        ("owner".into(), Value::text(entry.owner.as_str())),
        ("lease_ms".into(), Value::millis(entry.lease)),
        ("permits".into(), Value::number(entry.permits)),
    ]);
    map.extend(ticket.map(|ticket| ("ticket".into(), Value::number(ticket.get()))));
    map.extend(several(entry.tickets));
    map.extend(described(&entry.attributes));
    map.extend(entry.id.as_ref().map(|id| ("id".into(), Value::text(id))));
    map.extend(beat(entry));
    let stamps = RENEWED.into_iter().zip(entry.stamps.parts());
    map.extend(stamps.filter_map(|(name, at)| Some((name.into(), Value::millis(at?)))));
    map.extend(entry.since.map(|at| ("since".into(), Value::millis(at.0))));
    let given_back = { entry.given_back }.then(|| Value::number(GIVEN_BACK));
    map.extend(given_back.map(|it| ("given_back".into(), it)));
    let address = entry.address.as_ref();
    map.extend(address.map(|address| ("address".into(), Value::text(&**address))));
    Value::M(map)
}

/// An entry has a beat of its own, or it names a session. With both, a client that knows no sessions would take the beat for one that
/// stands still.
fn beat(entry: &Entry) -> Vec<(String, Value)> {
    let beat = Value::number(entry.beat);
    match &entry.session {
        None => vec![("beat".into(), beat)],
        Some(session) => vec![
            ("session".into(), Value::text(&**session)),
            ("bound_beat".into(), beat),
        ],
    }
}

/// Reads a lock item. Its format comes first: nothing else in a newer format can be understood.
pub fn lock_item(item: &Map, ttl: &str) -> Result<LockItem, ItemProblem> {
    let format = integer(item, "format")?;
    if format > FORMAT {
        return Err(ItemProblem::NewerFormat {
            found: format,
            known: FORMAT,
        });
    }
    // None of this version's writes would ever apply to it, and a waiter would try for ever.
    if format < FORMAT {
        return Err(ItemProblem::OlderFormat {
            found: format,
            known: FORMAT,
        });
    }
    let slots = list(item, "slots")?
        .iter()
        .map(|entry| read_placed(map_of(entry, "slots")?, item));
    let item = LockItem {
        permits: integer(item, "permits")?,
        resized: optional(item, "resized", "resized")?,
        resizes: optional(item, "resizes", "resizes")?.unwrap_or(0),
        room: parse_integer(required(item, "room")?, "room")?,
        last: Ticket::new(integer(item, "last")?),
        watermark: Ticket::new(integer(item, "watermark")?),
        departures: integer(item, "departures")?,
        sharers: read_sharers(item)?,
        slots: slots.collect::<Result<_, _>>()?,
        data: read_data(item)?,
        written: read_written(item)?,
        drawn: read_stamps(item, DRAWN)?,
        join_timeout: optional(item, "join_timeout_ms", "join_timeout_ms")?
            .map(Duration::from_millis),
        granted_at: read_time(item, "granted_at")?,
        expires_at: optional(item, ttl, "the TTL attribute")?.unwrap_or(0),
        asked: read_notice(item.get("asked")),
        asks: read_asks(item.get("asked")).unwrap_or(0),
        broken: read_notice(item.get("broken")),
    };
    check(&item)?;
    Ok(item)
}

/// Returns the lock item, if it has as many permits as the caller says, or if the caller says no number.
pub fn total_permits(item: LockItem, said: Option<u64>) -> Result<LockItem, ItemProblem> {
    match said {
        Some(said) if said != item.permits => Err(ItemProblem::Permits {
            found: item.permits,
            said,
        }),
        _ => Ok(item),
    }
}

/// Reads a ticket's row.
pub fn ticket_row(item: &Map, ticket: Ticket, ttl: &str) -> Result<TicketRow, ItemProblem> {
    let entry = item
        .get("entry")
        .map(|entry| map_of(entry, "entry"))
        .transpose()?;
    let state = match string(item, "state")? {
        "waiting" => {
            let entry = entry.ok_or(ItemProblem::Missing { attribute: "entry" })?;
            RowState::Waiting(read_waiting(entry, ticket)?)
        }
        "void" => RowState::Void(entry.map(read_nonce).transpose()?),
        _ => {
            return Err(ItemProblem::WrongType {
                attribute: "state",
                expected: "`waiting` or `void`",
            });
        }
    };
    let tickets = match &state {
        RowState::Waiting(entry) => entry.tickets,
        RowState::Void(_) => read_tickets(item, ticket)?,
    };
    Ok(TicketRow {
        ticket,
        tickets,
        state,
        // No decision depends on it.
        expires_at: read_expiry(item, ttl),
    })
}

fn read_expiry(row: &Map, ttl: &str) -> u64 {
    let digits = row.get(ttl).and_then(Value::as_n);
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A row's entry goes to the lock item as it is, so it must be of the row's own ticket.
fn read_waiting(entry: &Map, ticket: Ticket) -> Result<Entry, ItemProblem> {
    let rule = "a row is of the ticket in its key";
    let entry = read_entry(entry, Some(ticket))?;
    if entry.ticket == ticket {
        Ok(entry)
    } else {
        Err(ItemProblem::Inconsistent { rule })
    }
}

/// Checks the invariants on which every decision relies.
fn check(item: &LockItem) -> Result<(), ItemProblem> {
    let rules = [
        (
            item.last < Ticket::new(u64::MAX),
            "the counter is not at its end",
        ),
        (
            item.watermark <= item.last,
            "no ticket is below the watermark before it is drawn",
        ),
        (
            is_counted(item),
            "sharers leave as many permits as are counted as left",
        ),
        (
            item.entries().all(|entry| entry.permits <= item.permits),
            "nobody takes more permits than there are",
        ),
        (
            item.slots.is_sorted_by(|a, b| a.ticket < b.ticket),
            "slots are in ticket order",
        ),
        (
            item.entries().all(|entry| entry.ticket <= item.watermark),
            "whoever stands on the item has a ticket up to the watermark",
        ),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(ItemProblem::Inconsistent { rule }),
        None => Ok(()),
    }
}

/// The room is below zero only where the number of permits was changed.
fn is_counted(item: &LockItem) -> bool {
    let shared = item.sharers.iter().map(|sharer| sharer.permits);
    let (shared, there_are) = (signed(sum(shared)), signed(item.there_are()));
    let is_left = item.room >= 0 || item.resized.is_some();
    is_left && item.room.checked_add(shared) == Some(there_are)
}

/// Reads the sharers, each by its nonce.
fn read_sharers(item: &Map) -> Result<Vec<Entry>, ItemProblem> {
    let rule = "sharers stand under their nonces";
    let sharers = map_of(required(item, "sharers")?, "sharers")?.iter();
    let sharers = sharers.map(|(nonce, sharer)| {
        let entry = read_placed(map_of(sharer, "sharers")?, item)?;
        match entry.nonce.to_string() == *nonce {
            true => Ok(entry),
            false => Err(ItemProblem::Inconsistent { rule }),
        }
    });
    let mut sharers = sharers.collect::<Result<Vec<_>, _>>()?;
    sharers.sort_by_key(|sharer| sharer.ticket);
    Ok(sharers)
}

/// Reads an entry on the lock item. If the entry's own write drew its ticket, that write put the ticket beside it.
fn read_placed(map: &Map, item: &Map) -> Result<Entry, ItemProblem> {
    let beside = optional(item, string(map, "nonce")?, "the ticket of a nonce")?;
    read_entry(map, beside.map(Ticket::new))
}

fn read_entry(map: &Map, unless_written: Option<Ticket>) -> Result<Entry, ItemProblem> {
    let ticket = optional(map, "ticket", "ticket")?
        .map(Ticket::new)
        .or(unless_written)
        .ok_or(ItemProblem::Missing {
            attribute: "ticket",
        })?;
    Ok(Entry {
        nonce: read_nonce(map)?,
        owner: string(map, "owner")?.to_owned(),
        ticket,
        tickets: read_tickets(map, ticket)?,
        permits: read_permits(map)?,
        attributes: read_attributes(map)?,
        id: match map.get("id") {
            Some(_) => Some(string(map, "id")?.to_owned()),
            None => None,
        },
        beat: read_beat(map)?,
        session: match map.get("session") {
            Some(_) => Some(Arc::from(string(map, "session")?)),
            None => None,
        },
        lease: Duration::from_millis(integer(map, "lease_ms")?),
        stamps: read_stamps(map, RENEWED)?,
        since: read_time(map, "since")?,
        given_back: optional(map, "given_back", "given_back")?.is_some(),
        address: read_address(map),
        unknown: read_unknown(map),
    })
}

/// Where the owner can be notified. An address that this version could not have written is carried along as an unknown attribute.
fn read_address(map: &Map) -> Option<Arc<str>> {
    let address = map.get("address")?.as_s()?;
    is_address(address).then(|| Arc::from(address))
}

/// The unknown attributes, as far as this version can write their types again.
fn read_unknown(map: &Map) -> Unknown {
    let others = map
        .iter()
        .filter(|(name, value)| !OF_ENTRY.contains(&name.as_str()) && value.is_carried())
        .filter(|(name, _)| *name != "address" || read_address(map).is_none());
    Unknown::of(
        others
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

/// What its caller says of itself, if anything.
fn described(attributes: &Attributes) -> Option<(String, Value)> {
    let each = attributes.iter();
    let map: Map = each
        .map(|(name, value)| (name.clone(), Value::text(value)))
        .collect();
    (!map.is_empty()).then(|| ("attributes".into(), Value::M(map)))
}

fn read_attributes(map: &Map) -> Result<Attributes, ItemProblem> {
    let Some(attributes) = map.get("attributes") else {
        return Ok(Attributes::default());
    };
    let not_strings = ItemProblem::WrongType {
        attribute: "attributes",
        expected: "a map of strings",
    };
    let each = map_of(attributes, "attributes")?.iter();
    let each = each.map(|(name, value)| Some((name.clone(), value.as_s()?.to_owned())));
    let attributes = each.collect::<Option<_>>();
    attributes.map(Attributes::of).ok_or(not_strings)
}

/// How many tickets an entry or a row has, if more than one.
pub fn several(tickets: u64) -> Option<(String, Value)> {
    (tickets > 1).then(|| ("tickets".into(), Value::number(tickets)))
}

/// Reads how many tickets there are: the entry's own, and those just before it.
fn read_tickets(map: &Map, newest: Ticket) -> Result<u64, ItemProblem> {
    let rule = "nobody has more tickets than there were, or none";
    match optional(map, "tickets", "tickets")? {
        None => Ok(1),
        Some(tickets) if (1..=newest.get()).contains(&tickets) => Ok(tickets),
        Some(_) => Err(ItemProblem::Inconsistent { rule }),
    }
}

fn read_permits(map: &Map) -> Result<u64, ItemProblem> {
    let rule = "nobody takes no permits";
    match integer(map, "permits")? {
        0 => Err(ItemProblem::Inconsistent { rule }),
        permits => Ok(permits),
    }
}

fn read_nonce(map: &Map) -> Result<Nonce, ItemProblem> {
    let expected = ItemProblem::WrongType {
        attribute: "nonce",
        expected: "32 lowercase hexadecimal digits",
    };
    Nonce::parse(string(map, "nonce")?).ok_or(expected)
}

fn read_beat(map: &Map) -> Result<u64, ItemProblem> {
    let rule = "an entry has a beat, or a session";
    match (map.contains_key("session"), map.contains_key("beat")) {
        (true, true) => Err(ItemProblem::Inconsistent { rule }),
        (true, false) => integer(map, "bound_beat"),
        (false, _) => integer(map, "beat"),
    }
}

fn read_stamps(map: &Map, [server, host]: [&'static str; 2]) -> Result<Stamps, ItemProblem> {
    let at = optional(map, host, host)?;
    Ok(Stamps {
        server: read_time(map, server)?,
        host: at.map(|ms| HostTime(Duration::from_millis(ms))),
    })
}

/// Returns `None` if no data was written, or if it was removed again.
fn read_data(item: &Map) -> Result<Option<Bytes>, ItemProblem> {
    let not_bytes = ItemProblem::WrongType {
        attribute: "data",
        expected: "bytes",
    };
    let data = item.get("data");
    data.map(|data| data.as_b().map(Bytes::from).ok_or(not_bytes))
        .transpose()
}

fn read_written(item: &Map) -> Result<Option<Written>, ItemProblem> {
    let Some(written) = item.get("written") else {
        return Ok(None);
    };
    let written = map_of(written, "written")?;
    Ok(Some(Written {
        ticket: Ticket::new(integer(written, "ticket")?),
        count: integer(written, "count")?,
    }))
}

/// Which write of which hold this is.
pub fn written(written: Written) -> Value {
    Value::M(Map::from([
        ("ticket".into(), Value::number(written.ticket.get())),
        ("count".into(), Value::number(written.count)),
    ]))
}

/// What somebody says to the holders of some tickets. An empty text is left out, because some engines refuse empty strings.
pub fn notice(notice: &Notice) -> Value {
    let mut map = Map::from([
        ("from".into(), Value::number(notice.from.get())),
        ("to".into(), Value::number(notice.to.get())),
    ]);
    let texts = [("by", &notice.by), ("reason", &notice.reason)];
    map.extend(
        { texts.into_iter() }
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name.into(), Value::text(text))),
    );
    Value::M(map)
}

/// A request to give way, and how many there were, this one included.
pub fn asked(asked: &Notice, count: u64) -> Value {
    match notice(asked) {
        Value::M(mut map) => {
            map.insert("count".into(), Value::number(count));
            Value::M(map)
        }
        other => other,
    }
}

/// The count stands also in a notice that is left out.
fn read_asks(value: Option<&Value>) -> Option<u64> {
    integer(value?.as_m()?, "count").ok()
}

/// Reads a notice. A notice that this version could not have written is left out, because no decision depends on it.
fn read_notice(value: Option<&Value>) -> Option<Arc<Notice>> {
    let map = value?.as_m()?;
    let text = |name| match map.contains_key(name) {
        true => string(map, name).ok().map(str::to_owned),
        false => Some(String::new()),
    };
    let ticket = |name| integer(map, name).ok().map(Ticket::new);
    Some(Arc::new(Notice {
        from: ticket("from")?,
        to: ticket("to")?,
        by: text("by")?,
        reason: text("reason")?,
    }))
}

fn read_time(map: &Map, attribute: &'static str) -> Result<Option<ServerTime>, ItemProblem> {
    Ok(optional(map, attribute, attribute)?.map(|ms| ServerTime(Duration::from_millis(ms))))
}

fn required<'a>(item: &'a Map, attribute: &'static str) -> Result<&'a Value, ItemProblem> {
    item.get(attribute)
        .ok_or(ItemProblem::Missing { attribute })
}

fn integer(item: &Map, attribute: &'static str) -> Result<u64, ItemProblem> {
    parse_integer(required(item, attribute)?, attribute)
}

fn optional(item: &Map, name: &str, attribute: &'static str) -> Result<Option<u64>, ItemProblem> {
    item.get(name)
        .map(|value| parse_integer(value, attribute))
        .transpose()
}

fn parse_integer<T: FromStr>(value: &Value, attribute: &'static str) -> Result<T, ItemProblem> {
    let digits = value.as_n().and_then(|digits| digits.parse().ok());
    digits.ok_or(ItemProblem::WrongType {
        attribute,
        expected: "a whole number below 2^64",
    })
}

fn string<'a>(item: &'a Map, attribute: &'static str) -> Result<&'a str, ItemProblem> {
    let value = required(item, attribute)?.as_s();
    value.ok_or(ItemProblem::WrongType {
        attribute,
        expected: "a string",
    })
}

fn list<'a>(item: &'a Map, attribute: &'static str) -> Result<&'a [Value], ItemProblem> {
    let value = required(item, attribute)?.as_l();
    value.ok_or(ItemProblem::WrongType {
        attribute,
        expected: "a list",
    })
}

fn map_of<'a>(value: &'a Value, attribute: &'static str) -> Result<&'a Map, ItemProblem> {
    value.as_m().ok_or(ItemProblem::WrongType {
        attribute,
        expected: "a map",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Entry {
        Entry {
            nonce: Nonce::new(5),
            owner: "me".into(),
            ticket: Ticket::new(3),
            tickets: 1,
            permits: 1,
            attributes: Attributes::default(),
            id: None,
            beat: 4,
            session: None,
            lease: Duration::from_secs(30),
            stamps: Stamps::default(),
            since: None,
            given_back: false,
            address: None,
            unknown: Unknown::default(),
        }
    }

    fn stored(it: &Entry) -> Map {
        match entry(it, Some(it.ticket)) {
            Value::M(map) => map,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_entry_is_read_as_it_was_stored() {
        let at = Duration::from_millis(1_700_000_000_123);
        let (server, host) = (Some(ServerTime(at)), Some(HostTime(at)));
        for stamps in [(None, None), (server, None), (None, host), (server, host)] {
            let (server, host) = stamps;
            let dated = Entry {
                stamps: Stamps { server, host },
                given_back: server.is_some(),
                session: host.map(|_| "of a client".into()),
                ..plain()
            };
            assert_eq!(read_entry(&stored(&dated), None), Ok(dated));
        }
    }

    /// So a client that knows no sessions does not take it for dead, and its owner's late renewals find no beat.
    #[test]
    fn an_entry_has_a_beat_or_a_session() {
        let bound = Entry {
            session: Some("of a client".into()),
            ..plain()
        };
        let mut map = stored(&bound);
        assert!(!map.contains_key("beat"));
        map.insert("beat".into(), Value::number(4));
        let rule = "an entry has a beat, or a session";
        assert_eq!(
            read_entry(&map, None),
            Err(ItemProblem::Inconsistent { rule })
        );
        let mut map = stored(&bound);
        map.insert("session".into(), Value::number(9));
        assert!(read_entry(&map, None).is_err());
        let mut map = stored(&plain());
        map.remove("beat");
        let attribute = "beat";
        assert_eq!(
            read_entry(&map, None),
            Err(ItemProblem::Missing { attribute })
        );
    }

    #[test]
    fn an_item_of_another_format_is_not_read() {
        let known = FORMAT;
        for found in [FORMAT - 1, FORMAT + 1] {
            let item = Map::from([("format".into(), Value::number(found))]);
            let problem = match found > FORMAT {
                true => ItemProblem::NewerFormat { found, known },
                false => ItemProblem::OlderFormat { found, known },
            };
            assert_eq!(lock_item(&item, "expires_at"), Err(problem));
        }
    }
}
