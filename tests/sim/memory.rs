//! A planted mistake of a whole client: its memory goes on offering rows of its own that it is leaving.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde_json::Value;

/// What one client wrote: the rows that it put into queues, and the rows that it leaves, by lock and ticket.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Known>);

#[derive(Default)]
struct Known {
    rows: BTreeMap<(String, u64), Value>,
    left: BTreeSet<(String, u64)>,
}

impl Memory {
    /// Makes a write that fills slots also give a slot to a row that the client leaves or has left.
    pub(crate) fn rewrite(&self, body: &mut Value) {
        let mut known = self.0.lock().unwrap();
        known.learn(body);
        if text(&body["UpdateExpression"]).contains("#watermark = :upto, #slots") {
            known.offer(body);
        }
    }
}

impl Known {
    fn learn(&mut self, body: &Value) {
        if body["Item"]["state"]["S"] == "waiting" {
            let row = place(&body["Item"]);
            self.rows
                .extend(row.zip(Some(body["Item"]["entry"].clone())));
        }
        let is_leaving = text(&body["ConditionExpression"]).contains("(#pk) OR #entry.#nonce");
        self.left.extend(place(&body["Key"]).filter(|_| is_leaving));
    }

    /// Adds the first such row behind the slots, if one more slot is free.
    fn offer(&self, body: &mut Value) {
        let lock = text(&body["Key"]["pk"]["S"]).to_owned();
        let values = &mut body["ExpressionAttributeValues"];
        let number = |name: &str| text(&values[name]["N"]).parse::<u64>().ok();
        let (Some(watermark), Some(upto)) = (number(":watermark"), number(":upto")) else {
            return;
        };
        let between = (lock.clone(), watermark + 1)..(lock, upto);
        let mut left = self.left.range(between);
        let left = left.find_map(|place| self.rows.get(place));
        let room = number(":slots_taken").and_then(|taken| taken.checked_sub(1));
        if let (Some(entry), Some(room)) = (left, room)
            && let Some(found) = values[":found"]["L"].as_array_mut()
        {
            found.push(entry.clone());
            found.sort_by_key(ticket);
            values[":slots_taken"]["N"] = room.to_string().into();
        }
    }
}

fn place(keys: &Value) -> Option<(String, u64)> {
    let (_, ticket) = text(&keys["sk"]["S"]).rsplit_once('/')?;
    Some((text(&keys["pk"]["S"]).to_owned(), ticket.parse().ok()?))
}

fn ticket(entry: &Value) -> u64 {
    text(&entry["M"]["ticket"]["N"]).parse().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
