//! What a request on the wire is for, read from its expressions: the transport knows operations only.

use crate::steps;
use serde_json::Value;

/// All names of renewals begin with this.
const HEARTBEAT: &str = "renew";

/// The verbs of the baselines: the first entry whose fragments are all in a request's text names the request.
const VERBS: &[(&str, &str, &[&str])] = &[
    ("UpdateItem", "draw", &["ticketNumber = ticketNumber + "]),
    ("UpdateItem", HEARTBEAT, &["SET expiresAt = "]),
    ("UpdateItem", HEARTBEAT, &["SET recordVersionNumber = "]),
    ("PutItem", "make the counter", &["ticketNumber"]),
    ("PutItem", "join", &["expiresAt"]),
    ("PutItem", "take over", &["recordVersionNumber = "]),
    ("PutItem", "acquire", &["recordVersionNumber"]),
    ("DeleteItem", "release", &["article-queue/"]),
    ("DeleteItem", "release", &["recordVersionNumber = "]),
];

pub(super) fn of(operation: &str, body: &Value) -> &'static str {
    let text = match operation {
        "PutItem" => format!("{} {}", attributes(&body["Item"]), expressions(body)),
        "DeleteItem" => format!("{} {}", body["Key"]["sk"], expressions(body)),
        _ => expressions(body),
    };
    let named = |(of, _, fragments): &&(&str, &str, &[&str])| {
        *of == operation && fragments.iter().all(|fragment| text.contains(fragment))
    };
    let baseline = VERBS.iter().find(named).map(|(_, verb, _)| *verb);
    baseline.unwrap_or_else(|| steps::step(operation, body))
}

/// Renewals of leases come with time, not with turns.
pub(super) fn is_heartbeat(verb: &str) -> bool {
    verb.starts_with(HEARTBEAT)
}

/// The names of the attributes: their values are the caller's.
fn attributes(item: &Value) -> String {
    let attributes = item.as_object().into_iter().flat_map(|item| item.keys());
    let names: Vec<_> = attributes.map(String::as_str).collect();
    names.join(" ")
}

fn expressions(body: &Value) -> String {
    let parts = ["UpdateExpression", "ConditionExpression"];
    let parts = parts.map(|part| body[part].as_str().unwrap_or_default());
    parts.join(" IF ")
}

/// How many items a request writes, or would if its condition held: both cost the same.
pub(super) fn writes(operation: &str, body: &Value) -> u64 {
    match operation {
        "UpdateItem" | "PutItem" | "DeleteItem" => 1,
        "BatchWriteItem" => batch(body),
        _ => 0,
    }
}

fn batch(body: &Value) -> u64 {
    let tables = body["RequestItems"].as_object();
    let tables = tables.into_iter().flat_map(|tables| tables.values());
    let items = tables.map(|items| items.as_array().map_or(0, Vec::len));
    items.map(|items| items as u64).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(update: &str, condition: &str) -> &'static str {
        of(
            "UpdateItem",
            &json!({ "UpdateExpression": update, "ConditionExpression": condition }),
        )
    }

    #[test]
    fn the_requests_of_the_baselines_have_names() {
        let put = |attribute: &str, condition: &str| {
            let item = json!({ attribute: {} });
            of(
                "PutItem",
                &json!({ "Item": item, "ConditionExpression": condition }),
            )
        };
        let absent = "attribute_not_exists(pk)";
        assert_eq!(put("ticketNumber", absent), "make the counter");
        assert_eq!(put("expiresAt", absent), "join");
        assert_eq!(put("recordVersionNumber", absent), "acquire");
        let unchanged = "attribute_exists(pk) AND recordVersionNumber = :seen";
        assert_eq!(put("recordVersionNumber", unchanged), "take over");
        assert_eq!(update("SET ticketNumber = ticketNumber + :one", ""), "draw");
        for renewed in ["expiresAt", "recordVersionNumber"] {
            let verb = update(&format!("SET {renewed} = :next"), unchanged);
            assert!(is_heartbeat(verb), "{verb}");
        }
        let row = json!({ "Key": { "sk": { "S": "article-queue/07" } } });
        let held = json!({ "ConditionExpression": unchanged });
        assert_eq!(
            [row, held].map(|body| of("DeleteItem", &body)),
            ["release"; 2]
        );
    }

    #[test]
    fn a_form_that_is_not_known_is_counted_as_other() {
        assert_eq!(update("SET #color = :blue", ""), "other");
        assert_eq!(of("Scan", &json!({})), "other");
    }

    #[test]
    fn a_batch_writes_as_many_items_as_it_lists() {
        let body = json!({ "RequestItems": { "locks": [{}, {}], "more": [{}] } });
        assert_eq!(writes("BatchWriteItem", &body), 3);
        assert_eq!(
            [("UpdateItem", 1), ("Query", 0)].map(|(operation, _)| writes(operation, &body)),
            [1, 0]
        );
    }
}
