//! What each operation is answered: by the database, or by this engine where the database does not know enough.

use dynoxide::{Database, DynoxideError};

use crate::database::{self, json};
use crate::{own, tags};

/// Returns the JSON answer to a JSON request, or `None` if there is no such operation.
pub(crate) fn run(
    db: &Database,
    operation: &str,
    body: &[u8],
) -> Result<Option<String>, DynoxideError> {
    let asked = || database::run(db, operation, body);
    match operation {
        "ListTables" => own::hidden(asked()?),
        "ListTagsOfResource" => json(body, |request| tags::page(db, request)),
        _ => asked(),
    }
}

/// Whether the operation reports what another process may have changed about a table. The engine keeps a table's description for as long as
/// it is open, so these operations ask again.
pub(crate) fn describes_a_table(operation: &str) -> bool {
    matches!(
        operation,
        "DescribeTable" | "DescribeTimeToLive" | "ListTagsOfResource"
    )
}

/// Whether the operation may store an item with a time in it. A deletion stores none, and may find nothing to delete.
pub(crate) fn stores(operation: &str) -> bool {
    !matches!(operation, "DeleteItem" | "BatchWriteItem")
}

/// Whether the operation changes nothing.
pub(crate) fn only_reads(operation: &str) -> bool {
    let reads = ["GetItem", "Query", "Scan", "ListTables"];
    let reads = reads.contains(&operation) || describes_a_table(operation);
    reads || matches!(operation, "BatchGetItem" | "TransactGetItems")
}
