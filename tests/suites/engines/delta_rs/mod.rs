//! fairlock behind the trait of the crate `dynamodb_lock`, as callers of that trait see it. `docs/migration.md` leads to the adapter.

mod adapter;

use std::time::Duration;

use fairlock::RecordWait;
use fairlock::embedded::Faults;
use fairlock_testkit::lab::{Host, SECOND, cut_off, in_lab};

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
    in_lab(async |lab, []| {
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
    in_lab(async |_, [host, other]| {
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
    in_lab(async |lab, []| {
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
