//! An update of one item: its reads, its conditional writes, and what became of a write without an answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;

use crate::items::fencing::Fence;
use crate::store::requests::RetryPolicy;
use crate::store::{Write, ask, refusal};
use crate::vocabulary::error::{Error, Invalid};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;

use super::error::UpdateError;
use super::revision::{Condition, Fate, Foreign, Revision, Version};
use super::{Change, Item, VersionedTable};

/// A single call of `update`.
pub(super) struct Call<'a> {
    table: &'a VersionedTable,
    key: Item,
    /// An attribute of the key, which exists if and only if the item does.
    key_attribute: String,
    started: Moment,
    policy: RetryPolicy,
}

/// An item as it was read.
pub(super) struct Seen {
    item: Option<Item>,
    revision: Revision,
}

/// The result of a write.
pub(super) enum Written {
    Done(Version, Option<Item>),
    /// The version that stood there in place of the version that was read.
    Conflict(Version),
}

/// A write that may be sent several times.
struct Attempt<'a> {
    verb: &'static str,
    seen: &'a Seen,
    condition: Condition,
    /// `None` if the item is to be deleted.
    item: Option<Item>,
    id: String,
    /// A request of this write was never answered.
    in_doubt: AtomicBool,
}

/// Puts and deletions take conditions by methods of the same names.
macro_rules! on_condition {
    ($request:expr, $condition:expr, $fence:expr) => {{
        let request = $request
            .condition_expression($condition.expression)
            .set_expression_attribute_names(Some($condition.names.clone()))
            .set_expression_attribute_values($condition.values.clone())
            .return_values_on_condition_check_failure(AllOld);
        match &$fence {
            Some(fence) => fence.on(request),
            None => request,
        }
    }};
}

impl<'a> Call<'a> {
    pub(super) fn start(table: &'a VersionedTable, key: Item) -> Result<Self, Invalid> {
        let store = &table.inner.requests.store;
        let key_attribute = checked(table, &key)?.to_owned();
        let started = store.now();
        let policy = RetryPolicy::default().until(started + table.inner.within);
        Ok(Call {
            table,
            key,
            key_attribute,
            started,
            policy,
        })
    }

    pub(super) fn has_time(&self) -> bool {
        !self.policy.is_over(self.table.inner.requests.store.now())
    }

    /// The item as the caller's closure sees it.
    pub(super) fn shown(&self, seen: &Seen) -> Option<Item> {
        let item = seen.item.clone();
        item.map(|item| self.table.inner.attributes.stripped(item))
    }

    /// Reads the item, strongly consistent.
    pub(super) async fn read<E>(&self) -> Result<Seen, UpdateError<E>> {
        let store = &self.table.inner.requests.store;
        let read = || store.get("read an item", self.key.clone());
        let read = self.table.inner.requests.retry(&self.policy, read).await;
        let item = read.map_err(|failure| self.explained(failure))?.value;
        self.check_fence(item.as_ref())?;
        let revision = self.table.inner.attributes.revision(item.as_ref());
        let revision = revision.map_err(|foreign| self.not_a_version(foreign))?;
        Ok(Seen { item, revision })
    }

    /// Does what the closure decided, if the item is still as it was read.
    pub(super) async fn write<E>(
        &self,
        seen: &Seen,
        change: Change,
    ) -> Result<Written, UpdateError<E>> {
        let item = match change {
            Change::Keep => return Ok(Written::Done(seen.revision.version, self.shown(seen))),
            Change::Delete if seen.item.is_none() => {
                return Ok(Written::Done(Version::Absent, None));
            }
            Change::Delete => None,
            Change::Put(item) => Some(item),
        };
        let attempt = self.attempt(seen, item);
        let send = || async {
            let answer = self.send(&attempt).await;
            if answer.as_ref().is_err_and(Failure::is_ambiguous) {
                attempt.in_doubt.store(true, Ordering::Relaxed);
            }
            answer
        };
        match self.table.inner.requests.retry(&self.policy, send).await {
            Ok(Write::Applied(_)) => Ok(self.done(attempt)),
            Ok(Write::ConditionFailed(found)) => self.refused(attempt, found.as_ref()),
            Err(failure) if attempt.is_in_doubt() => {
                Err(self.unknown(seen.revision.version, None, Some(failure)))
            }
            Err(failure) => Err(self.explained(failure).into()),
        }
    }

