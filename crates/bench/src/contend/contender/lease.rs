//! Each lock is an item. A worker that finds no item puts one. A worker that saw the item's record version number unchanged for a lease
//! takes it over. This is the rule of the AWS lock client for Java, which also deletes the item on release.
//!
//! A waiter reads the item, sleeps, and reads it again: the lock goes to the waiter that reads at the right moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::baseline::{Baseline, Failed, text, unless_refused};
use super::heartbeat::Heartbeat;

const SORT_KEY: &str = "lock-client";
/// The key is part of any existing item. The version is the one seen last.
const UNCHANGED: &str = "attribute_exists(pk) AND recordVersionNumber = :seen";

pub(crate) struct Lease(pub(crate) Baseline);

pub(crate) struct Held {
    record: Record,
    heartbeat: Heartbeat,
}

/// The item of a hold. It is locked while a request about it is under way: a release follows the heartbeat before it.
#[derive(Clone)]
struct Record {
    baseline: Baseline,
    version: Arc<Mutex<String>>,
}

/// Another worker's item, as it was first seen with this version.
struct Watched {
    version: String,
    lease: Duration,
    since: Instant,
}

impl Lease {
    pub(crate) async fn acquire(&self) -> Result<Held, Failed> {
        let mut watched = None;
        // The loop ends when a poll finds the item absent, or unchanged for its lease, and no other worker writes it first.
        loop {
            watched = self.poll(watched).await?;
            if watched.as_ref().is_none_or(Watched::is_over) {
                let version = new_version();
                if self.put(&version, watched.as_ref()).await? {
                    return Ok(self.hold(version));
                }
            }
            sleep(self.0.poll).await;
        }
    }

    /// Returns `None` if there is no item.
    async fn poll(&self, before: Option<Watched>) -> Result<Option<Watched>, Failed> {
        let read = self.0.client.get_item().table_name(&self.0.table);
        let read = read.set_key(Some(key(&self.0.lock))).consistent_read(true);
        let Some(item) = read.send().await?.item else {
            return Ok(None);
        };
        let seen = Watched::read(&item).ok_or("an item without version or lease")?;
        let unchanged = before.filter(|before| before.version == seen.version);
        Ok(Some(unchanged.unwrap_or(seen)))
    }

    /// Writes the item. Returns whether no other worker was faster.
    async fn put(&self, version: &str, over: Option<&Watched>) -> Result<bool, Failed> {
        let put = self.0.client.put_item().table_name(&self.0.table);
        let put = put
            .set_item(Some(key(&self.0.lock)))
            .item("recordVersionNumber", text(version))
            .item("leaseDuration", millis(self.0.lease));
        let put = match over {
            None => put.condition_expression("attribute_not_exists(pk)"),
            Some(over) => put
                .condition_expression(UNCHANGED)
                .expression_attribute_values(":seen", text(&over.version)),
        };
        Ok(unless_refused(put.send().await)?.is_some())
    }

    fn hold(&self, version: String) -> Held {
        let record = Record {
            baseline: self.0.clone(),
            version: Arc::new(Mutex::new(version)),
        };
        let beating = record.clone();
        // The lock client's defaults are a lease of 20 s and a heartbeat every 5 s.
        let heartbeat = Heartbeat::every(self.0.lease / 4, move || {
            let record = beating.clone();
            async move { drop(record.renew().await) }
        });
        Held { record, heartbeat }
    }
}

impl Held {
    pub(crate) async fn release(self) -> Result<(), Failed> {
        let deleted = self.record.delete().await?;
        drop(self.heartbeat);
        deleted
            .then_some(())
            .ok_or("lost before its release".into())
    }
}

impl Record {
    async fn renew(&self) -> Result<(), Failed> {
        let mut version = self.version.lock().await;
        let next = new_version();
        let renewed = self.baseline.client.update_item();
        let renewed = renewed
            .table_name(&self.baseline.table)
            .set_key(Some(key(&self.baseline.lock)))
            .update_expression("SET recordVersionNumber = :next, leaseDuration = :lease")
            .condition_expression(UNCHANGED)
            .expression_attribute_values(":next", text(&next))
            .expression_attribute_values(":lease", millis(self.baseline.lease))
            .expression_attribute_values(":seen", text(version.as_str()));
        if unless_refused(renewed.send().await)?.is_some() {
            *version = next;
        }
        Ok(())
    }

    /// Deletes the item. Returns whether it still belonged to this hold.
    async fn delete(&self) -> Result<bool, Failed> {
        let version = self.version.lock().await;
        let deleted = self.baseline.client.delete_item();
        let deleted = deleted
            .table_name(&self.baseline.table)
            .set_key(Some(key(&self.baseline.lock)))
            .condition_expression(UNCHANGED)
            .expression_attribute_values(":seen", text(version.as_str()));
        Ok(unless_refused(deleted.send().await)?.is_some())
    }
}

impl Watched {
    fn read(item: &HashMap<String, AttributeValue>) -> Option<Watched> {
        let text = |attribute| item.get(attribute)?.as_s().ok();
        Some(Watched {
            version: text("recordVersionNumber")?.clone(),
            lease: Duration::from_millis(text("leaseDuration")?.parse().ok()?),
            since: Instant::now(),
        })
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() > self.lease
    }
}

fn key(lock: &str) -> HashMap<String, AttributeValue> {
    HashMap::from([("pk".into(), text(lock)), ("sk".into(), text(SORT_KEY))])
}

fn millis(span: Duration) -> AttributeValue {
    text(span.as_millis().to_string())
}

fn new_version() -> String {
    format!("{:032x}", fastrand::u128(..))
}
