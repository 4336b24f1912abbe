//! Tables that were not made to their end, because the process that made them was killed or its disk was full. The engine has their
//! descriptions, and nothing to keep items in. They do not count as tables, and a process that opens the file removes them.

use dynoxide::{Database, DynoxideError};
use serde_json::{Value, json};

use crate::database::run;

type Done<T> = Result<T, DynoxideError>;

/// Opening takes turns with processes that make tables, so no table is being made meanwhile.
pub(crate) fn remove(database: &Database) -> Done<()> {
    for name in names(database)? {
        if is_unmade(database, &name) {
            ask(database, "DeleteTable", &json!({ "TableName": name }))?;
        }
    }
    Ok(())
}

/// Lists the tables, page by page.
fn names(database: &Database) -> Done<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let from = names
            .last()
            .map(|last| json!({ "ExclusiveStartTableName": last }));
        let page = ask(database, "ListTables", &from.unwrap_or(json!({})))?;
        let found = page["TableNames"].as_array().into_iter().flatten();
        names.extend(found.filter_map(Value::as_str).map(str::to_owned));
        if page["LastEvaluatedTableName"].is_null() {
            return Ok(names);
        }
    }
}

fn is_unmade(database: &Database, name: &str) -> bool {
    let scan = ask(database, "Scan", &json!({ "TableName": name, "Limit": 1 }));
    scan.is_err_and(|error| error.to_string().contains("no such table"))
}

fn ask(database: &Database, operation: &str, request: &Value) -> Done<Value> {
    let answer = run(database, operation, request.to_string().as_bytes())?;
    Ok(serde_json::from_str(&answer.unwrap_or_default()).unwrap_or_default())
}
