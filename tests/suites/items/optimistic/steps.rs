//! What a test does during one update, and what updates decide.

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, Gate, When};
use fairlock::{Change, Item, Version, VersionedTable};

use super::bank::{Bank, opened};
use fairlock_testkit::ambiguous_endings::first;

pub(crate) fn number(version: i64) -> Version {
    Version::Number(version.try_into().unwrap())
}

/// An update whose write is held up until `meanwhile` is done.
pub(crate) async fn despite<T>(
    bank: &Bank,
    operation: &'static str,
    update: impl AsyncFnOnce(VersionedTable) -> T,
    meanwhile: impl AsyncFnOnce(VersionedTable),
) -> T {
    let (network, gate) = (bank.network(1), Gate::closed());
    first(&network, operation, Fault::Hold(When::Before, gate.clone()));
    let meanwhile = async {
        gate.reached(1).await;
        meanwhile(bank.accounts()).await;
        gate.open();
    };
    tokio::join!(update(bank.accounts_on(&network, 1)), meanwhile).0
}

/// What an update decides.
pub(crate) type Decided = Result<Change, &'static str>;

pub(crate) fn delete(item: Option<Item>) -> Decided {
    item.map_or(Err("gone"), |_| Ok(Change::Delete))
}

pub(crate) fn create(item: Option<Item>) -> Decided {
    item.map_or_else(|| Ok(Change::Put(opened())), |_| Err("taken"))
}

pub(crate) fn touch(item: Option<Item>) -> Decided {
    let mut item = item.ok_or("gone")?;
    item.insert("touched".into(), AttributeValue::Bool(true));
    Ok(Change::Put(item))
}

/// How an update decides.
pub(crate) type Decide = fn(Option<Item>) -> Decided;
