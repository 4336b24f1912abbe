//! The clauses on an entry, and what becomes of it, wherever it stands: on the lock item or in a row.

use std::time::Duration;

use crate::codec::GIVEN_BACK;
use crate::entry::{Entry, Nonce, ServerTime};
use crate::stamps::Stamps;
use crate::ticket::Ticket;
use crate::value::Value;

use super::expression::{Update, Values, all_of};

/// The stamps of an entry: its attributes, and the names of what was seen there and of what is written there.
const RENEWED: [(&str, &str, &str); 2] = [
    (".#renewed_at", ":seen_at", ":renewed_at"),
    (".#renewed_on_host", ":seen_on_host", ":renewed_on_host"),
];

/// What must be true of an entry for a write to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryClause {
    /// The entry is exactly the hold or slot that is meant, by its nonce and its ticket. A late copy of an enter can bring a nonce back
    /// with a newer ticket. A request for the hold that ended must not pass for one of the newer hold.
    Is(Nonce, Ticket),
    /// The entry is of this attempt: a row has one ticket for ever.
    NonceIs(Nonce),
    /// The beat is the one that was seen or judged: a renewal in the meantime saves the entry.
    BeatIs(u64),
    /// The beat is below this one: a late duplicate must not bring back a beat that an observer watches.
    BeatBelow(u64),
    /// The entry takes as many permits as counted: a late duplicate must not free permits that others have taken since.
    PermitsAre(u64),
    /// At least this many tickets, two or more, have a turn left at the place. An earlier turn at the place had more left.
    TurnsAtLeast(u64),
    /// More tickets than this are left there: a late copy must not bring an earlier turn back.
    TurnsAbove(u64),
    /// The entry is no lease with an id: a late copy must not take back what a process has made of the lease since.
    Unnamed,
    /// The stamps are the ones that were seen: a caller never overwrites what the owner, or another caller, wrote since.
    StampsAre(Stamps),
}

impl EntryClause {
    /// Whether the clause is true of an entry, or of a missing one.
    pub(super) fn holds(&self, entry: Option<&Entry>) -> bool {
        let of = |holds: &dyn Fn(&Entry) -> bool| entry.is_some_and(holds);
        match *self {
            EntryClause::Is(nonce, ticket) => of(&|it| it.nonce == nonce && it.ticket == ticket),
            EntryClause::NonceIs(nonce) => of(&|it| it.nonce == nonce),
            EntryClause::BeatIs(beat) => of(&|it| it.own_beat() == Some(beat)),
            EntryClause::BeatBelow(beat) => of(&|it| it.own_beat().is_some_and(|it| it < beat)),
            EntryClause::PermitsAre(share) => of(&|it| it.permits == share),
            EntryClause::TurnsAtLeast(left) => of(&|it| it.tickets >= left),
            EntryClause::TurnsAbove(left) => of(&|it| it.tickets > left),
            EntryClause::Unnamed => entry.is_none_or(|it| it.id.is_none()),
            EntryClause::StampsAre(seen) => {
                seen == entry.map_or(Stamps::default(), |entry| entry.stamps)
            }
        }
    }

