//! Mistakes that are planted at the table: a write without one of its clauses or effects, or with another effect.

use std::collections::BTreeSet;
use std::time::Duration;

use fairlock_protocol::moment::{HostTime, ServerTime};
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{
    Clause, Effect, EntryEffect, LockWrite, RowChange, RowClause, RowEffect, RowWrite,
};

/// A part of a write that is left out wherever the write is sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mistake {
    /// Of the lock item, or of rows.
    of_rows: bool,
    verb: &'static str,
    /// A clause or an effect that is left out, or an effect that is another.
    part: &'static str,
    kind: String,
    /// How many parts of that kind come before it.
    nth: usize,
}

impl Mistake {
    /// What it is called.
    pub(crate) fn name(&self) -> String {
        let on = if self.of_rows { "row: " } else { "" };
        format!(
            "{on}{}: {} {} {}",
            self.verb, self.part, self.kind, self.nth
        )
    }

    /// The write with the mistake, if it has that part.
    pub(crate) fn made_of(&self, write: &LockWrite) -> Option<LockWrite> {
        if self.of_rows || self.verb != write.verb {
            return None;
        }
        let mut mistaken = write.clone();
        match self.part {
            CLAUSE => {
                let index = self.find(write.clauses.iter().map(clause))?;
                mistaken.clauses.remove(index);
            }
            EFFECT => {
                let index = self.find(write.effects.iter().map(effect))?;
                mistaken.effects.remove(index);
            }
            _ => {
                let index = self.find(write.effects.iter().map(effect))?;
                mistaken.effects[index] = changed(&write.effects[index])?;
            }
        }
        Some(mistaken)
    }

    /// The write with the mistake, if it has that part.
    pub(crate) fn made_of_row(&self, write: &RowWrite) -> Option<RowWrite> {
        if !self.of_rows || self.verb != write.verb {
            return None;
        }
        let mut mistaken = write.clone();
        match (self.part, &mut mistaken.change) {
            (CLAUSE, _) => {
                let index = self.find(write.clauses.iter().map(row_clause))?;
                mistaken.clauses.remove(index);
            }
            (EFFECT, RowChange::Update(effects)) => {
                let index = self.find(effects.iter().map(row_effect))?;
                effects.remove(index);
            }
            _ => return None,
        }
        Some(mistaken)
    }

    /// Why nothing here can notice it, if that is so.
    pub(crate) fn excuse(&self) -> Option<&'static str> {
        let of = (self.part, self.kind.as_str());
        let of_row = format!("row: {}", self.verb);
        let any = |(verb, part, kind, _): &&Allowed| {
            let is_alike = *verb == "*" || *verb == self.verb || (self.of_rows && *verb == of_row);
            is_alike && (*part, *kind) == of
        };
        ALLOWED.iter().find(any).map(|(.., why)| *why)
    }

    fn find(&self, kinds: impl Iterator<Item = String>) -> Option<usize> {
        let alike = kinds.enumerate().filter(|(_, kind)| *kind == self.kind);
        alike.map(|(index, _)| index).nth(self.nth)
    }
}

/// Verb, part and kind of mistakes that change nothing that anybody was promised here, and why.
type Allowed = (&'static str, &'static str, &'static str, &'static str);

const SAME: &str = "all users of a lock say the same permits, and items are of one format";
const STORED: &str = "only the stored form of an item has tickets beside its places";
const PEOPLE: &str = "for people";
const CLOSED: &str = "no ticket is open, and a draw says its own";
const EVER: &str = "what does not say until when stays for ever";
const RETENTION: &str = "an item that would stay longer stays for another client's retention";
const ROWS: &str = "no row waits for a day";
const RENEWED: &str = "the hold is renewed before it is granted, which says so too";
const MOVES: &str = "the other clauses say so: whoever takes the lock moves the newest ticket, or takes a slot with the watermark";
const AGAIN: &str = "the call asks again, at the cost of a request";
const OWN: &str =
    "nobody else puts data beside a hold that has given a part back, nor before it ends";
