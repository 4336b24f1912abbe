//! Point-in-time recovery: whether it is on for a table. The database has no place for that, so it is kept in a table of this engine's
//! own, by the ids of tables. No list of tables shows that table. Nothing can be restored.

use dynoxide::{Database, DynoxideError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::own::{self, ask, parsed};

const TABLE: &str = own::RECOVERY;
const DAYS: &str = "RecoveryPeriodInDays";
/// For how many days DynamoDB keeps what it needs for a recovery, unless a request says less.
const MOST_DAYS: u32 = 35;

type Done<T> = Result<T, DynoxideError>;

#[derive(Debug, Deserialize)]
pub(crate) struct Describe {
    #[serde(rename = "TableName")]
    table: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Update {
    #[serde(rename = "TableName")]
    table: String,
    #[serde(rename = "PointInTimeRecoverySpecification")]
    specification: Specification,
}

#[derive(Debug, Deserialize)]
struct Specification {
    #[serde(rename = "PointInTimeRecoveryEnabled")]
    enabled: bool,
    #[serde(rename = "RecoveryPeriodInDays")]
    days: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Described {
    #[serde(rename = "ContinuousBackupsDescription")]
    description: Value,
}

impl Described {
    fn of(days: Option<u32>) -> Self {
        let status = if days.is_some() {
            "ENABLED"
        } else {
            "DISABLED"
        };
        let mut recovery = json!({ "PointInTimeRecoveryStatus": status });
        if let Some(days) = days {
            recovery[DAYS] = days.into();
        }
        Described {
            description: json!({
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": recovery,
            }),
        }
    }
}

/// DescribeContinuousBackups.
pub(crate) fn describe(db: &Database, request: Describe) -> Done<Described> {
    let id = id_of(db, &request.table)?;
    let days = if is_kept(db)? { read(db, &id)? } else { None };
    Ok(Described::of(days))
}

/// UpdateContinuousBackups.
pub(crate) fn update(db: &Database, request: Update) -> Done<Described> {
    let asked = request.specification;
    let days = asked.days.unwrap_or(MOST_DAYS);
    if !(1..=MOST_DAYS).contains(&days) {
        return Err(DynoxideError::ValidationException(format!(
            "{DAYS} must be between 1 and {MOST_DAYS}"
        )));
    }
    let id = id_of(db, &request.table)?;
    match (asked.enabled, is_kept(db)?) {
        (true, is_kept) => {
            if !is_kept {
                own::make(db, TABLE)?;
            }
            let item = json!({ "id": { "S": id }, "days": { "N": days.to_string() } });
            ask(db, "PutItem", &json!({ "TableName": TABLE, "Item": item }))?;
        }
        (false, true) => forget(db, &id)?,
        (false, false) => {}
    }
    Ok(Described::of(asked.enabled.then_some(days)))
}

/// Forgets the table that this answer to DeleteTable describes.
pub(crate) fn deleted(db: &Database, answer: Option<String>) -> Done<Option<String>> {
    let description = parsed(answer.as_deref().unwrap_or("{}"))?;
    if let Some(id) = description["TableDescription"]["TableId"].as_str()
        && is_kept(db)?
    {
        forget(db, id)?;
    }
    Ok(answer)
}

/// The answer if a request about backups names no table, which DynamoDB calls by another code than other requests do.
pub(crate) fn not_found(operation: &str, error: &DynoxideError) -> Option<Answer> {
    let is_of_backups = operation.ends_with("ContinuousBackups");
    let is_missing = matches!(error, DynoxideError::ResourceNotFoundException(_));
    (is_of_backups && is_missing).then(|| Answer::no_table(&error.to_string()))
}

fn id_of(db: &Database, table: &str) -> Done<String> {
    let described = ask(db, "DescribeTable", &json!({ "TableName": table }))?;
    let id = described["Table"]["TableId"].as_str().map(str::to_owned);
    id.ok_or_else(|| DynoxideError::InternalServerError(format!("table {table} has no id")))
}

/// Whether this engine's own table is there, which it is since recovery was switched on for the first time.
fn is_kept(db: &Database) -> Done<bool> {
    match ask(db, "DescribeTable", &json!({ "TableName": TABLE })) {
        Ok(_) => Ok(true),
        Err(DynoxideError::ResourceNotFoundException(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn read(db: &Database, id: &str) -> Done<Option<u32>> {
    let request = json!({ "TableName": TABLE, "Key": { "id": { "S": id } } });
    let found = ask(db, "GetItem", &request)?;
    let days = found["Item"]["days"]["N"].as_str();
    Ok(days.and_then(|days| days.parse().ok()))
}

fn forget(db: &Database, id: &str) -> Done<()> {
    let request = json!({ "TableName": TABLE, "Key": { "id": { "S": id } } });
    ask(db, "DeleteItem", &request).map(drop)
}
