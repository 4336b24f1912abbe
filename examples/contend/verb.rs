//! What a request on the wire is for, told from its expressions: the transport knows operations only.

use serde_json::Value;

/// Renewals of leases: they come with time, not with turns.
pub(crate) const HEARTBEAT: &str = "renew";

/// The first whose fragments are all in a request's text names it.
const VERBS: &[(&str, &str, &[&str])] = &[
    ("UpdateItem", HEARTBEAT, &["#beat + "]),
    ("UpdateItem", "enter", &["if_not_exists(#last,"]),
    (
        "UpdateItem",
        "enter over the settled",
        &["#entered = ", "#last = :last"],
    ),
    (
        "UpdateItem",
        "sit",
        &["#last = :ticket", "list_append(#heirs,"],
    ),
    ("UpdateItem", "draw", &["#last = #last + "]),
    ("UpdateItem", "seat", &["#seated = ", "list_append(#heirs,"]),
    ("UpdateItem", "seat", &["#seated = ", "#holder = "]),
    ("UpdateItem", "settle", &["#seated = :upto"]),
    (
        "UpdateItem",
        "evict",
        &["#holder = if_not_exists(#heirs[0]", "#holder.#beat = "],
    ),
    (
        "UpdateItem",
        "release",
        &["#holder = if_not_exists(#heirs[0]"],
    ),
    ("UpdateItem", "unseat", &["REMOVE #heirs[", "].#beat = "]),
    ("UpdateItem", "give up a seat", &["REMOVE #heirs["]),
    ("UpdateItem", "leave", &["#left = #left + "]),
    (
        "UpdateItem",
        "void a dead row",
        &["#state = :void", "#entry.#beat = "],
    ),
    ("UpdateItem", "void one's row", &["#state = :void"]),
    ("UpdateItem", "draw", &["ticketNumber = ticketNumber + "]),
    ("UpdateItem", HEARTBEAT, &["SET expiresAt = "]),
    ("UpdateItem", HEARTBEAT, &["SET recordVersionNumber = "]),
    ("PutItem", "make the counter", &["ticketNumber"]),
    ("PutItem", "join", &["expiresAt"]),
    ("PutItem", "take over", &["recordVersionNumber = "]),
    ("PutItem", "acquire", &["recordVersionNumber"]),
    ("DeleteItem", "release", &["article-queue/"]),
    ("DeleteItem", "release", &["recordVersionNumber = "]),
    ("PutItem", "join", &["\"waiting\""]),
    ("PutItem", "void a gap", &["\"void\""]),
    ("DeleteItem", "remove the idle lock", &["#last = "]),
    ("DeleteItem", "remove a row", &[]),
    ("BatchWriteItem", "clean", &[]),
    ("GetItem", "read the lock", &[]),
    ("Query", "read the line", &[]),
];

pub(crate) fn of(operation: &str, body: &Value) -> &'static str {
    let text = match operation {
        "PutItem" => format!("{} {}", item(&body["Item"]), expressions(body)),
        "DeleteItem" => format!("{} {}", body["Key"]["sk"], expressions(body)),
        _ => expressions(body),
    };
    let named = |(of, _, fragments): &&(&str, &str, &[&str])| {
        *of == operation && fragments.iter().all(|fragment| text.contains(fragment))
    };
    VERBS
        .iter()
        .find(named)
        .map_or("other", |(_, verb, _)| verb)
}

/// The state, and which attributes there are: their values are not ours.
fn item(item: &Value) -> String {
    let attributes = item.as_object().into_iter().flat_map(|item| item.keys());
    let names: Vec<_> = attributes.map(String::as_str).collect();
    format!("{} {}", item["state"], names.join(" "))
}

fn expressions(body: &Value) -> String {
    let parts = ["UpdateExpression", "ConditionExpression"];
    let parts = parts.map(|part| body[part].as_str().unwrap_or_default());
    parts.join(" IF ")
}

/// How many items a request writes, or would if its condition held: both cost the same.
pub(crate) fn writes(operation: &str, body: &Value) -> u64 {
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
    fn writes_on_the_lock_item_are_told_apart_by_what_they_set() {
        let free = "attribute_not_exists(#holder.#nonce)";
        let held = "attribute_exists(#holder.#nonce)";
        let hand_over = "SET #holder = if_not_exists(#heirs[0], :none) REMOVE #heirs[0]";
        let last = "#last = if_not_exists(#last, :start) + :one";
        assert_eq!(
            update(
                &format!("SET {last}, #holder = :me, #heirs = :nobody"),
                free
            ),
            "enter"
        );
        assert_eq!(
            update(
                "SET #last = :ticket, #heirs = list_append(#heirs, :me)",
                held
            ),
            "sit"
        );
        assert_eq!(
            update("SET #last = #last + :one", "attribute_exists(#last)"),
            "draw"
        );
        assert_eq!(
            update(
                "SET #seated = :upto, #heirs = list_append(#heirs, :found)",
                held
            ),
            "seat"
        );
        assert_eq!(
            update(
                "SET #seated = :upto, #holder = :first, #heirs = :rest",
                free
            ),
            "seat"
        );
        assert_eq!(update("SET #seated = :upto", "#seated = :seated"), "settle");
        assert_eq!(update(hand_over, "#holder.#nonce = :nonce"), "release");
        assert_eq!(
            update(
                hand_over,
                "#holder.#nonce = :nonce AND #holder.#beat = :beat"
            ),
            "evict"
        );
        let mine = "#heirs[2].#nonce = :nonce";
        assert_eq!(
            update("SET #e = :e REMOVE #heirs[2]", mine),
            "give up a seat"
        );
        assert_eq!(
            update("SET #e = :e REMOVE #heirs[2]", "#heirs[2].#beat = :beat"),
            "unseat"
        );
        assert_eq!(
            update("SET #left = #left + :one", "#seated < :ticket"),
            "leave"
        );
    }

    #[test]
    fn a_heartbeat_is_one_wherever_the_entry_stands() {
        for entry in ["#holder", "#heirs[3]", "#entry"] {
            let beats = format!("SET {entry}.#beat = {entry}.#beat + :one");
            assert_eq!(
                update(&beats, &format!("{entry}.#nonce = :nonce")),
                HEARTBEAT
            );
        }
    }

    #[test]
    fn rows_are_put_waiting_or_void() {
        let row = |state: &str| json!({ "Item": { "state": { "S": state } } });
        assert_eq!(of("PutItem", &row("waiting")), "join");
        assert_eq!(of("PutItem", &row("void")), "void a gap");
        assert_eq!(
            update("SET #state = :void", "#entry.#beat = :beat"),
            "void a dead row"
        );
        assert_eq!(
            update("SET #state = :void", "#entry.#nonce = :nonce"),
            "void one's row"
        );
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
            assert_eq!(
                update(&format!("SET {renewed} = :next"), unchanged),
                HEARTBEAT
            );
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
