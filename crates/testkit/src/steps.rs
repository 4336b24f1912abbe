//! Which step of the protocol a request is, read off its expressions.

use serde_json::Value;

/// What the request of a step has in it that those after it have not.
const MARKS: [(&str, &str); 27] = [
    ("date", ".#renewed_at)"),
    ("date", "#drawn_at)"),
    ("enter", "#entered = if_not_exists(#last, :start)"),
    ("enter known", "#entered = #last + :tickets"),
    ("enter over", "#entered = :ticket"),
    ("remove lock", "#seated = :seated AND #expires_at"),
    ("share", "#taken <= :room"),
    ("admit", "#taken = #taken + :share, #sharers"),
    ("downgrade", "#taken = #taken - :freed"),
    ("sit", "+ :tickets, #drawn."),
    ("draw", "#last = #last + :tickets"),
    ("seat", "#seated = :upto, #"),
    ("settle", "#seated = :upto"),
    ("renew hold", "#beat = :beat, #holder"),
    ("renew share", "#beat = :beat, #sharers"),
    ("renew seat", "#beat = :beat, #heirs["),
    ("extend", "#holder.#beat + :one"),
    ("renew row", "#beat = :beat, #entry"),
    ("leave", "#left = #left + :one"),
    ("void dead", "#entry.#beat = :beat"),
    ("void own", "attribute_not_exists(#pk) OR"),
    ("write data", "#written = :written"),
    ("pass on", ".#tickets = :left"),
    ("evict", "#beat = :beat AND"),
    ("release", ".#permits = :share AND"),
    ("unseat", "].#beat = :beat"),
    ("give up", "REMOVE #heirs["),
];

/// The step of a request.
pub fn step(operation: &str, body: &Value) -> &'static str {
    let expressions = ["UpdateExpression", "ConditionExpression"].map(|name| body[name].as_str());
    let has = |mark: &str| expressions.iter().flatten().any(|text| text.contains(mark));
    let marked = MARKS.into_iter().find(|(_, mark)| has(mark));
    marked.map_or(unmarked(operation, body), |(step, _)| step)
}

/// By its operation alone.
fn unmarked(operation: &str, body: &Value) -> &'static str {
    match operation {
        "PutItem" if body["Item"]["state"]["S"] == "waiting" => "join",
        "PutItem" => "void gap",
        "GetItem" => "read lock",
        "Query" => "read line",
        "BatchWriteItem" => "clean",
        "DeleteItem" => "remove row",
        _ => "other",
    }
}
