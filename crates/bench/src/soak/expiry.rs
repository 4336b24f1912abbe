//! DynamoDB's TTL, a week early: deletes items that were not written for a while, as TTL does after the idle retention.

use std::time::Duration;

use crate::soak::stage::Soak;
use crate::soak::table::Table;

const BETWEEN: Duration = Duration::from_secs(10);

pub(crate) async fn work(soak: &Soak, table: Table) {
    while soak.goes_on(BETWEEN).await {
        match table.expire().await {
            Ok(expired) => (0..expired).for_each(|_| soak.tally.outcome("item expired")),
            Err(trouble) => soak.findings.add(format!("surprise: the table: {trouble}")),
        }
    }
}