const BOTH: &str = "a renewal writes a beat and stamps, and each of the two clauses is enough";
const ALIKE: &str = "no two entries have the same beat and the same stamps";
const DATED: &str = "only another caller dates the same draw";
const HOST: &str = "the stamp of a wall clock stays as it was seen";
const VOID: &str = "a void row stays void";
const ROW: &str = "a row has one nonce for ever";
const MORE: &str = "more slots than were meant break no promise: they cost bytes";
const WATCH: &str = "by two clocks an entry is over long after its owner believes in it; it matters where callers watch";

const NAMED: &str =
    "a copy is refused by the beat, and by the name: each of the two clauses is enough";
const END: &str = "no counter comes near its end";

const CHECKS: &str =
    "the turns of an entry matter to checks in transactions, which nobody makes here";
const LATER: &str = "needs a draw that overtakes another by more than the grace of clocks, and a join as slow: not met within 20,000 seeds";
const SHORTER: &str = "needs a join time-out that another caller makes shorter between a read and a draw, and a join as slow: not met within 20,000 seeds";
const GHOST: &str = "needs a waiter that leaves between a read and a fill: its slot ends with its lease; not met within 20,000 seeds";
const NEWER: &str =
    "the next renewal writes newer stamps within a heartbeat, long before older ones end the row";

const DELETED: &str =
    "the rows are deleted all the same, and their tickets are voided again as a gap";
const PASSES: &str = "a settle passes what is void, and what it opens again is a gap of long ago";

const ALLOWED: &[Allowed] = &[
    ("settle", EFFECT, "Settle", DELETED),
    ("settle", CLAUSE, "DeparturesAre", PASSES),
    ("settle", CLAUSE, "WatermarkIs", PASSES),
    ("*", CLAUSE, "Ours", SAME),
    ("*", EFFECT, "Forget", STORED),
    ("*", EFFECT, "GrantedAt", PEOPLE),
    ("*", EFFECT, "Since", PEOPLE),
    ("enter", EFFECT, "JoinTimeout", CLOSED),
    ("enter", EFFECT, "DrawnAt", CLOSED),
    ("enter", EFFECT, "DrawnOnHost", CLOSED),
    ("enter", EFFECT, "StaysUnlessSaid", EVER),
    ("*", CLAUSE, "StaysNoLonger", RETENTION),
    ("row: renew", EFFECT, "Stays", ROWS),
    ("enter", EFFECT, "Stays", RENEWED),
    ("enter over the settled", EFFECT, "Stays", RENEWED),
    ("enter over the settled", CLAUSE, "Free", MOVES),
    ("enter over the settled", CLAUSE, "WatermarkIs", MOVES),
    ("enter over the settled", EFFECT, "FillSlots", AGAIN),
    ("enter", CLAUSE, "SlotsAtMost", MORE),
    ("fill", CLAUSE, "SlotsAtMost", MORE),
    ("leave", EFFECT, "StaysUnlessSaid", EVER),
    ("write data", CLAUSE, "PermitsAre", OWN),
    ("date", CLAUSE, "BeatIs", BOTH),
    ("date", CLAUSE, "StampsAre", BOTH),
    ("date", CLAUSE, "Is", ALIKE),
    ("date", CLAUSE, "NonceIs", ALIKE),
    ("date", CLAUSE, "DrawnAre", DATED),
    ("date", EFFECT, "DrawnOnHost", HOST),
    ("date", CLAUSE, "Waiting", VOID),
    ("void a dead row", CLAUSE, "Waiting", VOID),
    ("void a dead row", CLAUSE, "NonceIs", ROW),
    ("void a dead row", CLAUSE, "BeatIs", WATCH),
    ("evict", CLAUSE, "BeatIs", WATCH),
    ("date", CLAUSE, "LastIs", DATED),
    ("draw", CLAUSE, "LaterDraw", LATER),
    ("draw", CLAUSE, "JoinTimeoutAtLeast", SHORTER),
    ("fill", CLAUSE, "DeparturesAre", GHOST),
    ("leave", EFFECT, "CountDeparture", GHOST),
    ("pass on", CLAUSE, "Is", CHECKS),
    ("pass on", CLAUSE, "TurnsAbove", CHECKS),
    ("row: leave", CLAUSE, "NonceIs", ROW),
    ("row: renew", CLAUSE, "NonceIs", ROW),
    ("row: renew", CLAUSE, "Waiting", VOID),
    ("row: renew", CLAUSE, "BeatBelow", NEWER),
    ("lease out", CLAUSE, "BeatBelow", NAMED),
    ("lease out", CLAUSE, "Unnamed", NAMED),
    ("lease out", EFFECT, "Stays", RENEWED),
    ("share", CLAUSE, "LastBelow", END),
];

