//! The clauses on an entry, wherever it stands: on the lock item or in a row.

use std::time::Duration;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::ticket::Ticket;
use crate::value::Value;

use super::expression::{Update, Values};

/// What must be true of an entry for a write to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryClause {
    /// The very hold, or slot, that is meant, by its nonce and its ticket. A late copy of an enter can bring one nonce back with a
    /// newer ticket. A request for the hold that ended must not pass for one of the newer hold.
    Is(Nonce, Ticket),
    /// Of this attempt: a row has one ticket for ever.
    NonceIs(Nonce),
    /// The very beat that was seen or judged: a renewal that came meanwhile saves whoever stands there.
    BeatIs(u64),
    /// An earlier beat: a late duplicate must not bring one back that somebody watches.
    BeatBelow(u64),
    /// It takes as many permits as counted: a late duplicate must not free what others have taken since.
    PermitsAre(u64),
    /// So many tickets at the least, two or more, are left at the place to have a turn: whoever had one there before had more.
    TurnsAtLeast(u64),
    /// More tickets are left there: a late copy must not bring an earlier turn back.
    TurnsAbove(u64),
    /// No later date stands there: who renewed since must not look dead by DynamoDB's clock.
    NoLaterDate(ServerTime),
    /// A later date stands there, and is left: DynamoDB's clock was set back, or a slow answer was taken for a late one.
    LaterDate(ServerTime),
    /// It has no date, so that what its owner says of itself is not written over.
    Undated,
}

impl EntryClause {
    /// Whether it is true of an entry, or of there being none.
    pub(super) fn holds(&self, entry: Option<&Entry>) -> bool {
        let date = entry.and_then(|entry| entry.renewed_at);
        let of = |holds: &dyn Fn(&Entry) -> bool| entry.is_some_and(holds);
        match *self {
            EntryClause::Is(nonce, ticket) => of(&|it| it.nonce == nonce && it.ticket == ticket),
            EntryClause::NonceIs(nonce) => of(&|it| it.nonce == nonce),
            EntryClause::BeatIs(beat) => of(&|it| it.beat == beat),
            EntryClause::BeatBelow(beat) => of(&|it| it.beat < beat),
            EntryClause::PermitsAre(share) => of(&|it| it.permits == share),
            EntryClause::TurnsAtLeast(left) => of(&|it| it.tickets >= left),
            EntryClause::TurnsAbove(left) => of(&|it| it.tickets > left),
            EntryClause::NoLaterDate(newest) => date.is_none_or(|date| date <= newest),
            EntryClause::LaterDate(newest) => date.is_some_and(|date| date > newest),
            EntryClause::Undated => date.is_none(),
        }
    }

    /// The same in DynamoDB's language, of the entry at a path.
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
            EntryClause::NoLaterDate(newest) => {
                format!("NOT {}", EntryClause::LaterDate(newest).text(path, values))
            }
            EntryClause::LaterDate(newest) => {
                values.name(":newest", Value::millis(newest.0));
                format!("{path}.#renewed_at > :newest")
            }
            EntryClause::Undated => format!("attribute_not_exists({path}.#renewed_at)"),
        }
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryEffect {
    /// It has this beat.
    Beat(u64),
    /// It has the next beat.
    NextBeat,
    /// It lasts for so long from its date on.
    Lease(Duration),
    /// It was renewed then, by DynamoDB's clock.
    Date(ServerTime),
    /// It has no date: one that another gave it must not make it look dead.
    MissingDateHeader,
    /// It has stood there since then, unless it says since when.
    Since(ServerTime),
    /// It takes so many permits.
    Permits(u64),
    /// It has so many tickets.
    Tickets(u64),
}

impl EntryEffect {
    /// The entry with it.
    pub(super) fn make(self, entry: &mut Entry) {
        match self {
            EntryEffect::Beat(beat) => entry.beat = beat,
            EntryEffect::NextBeat => entry.beat += 1,
            EntryEffect::Lease(lease) => entry.lease = lease,
            EntryEffect::Date(date) => entry.renewed_at = Some(date),
            EntryEffect::MissingDateHeader => entry.renewed_at = None,
            EntryEffect::Since(date) => entry.since = entry.since.or(Some(date)),
            EntryEffect::Permits(permits) => entry.permits = permits,
            EntryEffect::Tickets(tickets) => entry.tickets = tickets,
        }
    }

    /// The same in DynamoDB's language, of the entry at a path.
    pub(super) fn text(self, path: &str, update: &mut Update, values: &mut Values) {
        let (attribute, name, value) = match self {
            EntryEffect::Beat(beat) => ("beat", ":beat", Value::number(beat)),
            EntryEffect::NextBeat => {
                values.number(":one", 1);
                return update.set(format!("{path}.#beat = {path}.#beat + :one"));
            }
            EntryEffect::Lease(lease) => ("lease_ms", ":lease", Value::millis(lease)),
            EntryEffect::Date(date) => ("renewed_at", ":renewed_at", Value::millis(date.0)),
            EntryEffect::MissingDateHeader => return update.remove(format!("{path}.#renewed_at")),
            EntryEffect::Since(date) => {
                values.name(":renewed_at", Value::millis(date.0));
                return update.set(format!(
                    "{path}.#since = if_not_exists({path}.#since, :renewed_at)"
                ));
            }
            EntryEffect::Permits(permits) => ("permits", ":kept", Value::number(permits)),
            EntryEffect::Tickets(tickets) => ("tickets", ":left", Value::number(tickets)),
        };
        values.name(name, value);
        update.set(format!("{path}.#{attribute} = {name}"));
    }
}