    fn attempt<'s>(&self, seen: &'s Seen, item: Option<Item>) -> Attempt<'s> {
        let attributes = &self.table.inner.attributes;
        let id = self
            .table
            .inner
            .requests
            .store
            .config()
            .random_source
            .nonce()
            .to_string();
        let item = item.map(|mut item| {
            item.extend(self.key.clone());
            // Added before the ids, which get the room that the rest leaves.
            let fence = self.table.fence.as_ref();
            item.extend(fence.map(|fence| (fence.attribute().to_owned(), fence.value())));
            attributes.marked(item, &id, &seen.revision)
        });
        Attempt {
            verb: match &item {
                Some(_) => "put an item",
                None => "delete an item",
            },
            seen,
            condition: seen.revision.condition(attributes, &self.key_attribute),
            item,
            id,
            in_doubt: AtomicBool::new(false),
        }
    }

    async fn send(&self, attempt: &Attempt<'_>) -> Result<Write<Item>, Failure> {
        match &attempt.item {
            Some(item) => self.put(attempt, item).await,
            None => self.delete(attempt).await,
        }
    }

    async fn put(&self, attempt: &Attempt<'_>, item: &Item) -> Result<Write<Item>, Failure> {
        let store = &self.table.inner.requests.store;
        let put = store.client().put_item();
        let put = put
            .table_name(&store.config().table)
            .set_item(Some(item.clone()));
        let put = on_condition!(put, attempt.condition, self.table.fence);
        match ask(attempt.verb, put.send()).await {
            Ok(_) => Ok(Write::Applied(item.clone())),
            Err(failed) => {
                self.in_the_way(attempt, refusal(attempt.verb, failed)?)
                    .await
            }
        }
    }

    async fn delete(&self, attempt: &Attempt<'_>) -> Result<Write<Item>, Failure> {
        let store = &self.table.inner.requests.store;
        let delete = store.client().delete_item();
        let delete = delete
            .table_name(&store.config().table)
            .set_key(Some(self.key.clone()));
        let delete = on_condition!(delete, attempt.condition, self.table.fence);
        match ask(attempt.verb, delete.send()).await {
            Ok(_) => Ok(Write::Applied(Item::new())),
            Err(failed) => {
                self.in_the_way(attempt, refusal(attempt.verb, failed)?)
                    .await
            }
        }
    }

    /// The item that stood in the way of a write: read, where the answer does not show it.
    async fn in_the_way(
        &self,
        attempt: &Attempt<'_>,
        shown: Option<Item>,
    ) -> Result<Write<Item>, Failure> {
        let found = match shown {
            Some(item) => Some(item),
            None => {
                let store = &self.table.inner.requests.store;
                store.get(attempt.verb, self.key.clone()).await?.value
            }
        };
        Ok(Write::ConditionFailed(found))
    }

    fn done(&self, attempt: Attempt<'_>) -> Written {
        let Some(item) = attempt.item else {
            return Written::Done(Version::Absent, None);
        };
        let mut item = self.table.inner.attributes.stripped(item);
        if let Some(fence) = &self.table.fence {
            item.insert(fence.attribute().to_owned(), fence.value());
        }
        Written::Done(Version::Number(attempt.seen.revision.next()), Some(item))
    }

    /// The condition did not hold: because the write had been applied before, or because something else stands there.
    fn refused<E>(
        &self,
        attempt: Attempt<'_>,
        found: Option<&Item>,
    ) -> Result<Written, UpdateError<E>> {
        let attributes = &self.table.inner.attributes;
        let revision = &attempt.seen.revision;
        let version = attributes.version(found);
        if attempt.is_in_doubt() {
            match revision.fate(attributes, &attempt.id, found) {
                Fate::Applied => return Ok(self.done(attempt)),
                Fate::NotApplied => {}
                Fate::Unknown => return Err(self.unknown(revision.version, version.ok(), None)),
            }
        }
        self.check_fence(found)?;
        let version = version.map_err(|foreign| self.not_a_version(foreign))?;
        Ok(Written::Conflict(version))
    }

    fn check_fence<E>(&self, item: Option<&Item>) -> Result<(), UpdateError<E>> {
        let Some((fence, item)) = self.table.fence.as_ref().zip(item) else {
            return Ok(());
        };
        if let Some(value) = fence.blocked_by(item) {
            return Err(UpdateError::NotAToken {
                table: self.table_name(),
                key: self.key_text(),
                attribute: fence.attribute().to_owned(),
                value,
            });
        }
        let newer = fence.refused_by(item);
        newer.map_or(Ok(()), |newest| {
            Err(UpdateError::Stale {
                table: self.table_name(),
                key: self.key_text(),
                ticket: fence.ticket(),
                newest,
            })
        })
    }

    pub(super) fn conflict<E>(
        &self,
        seen: &Seen,
        found: Version,
        attempts: usize,
    ) -> UpdateError<E> {
        UpdateError::Conflict {
            table: self.table_name(),
            key: self.key_text(),
            expected: seen.revision.version,
            found,
            attempts,
        }
    }

    fn unknown<E>(
        &self,
        expected: Version,
        found: Option<Version>,
        failure: Option<Failure>,
    ) -> UpdateError<E> {
        UpdateError::OutcomeUnknown {
            table: self.table_name(),
            key: self.key_text(),
            expected,
            found,
            source: failure.map(|failure| Box::new(self.explained(failure))),
        }
    }

    fn not_a_version<E>(&self, foreign: Foreign) -> UpdateError<E> {
        UpdateError::NotAVersion {
            table: self.table_name(),
            key: self.key_text(),
            attribute: foreign.attribute,
            value: foreign.value,
        }
    }

    fn explained(&self, failure: Failure) -> Error {
        let waited = self.table.inner.requests.store.now().since(self.started);
        Error::of(failure, &self.table_name(), waited)
    }

    fn table_name(&self) -> String {
        self.table.inner.requests.store.config().table.clone()
    }

    /// The key for people, its attributes in the order of their names.
    fn key_text(&self) -> String {
        let attributes: BTreeMap<_, _> = self.key.iter().collect();
        let shown = attributes.into_iter().map(|(name, value)| match value {
            AttributeValue::S(text) | AttributeValue::N(text) => format!("{name} = {text}"),
            other => format!("{name} = {other:?}"),
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

impl Attempt<'_> {
    fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }
}

/// Checks that no attribute of the key is one of fairlock's own. Returns the name of one of the key's attributes.
fn checked<'k>(table: &VersionedTable, key: &'k Item) -> Result<&'k str, Invalid> {
    let attributes = &table.inner.attributes;
    let own = [&attributes.version, &attributes.writes];
    if let Some(fence) = table.fence.as_ref().map(Fence::attribute)
        && own.iter().any(|name| *name == fence)
    {
        let rule = "must not be an attribute of the versions too";
        return Err(Invalid::text("attribute of the fence", fence, rule));
    }
    if let Some(fence) = table.fence.as_ref().map(Fence::attribute)
        && key.contains_key(fence)
    {
        let rule = "must not be a part of the key too: the token would take the key's place";
        return Err(Invalid::text("attribute of the fence", fence, rule));
    }
    if let Some(name) = own.into_iter().find(|name| key.contains_key(*name)) {
        let rule = "must not be a part of the key too";
        return Err(Invalid::text("attribute of the versions", name, rule));
    }
    let rule = "must be the partition key, and the sort key if the table has one";
    let first = key.keys().min().map(String::as_str);
    first.ok_or_else(|| Invalid::text("key", "", rule))
}
