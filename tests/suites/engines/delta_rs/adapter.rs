//! fairlock behind the trait of the crate `dynamodb_lock`: to be copied into a program that uses that trait, such as one of delta-rs.
//!
//! There the first line imports from `dynamodb_lock`, and `#[async_trait::async_trait]` stands above the `impl`, as the trait has it. `GetItemError` takes a
//! `RusotoError::Validation` around the text.

use super::shape::{DynamoError, LockClient, LockItem}; // `use dynamodb_lock::{...}` in a program
use fairlock::{Error, FairLock, LockData, LockGuard, RecordWait, Ticket};
use tokio::sync::Mutex;

/// One lock of fairlock, for callers of `dynamodb_lock::LockClient`. Its guard is renewed until the lock is released.
#[derive(Debug)]
pub(crate) struct FairLockClient {
    lock: FairLock,
    wait: RecordWait,
    held: Mutex<Option<LockGuard>>,
}

impl FairLockClient {
    pub(crate) fn new(lock: FairLock, wait: RecordWait) -> Self {
        let held = Mutex::new(None);
        FairLockClient { lock, wait, held }
    }
}

impl LockClient for FairLockClient {
    async fn try_acquire_lock(&self, data: &str) -> Result<Option<LockItem>, DynamoError> {
        let guard = match self.lock.acquire(self.wait).await {
            Ok(guard) => guard,
            Err(Error::NotGranted { .. }) => return Ok(None),
            Err(error) => return Err(told(error)),
        };
        // A holder that released has cleared its data. What is left tells what a dead one was at, and is handed to the caller.
        let left = guard.data();
        if left.is_none() {
            guard.set_data(data).await.map_err(told)?;
        }
        let item = item(guard.ticket(), guard.data(), left.is_some());
        *self.held.lock().await = Some(guard);
        Ok(Some(item))
    }

    async fn get_lock(&self) -> Result<Option<LockItem>, DynamoError> {
        let state = self.lock.inspect().await.map_err(told)?;
        Ok(state.holder.map(|holder| LockItem {
            owner_name: holder.owner,
            lease_duration: Some(holder.lease.as_secs()),
            ..item(holder.ticket, state.data, false)
        }))
    }

    async fn update_data(&self, lock: &LockItem) -> Result<LockItem, DynamoError> {
        let held = self.held.lock().await;
        let guard = held.as_ref().filter(|guard| is_of(guard, lock));
        let guard = guard.ok_or(DynamoError::ConditionalCheckFailed)?;
        guard
            .set_data(lock.data.as_deref().unwrap_or_default())
            .await
            .map_err(told)?;
        Ok(item(guard.ticket(), guard.data(), false))
    }

    async fn release_lock(&self, lock: &LockItem) -> Result<bool, DynamoError> {
        let mut held = self.held.lock().await;
        let Some(guard) = held.take_if(|guard| is_of(guard, lock)) else {
            return Ok(false);
        };
        match guard.clear_data().await.and(guard.release().await) {
            Ok(()) => Ok(true),
            Err(Error::Lost { .. }) => Ok(false), // another caller may have held it meanwhile
            Err(error) => Err(told(error)),
        }
    }
}

/// The ticket takes the place of the version: it is the fencing token, and stays the same for the whole hold.
fn item(ticket: Ticket, data: Option<LockData>, acquired_expired_lock: bool) -> LockItem {
    let text = data.map(|data| String::from_utf8_lossy(&data.bytes).into_owned());
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    LockItem {
        owner_name: String::new(),
        record_version_number: ticket.to_string(),
        lease_duration: None,
        is_released: false,
        data: text,
        lookup_time: now.as_millis(),
        acquired_expired_lock,
        is_non_acquirable: false,
    }
}

fn is_of(guard: &LockGuard, lock: &LockItem) -> bool {
    lock.record_version_number == guard.ticket().to_string()
}

fn told(error: Error) -> DynamoError {
    let text = error.to_string();
    match error {
        Error::Lost { .. } => DynamoError::ConditionalCheckFailed,
        Error::InvalidItem { .. } => DynamoError::InvalidItemSchema,
        Error::Refused { .. } if text.contains("ResourceNotFound") => DynamoError::TableNotFound,
        _ => DynamoError::GetItemError(text),
    }
}
