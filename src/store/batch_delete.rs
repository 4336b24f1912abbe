//! Deletes rows that are settled, by as few requests as the policy of the table allows.

use futures::future::try_join_all;

use crate::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::TicketRow;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::RowWrite;

use super::{Operation, Store};

/// DynamoDB's limit for one batch of writes.
const BATCH: usize = 25;

impl Store {
    /// Deletes rows at or below `watermark`, in batches, or one by one where a policy denies batches. Rows carry no authority and
    /// never come back, so a batch needs no condition. What DynamoDB leaves undone, or a policy denies, stays for the next
    /// client that cleans, and for TTL.
    pub(crate) async fn delete_rows(
        &self,
        name: &LockName,
        settled: &[Ticket],
    ) -> Result<(), Failure> {
        for batch in settled.chunks(BATCH) {
            let deletes = self.delete_batch(name, batch);
            if self.permitted(Operation::BatchWriteItem, deletes).await? {
                continue;
            }
            let deletes = self.delete_each(name, batch);
            if !self.permitted(Operation::DeleteItem, deletes).await? {
                self.denials.leave(batch.len());
            }
        }
        Ok(())
    }

    /// Deletes a row of this client's own that is still as it was seen, unless a policy denies it.
    pub(crate) async fn clean_row(&self, name: &LockName, seen: &TicketRow) -> Result<(), Failure> {
        let (write, key) = (RowWrite::remove(seen), self.row_key(name, seen.ticket));
        let delete = self.delete(write.verb, key, write.expressions());
        let delete = async { delete.await.map(|_| ()) };
        if !self.permitted(Operation::DeleteItem, delete).await? {
            self.denials.leave(1);
        }
        Ok(())
    }

    /// How many settled rows this client left in the table because a policy denies their deletion.
    pub(crate) fn rows_left(&self) -> u64 {
        self.denials.left()
    }

    /// Runs an action that only cleaning needs. Returns `false` if a policy denies it, or denied it a while ago.
    async fn permitted(
        &self,
        action: Operation,
        request: impl Future<Output = Result<(), Failure>>,
    ) -> Result<bool, Failure> {
        if self.denials.is_denied(action, self.now()) {
            return Ok(false);
        }
        match request.await {
            Ok(()) => Ok(true),
            Err(failure) if failure.is_denied() => {
                let (table, is_first) = (&self.config.table, self.denials.note(action, self.now()));
                if is_first {
                    warn(table, action, &failure);
                }
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    async fn delete_batch(&self, name: &LockName, batch: &[Ticket]) -> Result<(), Failure> {
        let keys = batch.iter().map(|row| self.row_key(name, *row));
        self.delete_all("delete settled rows", keys).await
    }

    /// Deletes the first row by itself, so that no more than one request is denied.
    async fn delete_each(&self, name: &LockName, batch: &[Ticket]) -> Result<(), Failure> {
        let Some((first, others)) = batch.split_first() else {
            return Ok(());
        };
        self.delete_row(name, *first).await?;
        let others = others.iter().map(|row| self.delete_row(name, *row));
        try_join_all(others).await.map(|_| ())
    }

    async fn delete_row(&self, name: &LockName, settled: Ticket) -> Result<(), Failure> {
        let (write, key) = (RowWrite::remove_settled(), self.row_key(name, settled));
        let removed = self.delete(write.verb, key, write.expressions()).await;
        removed.map(|_| ())
    }
}

fn warn(table: &str, denied: Operation, failure: &Failure) {
    let action = denied.name();
    match denied {
        Operation::BatchWriteItem => tracing::warn!(
            table, action, %failure,
            "may not delete settled rows in batches, and deletes them one by one: permit the action to this client"
        ),
        _ => tracing::warn!(
            table, action, %failure,
            "may not delete settled rows, which stay until TTL or a sweep: permit the action to this client"
        ),
    }
}
