//! A request and its answer, as far as an oracle reads them.

use std::time::Duration;

use fairlock::embedded::{Exchange as Seen, Outcome, Request};
use serde_json::Value;

use crate::shown::{Row, Shown, number, ticket_of};
use crate::world::{RETENTION, unix};
use fairlock_testkit::verbs::verb;

#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) host: usize,
    pub(crate) verb: &'static str,
    pub(crate) lock: String,
    /// The nonce of the place that the request is about, or that it asks for.
    pub(crate) nonce: Option<String>,
    pub(crate) ticket: Option<u64>,
    /// How many tickets the request draws.
    pub(crate) draws: Option<u64>,
    /// How many permits the request asks for.
    pub(crate) permits: Option<u64>,
    /// The lease that the request asks for.
    pub(crate) lease: Option<Duration>,
    /// The request accepts a slot behind others.
    pub(crate) waits: bool,
    /// The request succeeds only if the newest ticket is below this one.
    pub(crate) below: Option<u64>,
    /// The request succeeds only if the item does not stay longer than until this time.
    pub(crate) keeps: Option<u64>,
    /// The request is conditional on a beat, so it judges the place from outside.
    pub(crate) judges: bool,
    pub(crate) sent: Duration,
    pub(crate) answer: Answer,
    pub(crate) shown: Option<Shown>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done as requested.
    Ok,
    /// The condition did not hold.
    Refused,
    /// There was no answer, or an unusable one.
    Failed,
}

impl Exchange {
    pub(crate) fn read(host: usize, seen: &Seen<'_>, now: Duration) -> Exchange {
        let request = seen.request();
        let values = &request.body()["ExpressionAttributeValues"];
        let answer = read_answer(seen.outcome());
        let shown = match seen.outcome() {
            Outcome::Answered { body, .. } if answer != Answer::Failed => body,
            _ => &Value::Null,
        };
        Exchange {
            host,
            verb: verb(request),
            lock: lock(request),
            nonce: nonce(request),
            ticket: number(&values[":ticket"]).or_else(|| ticket_of(request.key("sk")?)),
            draws: draws(values),
            permits: me(request).and_then(|me| number(&me["permits"])),
            lease: me(request)
                .and_then(|me| number(&me["lease_ms"]))
                .or_else(|| number(&values[":lease"]))
                .map(Duration::from_millis),
            waits: is_bound_by(request, ":slots_taken"),
            below: number(&values[":end"]),
            keeps: number(&values[":expiry"]).filter(|_: &u64| is_bound_by(request, ":expiry")),
            judges: !values[":beat"].is_null() && verb(request) != "lease out",
            sent: now.saturating_sub(seen.took()),
            answer,
            shown: Shown::of(shown),
            rows: rows(request, answer, shown),
        }
    }

    /// Whether the item in the answer stays. A client that does not know the time yet cannot make sure of that with the write that takes
    /// its place. So it renews its hold before it believes in it. If TTL deletes the item before that, the client takes another place.
    pub(crate) fn item_stays(&self, at: Duration) -> bool {
        let expires_at = self.shown.as_ref().and_then(|shown| shown.expires_at);
        expires_at.is_none_or(|expires_at| (unix(at) + RETENTION / 2).as_secs() <= expires_at)
    }

    /// The beat of the waiting row that the request is about.
    pub(crate) fn beat_of_row(&self) -> Option<u64> {
        let nonce = self.nonce.as_deref()?;
        let row = self.rows.iter().find(|row| row.waits_for(nonce))?;
        row.state.beat()
    }

    /// The rows behind the slots, in a snapshot that shows the lock item too. Rows up to the item's `watermark` are settled.
    pub(crate) fn behind_the_slots(&self) -> impl Iterator<Item = &Row> {
        let watermark = self
            .shown
            .as_ref()
            .map_or(u64::MAX, |shown| shown.watermark);
        self.rows.iter().filter(move |row| watermark < row.ticket)
    }
}

fn lock(request: &Request) -> String {
    let asked = &request.body()["ExpressionAttributeValues"][":pk"]["S"];
    let lock = request.key("pk").or_else(|| asked.as_str());
    lock.unwrap_or_default().to_owned()
}

/// Whether the request's condition names this value.
fn is_bound_by(request: &Request, value: &str) -> bool {
    let condition = request.body()["ConditionExpression"].as_str();
    condition.is_some_and(|condition| condition.contains(value))
}

/// The entry that the request writes for itself.
fn me(request: &Request) -> Option<&Value> {
    let (body, values) = (request.body(), &request.body()["ExpressionAttributeValues"]);
    let slot = &values[":me"]["L"][0]["M"];
    // A client that enters over settled rows knows its ticket before.
    let over = match verb(request) {
        "enter over" => &values[":found"]["L"][0]["M"],
        _ => &Value::Null,
    };
    let share = &values[":me"]["M"];
    let mut entries = [share, slot, over, &body["Item"]["entry"]["M"]].into_iter();
    entries.find(|entry| !entry.is_null())
}

fn nonce(request: &Request) -> Option<String> {
    let values = &request.body()["ExpressionAttributeValues"];
    let named = values[":nonce"]["S"].as_str();
    let nonce = named.or_else(|| me(request)?["nonce"]["S"].as_str());
    nonce.map(str::to_owned)
}

fn draws(values: &Value) -> Option<u64> {
    let counted = || number::<u64>(&values[":ticket"])?.checked_sub(number(&values[":last"])?);
    number(&values[":tickets"]).or_else(counted)
}

fn read_answer(outcome: &Outcome) -> Answer {
    let Outcome::Answered { status, body } = outcome else {
        return Answer::Failed;
    };
    let failed = || body["__type"].as_str().unwrap_or_default();
    match status {
        200 if !body.is_null() => Answer::Ok,
        400 if failed().ends_with("ConditionalCheckFailedException") => Answer::Refused,
        _ => Answer::Failed,
    }
}

/// The rows that the answer shows. An answer does not repeat a row that was put.
fn rows(request: &Request, answer: Answer, shown: &Value) -> Vec<Row> {
    match (request.operation(), answer) {
        ("PutItem", Answer::Ok) => Row::all(request.body()),
        _ => Row::all(shown),
    }
}
