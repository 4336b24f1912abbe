//! What an answer shows of the table: a lock item, and the rows of tickets.

use std::str::FromStr;

use serde_json::Value;

/// A lock item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) last: u64,
    pub(crate) watermark: u64,
    /// In ticket order.
    pub(crate) sharers: Vec<Place>,
    /// In queue order. The first slot holds the lock as soon as the sharers leave enough permits for it.
    pub(crate) slots: Vec<Place>,
    /// The count of permits that the sharers leave, and how many permits the callers name.
    pub(crate) room: (i64, u64),
    /// How many permits there are by now, if an operator has changed the number.
    pub(crate) resized: Option<u64>,
    /// When DynamoDB may delete the item, in seconds since 1970.
    pub(crate) expires_at: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The newest of its tickets, and the first.
    pub(crate) ticket: u64,
    pub(crate) first: u64,
    pub(crate) nonce: String,
    pub(crate) permits: u64,
    pub(crate) beat: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The newest of its tickets, and the first.
    pub(crate) ticket: u64,
    pub(crate) first: u64,
    nonce: Option<String>,
    pub(crate) state: State,
}

/// In the order in which a row goes through these states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Waiting { beat: u64 },
    Void,
}

impl Shown {
    /// The lock item in an answer, or the first of the answer's items.
    pub(crate) fn of(answer: &Value) -> Option<Shown> {
        let item = items(answer).find(|item| !item["watermark"].is_null())?;
        Some(Shown {
            last: number(&item["last"])?,
            watermark: number(&item["watermark"])?,
            sharers: sharers(item),
            room: (number(&item["room"])?, number(&item["permits"])?),
            resized: number(&item["resized"]),
            expires_at: number(&item["expires_at"]),
            slots: list(&item["slots"]["L"])
                .filter_map(|entry| Place::of(entry, item))
                .collect(),
        })
    }

    /// The places that hold the lock, and behind them those that wait for it.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.holders().into_iter().chain(self.successors())
    }

    /// The places that hold the lock, in ticket order.
    pub(crate) fn holders(&self) -> Vec<&Place> {
        let first = &self.slots[..self.first_successor()];
        let mut holders: Vec<_> = first.iter().chain(&self.sharers).collect();
        holders.sort_by_key(|holder| holder.ticket);
        holders
    }

    pub(crate) fn successors(&self) -> &[Place] {
        &self.slots[self.first_successor()..]
    }

    /// How many of the slots hold the lock: one or none.
    fn first_successor(&self) -> usize {
        let (room, permits) = self.room;
        let has_it = |first: &&Place| {
            let fits = first.permits < permits
                && i64::try_from(first.permits).is_ok_and(|share| share <= room);
            self.sharers.is_empty() || fits
        };
        self.slots.iter().take(1).filter(has_it).count()
    }
}

impl Place {
    /// A single caller does not know its ticket when it writes its entry, so the ticket is read from the item.
    fn of(entry: &Value, item: &Value) -> Option<Place> {
        let nonce = entry["M"]["nonce"]["S"].as_str()?.to_owned();
        let beside = number(&item[&nonce]);
        let ticket = number(&entry["M"]["ticket"]).or(beside)?;
        let beat = number(&entry["M"]["beat"])?;
        Some(Place {
            ticket,
            first: first_of(ticket, &entry["M"]["tickets"]),
            nonce,
            permits: number(&entry["M"]["permits"])?,
            beat,
        })
    }
}

impl State {
    pub(crate) fn beat(self) -> Option<u64> {
        match self {
            State::Waiting { beat } => Some(beat),
            State::Void => None,
        }
    }
}

impl Row {
    /// The rows in an answer, or the one in a request that puts it.
    pub(crate) fn all(body: &Value) -> Vec<Row> {
        items(body).filter_map(Row::of).collect()
    }

    fn of(item: &Value) -> Option<Row> {
        let entry = &item["entry"]["M"];
        let (state, tickets) = match item["state"]["S"].as_str()? {
            "void" => (State::Void, &item["tickets"]),
            _ => {
                let beat = number(&entry["beat"])?;
                (State::Waiting { beat }, &entry["tickets"])
            }
        };
        let ticket = ticket_of(item["sk"]["S"].as_str()?)?;
        let nonce = entry["nonce"]["S"].as_str();
        Some(Row {
            ticket,
            first: first_of(ticket, tickets),
            nonce: nonce.map(str::to_owned),
            state,
        })
    }

    pub(crate) fn waits_for(&self, nonce: &str) -> bool {
        self.state != State::Void && self.nonce.as_deref() == Some(nonce)
    }
}

fn sharers(item: &Value) -> Vec<Place> {
    let sharers = item["sharers"]["M"].as_object().into_iter().flatten();
    let sharers = sharers.filter_map(|(_, entry)| Place::of(entry, item));
    let mut sharers: Vec<_> = sharers.collect();
    sharers.sort_by_key(|sharer| sharer.ticket);
    sharers
}

/// The ticket whose row has this sort key.
pub(crate) fn ticket_of(sort_key: &str) -> Option<u64> {
    sort_key.rsplit('/').next()?.parse().ok()
}

/// The first ticket of a place: the tickets just before `ticket` may have been drawn together with it.
fn first_of(ticket: u64, tickets: &Value) -> u64 {
    (ticket + 1).saturating_sub(number(tickets).unwrap_or(1))
}

pub(crate) fn number<T: FromStr>(value: &Value) -> Option<T> {
    value["N"].as_str()?.parse().ok()
}

fn items(body: &Value) -> impl Iterator<Item = &Value> {
    let one = [&body["Attributes"], &body["Item"]].into_iter();
    one.chain(list(&body["Items"]))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
