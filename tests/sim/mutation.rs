//! What would go wrong if one condition of one write were missing, one write were another, or one clock ran slow: done
//! to the wire and to the clock, never to the product.

use serde_json::Value;

use crate::plan::{APART, HostPlan};

/// Where a request says for how long an entry lives.
const LEASES: [&str; 4] = [
    "/ExpressionAttributeValues/:me/M/lease_ms/N",
    "/ExpressionAttributeValues/:me/L/0/M/lease_ms/N",
    "/ExpressionAttributeValues/:lease/N",
    "/Item/entry/M/lease_ms/N",
];
/// Where a request says how many tickets a place has that were drawn together.
const PLACES: [&str; 3] = [
    "/ExpressionAttributeValues/:me/M/tickets/N",
    "/ExpressionAttributeValues/:me/L/0/M/tickets/N",
    "/Item/entry/M/tickets/N",
];
/// Where a request says what time it is.
const DATES: [&str; 6] = [
    "/ExpressionAttributeValues/:me/M/renewed_at/N",
    "/ExpressionAttributeValues/:me/L/0/M/renewed_at/N",
    "/ExpressionAttributeValues/:renewed_at/N",
    "/ExpressionAttributeValues/:drawn_at/N",
    "/ExpressionAttributeValues/:newest/N",
    "/Item/entry/M/renewed_at/N",
];
/// Where a request says until when an item stays.
const EXPIRIES: [&str; 2] = ["/ExpressionAttributeValues/:expiry/N", "/Item/expires_at/N"];
/// The year 2128.
const YEARS_LATER: &str = "5000000000";

/// That the holder is the very one that is meant: how it begins and ends, with the nonce in between.
const MINE: (&str, &str) = (
    "#slots[0].#nonce = :nonce AND (#slots[0].#ticket = :held OR ",
    " = :held))",
);
/// That the holder is the very one that is meant.
const IS_MINE: &str = "as `MINE` says";
/// Takes the slot behind all others.
const ENTERS: &str = "#slots = list_append(if_not_exists(#slots, :none), :me)";
/// Stands before the clauses of a write.
const OURS: &str = "#format = :format AND #permits = :permits AND ";
/// All of these clauses.
const BEHIND_OURS: &str = "behind what every write has";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Enter: whoever has the lock, by one who does not wait.
    EnterHeld,
    /// Enter: whoever has a ticket.
    EnterPastTickets,
    /// Enter: nobody, if there is somebody.
    EnterOneAtATime,
    /// Slot: whoever got a slot since the look.
    FillWithoutSlotted,
    /// Slot: whoever left since the look.
    FillWithoutLeft,
    /// Slot: also a row of the same client that leaves, as a memory would that goes on offering it.
    FillByMemory,
    /// Release: whoever holds the lock now.
    ReleaseWithoutNonce,
    /// Evict: though the holder has renewed since.
    EvictWithoutBeat,
    /// Void a dead row: though the waiter has renewed since.
    VoidWithoutBeat,
    /// Void a gap: though its row has come since.
    VoidWithoutNotExists,
    /// Join: though the ticket has been made void.
    JoinWithoutNotExists,
    /// Every entry: its lease in another unit, a thousand times as long.
    LeaseInMicroseconds,
    /// Delete a row: that of another lock, which is not there.
    DeleteNoRow,
    /// Every write: what it leaves behind is out of use years later.
    ExpireYearsLater,
    /// Enter: a lock item that is not there starts at one.
    StartAtOne,
    /// Join: with a row in a state that nobody knows.
    UnknownState,
    /// The clock of one host runs at a quarter of the rate.
    SlowClock,
    /// Enter and draw: the counter moves by one less than the tickets that are asked for together.
    DrawOneLess,
    /// Enter and join: a place has one ticket less than were drawn together.
    PlaceOfOneLess,
    /// Enter and join: a place of several has one ticket more, which is that of the place before it.
    PlaceOfOneMore,
    /// Share: though too many permits are taken.
    ShareWithoutRoom,
    /// Share: whoever stands in a slot.
    SharePastSuccessors,
    /// Share: though the one in the first slot has more than was thought.
    ShareWithoutFirst,
    /// Admit: the first successors, whoever they are by now.
    AdmitWhoeverIsThere,
    /// Every date: by the clock of the host that writes it.
    DatesOfHosts,
    /// Every write that says for how long an item stays: by the wall clock of its host.
    ExpiryOfHosts,
    /// Every date: years ahead, so that nobody is ever taken for dead by it.
    DatesYearsLater,
    /// No write: a caller believes on after it gave the lock back.
    Overstay,
    /// No write: a caller is told a request time-out later that it has not got the lock.
    ToldLate,
    /// No write: a caller believes in a lease for longer than it lasts.
    LeaseOverstayed,
    /// Write data: whoever has the lock by now.
    DataOfTheLost,
    /// Write data: over a later write.
    DataGoesBack,
    /// Every write of a holder: whatever ticket its nonce has the lock with.
    NonceAlone,
    /// No write: a client that starts again takes the nonces that it took before.
    NoncesAgain,
    /// No write: every answer to one host is a minute behind.
    AnswersBehind,
    /// No write: a client does not know over which connection an answer came, and keeps every one.
    ConnectionsUnknown,
    /// No write: a connection that was closed without an answer is taken for a refusal.
    ClosedIsRefused,
}

