//! A write as the server applied it, whether or not its sender received the answer.

use fairlock::embedded::{Exchange, Outcome, Request};
use serde_json::Value;

use crate::shown::{Shown, number};
use fairlock_testkit::verbs::verb;

/// Writes that only a holder sends.
const ACTS: [&str; 8] = [
    "renew hold",
    "renew share",
    "lease out",
    "extend",
    "release",
    "downgrade",
    "write data",
    "pass on",
];

#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) lock: String,
    pub(crate) verb: &'static str,
    /// The hold that sent the write, if only a holder sends such writes.
    pub(crate) act: Option<Act>,
    /// The name of a transaction. The server answers a repeated transaction again, and does not apply it again.
    pub(crate) transaction: Option<String>,
    /// The token that the transaction wrote under a check of the hold.
    pub(crate) token: Option<u64>,
    /// The lock item after the write.
    pub(crate) shown: Option<Shown>,
}

#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) nonce: String,
    pub(crate) ticket: u64,
}

impl Applied {
    pub(crate) fn read(seen: &Exchange<'_>) -> Option<Applied> {
        let Outcome::Answered { status: 200, body } = seen.outcome() else {
            return None;
        };
        let request = seen.request();
        match request.operation() {
            "UpdateItem" => Some(Applied::update(request, body)),
            "TransactWriteItems" => Applied::transaction(request.body()),
            _ => None,
        }
    }

    fn update(request: &Request, answer: &Value) -> Applied {
        let verb = verb(request);
        let values = &request.body()["ExpressionAttributeValues"];
        let shown = Shown::of(answer);
        let act = Act::of(values).filter(|_| ACTS.contains(&verb));
        // A waiter in the first slot, behind sharers, sends the same renewal as a holder.
        let waits = |act: &Act| {
            let mut successors = shown.iter().flat_map(Shown::successors);
            successors.any(|successor| successor.nonce == act.nonce)
        };
        Applied {
            lock: request.key("pk").unwrap_or_default().to_owned(),
            verb,
            act: act.filter(|act| !waits(act)),
            transaction: None,
            token: None,
            shown,
        }
    }

    /// A transaction of the caller's own, which checks a hold.
    fn transaction(body: &Value) -> Option<Applied> {
        let parts = body["TransactItems"].as_array()?;
        let check = parts.iter().map(|part| &part["ConditionCheck"]);
        let check = check.into_iter().find(|check| !check.is_null())?;
        Some(Applied {
            lock: check["Key"]["pk"]["S"].as_str()?.to_owned(),
            verb: "checked write",
            transaction: body["ClientRequestToken"].as_str().map(str::to_owned),
            token: parts.iter().find_map(token),
            act: Act::of(&check["ExpressionAttributeValues"]),
            shown: None,
        })
    }
}

fn token(part: &Value) -> Option<u64> {
    number(&part["Update"]["ExpressionAttributeValues"][":token"])
}

impl Act {
    fn of(values: &Value) -> Option<Act> {
        Some(Act {
            nonce: values[":nonce"]["S"].as_str()?.to_owned(),
            ticket: number(&values[":held"])?,
        })
    }
}
