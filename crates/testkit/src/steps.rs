//! Which step of the protocol a request is, read from its expressions.

use std::collections::BTreeSet;

use serde_json::Value;

/// What the request of a step contains, and the requests of the steps after it do not.
const MARKS: [(&str, &str); 33] = [
    ("break", "#broken = :broken"),
    ("ask", "#asked = :asked"),
    ("change the permits", "#resizes = :changed"),
    ("date", " = :seen_"),
    ("date", ".#renewed_at)"),
    ("date", "#drawn_at)"),
    ("enter", "if_not_exists(#last, :start)"),
    ("enter known", "list_append(if_not_exists(#slots"),
    ("enter over", "#watermark = :ticket"),
    ("remove lock", "#watermark = :watermark AND #expires_at"),
    ("share", "#room >= :both"),
    ("admit", "#room = #room - :share, #sharers"),
    ("downgrade", ".#permits = :kept"),
    ("draw", "#last = #last + :tickets"),
    ("fill", "#watermark = :upto, #"),
    ("settle", "#watermark = :upto"),
    ("lease out", ".#id = :id"),
    ("renew hold", "#beat = :beat, #slots[0]"),
    ("renew share", "#beat = :beat, #sharers"),
    ("renew slot", "#beat = :beat, #slots["),
    ("extend", ".#beat + :one"),
    ("renew row", "#beat = :beat, #entry"),
    ("leave", "#departures = #departures + :one"),
    ("void dead", "#entry.#beat = :beat"),
    ("void own", "attribute_not_exists(#pk) OR"),
    ("write data", "#written = :written"),
    ("pass on", ".#tickets = :left"),
    ("evict a successor", "#beat = :beat AND #slots["),
    ("evict", "#slots[0].#beat = :beat"),
    ("evict", "#beat = :beat AND #sharers"),
    ("release", "REMOVE #slots[0]"),
    ("release", "REMOVE #sharers"),
    ("give up", ", #slots["),
];

/// What the requests without a mark are, by their operations.
const UNMARKED: [&str; 6] = [
    "join",
    "void gap",
    "read lock",
    "read queue",
    "clean",
    "remove row",
];

/// Returns the names of all steps.
pub fn names() -> BTreeSet<&'static str> {
    let marked = MARKS.into_iter().map(|(step, _)| step);
    marked.chain(UNMARKED).collect()
}

/// Returns the step of a request.
pub fn step(operation: &str, body: &Value) -> &'static str {
    let expressions = ["UpdateExpression", "ConditionExpression"].map(|name| body[name].as_str());
    let has = |mark: &str| expressions.iter().flatten().any(|text| text.contains(mark));
    let marked = MARKS.into_iter().find(|(_, mark)| has(mark));
    marked.map_or(unmarked(operation, body), |(step, _)| step)
}

/// The step by the operation alone.
fn unmarked(operation: &str, body: &Value) -> &'static str {
    match operation {
        "PutItem" if body["Item"]["state"]["S"] == "waiting" => "join",
        "PutItem" => "void gap",
        "GetItem" => "read lock",
        "Query" => "read queue",
        "BatchWriteItem" => "clean",
        "DeleteItem" => "remove row",
        _ => "other",
    }
}
