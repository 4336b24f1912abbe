//! Planted mistakes: one condition of one write is missing, one write is another, or one clock runs slow. They are made in the requests and
//! the clock, never in the product.

use serde_json::Value;

use crate::plan::HostPlan;

/// Where a request contains the lease of an entry.
const LEASES: [&str; 4] = [
    "/ExpressionAttributeValues/:me/M/lease_ms/N",
    "/ExpressionAttributeValues/:me/L/0/M/lease_ms/N",
    "/ExpressionAttributeValues/:lease/N",
    "/Item/entry/M/lease_ms/N",
];
/// Where a request contains how many tickets of a place were drawn together.
const PLACES: [&str; 3] = [
    "/ExpressionAttributeValues/:me/M/tickets/N",
    "/ExpressionAttributeValues/:me/L/0/M/tickets/N",
    "/Item/entry/M/tickets/N",
];
/// Where a request contains the time.
const DATES: [&str; 6] = [
    "/ExpressionAttributeValues/:me/M/renewed_at/N",
    "/ExpressionAttributeValues/:me/L/0/M/renewed_at/N",
    "/ExpressionAttributeValues/:renewed_at/N",
    "/ExpressionAttributeValues/:drawn_at/N",
    "/ExpressionAttributeValues/:newest/N",
    "/Item/entry/M/renewed_at/N",
];
/// Where a request contains until when an item stays.
const EXPIRIES: [&str; 2] = ["/ExpressionAttributeValues/:expiry/N", "/Item/expires_at/N"];
/// In the year 2128.
const YEARS_LATER: &str = "5000000000";

/// The clause that the first slot is this very hold: its beginning and its end, with the nonce in between.
const MINE: (&str, &str) = (
    "#slots[0].#nonce = :nonce AND (#slots[0].#ticket = :held OR ",
    " = :held))",
);
/// Stands for the clause between the two parts of `MINE`.
const IS_MINE: &str = "as `MINE` says";
/// Takes the slot behind all others.
const ENTERS: &str = "#slots = list_append(if_not_exists(#slots, :none), :me)";
/// Stands before the clauses of a write.
const OURS: &str = "#format = :format AND #permits = :permits AND ";
/// Stands for all clauses after `OURS`.
const BEHIND_OURS: &str = "behind what every write has";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Enter: although the lock is held, by a caller that does not wait.
    EnterHeld,
    /// Enter: although there are open tickets.
    EnterPastTickets,
    /// Enter: refuses to enter behind any other place.
    EnterOneAtATime,
    /// Fill slots: although slots were filled since the snapshot.
    FillWithoutWatermark,
    /// Fill slots: although waiters left since the snapshot.
    FillWithoutLeft,
    /// Fill slots: also with a row of the same client that leaves, as if its memory went on offering it.
    FillByMemory,
    /// Release: removes whichever client holds the lock now.
    ReleaseWithoutNonce,
    /// Evict: although the holder has renewed since.
    EvictWithoutBeat,
    /// Void a dead row: although the waiter has renewed since.
    VoidWithoutBeat,
    /// Void a gap: although its row has arrived since.
    VoidWithoutNotExists,
    /// Join: although the ticket has been made void.
    JoinWithoutNotExists,
    /// Every entry: its lease in another unit, a thousand times as long.
    LeaseInMicroseconds,
    /// Delete a row: deletes a row of another lock, which does not exist.
    DeleteNoRow,
    /// Every write: the item that it leaves expires years later.
    ExpireYearsLater,
    /// Enter: a missing lock item starts at one.
    StartAtOne,
    /// Join: with a row in an unknown state.
    UnknownState,
    /// The clock of one host runs at a quarter of the rate.
    SlowClock,
    /// Enter and draw: the counter moves by one less than the tickets that are requested together.
    DrawOneLess,
    /// Enter and join: a place has one ticket less than were drawn together.
    PlaceOfOneLess,
    /// Enter and join: a place with several tickets has one ticket more, which belongs to the place before it.
    PlaceOfOneMore,
    /// Share: although too many permits are taken.
    ShareWithoutRoom,
    /// Share: although slots are taken.
    SharePastSuccessors,
    /// Share: although the entry in the first slot has more permits than the sender knew.
    ShareWithoutFirst,
    /// Admit: the first successors at that moment, even if they are others than the sender saw.
    AdmitWhoeverIsThere,
    /// Every date: by the clock of the host that writes it.
    DatesOfHosts,
    /// Every write that says how long an item stays: by the wall clock of its host.
    ExpiryOfHosts,
    /// Every date: years ahead, so that no entry ever counts as dead by its date.
    DatesYearsLater,
    /// No write: a caller goes on believing after it released the lock.
    Overstay,
    /// No write: a caller learns one request time-out late that it did not get the lock.
    ToldLate,
    /// No write: a caller believes in a lease for longer than it lasts.
    LeaseOverstayed,
    /// Write data: although another client may hold the lock by now.
    DataOfTheLost,
    /// Write data: over a later write.
    DataGoesBack,
    /// Every write of a holder: for any ticket with which its nonce holds the lock.
    NonceAlone,
    /// No write: a client that restarts uses the same nonces as before.
    NoncesAgain,
    /// No write: clients judge by `Date`s alone, and all of those are wrong.
    JudgedByDates,
    /// No write: clients judge by wall clocks alone, and all of those are wrong.
    JudgedByWallClocks,
    /// No write: wall clocks are hours apart while all `Date`s are wrong, which the contract excludes.
    AllClocksWrong,
    /// No write: a connection that was closed without an answer counts as a refusal.
    ClosedIsRefused,
    /// No write: a waiter takes a confirmation for a renewal of the place before it. All places are confirmed for ever.
    ConfirmedIsRenewed,
    /// No write: the client is not told of the bounds that its callers want.
    BoundsForgotten,
    /// Change the permits: as many as before are free.
    ResizedWithoutRoom,
    /// Break, and ask: for another reason than the operator gave.
    NoticesOfOthers,
    /// No write: a waiter takes a notification of a release for the release. Some are forged.
    ReleasingIsReleased,
}