    /// The clause in DynamoDB's expression language, for the entry at a path.
    pub(super) fn text(&self, path: &str, values: &mut Values) -> String {
        let mut number = |name, number: u64, text: &str| {
            values.number(name, number);
            format!("{path}{text} {name}")
        };
        match *self {
            EntryClause::Is(nonce, ticket) => {
                let nonce = EntryClause::NonceIs(nonce).text(path, values);
                values.number(":held", ticket);
                format!("{nonce} AND {path}.#ticket = :held")
            }
            EntryClause::NonceIs(nonce) => {
                values.name(":nonce", Value::text(nonce.to_string()));
                format!("{path}.#nonce = :nonce")
            }
            EntryClause::BeatIs(beat) => number(":beat", beat, ".#beat ="),
            EntryClause::BeatBelow(beat) => number(":beat", beat, ".#beat <"),
            EntryClause::PermitsAre(share) => number(":share", share, ".#permits ="),
            EntryClause::TurnsAtLeast(left) => number(":left", left, ".#tickets >="),
            EntryClause::TurnsAbove(left) => number(":left", left, ".#tickets >"),
            EntryClause::Unnamed => format!("attribute_not_exists({path}.#id)"),
            EntryClause::StampsAre(seen) => {
                let stamps = RENEWED.map(|(name, seen, _)| (format!("{path}{name}"), seen));
                stamps_are(stamps, seen, values)
            }
        }
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryEffect {
    /// It gets this beat.
    Beat(u64),
    /// It gets the next beat.
    NextBeat,
    /// Its lease lasts this long from its date.
    Lease(Duration),
    /// It was renewed at this time. A part that is absent goes: another's must not make it look expired.
    Stamps(Stamps),
    /// It has stood there since this time, unless it already says since when.
    Since(ServerTime),
    /// Its owner has given it back, and it is kept for the lease.
    GivenBack,
    /// It takes this many permits.
    Permits(u64),
    /// It has this many tickets.
    Tickets(u64),
}

impl EntryEffect {
    /// Applies the effect to the entry.
    pub(super) fn make(self, entry: &mut Entry) {
        match self {
            EntryEffect::Beat(beat) => entry.beat = beat,
            EntryEffect::NextBeat => entry.beat += 1,
            EntryEffect::Lease(lease) => entry.lease = lease,
            EntryEffect::Stamps(stamps) => entry.stamps = stamps,
            EntryEffect::Since(date) => entry.since = entry.since.or(Some(date)),
            EntryEffect::GivenBack => entry.given_back = true,
            EntryEffect::Permits(permits) => entry.permits = permits,
            EntryEffect::Tickets(tickets) => entry.tickets = tickets,
        }
    }

    /// The effect in DynamoDB's expression language, for the entry at a path.
    pub(super) fn text(self, path: &str, update: &mut Update, values: &mut Values) {
        let (attribute, name, value) = match self {
            EntryEffect::Beat(beat) => ("beat", ":beat", Value::number(beat)),
            EntryEffect::NextBeat => {
                values.number(":one", 1);
                return update.set(format!("{path}.#beat = {path}.#beat + :one"));
            }
            EntryEffect::Lease(lease) => ("lease_ms", ":lease", Value::millis(lease)),
            EntryEffect::Stamps(stamps) => {
                for ((name, _, value), at) in RENEWED.into_iter().zip(stamps.parts()) {
                    stamp((&format!("{path}{name}"), value), at, update, values);
                }
                return;
            }
            EntryEffect::Since(date) => {
                values.name(":renewed_at", Value::millis(date.0));
                return update.set(format!(
                    "{path}.#since = if_not_exists({path}.#since, :renewed_at)"
                ));
            }
            EntryEffect::GivenBack => ("given_back", ":given_back", Value::number(GIVEN_BACK)),
            EntryEffect::Permits(permits) => ("permits", ":kept", Value::number(permits)),
            EntryEffect::Tickets(tickets) => ("tickets", ":left", Value::number(tickets)),
        };
        values.name(name, value);
        update.set(format!("{path}.#{attribute} = {name}"));
    }
}

/// Both parts are the ones that were seen, or are absent as they were.
pub(super) fn stamps_are(
    parts: [(String, &'static str); 2],
    seen: Stamps,
    values: &mut Values,
) -> String {
    let parts = parts.into_iter().zip(seen.parts());
    let each = parts.map(|((path, name), seen)| match seen {
        Some(seen) => {
            values.name(name, Value::millis(seen));
            format!("{path} = {name}")
        }
        None => format!("attribute_not_exists({path})"),
    });
    all_of(each)
}

/// Sets a part of stamps, or removes it if it is absent.
pub(super) fn stamp(
    (path, name): (&str, &'static str),
    at: Option<Duration>,
    update: &mut Update,
    values: &mut Values,
) {
    match at {
        Some(at) => {
            values.name(name, Value::millis(at));
            update.set(format!("{path} = {name}"));
        }
        None => update.remove(path),
    }
}