impl Mutation {
    pub(crate) fn rate(self, rate: f64) -> f64 {
        match self {
            Mutation::SlowClock => 0.25,
            _ => rate,
        }
    }

    /// A request of this host.
    pub(crate) fn rewrite(self, body: &mut Value, host: &HostPlan) {
        match self {
            Mutation::DatesOfHosts => {
                let apart = host.ahead.as_millis() as i64 - (APART / 2).as_millis() as i64;
                DATES.iter().for_each(|path| count(body, path, apart));
            }
            Mutation::ExpiryOfHosts => {
                let off = i64::from(host.days_off) * 24 * 3600;
                EXPIRIES.iter().for_each(|path| count(body, path, off));
            }
            Mutation::DatesYearsLater => {
                let years = 3_000_000_000_000;
                DATES.iter().for_each(|path| count(body, path, years));
            }
            Mutation::DrawOneLess
                if text(&body["UpdateExpression"]).contains("#last + :tickets") =>
            {
                count(body, "/ExpressionAttributeValues/:tickets/N", -1);
            }
            Mutation::EnterOneAtATime if text(&body["UpdateExpression"]).contains(ENTERS) => {
                put(body, "/ExpressionAttributeValues/:slots_taken/N", "0");
            }
            Mutation::PlaceOfOneLess => PLACES.iter().for_each(|path| count(body, path, -1)),
            Mutation::PlaceOfOneMore => PLACES.iter().for_each(|path| count(body, path, 1)),
            Mutation::StartAtOne => put(body, "/ExpressionAttributeValues/:start/N", "0"),
            Mutation::UnknownState if body["Item"]["state"]["S"] == "waiting" => {
                put(body, "/Item/state/S", "walking");
            }
            Mutation::DeleteNoRow => misdirect(body),
            Mutation::ExpireYearsLater => {
                put(body, "/ExpressionAttributeValues/:expiry/N", YEARS_LATER);
                put(body, "/Item/expires_at/N", YEARS_LATER);
            }
            Mutation::NonceAlone => {
                let conditions = [
                    "/ConditionExpression",
                    "/TransactItems/1/ConditionCheck/ConditionExpression",
                ];
                conditions.iter().for_each(|path| by_nonce(body, path));
            }
            Mutation::LeaseInMicroseconds => {
                for path in LEASES {
                    let lease = body.pointer(path).and_then(Value::as_str);
                    if let Some(longer) = lease.map(|lease| format!("{lease}000")) {
                        put(body, path, &longer);
                    }
                }
            }
            _ => self.weaken(body),
        }
    }

    /// Weakens the clause wherever it stands in the request that is meant.
    fn weaken(self, body: &mut Value) {
        let Some((update, clause)) = self.meant() else {
            return;
        };
        let is_meant = match update {
            Update::With(mark) => text(&body["UpdateExpression"]).contains(mark),
            Update::None(state) => body["Item"]["state"]["S"] == state,
        };
        let condition = text(&body["ConditionExpression"]);
        let clause = match clause {
            BEHIND_OURS => condition.split_once(OURS).map_or("", |(_, rest)| rest),
            IS_MINE => mine(condition).unwrap_or(IS_MINE),
            clause => clause,
        };
        if is_meant && condition.contains(clause) {
            // What exists in every item that there is, or there is no item.
            let always = "attribute_exists(#format) OR attribute_not_exists(#format)";
            let always = match update {
                Update::None(_) => "attribute_exists(#pk)",
                Update::With(_) if condition.contains("#format") => always,
                Update::With(_) => "attribute_exists(#state)",
            };
            // In this order, or the verb would be read as another.
            let weak = condition.replace(clause, &format!("({always} OR {clause})"));
            body["ConditionExpression"] = Value::String(weak);
        }
    }

