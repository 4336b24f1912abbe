//! What would go wrong if one condition of one write were missing, one write were another, or one clock ran slow: done
//! to the wire and to the clock, never to the product.

use std::time::Duration;

use serde_json::Value;

use crate::mischief::Kind;
use crate::plan::{HostPlan, Plan};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Enter: whoever holds the lock.
    EnterHeld,
    /// Enter: whoever has a ticket.
    EnterPastTickets,
    /// Seat: whoever was seated since the look.
    SeatWithoutSeated,
    /// Seat: whoever left since the look.
    SeatWithoutLeft,
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
    /// Enter: a lock item that is not there starts at one.
    StartAtOne,
    /// Join: with a row in a state that nobody knows.
    UnknownState,
    /// The clock of one host runs at a quarter of the rate.
    SlowClock,
}

impl Mutation {
    pub(crate) fn rate(self, rate: f64) -> f64 {
        match self {
            Mutation::SlowClock => 0.25,
            _ => rate,
        }
    }

    /// Makes the race likely that the clause closes: what may be in its way is late, as it is in some seeds by itself.
    pub(crate) fn provoke(self, plan: &mut Plan) {
        let slow: &[&str] = match self {
            Mutation::EvictWithoutBeat => &["read lock", "read line"],
            Mutation::VoidWithoutBeat => &["void dead"],
            Mutation::VoidWithoutNotExists => &["join", "void gap"],
            Mutation::JoinWithoutNotExists => &["join", "seat"],
            Mutation::SeatWithoutLeft => &["seat"],
            _ => return,
        };
        plan.weather.slow = slow.to_vec();
        for (id, host) in plan.hosts.iter_mut().enumerate() {
            self.provoke_host(id, host);
        }
        if matches!(self, Mutation::EvictWithoutBeat | Mutation::VoidWithoutBeat) {
            plan.mischief = vec![Kind::Tardy];
            plan.long_turns = 2;
            plan.locks.truncate(1);
        }
        if self == Mutation::VoidWithoutBeat {
            plan.weather.slow_writes = 0.97;
        }
    }

    fn provoke_host(self, id: usize, host: &mut HostPlan) {
        match self {
            Mutation::EvictWithoutBeat => {
                host.lease = Duration::from_secs(15);
                host.timeout = host.lease.mul_f64(0.3);
                host.workers = 1;
            }
            // Some wait long for their joins, and others close gaps early.
            Mutation::VoidWithoutNotExists => {
                let (lease, share) = if id.is_multiple_of(2) {
                    (2, 1.0 / 6.0)
                } else {
                    (15, 0.3)
                };
                host.lease = Duration::from_secs(lease);
                host.timeout = host.lease.mul_f64(share);
                host.is_hasty = true;
                (host.seats, host.workers) = (1, 3);
            }
            Mutation::JoinWithoutNotExists => {
                host.lease = Duration::from_secs(2);
                host.timeout = host.lease / 6;
                host.is_hasty = true;
                host.seats = 2;
            }
            Mutation::VoidWithoutBeat => (host.seats, host.workers) = (1, 3),
            Mutation::SeatWithoutLeft => host.seats = 2,
            _ => {}
        }
    }

    pub(crate) fn rewrite(self, body: &mut Value) {
        match self {
            Mutation::StartAtOne => put(body, "/ExpressionAttributeValues/:start/N", "0"),
            Mutation::UnknownState if body["Item"]["state"]["S"] == "waiting" => {
                put(body, "/Item/state/S", "walking");
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
        if is_meant && condition.contains(clause) {
            // What exists in every item that there is, or there is no item.
            let always = "attribute_exists(#format) OR attribute_not_exists(#format)";
            let always = match update {
                Update::None(_) => "attribute_exists(#pk)",
                Update::With(_) if condition.contains("#format") => always,
                Update::With(_) => "attribute_exists(#state)",
            };
            let weak = condition.replace(clause, &format!("({clause} OR {always})"));
            body["ConditionExpression"] = Value::String(weak);
        }
    }

    /// Which request is meant, by what it does, and which clause of its condition.
    fn meant(self) -> Option<(Update, &'static str)> {
        use Update::{None as Put, With};
        Some(match self {
            Mutation::EnterHeld => (With("#entered ="), "attribute_not_exists(#holder.#nonce)"),
            Mutation::EnterPastTickets => (With("#entered ="), "#seated = #last"),
            Mutation::SeatWithoutSeated => (With("#seated = :upto"), "#seated = :seated"),
            Mutation::SeatWithoutLeft => (With("#seated = :upto"), "#left = :left"),
            Mutation::ReleaseWithoutNonce => (With("REMOVE #heirs[0]"), "#holder.#nonce = :nonce"),
            Mutation::EvictWithoutBeat => (With("REMOVE #heirs[0]"), "#holder.#beat = :beat"),
            Mutation::VoidWithoutBeat => (With("#state = :void"), "#entry.#beat = :beat"),
            Mutation::VoidWithoutNotExists => (Put("void"), "attribute_not_exists(#pk)"),
            Mutation::JoinWithoutNotExists => (Put("waiting"), "attribute_not_exists(#pk)"),
            Mutation::StartAtOne | Mutation::UnknownState | Mutation::SlowClock => return None,
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

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
