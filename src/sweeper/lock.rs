//! Removes what is settled or dead, and nothing else; every removal is conditional on what was seen.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::client_state::ClientInner;
use crate::queue;
use crate::queue::snapshot::{self, Snapshot};
use crate::store::Timed;
use crate::store::requests::{Requests, RetryPolicy};
use crate::sweeper::removal;
use crate::sweeper::undated;
use crate::vocabulary::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{LockItem, TicketRow};
use fairlock_protocol::judge::Judge;
use fairlock_protocol::lease::EntryLocation;
use fairlock_protocol::stamps::{self, Reading};
use fairlock_protocol::step::{Known, Occupant, Removal};
use fairlock_protocol::sweep::{SweepStep, next_sweep};
use fairlock_protocol::write::RowWrite;

use super::report::SweepReport;

/// The most snapshots of one pass over one lock: a damaged counter must not keep one pass busy for ever. After each, the pass removes
/// something, or meets what another client changed.
const ROUNDS: usize = 200;
/// The most removals in a row that may be refused before the pass ends. After one refusal, the next snapshot shows more. After many in a
/// row, no snapshot will do.
const REFUSED: usize = 5;
/// The most pages of a queue that one round reads. Later passes read what is further back.
const PAGES: usize = 50;
/// Rows read at a time where there is no lock item.
const ROWS: usize = 100;
/// A lock's newest ticket is at least this old before its item is removed because it is out of use.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The same where an operator wants it removed. So much the times may differ by which clients begin tickets, at the most.
const MINUTE: Duration = Duration::from_secs(60);

/// Which idle locks a pass removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToRemove {
    /// Each that no client has written to for the idle retention.
    OutOfUse,
    /// All.
    EveryIdle,
}

/// A pass over a single lock.
struct Sweep<'a> {
    requests: &'a Requests,
    /// What the newest answer told of the time.
    reading: Reading,
    /// The lock's name, with as many permits as its item shows.
    name: LockName,
    policy: RetryPolicy,
    /// What earlier passes have seen, too, where a sweeper sweeps again and again.
    judge: &'a mut Judge,
    to_remove: ToRemove,
    /// How many removals in a row found that another client was first.
    refused: usize,
    swept: SweepReport,
}

impl ClientInner {
    /// Sweeps one lock.
    pub(crate) async fn sweep(
        self: &Arc<Self>,
        name: &LockName,
        judge: &mut Judge,
        to_remove: ToRemove,
    ) -> Result<SweepReport, Failure> {
        let mut sweep = Sweep {
            requests: &self.requests,
            reading: Reading::UNTOLD,
            name: name.as_found(),
            policy: self.policy_of_few(self.closed.clone()),
            judge,
            to_remove,
            refused: 0,
            swept: SweepReport::default(),
        };
        // Boxed, because callers' futures would otherwise get too deep for the compiler's limits.
        if let Some(item) = Box::pin(sweep.run()).await? {
            self.saw(&sweep.name, &item);
        }
        let swept = sweep.swept;
        if !swept.is_nothing() {
            tracing::info!(lock = %name, %swept, "swept");
        }
        Ok(swept)
    }
}