const CLAUSE: &str = "clause";
const EFFECT: &str = "effect";
const CHANGED: &str = "changed";

/// The mistakes that can be made in the writes that were seen.
#[derive(Default)]
pub(crate) struct Mistakes(pub(crate) BTreeSet<Mistake>);

impl Mistakes {
    pub(crate) fn saw(&mut self, write: &LockWrite) {
        self.note(
            (false, write.verb, CLAUSE),
            write.clauses.iter().map(clause),
        );
        self.note(
            (false, write.verb, EFFECT),
            write.effects.iter().map(effect),
        );
        let changeable = write.effects.iter().filter(|it| changed(it).is_some());
        self.note((false, write.verb, CHANGED), changeable.map(effect));
    }

    pub(crate) fn saw_row(&mut self, write: &RowWrite) {
        self.note(
            (true, write.verb, CLAUSE),
            write.clauses.iter().map(row_clause),
        );
        if let RowChange::Update(effects) = &write.change {
            self.note((true, write.verb, EFFECT), effects.iter().map(row_effect));
        }
    }

    fn note(
        &mut self,
        (of_rows, verb, part): (bool, &'static str, &'static str),
        kinds: impl Iterator<Item = String>,
    ) {
        let mut before = Vec::new();
        for kind in kinds {
            let nth = before.iter().filter(|it| **it == kind).count();
            before.push(kind.clone());
            self.0.insert(Mistake {
                of_rows,
                verb,
                part,
                kind,
                nth,
            });
        }
    }
}

fn clause(clause: &Clause) -> String {
    match clause {
        Clause::Entry(_, clause) => name(clause),
        clause => name(clause),
    }
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Entry(_, effect) => name(effect),
        effect => name(effect),
    }
}

/// The effect with another number.
fn changed(effect: &Effect) -> Option<Effect> {
    Some(match effect {
        Effect::DrawBeside {
            nonce,
            tickets,
            start,
        } => Effect::DrawBeside {
            nonce: *nonce,
            tickets: tickets - 1,
            start: *start,
        },
        Effect::DrawUpTo(ticket) => Effect::DrawUpTo(Ticket::new(ticket.get() - 1)),
        Effect::Settle(ticket) => Effect::Settle(Ticket::new(ticket.get() + 1)),
        Effect::Entry(at, effect) => Effect::Entry(*at, changed_entry(*effect)?),
        _ => return None,
    })
}

fn changed_entry(effect: EntryEffect) -> Option<EntryEffect> {
    const EARLIER: Duration = Duration::from_secs(60);
    Some(match effect {
        EntryEffect::Beat(beat) => EntryEffect::Beat(beat.saturating_sub(1)),
        EntryEffect::Lease(lease) => EntryEffect::Lease(lease / 2),
        EntryEffect::Stamps(stamps) => EntryEffect::Stamps(Stamps {
            server: stamps.server.map(|it| ServerTime(it.0 - EARLIER)),
            host: stamps.host.map(|it| HostTime(it.0 - EARLIER)),
        }),
        _ => return None,
    })
}

fn row_clause(clause: &RowClause) -> String {
    match clause {
        RowClause::Entry(clause) => name(clause),
        clause => name(clause),
    }
}

fn row_effect(effect: &RowEffect) -> String {
    match effect {
        RowEffect::Entry(effect) => name(effect),
        effect => name(effect),
    }
}

/// The name of a variant.
fn name(variant: &impl std::fmt::Debug) -> String {
    let text = format!("{variant:?}");
    let name = text.split(|it: char| !it.is_alphanumeric()).next();
    name.unwrap_or_default().to_owned()
}
