//! Which locks there are in the table.

use aws_sdk_dynamodb::operation::scan::builders::ScanFluentBuilder;

use crate::vocabulary::name::{LockName, lock_key};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;

use super::codec::{Item, text};
use super::failure::{not_dynamodbs, sort};
use super::{Store, Timed};

/// Everything of this namespace, rows too, so that anything that is left of a lock is found.
const OURS: &str = "begins_with(#sk, :prefix)";
const NAME: &str = "#pk";

/// Lock items alone.
const LOCK_ITEMS: &str = "#sk = :lock";

/// A lock item found by a scan, if it reads as one.
type Found = (LockName, Result<LockItem, Failure>);

const LIST: &str = "list the locks";

/// How far a scan of the table has come.
#[derive(Clone, Debug)]
pub(crate) struct ScanPlace(Item);

impl Store {
    /// The locks of which one page of the table tells, each once, and where to go on. That is `None` at the table's end.
    pub(crate) async fn scan_locks(
        &self,
        from: Option<ScanPlace>,
    ) -> Result<Timed<(Vec<LockName>, Option<ScanPlace>)>, Failure> {
        let prefix = text(format!("{}/", self.config.namespace));
        let ours = self.client.scan().filter_expression(OURS);
        let ours = ours
            .projection_expression(NAME)
            .set_expression_attribute_names(Some(self.names(&[OURS, NAME])))
            .expression_attribute_values(":prefix", prefix);
        let page = self.scan_page("scan for locks", ours, from).await?;
        Ok(page.map(|(items, next)| (self.lock_names(items), next)))
    }

    /// The lock items on one page of the table, and where to go on. That is `None` at the table's end.
    pub(crate) async fn scan_lock_items(
        &self,
        from: Option<ScanPlace>,
    ) -> Result<Timed<(Vec<Found>, Option<ScanPlace>)>, Failure> {
        let page = self.scan_page(LIST, self.lock_items(), from).await?;
        Ok(page.map(|(items, next)| (self.all_found(items), next)))
    }

    /// The lock items among the first so many items of the table.
    pub(crate) async fn first_lock_items(&self, of: i32) -> Result<Vec<Found>, Failure> {
        let sample = self.lock_items().limit(of);
        let (items, _) = self.scan_page(LIST, sample, None).await?.value;
        Ok(self.all_found(items))
    }

    /// Selects the lock items of this namespace.
    fn lock_items(&self) -> ScanFluentBuilder {
        let lock = text(lock_key(&self.config.namespace));
        let scan = self.client.scan().filter_expression(LOCK_ITEMS);
        scan.set_expression_attribute_names(Some(self.names(&[LOCK_ITEMS])))
            .expression_attribute_values(":lock", lock)
    }

    /// What a scan selects of one page of the table.
    async fn scan_page(
        &self,
        verb: &'static str,
        selected: ScanFluentBuilder,
        from: Option<ScanPlace>,
    ) -> Result<Timed<(Vec<Item>, Option<ScanPlace>)>, Failure> {
        let request = selected
            .table_name(&self.config.table)
            .set_exclusive_start_key(from.map(|ScanPlace(key)| key));
        let answer = self.once(verb, request.send()).await;
        answer.try_map(|answer| {
            let answer = answer.map_err(|failed| sort(verb, failed))?;
            let items = answer.items.ok_or_else(|| not_dynamodbs(verb))?;
            Ok((items, answer.last_evaluated_key.map(ScanPlace)))
        })
    }

    fn all_found(&self, items: Vec<Item>) -> Vec<Found> {
        let found = items.into_iter().filter_map(|item| {
            let name = self.name_of(&item)?;
            let read = self.decode_lock(LIST, &name, item);
            Some((name, read))
        });
        found.collect()
    }

    fn name_of(&self, item: &Item) -> Option<LockName> {
        let name = item.get(&self.config.names.partition_key)?.as_s().ok()?;
        LockName::new(name, &self.config.namespace).ok()
    }

    /// A scan shows all items of a partition in a row, so each name is kept once.
    fn lock_names(&self, items: Vec<Item>) -> Vec<LockName> {
        let names = items.iter().filter_map(|item| self.name_of(item));
        let mut names: Vec<_> = names.collect();
        names.dedup();
        names
    }
}
