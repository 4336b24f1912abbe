//! A FIFO queue of rows: draw a ticket, insert a row for it, and poll until no unexpired row stands before it.
//!
//! Being first is read, not written, and a ticket blocks no other before its row exists. So a worker that draws a later ticket and inserts
//! its row sooner holds the lock. The worker with the earlier ticket holds it too, once its row exists.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use tokio::time::sleep;

use super::baseline::{Baseline, Failed, number, text, unless_refused};
use super::heartbeat::Heartbeat;

/// Stands before each ticket in the sort keys of the rows.
const QUEUE: &str = "article-queue/";
const PAGE: i32 = 100;

type Item = HashMap<String, AttributeValue>;

pub(crate) struct Article(pub(crate) Baseline);

/// A place in the queue. At the head of the queue, it is the lock.
pub(crate) struct Row {
    baseline: Baseline,
    pub(crate) ticket: u64,
    heartbeat: Heartbeat,
}

impl Article {
    pub(crate) async fn acquire(&self) -> Result<Row, Failed> {
        self.enter(self.draw().await?).await
    }

    /// Enters with a ticket that was drawn for this lock, or for another.
    pub(crate) async fn enter(&self, ticket: u64) -> Result<Row, Failed> {
        let row = self.join(ticket).await?;
        // The loop ends when every earlier row is deleted or has expired.
        while !self.is_first(&sort_key(ticket)).await? {
            sleep(self.0.poll).await;
        }
        Ok(row)
    }

    pub(crate) async fn draw(&self) -> Result<u64, Failed> {
        // The loop ends with the second round at the latest, because the counter exists then.
        loop {
            if let Some(ticket) = self.count().await? {
                return Ok(ticket);
            }
            if let Some(first) = self.seed().await? {
                return Ok(first);
            }
        }
    }

    /// Draws a ticket. Returns `None` if there is no counter yet.
    async fn count(&self) -> Result<Option<u64>, Failed> {
        let counted = self.0.client.update_item().table_name(&self.0.table);
        let counted = counted
            .set_key(Some(counter()))
            .update_expression("SET ticketNumber = ticketNumber + :one")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::UpdatedNew);
        let Some(counted) = unless_refused(counted.send().await)? else {
            return Ok(None);
        };
        let item = counted.attributes.unwrap_or_default();
        let ticket = numeral(&item, "ticketNumber").and_then(|ticket| ticket.parse().ok());
        Ok(Some(ticket.ok_or("a counter without a number")?))
    }

    /// Creates the counter. Returns `None` if another worker was first.
    async fn seed(&self) -> Result<Option<u64>, Failed> {
        let seeded = self.0.client.put_item().table_name(&self.0.table);
        let seeded = seeded
            .set_item(Some(counter()))
            .item("ticketNumber", number(1))
            .condition_expression("attribute_not_exists(pk)");
        Ok(unless_refused(seeded.send().await)?.map(|_| 1))
    }

    async fn join(&self, ticket: u64) -> Result<Row, Failed> {
        let now = unix_now();
        let joined = self.0.client.put_item().table_name(&self.0.table);
        joined
            .set_item(Some(self.key(ticket)))
            .item("createdAt", number(now.as_secs_f64()))
            .item("expiresAt", number((now + self.0.lease).as_secs_f64()))
            .condition_expression("attribute_not_exists(pk)")
            .send()
            .await?;
        Ok(Row {
            baseline: self.0.clone(),
            ticket,
            heartbeat: self.heartbeat(ticket),
        })
    }

    fn heartbeat(&self, ticket: u64) -> Heartbeat {
        let (baseline, key) = (self.0.clone(), self.key(ticket));
        Heartbeat::every(self.0.lease / 2, move || {
            let renewed = baseline.client.update_item().table_name(&baseline.table);
            let expires = (unix_now() + baseline.lease).as_secs_f64();
            let renewed = renewed
                .set_key(Some(key.clone()))
                .update_expression("SET expiresAt = :expires")
                .condition_expression("attribute_exists(pk)")
                .expression_attribute_values(":expires", number(expires));
            async move { drop(renewed.send().await) }
        })
    }

    /// Whether the first row that has not expired is this one.
    async fn is_first(&self, sort_key: &str) -> Result<bool, Failed> {
        let now = unix_now().as_secs_f64();
        let mut from = None;
        // The loop ends with the last page.
        loop {
            let (page, next) = self.page(from).await?;
            if let Some(first) = page.iter().find(|row| !has_expired(row, now)) {
                return Ok(first.get("sk") == Some(&text(sort_key)));
            }
            if next.is_none() {
                return Ok(false);
            }
            from = next;
        }
    }

    async fn page(&self, from: Option<Item>) -> Result<(Vec<Item>, Option<Item>), Failed> {
        let read = self.0.client.query().table_name(&self.0.table);
        let read = read
            .consistent_read(true)
            .set_exclusive_start_key(from)
            .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
            .expression_attribute_values(":pk", text(&self.0.lock))
            .expression_attribute_values(":sk", text(QUEUE))
            .limit(PAGE);
        let read = read.send().await?;
        Ok((read.items.unwrap_or_default(), read.last_evaluated_key))
    }

    fn key(&self, ticket: u64) -> Item {
        key(&self.0.lock, &sort_key(ticket))
    }
}

impl Row {
    pub(crate) async fn release(self) -> Result<(), Failed> {
        drop(self.heartbeat);
        let deleted = self.baseline.client.delete_item();
        let deleted = deleted.table_name(&self.baseline.table);
        let deleted = deleted.set_key(Some(key(&self.baseline.lock, &sort_key(self.ticket))));
        deleted.send().await?;
        Ok(())
    }
}

fn counter() -> Item {
    key("ticket-master", "current")
}

fn key(pk: &str, sk: &str) -> Item {
    HashMap::from([("pk".into(), text(pk)), ("sk".into(), text(sk))])
}

/// Padded, so that the order of strings is that of numbers.
fn sort_key(ticket: u64) -> String {
    format!("{QUEUE}{ticket:038}")
}

fn has_expired(row: &Item, now: f64) -> bool {
    let expires = numeral(row, "expiresAt").and_then(|expires| expires.parse::<f64>().ok());
    expires.is_some_and(|expires| expires < now)
}

fn numeral<'a>(item: &'a Item, attribute: &str) -> Option<&'a String> {
    item.get(attribute)?.as_n().ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this algorithm compares the wall clocks of its hosts"
)]
fn unix_now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}
