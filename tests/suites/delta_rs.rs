//! The adapter of `docs/migration-delta-rs.md`: fairlock behind the trait of the crate `dynamodb_lock`, as callers of that trait see it. The
//! page has the adapter as it stands here.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::time::Duration;

use fairlock::RecordWait;
use fairlock::embedded::Faults;
use fairlock_testkit::lab::{Host, Lab, cut_off};
use fairlock_testkit::virtual_time;

use adapter::FairLockClient;
use shape::{DynamoError, LockClient, LockItem};

/// The public items of `dynamodb_lock` 0.6.1 that the adapter needs, with the names and types that they have there. The crate itself is not
/// a dependency: it stands on rusoto 0.47, which is not maintained, and whose TLS and HTTP have advisories. Its trait is made by `async_trait`.
mod shape {
    use std::fmt::Debug;
    use std::future::Future;

    #[derive(Clone, Debug)]
    pub(super) struct LockItem {
        pub(super) owner_name: String,
        pub(super) record_version_number: String,
        pub(super) lease_duration: Option<u64>,
        pub(super) is_released: bool,
        pub(super) data: Option<String>,
        pub(super) lookup_time: u128,
        pub(super) acquired_expired_lock: bool,
        pub(super) is_non_acquirable: bool,
    }

    #[derive(Debug, PartialEq)]
    pub(super) enum DynamoError {
        TableNotFound,
        ConditionalCheckFailed,
        InvalidItemSchema,
        /// There it is a `RusotoError<GetItemError>`, of which `RusotoError::Validation` takes a text.
        GetItemError(String),
    }

    pub(super) trait LockClient: Send + Sync + Debug {
        fn try_acquire_lock(
            &self,
            data: &str,
        ) -> impl Future<Output = Result<Option<LockItem>, DynamoError>> + Send;
        fn get_lock(&self) -> impl Future<Output = Result<Option<LockItem>, DynamoError>> + Send;
        fn update_data(
            &self,
            lock: &LockItem,
        ) -> impl Future<Output = Result<LockItem, DynamoError>> + Send;
        fn release_lock(
            &self,
            lock: &LockItem,
        ) -> impl Future<Output = Result<bool, DynamoError>> + Send;
    }
}

// The page has what is between these two lines.
// <adapter>
mod adapter {
    use super::{DynamoError, LockClient, LockItem}; // of `dynamodb_lock`
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
            Error::Refused { .. } if text.contains("ResourceNotFound") => {
                DynamoError::TableNotFound
            }
            _ => DynamoError::GetItemError(text),
        }
    }
}
// </adapter>

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);

fn client(host: &Host) -> FairLockClient {
    let lock = host.locks.fair_lock("s3://bucket/table").unwrap();
    FairLockClient::new(lock, RecordWait::Timeout(60 * SECOND))
}

fn busy(host: &Host) -> FairLockClient {
    let lock = host.locks.fair_lock("s3://bucket/table").unwrap();
    FairLockClient::new(lock, RecordWait::Timeout(SECOND))
}

#[test]
fn a_lock_is_acquired_shown_updated_and_released() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (one, two) = (client(&lab.host()), busy(&lab.host()));
        assert!(two.get_lock().await.unwrap().is_none());
        let mut lock = one.try_acquire_lock("src, dst").await.unwrap().unwrap();
        assert!(!lock.acquired_expired_lock && !lock.is_released && !lock.is_non_acquirable);
        assert_eq!(lock.data.as_deref(), Some("src, dst"));
        assert!(two.try_acquire_lock("other").await.unwrap().is_none());
        let shown = two.get_lock().await.unwrap().unwrap();
        assert_eq!(shown.record_version_number, lock.record_version_number);
        assert_eq!(
            (&*shown.owner_name, shown.lease_duration),
            ("host-0", Some(30))
        );
        assert_eq!(shown.lookup_time / 1_000_000_000_000, 1);
        lock.data = Some("src, new".to_owned());
        let updated = one.update_data(&lock).await.unwrap();
        assert_eq!(updated.data.as_deref(), Some("src, new"));
        // Longer than the lease: the old client had to update its data to keep the lock.
        lab.wait(3 * LEASE).await;
        assert!(one.release_lock(&updated).await.unwrap());
        assert!(!one.release_lock(&updated).await.unwrap());
        let next = two.try_acquire_lock("other").await.unwrap().unwrap();
        assert!(!next.acquired_expired_lock);
        assert_eq!(next.data.as_deref(), Some("other"));
    });
}

#[test]
fn what_a_dead_holder_was_at_is_handed_to_the_next() {
    virtual_time(async {
        let lab = Lab::new().await;
        let (host, other) = (lab.host(), lab.host());
        let (dead, next) = (client(&host), client(&other));
        let stale = dead.try_acquire_lock("src, dst").await.unwrap().unwrap();
        host.network.set_faults(cut_off());
        let lock = next.try_acquire_lock("mine").await.unwrap().unwrap();
        assert!(lock.acquired_expired_lock);
        assert_eq!(lock.data.as_deref(), Some("src, dst"));
        // It repairs, and then says what it does itself.
        let mine = Some("mine".to_owned());
        let lock = next
            .update_data(&LockItem { data: mine, ..lock })
            .await
            .unwrap();
        host.network.set_faults(Faults::default());
        let refused = dead.update_data(&stale).await.unwrap_err();
        assert_eq!(refused, DynamoError::ConditionalCheckFailed);
        assert!(!dead.release_lock(&stale).await.unwrap());
        assert_eq!(
            next.get_lock().await.unwrap().unwrap().data.as_deref(),
            Some("mine")
        );
        assert!(next.release_lock(&lock).await.unwrap());
    });
}

#[test]
fn errors_are_those_of_the_old_crate() {
    virtual_time(async {
        let lab = Lab::new().await;
        let nowhere = busy(&lab.host_with(|builder| builder.table("not-there")));
        let refused = nowhere.try_acquire_lock("").await.unwrap_err();
        assert_eq!(refused, DynamoError::TableNotFound);
        let host = lab.host();
        host.network.set_faults(cut_off());
        let silent = busy(&host).get_lock().await.unwrap_err();
        assert!(
            matches!(silent, DynamoError::GetItemError(told) if told.contains("did not serve"))
        );
    });
}

/// The lines between the marks, without the indentation that the module adds.
fn shown(source: &str) -> String {
    let after = source
        .split("// <adapter>\nmod adapter {\n")
        .nth(1)
        .unwrap();
    let inside = after.split("\n}\n// </adapter>").next().unwrap();
    let lines = inside
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line));
    let shown = lines.collect::<Vec<_>>().join("\n");
    shown
        .replace(
            "use super::{DynamoError, LockClient, LockItem}; // of `dynamodb_lock`\n",
            "",
        )
        .replace("pub(crate) ", "pub ")
}

#[test]
fn the_page_has_this_adapter() {
    let page = include_str!("../../docs/migration-delta-rs.md");
    let adapter = shown(include_str!("delta_rs.rs"));
    let lines = adapter.lines().count();
    assert!(
        page.contains(&adapter),
        "the adapter of the page is another one"
    );
    assert!((50..120).contains(&lines), "{lines}");
    assert!(
        !page.contains(&adapter.replace("clear_data", "set_data")),
        "planted"
    );
}
