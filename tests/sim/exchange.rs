//! One request and its answer, as far as an oracle reads them.

use std::time::Duration;

use fairlock::embedded::{Exchange as Seen, Outcome, Request};
use serde_json::Value;

use crate::verbs::verb;

#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) host: usize,
    pub(crate) verb: &'static str,
    pub(crate) lock: String,
    /// Of whom it speaks, or for whom it asks.
    pub(crate) nonce: Option<String>,
    pub(crate) ticket: Option<u64>,
    /// Conditional on a beat, so judged from outside.
    pub(crate) judges: bool,
    pub(crate) sent: Duration,
    pub(crate) answer: Answer,
    pub(crate) shown: Option<Shown>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done as asked.
    Ok,
    /// The condition did not hold.
    Refused,
    /// None, or no use.
    Failed,
}

/// A lock item that an answer showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) last: u64,
    pub(crate) seated: u64,
    pub(crate) holder: Option<Place>,
    pub(crate) heirs: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ticket: u64,
    pub(crate) nonce: String,
}

impl Exchange {
    pub(crate) fn read(host: usize, seen: &Seen<'_>, now: Duration) -> Exchange {
        let request = seen.request();
        let values = &request.body()["ExpressionAttributeValues"];
        let (answer, shown) = read_answer(seen.outcome());
        Exchange {
            host,
            verb: verb(request),
            lock: lock(request),
            nonce: nonce(request),
            ticket: number(&values[":ticket"]).or_else(|| row(request.key("sk")?)),
            judges: !values[":beat"].is_null(),
            sent: now.saturating_sub(seen.took()),
            answer,
            shown,
        }
    }
}

impl Shown {
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.holder.iter().chain(&self.heirs)
    }
}

fn lock(request: &Request) -> String {
    let asked = &request.body()["ExpressionAttributeValues"][":pk"]["S"];
    let lock = request.key("pk").or_else(|| asked.as_str());
    lock.unwrap_or_default().to_owned()
}

fn nonce(request: &Request) -> Option<String> {
    let (body, values) = (request.body(), &request.body()["ExpressionAttributeValues"]);
    let me = match &values[":me"]["L"] {
        Value::Array(one) => one.first()?,
        _ => &values[":me"],
    };
    let nonce = [
        &values[":nonce"],
        &me["M"]["nonce"],
        &body["Item"]["entry"]["M"]["nonce"],
    ];
    let mut nonce = nonce.iter().filter_map(|nonce| nonce["S"].as_str());
    nonce.next().map(str::to_owned)
}

fn row(sort_key: &str) -> Option<u64> {
    sort_key.rsplit('/').next()?.parse().ok()
}

fn read_answer(outcome: &Outcome) -> (Answer, Option<Shown>) {
    let Outcome::Answered { status, body } = outcome else {
        return (Answer::Failed, None);
    };
    let failed = || body["__type"].as_str().unwrap_or_default();
    match status {
        200 if body.is_null() => (Answer::Failed, None),
        200 => (Answer::Ok, shown(body)),
        400 if failed().ends_with("ConditionalCheckFailedException") => {
            (Answer::Refused, shown(body))
        }
        _ => (Answer::Failed, None),
    }
}

fn shown(body: &Value) -> Option<Shown> {
    let items = [&body["Attributes"], &body["Item"], &body["Items"][0]];
    let item = items.into_iter().find(|item| !item["seated"].is_null())?;
    let entered = number(&item["entered"]);
    Some(Shown {
        last: number(&item["last"])?,
        seated: number(&item["seated"])?,
        holder: place(&item["holder"], entered),
        heirs: list(&item["heirs"]["L"])
            .filter_map(|heir| place(heir, None))
            .collect(),
    })
}

/// Who entered does not know its ticket when it writes its entry.
fn place(entry: &Value, entered: Option<u64>) -> Option<Place> {
    let nonce = entry["M"]["nonce"]["S"].as_str()?.to_owned();
    let ticket = number(&entry["M"]["ticket"]).or(entered)?;
    Some(Place { ticket, nonce })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> Option<u64> {
    value["N"].as_str()?.parse().ok()
}