impl Mutation {
    pub(crate) fn rate(self, rate: f64) -> f64 {
        match self {
            Mutation::SlowClock => 0.25,
            _ => rate,
        }
    }

    /// Rewrites a request of this host.
    pub(crate) fn rewrite(self, body: &mut Value, host: &HostPlan) {
        match self {
            Mutation::DatesOfHosts => count_all(body, &DATES, host.off),
            Mutation::ExpiryOfHosts => count_all(body, &EXPIRIES, host.off / 1000),
            Mutation::DatesYearsLater => count_all(body, &DATES, 3_000_000_000_000),
            Mutation::DrawOneLess
                if text(&body["UpdateExpression"]).contains("#last + :tickets") =>
            {
                count(body, "/ExpressionAttributeValues/:tickets/N", -1);
            }
            Mutation::EnterOneAtATime if text(&body["UpdateExpression"]).contains(ENTERS) => {
                put(body, "/ExpressionAttributeValues/:slots_taken/N", "0");
            }
            Mutation::PlaceOfOneLess => count_all(body, &PLACES, -1),
            Mutation::PlaceOfOneMore => count_all(body, &PLACES, 1),
            Mutation::StartAtOne => put(body, "/ExpressionAttributeValues/:start/N", "0"),
            Mutation::UnknownState if body["Item"]["state"]["S"] == "waiting" => {
                put(body, "/Item/state/S", "walking");
            }
            Mutation::ResizedWithoutRoom => {
                put(body, "/ExpressionAttributeValues/:freed/N", "0");
                put(body, "/ExpressionAttributeValues/:fewer/N", "0");
            }
            Mutation::NoticesOfOthers => {
                for notice in [":asked", ":broken"] {
                    let path = format!("/ExpressionAttributeValues/{notice}/M/reason/S");
                    put(body, &path, "another");
                }
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

    /// Weakens the clause wherever it stands in the affected request.
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
            // This is true for every existing item, and also if there is no item.
            let always = "attribute_exists(#format) OR attribute_not_exists(#format)";
            let always = match update {
                Update::None(_) => "attribute_exists(#pk)",
                Update::With(_) if condition.contains("#format") => always,
                Update::With(_) => "attribute_exists(#state)",
            };
            // The order matters: in the other order, the verb of the request would be taken for another.
            let weak = condition.replace(clause, &format!("({always} OR {clause})"));
            body["ConditionExpression"] = Value::String(weak);
        }
    }

    /// Which request is affected, by what it does, and which clause of its condition.
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
            Mutation::FillWithoutWatermark => {
                (With("#watermark = :upto"), "#watermark = :watermark")
            }
            Mutation::FillWithoutLeft => (With("#watermark = :upto"), "#departures = :departures"),
            Mutation::ReleaseWithoutNonce => (With("REMOVE #slots[0]"), IS_MINE),
            Mutation::EvictWithoutBeat => (With("REMOVE #slots[0]"), "#slots[0].#beat = :beat"),
            Mutation::VoidWithoutBeat => (With("#state = :void"), "#entry.#beat = :beat"),
            Mutation::VoidWithoutNotExists => (Put("void"), "attribute_not_exists(#pk)"),
            Mutation::JoinWithoutNotExists => (Put("waiting"), "attribute_not_exists(#pk)"),
            _ => return None,
        })
    }
}

#[derive(Clone, Copy)]
enum Update {
    /// An update whose expression contains this text.
    With(&'static str),
    /// No update: puts a row in this state.
    None(&'static str),
}

/// Replaces the value, if the request has one there.
fn put(body: &mut Value, path: &str, value: &str) {
    if let Some(old) = body.pointer_mut(path) {
        *old = value.into();
    }
}

/// Weakens a condition on the holder's nonce and ticket: the nonce alone is enough.
fn by_nonce(body: &mut Value, path: &str) {
    let condition = body.pointer(path).and_then(Value::as_str);
    let mine = condition.and_then(|condition| Some((condition, mine(condition)?)));
    if let Some((condition, mine)) = mine {
        let alone = format!("(#slots[0].#nonce = :nonce OR {mine})");
        let condition = condition.replace(mine, &alone);
        put(body, path, &condition);
    }
}

/// The clause of a condition which says that the first slot is this very hold.
fn mine(condition: &str) -> Option<&str> {
    let (begin, end) = MINE;
    let mine = &condition[condition.find(begin)?..];
    let ends = mine.find(end)? + end.len();
    Some(&mine[..ends])
}

fn count_all(body: &mut Value, paths: &[&str], more: i64) {
    paths.iter().for_each(|path| count(body, path, more));
}

/// Adds `more` to a number of tickets or of milliseconds, if it is more than one.
fn count(body: &mut Value, path: &str, more: i64) {
    let counted = body.pointer(path).and_then(Value::as_str);
    let counted = counted.and_then(|tickets| tickets.parse::<i64>().ok());
    if let Some(tickets) = counted.filter(|tickets| *tickets > 1) {
        put(body, path, &(tickets + more).to_string());
    }
}

/// Redirects requests that delete rows to a lock that does not exist.
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
