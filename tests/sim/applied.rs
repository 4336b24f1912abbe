//! One write as the server applied it, whether or not its sender ever heard of that.

use fairlock::embedded::{Exchange, Outcome, Request};
use serde_json::Value;

use crate::shown::{Shown, number};
use fairlock_testkit::verbs::verb;

/// What only a holder does.
const ACTS: [&str; 7] = [
    "renew hold",
    "renew share",
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
    /// By which hold it was done, if only a holder does that.
    pub(crate) act: Option<Act>,
    /// The name of a transaction: the server answers a repeated one again, and does not apply it again.
    pub(crate) transaction: Option<String>,
    /// What it wrote under a check of the hold.
    pub(crate) token: Option<u64>,
    /// The lock item afterwards.
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
        // Also one renews in the first slot that waits there behind sharers.
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

    /// One of the caller's own, in which a hold is checked.
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
