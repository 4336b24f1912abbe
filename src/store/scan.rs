//! Which locks there are in the table.

use futures::FutureExt;

use crate::name::LockName;

use super::codec::{Item, text};
use super::failure::{Failure, sort};
use super::{Store, Timed};

/// Everything of this namespace, rows too: whatever is left of a lock is to be found.
const OURS: &str = "begins_with(#sk, :prefix)";
const NAME: &str = "#pk";

/// How far a scan of the table has come.
#[derive(Clone, Debug)]
pub(crate) struct Place(Item);

impl Store {
    /// The locks that one page of the table tells of, each once, and where to go on; none at the table's end.
    pub(crate) async fn scan_locks(
        &self,
        from: Option<Place>,
    ) -> Result<Timed<(Vec<LockName>, Option<Place>)>, Failure> {
        self.timed(self.send_scan(from)).await
    }

    async fn send_scan(
        &self,
        from: Option<Place>,
    ) -> Result<(Vec<LockName>, Option<Place>), Failure> {
        let prefix = format!("{}/", self.config.namespace);
        let request = self.client.scan().table_name(&self.config.table);
        let request = request
            .filter_expression(OURS)
            .projection_expression(NAME)
            .set_expression_attribute_names(Some(self.names(&[OURS, NAME])))
            .expression_attribute_values(":prefix", text(prefix))
            .set_exclusive_start_key(from.map(|Place(key)| key));
        let answer = request.send().boxed().await;
        let answer = answer.map_err(|error| sort("scan for locks", error))?;
        let names = self.lock_names(answer.items.unwrap_or_default());
        Ok((names, answer.last_evaluated_key.map(Place)))
    }

    /// A scan shows all items of a partition in a row.
    fn lock_names(&self, items: Vec<Item>) -> Vec<LockName> {
        let Store { config, .. } = self;
        let keys = items
            .iter()
            .filter_map(|item| item.get(&config.names.partition_key)?.as_s().ok());
        let mut names: Vec<_> = keys
            .filter_map(|name| LockName::new(name, &config.namespace).ok())
            .collect();
        names.dedup();
        names
    }
}
