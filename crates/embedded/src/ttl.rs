//! The deletion of items whose time is past, which DynamoDB does by itself.

use std::time::Duration;

use dynoxide::{Database, DynoxideError};
use serde_json::{Value, json};

use crate::operations;

/// DynamoDB ignores an attribute that is further past than this.
const TOO_LONG_AGO: Duration = Duration::from_secs(5 * 365 * 24 * 3600);

type Done<T> = Result<T, DynoxideError>;

/// Deletes what is past at `now` in every table that has TTL. Returns how many items that were.
pub(crate) fn expire(db: &Database, now: Duration) -> Done<usize> {
    let mut deleted = 0;
    // Ends because each page's last table is the next page's start.
    let mut page = json!({});
    loop {
        let tables = ask(db, "ListTables", &page)?;
        for table in list(&tables["TableNames"]) {
            deleted += expire_table(db, table, now)?;
        }
        match &tables["LastEvaluatedTableName"] {
            Value::Null => return Ok(deleted),
            last => page = json!({ "ExclusiveStartTableName": last }),
        }
    }
}

fn expire_table(db: &Database, table: &Value, now: Duration) -> Done<usize> {
    let ttl = ask(db, "DescribeTimeToLive", &json!({ "TableName": table }))?;
    let attribute = &ttl["TimeToLiveDescription"]["AttributeName"];
    if attribute.is_null() {
        return Ok(0);
    }
    let keys = key_names(&ask(db, "DescribeTable", &json!({ "TableName": table }))?);
    let mut deleted = 0;
    for item in past(db, table, attribute, now)? {
        deleted += usize::from(delete(db, table, attribute, &keys, &item)?);
    }
    Ok(deleted)
}

/// The items whose time is past, over all pages.
fn past(db: &Database, table: &Value, attribute: &Value, now: Duration) -> Done<Vec<Value>> {
    let mut items = Vec::new();
    let mut scan = json!({
        "TableName": table,
        "FilterExpression": "#ttl < :now AND #ttl > :floor",
        "ExpressionAttributeNames": { "#ttl": attribute },
        "ExpressionAttributeValues": {
            ":now": { "N": now.as_secs().to_string() },
            ":floor": { "N": now.saturating_sub(TOO_LONG_AGO).as_secs().to_string() },
        },
    });
    // Ends because each page starts behind the one before.
    loop {
        let page = ask(db, "Scan", &scan)?;
        items.extend(list(&page["Items"]).iter().cloned());
        match &page["LastEvaluatedKey"] {
            Value::Null => return Ok(items),
            last => scan["ExclusiveStartKey"] = last.clone(),
        }
    }
}

/// Deletes the item unless its time has changed since it was read: a renewed item survives.
fn delete(
    db: &Database,
    table: &Value,
    attribute: &Value,
    keys: &[String],
    item: &Value,
) -> Done<bool> {
    let key: serde_json::Map<_, _> = keys
        .iter()
        .map(|name| (name.clone(), item[name].clone()))
        .collect();
    let seen = &item[attribute.as_str().unwrap_or_default()];
    let request = json!({
        "TableName": table,
        "Key": key,
        "ConditionExpression": "#ttl = :seen",
        "ExpressionAttributeNames": { "#ttl": attribute },
        "ExpressionAttributeValues": { ":seen": seen },
    });
    match ask(db, "DeleteItem", &request) {
        Ok(_) => Ok(true),
        Err(DynoxideError::ConditionalCheckFailedException(..)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn key_names(description: &Value) -> Vec<String> {
    list(&description["Table"]["KeySchema"])
        .iter()
        .filter_map(|key| key["AttributeName"].as_str().map(str::to_owned))
        .collect()
}

fn ask(db: &Database, operation: &str, request: &Value) -> Done<Value> {
    let said = operations::run(db, operation, request.to_string().as_bytes())?;
    Ok(serde_json::from_str(&said.unwrap_or_default()).unwrap_or_default())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
