//! Names of locks and namespaces: what is valid, and the keys they make.

use std::fmt;
use std::sync::Arc;

use crate::vocabulary::error::Invalid;
use fairlock_protocol::agent::Lock;
use fairlock_protocol::ticket::{Sequence, Ticket};

/// DynamoDB's limits for a partition key and a sort key, in bytes.
const PARTITION_KEY_LIMIT: usize = 2048;
const SORT_KEY_LIMIT: usize = 1024;

/// `#` sorts before the digits, so the lock item comes first in a query of its queue.
const LOCK_ITEM: &str = "#lock";
const TICKET_DIGITS: usize = 38;

/// A lock's partition key, the prefix of its sort keys, and how many permits its callers say that it has. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockName {
    lock: Arc<str>,
    namespace: Arc<str>,
    /// `None` means as many as its item says.
    permits: Option<u64>,
}

impl LockName {
    /// A lock with as many permits as its item says.
    pub(crate) fn new(lock: &str, namespace: &Arc<str>) -> Result<Self, Invalid> {
        if lock.is_empty() || lock.len() > PARTITION_KEY_LIMIT {
            let bytes = lock.len();
            return Err(Invalid::new(format!(
                "a lock's name takes 1 to {PARTITION_KEY_LIMIT} bytes, and this one has {bytes}"
            )));
        }
        Ok(LockName {
            lock: lock.into(),
            namespace: Arc::clone(namespace),
            permits: None,
        })
    }

    /// A lock as its client has it, whose name a caller has checked.
    pub(crate) fn of(lock: &Lock, namespace: &Arc<str>) -> Self {
        LockName {
            lock: Arc::clone(&lock.name),
            namespace: Arc::clone(namespace),
            permits: Some(lock.permits),
        }
    }

    /// The same lock with `permits` permits, which each write to it requires.
    pub(crate) fn with_permits(&self, permits: u64) -> Self {
        LockName {
            permits: Some(permits),
            ..self.clone()
        }
    }

    /// The same lock, to be read whatever number of permits its item shows.
    pub(crate) fn as_found(&self) -> Self {
        LockName {
            permits: None,
            ..self.clone()
        }
    }

    /// How many permits the callers say that the lock has.
    pub(crate) fn permits(&self) -> Option<u64> {
        self.permits
    }

    pub(crate) fn lock(&self) -> &str {
        &self.lock
    }

    /// The sort key of the lock item.
    pub(crate) fn lock_key(&self) -> String {
        lock_key(&self.namespace)
    }

    /// The sort key of a ticket's row.
    pub(crate) fn row_key(&self, ticket: Ticket) -> String {
        format!("{}/{}", self.namespace, ticket.key())
    }

    /// A sort key behind all rows of this queue.
    pub(crate) fn end_of_queue(&self) -> String {
        format!("{}/{}", self.namespace, "9".repeat(TICKET_DIGITS))
    }

    /// The ticket that a sort key stands for. Returns `None` for any other key, which is not ours.
    pub(crate) fn ticket_of(&self, sort_key: &str) -> Option<Ticket> {
        Ticket::from_key(sort_key.strip_prefix(&*self.namespace)?.strip_prefix('/')?)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock.fmt(f)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockName({}, {})", self.lock, self.namespace)
    }
}

/// The sort key of every lock item of a namespace.
pub(crate) fn lock_key(namespace: &str) -> String {
    format!("{namespace}/{LOCK_ITEM}")
}

/// A namespace never contains `/`, which ends it in the sort key.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), Invalid> {
    let limit = SORT_KEY_LIMIT - 1 - TICKET_DIGITS;
    if namespace.is_empty() || namespace.len() > limit || namespace.contains('/') {
        let rule = format!("must have 1 to {limit} bytes without `/`");
        return Err(Invalid::text("namespace", namespace, &rule));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(lock: &str) -> Result<LockName, Invalid> {
        LockName::new(lock, &"jobs".into())
    }

    #[test]
    fn the_lock_item_sorts_before_the_rows_and_the_rows_by_ticket() {
        let name = name("a").unwrap();
        let keys = [
            name.lock_key(),
            name.row_key(Ticket::new(0)),
            name.row_key(Ticket::new(10)),
            name.row_key(Ticket::new(u64::MAX)),
            name.end_of_queue(),
        ];
        assert!(keys.is_sorted());
    }

    #[test]
    fn only_keys_of_this_namespace_are_tickets() {
        let name = name("a").unwrap();
        let ticket = Ticket::new(77);
        assert_eq!(name.ticket_of(&name.row_key(ticket)), Some(ticket));
        for foreign in [
            "jobs/#lock",
            "jobs/77",
            "other/",
            &format!("job/{}", ticket.key()),
            &ticket.key(),
        ] {
            assert_eq!(name.ticket_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn names_that_dynamodb_cannot_store_are_refused() {
        assert!(name("").is_err());
        assert!(name(&"x".repeat(2049)).is_err());
        assert!(name(&"x".repeat(2048)).is_ok());
        for namespace in ["", "a/b", &"x".repeat(986)] {
            assert!(check_namespace(namespace).is_err(), "{namespace}");
        }
        assert!(check_namespace(&"x".repeat(985)).is_ok());
    }
}
