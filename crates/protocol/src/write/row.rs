//! The writes on the rows of tickets.

use std::time::Duration;

use crate::codec;
use crate::entry::{Entry, Nonce};
use crate::item::{RowState, TicketRow};
use crate::stamps::Stamps;
use crate::value::{Map, Value};

use super::entry::{EntryClause, EntryEffect};
use super::expression::{Expressions, Update, Values, all_of};

/// The path of the entry in a row.
const ENTRY: &str = "#entry";

/// What must be true of a row for a write to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowClause {
    /// There is no row: a void row means that this write comes too late.
    NoRow,
    /// The row is a waiter's: a void row stays void.
    Waiting,
    /// The ticket is settled.
    Void,
    /// There is a row, waiting or void.
    ARow,
    /// A clause on the entry of the waiter that stands, or stood, there.
    Entry(EntryClause),
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowEffect {
    /// This many tickets of the row are settled.
    Void(u64),
    /// What becomes of the waiter's entry.
    Entry(EntryEffect),
    /// The row stays until this time.
    Stays(u64),
    /// The row stays until this time, unless it already says until when.
    StaysUnlessSaid(u64),
}

/// What a write does to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// This is the row, whatever was there.
    Put(Box<TicketRow>),
    /// The row changes by these effects.
    Update(Vec<RowEffect>),
    /// The row is deleted.
    Delete,
}

/// A write on a row: it applies if every clause holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWrite {
    /// Its name in errors and logs.
    pub verb: &'static str,
    /// Whether it also applies where there is no row.
    pub or_absent: bool,
    /// What must hold.
    pub clauses: Vec<RowClause>,
    /// What it does.
    pub change: RowChange,
}

impl RowClause {
    fn holds(&self, row: Option<&TicketRow>) -> bool {
        match (self, row.map(|row| &row.state)) {
            (RowClause::NoRow, row) => row.is_none(),
            (RowClause::ARow, row) => row.is_some(),
            (RowClause::Waiting, Some(RowState::Waiting(_))) => true,
            (RowClause::Void, Some(RowState::Void(_))) => true,
            (RowClause::Waiting | RowClause::Void, _) => false,
            (RowClause::Entry(clause), Some(RowState::Waiting(entry))) => clause.holds(Some(entry)),
            // Of a void row, only the nonce of its waiter is known.
            (RowClause::Entry(EntryClause::NonceIs(nonce)), Some(RowState::Void(was))) => {
                *was == Some(*nonce)
            }
            (RowClause::Entry(clause), _) => clause.holds(None),
        }
    }

    fn text(&self, values: &mut Values) -> String {
        match self {
            RowClause::NoRow => "attribute_not_exists(#pk)".into(),
            RowClause::Waiting => {
                values.name(":waiting", Value::text("waiting"));
                "#state = :waiting".into()
            }
            RowClause::Void => {
                values.name(":void", Value::text("void"));
                "#state = :void".into()
            }
            RowClause::ARow => {
                values.name(":void", Value::text("void"));
                values.name(":waiting", Value::text("waiting"));
                "(#state = :void OR #state = :waiting)".into()
            }
            RowClause::Entry(clause) => clause.text(ENTRY, values),
        }
    }
}

impl RowEffect {
    fn make(self, row: &mut TicketRow) {
        match (self, &mut row.state) {
            (RowEffect::Void(tickets), state) => {
                row.tickets = tickets;
                *state = RowState::Void(match state {
                    RowState::Waiting(entry) => Some(entry.nonce),
                    RowState::Void(nonce) => *nonce,
                });
            }
            (RowEffect::Entry(effect), RowState::Waiting(entry)) => effect.make(entry),
            (RowEffect::Entry(_), RowState::Void(_)) => {}
            (RowEffect::Stays(expiry), _) => row.expires_at = expiry,
            (RowEffect::StaysUnlessSaid(expiry), _) if row.expires_at == 0 => {
                row.expires_at = expiry
            }
            (RowEffect::StaysUnlessSaid(_), _) => {}
        }
    }

    fn text(self, update: &mut Update, values: &mut Values) {
        match self {
            RowEffect::Void(tickets) => {
                values.name(":void", Value::text("void"));
                values.number(":tickets", tickets);
                update.set("#state = :void, #tickets = :tickets");
            }
            RowEffect::Entry(effect) => effect.text(ENTRY, update, values),
            RowEffect::Stays(expiry) => {
                values.number(":expiry", expiry);
                update.set("#expires_at = :expiry");
            }
            RowEffect::StaysUnlessSaid(expiry) => {
                values.number(":expiry", expiry);
                update.set("#expires_at = if_not_exists(#expires_at, :expiry)");
            }
        }
    }
}

impl RowWrite {
    /// Puts a drawn ticket's row into the queue, unless the ticket is void by now.
    pub fn join(entry: Entry, expiry: u64) -> Self {
        let row = TicketRow {
            ticket: entry.ticket,
            tickets: entry.tickets,
            state: RowState::Waiting(entry),
            expires_at: expiry,
        };
        RowWrite::put("join", row)
    }

    /// Makes tickets void whose row never came. The row's own ticket is the newest of them.
    pub fn void_gap(gap: TicketRow) -> Self {
        RowWrite::put("void a gap", gap)
    }

    fn put(verb: &'static str, row: TicketRow) -> Self {
        RowWrite {
            verb,
            or_absent: false,
            clauses: vec![RowClause::NoRow],
            change: RowChange::Put(Box::new(row)),
        }
    }

    /// Makes the tickets of an expired waiter's row void.
    pub fn void_dead(dead: &Entry) -> Self {
        RowWrite::void_seen("void a dead row", dead.nonce, dead.beat, dead.tickets)
    }

