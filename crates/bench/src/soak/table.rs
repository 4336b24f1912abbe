//! The table as its owner sees it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock_cli::contention::error_chain::told;

/// The default of the clients.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longer than any lease, hold or late request of the soak takes.
const IDLE: Duration = Duration::from_secs(90);

#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) dynamodb: Client,
    pub(crate) name: String,
}

impl Table {
    /// Returns how many items it deleted.
    pub(crate) async fn expire(&self) -> Result<u64, String> {
        let over = unix() + RETENTION - IDLE;
        let mut expired = 0;
        for key in self.keys(Some(over)).await? {
            let delete = self.dynamodb.delete_item().table_name(&self.name);
            let delete = delete.condition_expression("expires_at < :over");
            let delete = delete.expression_attribute_values(":over", seconds(over));
            match delete.set_key(Some(key)).send().await {
                Ok(_) => expired += 1,
                Err(error) => match error.as_service_error() {
                    // Another client has written to the item since.
                    Some(error) if error.is_conditional_check_failed_exception() => {}
                    _ => return Err(told(&error)),
                },
            }
        }
        Ok(expired)
    }

    /// Puts an item that consists of its key only.
    pub(crate) async fn put(&self, lock: &str, item: &str) -> Result<(), String> {
        let put = self.dynamodb.put_item().table_name(&self.name);
        let text = |text: &str| AttributeValue::S(text.into());
        let put = put.item("pk", text(lock)).item("sk", text(item));
        put.send().await.map_err(|error| told(&error))?;
        Ok(())
    }

    /// The sort keys of each lock's items.
    pub(crate) async fn items(&self) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut items = BTreeMap::<_, Vec<_>>::new();
        for mut key in self.keys(None).await? {
            let parts = ["pk", "sk"].map(|part| key.remove(part));
            if let [Some(AttributeValue::S(lock)), Some(AttributeValue::S(item))] = parts {
                items.entry(lock).or_default().push(item);
            }
        }
        Ok(items)
    }

    /// The keys of all items, or of those that expire before `before`.
    async fn keys(&self, before: Option<Duration>) -> Result<Vec<Key>, String> {
        let scan = self.dynamodb.scan().table_name(&self.name);
        let scan = scan.consistent_read(true).projection_expression("pk, sk");
        let scan = match before {
            None => scan,
            Some(before) => scan
                .filter_expression("expires_at < :over")
                .expression_attribute_values(":over", seconds(before)),
        };
        let items = scan.into_paginator().items().send();
        let items: Result<Vec<_>, _> = items.collect().await;
        items.map_err(|error| told(&error))
    }
}

type Key = std::collections::HashMap<String, AttributeValue>;

fn seconds(span: Duration) -> AttributeValue {
    AttributeValue::N(span.as_secs().to_string())
}

#[expect(clippy::disallowed_methods, reason = "items expire by wall time")]
fn unix() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}