impl Sweep<'_> {
    /// Sweeps until a snapshot shows nothing more to be removed, and returns its lock item. The number of rounds is bounded.
    async fn run(&mut self) -> Result<Option<LockItem>, Failure> {
        for _ in 0..ROUNDS {
            if self.policy.stop.is_cancelled() || self.is_too_late() {
                break;
            }
            let Some(snapshot) = self.poll().await? else {
                self.remove_orphans().await?;
                return Ok(None);
            };
            if let Some(last) = self.round(snapshot).await? {
                undated::stamp(self.requests, &self.name, (&last, self.reading)).await;
                return Ok(Some(Arc::unwrap_or_clone(last.item)));
            }
        }
        self.swept.has_more = true;
        Ok(None)
    }

    /// Whether other clients were first too often.
    fn is_too_late(&self) -> bool {
        self.refused > REFUSED
    }

    /// Notes whether a removal changed anything, or another client was first.
    fn note(&mut self, is_applied: bool) {
        self.refused = if is_applied { 0 } else { self.refused + 1 };
    }

    async fn poll(&mut self) -> Result<Option<Snapshot>, Failure> {
        let answer = snapshot::read(self.requests, &self.name, 0, &self.policy).await?;
        Ok(answer.map(|answer| {
            self.name = self.name.with_permits(answer.value.item.permits);
            self.saw(answer)
        }))
    }

    /// Removes what a snapshot shows to be expired or settled. Returns the last snapshot if nothing is left that this pass could
    /// remove, and `None` if a new one is to be taken. Each round of the loop evicts an entry of the lock item, reads one of a bounded
    /// number of pages, or is refused. The number of refusals in a row is bounded.
    async fn round(&mut self, mut snapshot: Snapshot) -> Result<Option<Snapshot>, Failure> {
        let mut pages = 1;
        loop {
            let next = match self.decide(&snapshot) {
                SweepStep::Remove(removal) => self.remove(&snapshot, &removal).await?,
                // What is behind the first page comes to the front in the next round.
                SweepStep::Delete(upto) => {
                    let is_applied = self.remove_rows(snapshot.settled_rows(upto)).await?;
                    self.note(is_applied);
                    None
                }
                // The answer to an eviction shows no rows.
                SweepStep::ReadOn if snapshot.known == Known::Nothing => None,
                SweepStep::ReadOn if pages < PAGES => {
                    pages += 1;
                    snapshot::read_on(
                        (snapshot, self.reading),
                        self.requests,
                        &self.name,
                        &self.policy,
                    )
                    .await?
                }
                SweepStep::ReadOn => {
                    self.swept.has_more = true;
                    return Ok(Some(snapshot));
                }
                SweepStep::Idle => {
                    self.remove_idle(&snapshot.item).await?;
                    return Ok(Some(snapshot));
                }
                SweepStep::Done => return Ok(Some(snapshot)),
            };
            match next {
                Some(next) if !self.is_too_late() => snapshot = self.saw(next),
                _ => return Ok(None),
            }
        }
    }

    /// The next step by a snapshot, as `fairlock_protocol::sweep` decides it.
    fn decide(&self, snapshot: &Snapshot) -> SweepStep {
        let now = self.requests.store.judges(self.reading);
        let view = self.judge.view(snapshot, &now);
        next_sweep(&view, |gap| self.judge.expired(&snapshot.item, &now, gap))
    }

    /// Carries out a removal, and counts what it removed. Returns the lock as the answer shows it.
    async fn remove(
        &mut self,
        snapshot: &Snapshot,
        removal: &Removal,
    ) -> Result<Option<Timed<Snapshot>>, Failure> {
        let (requests, name) = (self.requests, &self.name);
        let removed = removal::carry_out(requests, name, &self.policy, snapshot, removal).await?;
        let entries = match removal {
            Removal::Evict(_) => &mut self.swept.holders,
            Removal::EvictSuccessor(_) => &mut self.swept.successors,
            Removal::Void(_) | Removal::Settle(_) => &mut self.swept.waiters,
        };
        *entries += removed.entries;
        self.swept.gaps += removed.gaps;
        self.note(removed.is_applied);
        let shown = removed.shown.and_then(Timed::transpose);
        Ok(shown.map(|answer| answer.map(Snapshot::of)))
    }

    fn saw(&mut self, answer: Timed<Snapshot>) -> Snapshot {
        let upto = answer.value.item.last;
        self.judge.saw(&answer.value, upto, answer.arrived);
        self.reading = answer.reading;
        answer.value
    }

    /// Removes rows. Returns whether any row was removed.
    async fn remove_rows<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a TicketRow>,
    ) -> Result<bool, Failure> {
        let before = self.swept.rows;
        let store = &self.requests.store;
        for row in rows {
            let write = RowWrite::remove(row);
            let remove = || queue::delete(store, &self.name, row.ticket, &write);
            let gone = self.requests.retry(&self.policy, remove).await?;
            self.swept.rows += u64::from(gone);
        }
        Ok(self.swept.rows > before)
    }

    /// Removes the rows of a lock that has no lock item. Such a lock starts again above all tickets drawn before, so its rows are
    /// settled; the rows of live waiters are left to them. The lock item is read once more after the rows, so that these are not
    /// the rows of a lock that started meanwhile.
    async fn remove_orphans(&mut self) -> Result<(), Failure> {
        let (requests, name) = (self.requests, self.name.clone());
        let read = || queue::read(&requests.store, &name, None, ROWS);
        let page = self.heard(requests.retry(&self.policy, read).await?);
        let read = || requests.store.read_lock(&name);
        let lock = self.heard(requests.retry(&self.policy, read).await?);
        if page.lock.is_some() || lock.is_some() {
            self.swept.has_more = true;
            return Ok(());
        }
        self.swept.has_more |= page.next.is_some();
        let now = self.requests.store.judges(self.reading);
        let is_over = |row: &&TicketRow| {
            row.waiting().is_none_or(|entry| {
                let place = EntryLocation::Row(row.ticket);
                self.judge.occupant(place, entry, &now) == Occupant::Dead
            })
        };
        let over: Vec<_> = page.rows.iter().filter(is_over).collect();
        self.remove_rows(over.into_iter()).await.map(|_| ())
    }

    fn heard<T>(&mut self, answer: Timed<T>) -> T {
        self.reading = answer.reading;
        answer.value
    }

    /// Removes an idle item, if it is to be removed.
    async fn remove_idle(&mut self, item: &LockItem) -> Result<(), Failure> {
        if !self.is_to_be_removed(item) {
            return Ok(());
        }
        tracing::info!(lock = %self.name, last = %item.last, "removes an idle lock");
        let remove = || self.requests.store.remove_idle(&self.name, item);
        let gone = self.requests.retry(&self.policy, remove).await?;
        self.swept.locks += u64::from(gone);
        Ok(())
    }

    /// Whether an idle item is to be removed. It is out of use if it has expired by both clocks, or by this host's where answers tell no
    /// time. The newest ticket, which is a time in microseconds, must be past: then the lock comes back with larger tickets.
    fn is_to_be_removed(&self, item: &LockItem) -> bool {
        let host = self.requests.store.config().clock.unix();
        let now = self.reading.date.map_or(host, |date| host.min(date.0));
        let drawn = Duration::from_micros(item.last.get());
        let is_idle = match self.requests.store.is_told_no_time() {
            true => item.expires_at < host.as_secs(),
            false => stamps::is_idle(item.expires_at, self.reading),
        };
        let has_expired = item.expires_at > 0 && is_idle;
        match self.to_remove {
            ToRemove::OutOfUse => has_expired && drawn + DAY < now,
            ToRemove::EveryIdle => drawn + MINUTE < now,
        }
    }
}