    /// Makes the tickets of a waiter's row void, though its owner may be alive: an operator breaks the place, as it was seen.
    pub fn break_row(nonce: Nonce, beat: u64, tickets: u64) -> Self {
        RowWrite::void_seen("break a row", nonce, beat, tickets)
    }

    fn void_seen(verb: &'static str, nonce: Nonce, beat: u64, tickets: u64) -> Self {
        RowWrite {
            verb,
            or_absent: false,
            clauses: vec![
                RowClause::Entry(EntryClause::NonceIs(nonce)),
                RowClause::Entry(EntryClause::BeatIs(beat)),
                RowClause::Waiting,
            ],
            change: RowChange::Update(vec![RowEffect::Void(tickets)]),
        }
    }

    /// Makes the caller's own tickets void, whether their row came or not: a join that is still under way must not make a row that looks
    /// alive.
    pub fn void_own(nonce: Nonce, tickets: u64, expiry: u64) -> Self {
        RowWrite {
            verb: "leave",
            or_absent: true,
            clauses: vec![RowClause::Entry(EntryClause::NonceIs(nonce))],
            change: RowChange::Update(vec![
                RowEffect::Void(tickets),
                RowEffect::StaysUnlessSaid(expiry),
            ]),
        }
    }

    /// Renews a waiting row.
    pub fn renew(
        nonce: Nonce,
        (beat, lease): (u64, Duration),
        stamps: Stamps,
        expiry: u64,
    ) -> Self {
        let clauses = [EntryClause::NonceIs(nonce), EntryClause::BeatBelow(beat)];
        let effects = [
            EntryEffect::Beat(beat),
            EntryEffect::Lease(lease),
            EntryEffect::Stamps(stamps),
        ];
        let effects = effects.into_iter().map(RowEffect::Entry);
        RowWrite {
            verb: "renew",
            or_absent: false,
            clauses: (clauses.map(RowClause::Entry).into_iter())
                .chain([RowClause::Waiting])
                .collect(),
            change: RowChange::Update(effects.chain([RowEffect::Stays(expiry)]).collect()),
        }
    }

    /// Stamps a row as it was seen.
    pub fn date(seen: &Entry, stamps: Stamps) -> Self {
        RowWrite {
            verb: "date",
            or_absent: false,
            clauses: vec![
                RowClause::Entry(EntryClause::NonceIs(seen.nonce)),
                RowClause::Entry(EntryClause::BeatIs(seen.beat)),
                RowClause::Waiting,
                RowClause::Entry(EntryClause::StampsAre(seen.stamps)),
            ],
            change: RowChange::Update(vec![RowEffect::Entry(EntryEffect::Stamps(stamps))]),
        }
    }

    /// Deletes a row that is still as it was seen.
    pub fn remove(seen: &TicketRow) -> Self {
        RowWrite {
            verb: "delete a settled row",
            or_absent: false,
            clauses: match &seen.state {
                RowState::Void(_) => vec![RowClause::Void],
                RowState::Waiting(entry) => vec![
                    RowClause::Waiting,
                    RowClause::Entry(EntryClause::NonceIs(entry.nonce)),
                    RowClause::Entry(EntryClause::BeatIs(entry.beat)),
                ],
            },
            change: RowChange::Delete,
        }
    }

    /// Deletes the row of a settled ticket, whatever the row says.
    pub fn remove_settled() -> Self {
        RowWrite {
            verb: "delete a settled row",
            or_absent: false,
            clauses: vec![RowClause::ARow],
            change: RowChange::Delete,
        }
    }

    /// Returns the row of this ticket after the write, or `None` if the write does not apply. The inner `None` means that there is no row.
    pub fn apply(&self, row: Option<&TicketRow>, nothing: &TicketRow) -> Option<Option<TicketRow>> {
        let is_absent = self.or_absent && row.is_none();
        let applies = is_absent || self.clauses.iter().all(|clause| clause.holds(row));
        if !applies {
            return None;
        }
        let mut row = row.unwrap_or(nothing).clone();
        Some(match &self.change {
            RowChange::Put(row) => Some((**row).clone()),
            RowChange::Delete => None,
            RowChange::Update(effects) => {
                effects.iter().for_each(|effect| effect.make(&mut row));
                Some(row)
            }
        })
    }

    /// The write in DynamoDB's expression language.
    pub fn expressions(&self) -> Expressions {
        let (mut values, mut update) = (Values::default(), Update::default());
        let clauses = self.clauses.iter().map(|clause| clause.text(&mut values));
        let condition = all_of(clauses);
        if let RowChange::Update(effects) = &self.change {
            effects
                .iter()
                .for_each(|effect| effect.text(&mut update, &mut values));
        }
        Expressions {
            update: update.text(),
            condition: match self.or_absent {
                true => format!("attribute_not_exists(#pk) OR {condition}"),
                false => condition,
            },
            values,
        }
    }

    /// The attributes of a row that is put, apart from its key. Its TTL attribute has the name that the table has for it.
    pub fn attributes(row: &TicketRow, ttl: &str) -> Map {
        let (state, rest) = match &row.state {
            RowState::Waiting(entry) => (
                "waiting",
                Some(("entry".to_owned(), codec::entry(entry, Some(entry.ticket)))),
            ),
            RowState::Void(_) => ("void", codec::several(row.tickets)),
        };
        let always = [
            ("state".to_owned(), Value::text(state)),
            (ttl.to_owned(), Value::number(row.expires_at)),
        ];
        always.into_iter().chain(rest).collect()
    }
}
