//! Tables of this engine's own, in which it keeps what the database has no place for. No list of tables shows them.

use dynoxide::{Database, DynoxideError};
use serde_json::{Value, json};

use crate::database;

/// What time it is by a file.
pub(crate) const CLOCK: &str = "fairlock-embedded.clock";

type Done<T> = Result<T, DynoxideError>;

/// Makes a table whose items have a key `id`, unless it is there.
pub(crate) fn make(db: &Database, table: &str) -> Done<()> {
    let request = json!({
        "TableName": table,
        "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
        "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
        "BillingMode": "PAY_PER_REQUEST",
    });
    match ask(db, "CreateTable", &request) {
        // Another process made it since this one looked.
        Ok(_) | Err(DynoxideError::ResourceInUseException(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the tables of this engine's own from an answer to ListTables.
pub(crate) fn hidden(answer: Option<String>) -> Done<Option<String>> {
    let Some(text) = answer.as_deref() else {
        return Ok(answer);
    };
    if !text.contains(CLOCK) {
        return Ok(answer);
    }
    let mut answer = parsed(text)?;
    if let Some(names) = answer["TableNames"].as_array_mut() {
        names.retain(|name| name != CLOCK);
    }
    Ok(Some(answer.to_string()))
}

pub(crate) fn ask(db: &Database, operation: &str, request: &Value) -> Done<Value> {
    let answer = database::run(db, operation, request.to_string().as_bytes())?;
    parsed(answer.as_deref().unwrap_or("{}"))
}

pub(crate) fn parsed(answer: &str) -> Done<Value> {
    serde_json::from_str(answer)
        .map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}