    /// Which request is meant, by what it does, and which clause of its condition.
    fn meant(self) -> Option<(Update, &'static str)> {
        use Update::{None as Put, With};
        Some(match self {
            Mutation::EnterHeld => (
                With(ENTERS),
                "size(#slots) = :zero AND size(#sharers) = :zero",
            ),
            Mutation::ShareWithoutRoom => (With("- :share, #sharers"), "#room >= :share"),
            Mutation::SharePastSuccessors => (With("- :share, #sharers"), "size(#slots) = :zero"),
            Mutation::ShareWithoutFirst => (
                With("- :share, #sharers"),
                "#slots[0].#permits <= :first AND #room >= :both",
            ),
            Mutation::AdmitWhoeverIsThere => (With(" = #slots["), BEHIND_OURS),
            Mutation::DataOfTheLost => (With("#written = :written"), IS_MINE),
            Mutation::DataGoesBack => (With("#written = :written"), "#written.#ticket < :ticket"),
            Mutation::EnterPastTickets => (With(ENTERS), "#watermark = #last"),
            Mutation::FillWithoutSlotted => (With("#watermark = :upto"), "#watermark = :watermark"),
            Mutation::FillWithoutLeft => (With("#watermark = :upto"), "#departures = :departures"),
            Mutation::ReleaseWithoutNonce => (With("REMOVE #slots[0]"), IS_MINE),
            Mutation::EvictWithoutBeat => (With("REMOVE #slots[0]"), "#slots[0].#beat = :beat"),
            Mutation::VoidWithoutBeat => (With("#state = :void"), "#entry.#beat = :beat"),
            Mutation::VoidWithoutNotExists => (Put("void"), "attribute_not_exists(#pk)"),
            Mutation::JoinWithoutNotExists => (Put("waiting"), "attribute_not_exists(#pk)"),
            Mutation::LeaseInMicroseconds
            | Mutation::DeleteNoRow
            | Mutation::ExpireYearsLater
            | Mutation::StartAtOne
            | Mutation::UnknownState
            | Mutation::SlowClock
            | Mutation::EnterOneAtATime
            | Mutation::DrawOneLess
            | Mutation::PlaceOfOneLess
            | Mutation::PlaceOfOneMore
            | Mutation::DatesOfHosts
            | Mutation::ExpiryOfHosts
            | Mutation::DatesYearsLater
            | Mutation::ClosedIsRefused
            | Mutation::LeaseOverstayed
            | Mutation::ToldLate
            | Mutation::FillByMemory
            | Mutation::NonceAlone
            | Mutation::NoncesAgain
            | Mutation::AnswersBehind
            | Mutation::ConnectionsUnknown
            | Mutation::Overstay => return None,
        })
    }
}

#[derive(Clone, Copy)]
enum Update {
    /// An update whose expression has this in it.
    With(&'static str),
    /// No update: a row in this state is put.
    None(&'static str),
}

/// Where there is such a value.
fn put(body: &mut Value, path: &str, value: &str) {
    if let Some(old) = body.pointer_mut(path) {
        *old = value.into();
    }
}

/// A condition that the holder has that nonce and that ticket: the nonce will do.
fn by_nonce(body: &mut Value, path: &str) {
    let condition = body.pointer(path).and_then(Value::as_str);
    let mine = condition.and_then(|condition| Some((condition, mine(condition)?)));
    if let Some((condition, mine)) = mine {
        let alone = format!("(#slots[0].#nonce = :nonce OR {mine})");
        let condition = condition.replace(mine, &alone);
        put(body, path, &condition);
    }
}

/// The clause of a condition which says that the holder is the very one that is meant.
fn mine(condition: &str) -> Option<&str> {
    let (begin, end) = MINE;
    let mine = &condition[condition.find(begin)?..];
    let ends = mine.find(end)? + end.len();
    Some(&mine[..ends])
}

/// Of several tickets, or of milliseconds, so many more.
fn count(body: &mut Value, path: &str, more: i64) {
    let counted = body.pointer(path).and_then(Value::as_str);
    let counted = counted.and_then(|tickets| tickets.parse::<i64>().ok());
    if let Some(tickets) = counted.filter(|tickets| *tickets > 1) {
        put(body, path, &(tickets + more).to_string());
    }
}

/// Turns what deletes rows to those of a lock that is not there.
fn misdirect(body: &mut Value) {
    if let Some(tables) = body["RequestItems"].as_object_mut() {
        let writes = tables.values_mut().filter_map(Value::as_array_mut);
        for write in writes.flatten() {
            put(write, "/DeleteRequest/Key/pk/S", "another");
        }
    } else if body["UpdateExpression"].is_null()
        && !body["ConditionExpression"].is_null()
        && body["Key"]["sk"]["S"] != "fairlock/#lock"
    {
        put(body, "/Key/pk/S", "another");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
