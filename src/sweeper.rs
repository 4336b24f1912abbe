//! Removes what is settled or dead, and nothing else; every removal is conditional on what was seen.

use std::time::Duration;

use crate::name::LockName;
use crate::reclaim;
use crate::snapshot::{self, Snapshot};
use crate::store::{Failure, RetryPolicy, Store, Timed, Write};
use crate::sweep_report::{IdleLocks, SweepReport};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::gaps::Gaps;
use fairlock_protocol::item::{LockItem, TicketRow};
use fairlock_protocol::lease::{LivenessTracker, Place};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::step::{Has, Known, Occupant, Unsettled};
use fairlock_protocol::sweep::{SweepStep, next_sweep};
use fairlock_protocol::witness::Witnesses;

/// Rounds of one pass over one lock, each of which removes something: a damaged counter must not keep one pass
/// busy for ever.
const ROUNDS: usize = 200;
/// Rounds whose removal was refused, because somebody else was first. One shows more than the look before it; many in a row show that
/// no look will do.
const REFUSED: usize = 5;
/// Pages of a queue read in one round at the most; what is further back is for later passes.
const PAGES: usize = 50;
/// Evictions tried in one round at the most: more than one lock item has entries, unless each look shows another one.
const EVICTIONS: usize = 200;
/// Rows read at a time where there is no lock item.
const ROWS: usize = 100;
/// A lock's newest ticket is at least this old before its item is removed when idle.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Since when one who sweeps again and again has seen everyone stand still.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    watches: LivenessTracker,
    gaps: Gaps,
}

impl Observer {
    /// Whether there is anything to be remembered until the next pass.
    pub(crate) fn watches_somebody(&self) -> bool {
        !self.watches.is_empty() || !self.gaps.is_empty()
    }

    fn poll(&mut self, snapshot: &Snapshot, arrived: Moment) {
        self.watches
            .poll(arrived, |place| snapshot.covers(place), snapshot.entries());
        let shown = snapshot.gaps(snapshot.item.last);
        self.gaps.poll(arrived, snapshot.known.end(), shown);
    }
}

/// One pass over one lock.
pub(crate) struct Sweep<'a> {
    pub(crate) store: &'a Store,
    /// What time the answers of this pass told.
    pub(crate) witnesses: Witnesses,
    /// With as many permits as its item shows.
    pub(crate) name: LockName,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) observer: &'a mut Observer,
    pub(crate) idle_locks: IdleLocks,
    pub(crate) swept: SweepReport,
}

/// What a round came to.
enum Round {
    /// Something was removed, so the snapshot is out of date.
    Removed,
    /// Somebody else was first, so the snapshot is out of date too.
    Refused(Snapshot),
    /// Nothing is left that this pass could remove.
    Over(Snapshot),
}

impl Round {
    fn of(is_removed: bool, snapshot: Snapshot) -> Round {
        match is_removed {
            true => Round::Removed,
            false => Round::Refused(snapshot),
        }
    }
}

impl Sweep<'_> {
    /// Sweeps until a look shows nothing more to be removed, and gives back what it showed. The rounds are of a bounded number.
    pub(crate) async fn run(&mut self) -> Result<Option<LockItem>, Failure> {
        let mut refused = 0;
        for _ in 0..ROUNDS {
            if self.policy.stop.is_cancelled() {
                break;
            }
            let Some(snapshot) = self.poll().await? else {
                self.remove_orphans().await?;
                return Ok(None);
            };
            let last = match self.round(snapshot).await? {
                Round::Removed => {
                    refused = 0;
                    continue;
                }
                Round::Refused(_) if refused < REFUSED => {
                    refused += 1;
                    continue;
                }
                Round::Refused(last) => {
                    self.swept.has_more = true;
                    last
                }
                Round::Over(last) => last,
            };
            reclaim::date(self.store, &self.name, &last).await;
            return Ok(Some(last.item));
        }
        self.swept.has_more = true;
        Ok(None)
    }

    /// Looks, and looks again where one answer alone says that somebody is dead.
    async fn poll(&mut self) -> Result<Option<Snapshot>, Failure> {
        let snapshot = self.poll_once().await?;
        match snapshot {
            Some(snapshot) if self.suspects(&snapshot) => self.poll_once().await,
            snapshot => Ok(snapshot),
        }
    }

    async fn poll_once(&mut self) -> Result<Option<Snapshot>, Failure> {
        let answer = Snapshot::read(self.store, &self.name, 0, self.policy).await?;
        Ok(answer.map(|answer| {
            self.name = self.name.with_permits(answer.value.item.permits);
            self.witnesses.hear(answer.date);
            self.observer.poll(&answer.value, answer.arrived);
            answer.value
        }))
    }

    /// Whether something would be over if one more answer told the same time.
    fn suspects(&self, snapshot: &Snapshot) -> bool {
        let (config, hint) = (self.store.config(), self.witnesses.hint());
        let is_dead = |entry| snapshot::by_common_clock(config, entry, hint) == Occupant::Dead;
        let is_over = || snapshot::gaps_are_over(config, &snapshot.item, hint);
        let is_alone = self.witnesses.time().is_none();
        is_alone && (is_over() || snapshot.entries().any(|(_, entry)| is_dead(entry)))
    }

    /// Removes what a snapshot shows to be over. Each turn of the loop reads a page or tries an eviction, both of a bounded number, or is
    /// the last.
    async fn round(&mut self, mut snapshot: Snapshot) -> Result<Round, Failure> {
        let (mut pages, mut evictions) = (1, 0);
        loop {
            let (step, is_read) = (self.decide(&snapshot), snapshot.known != Known::Nothing);
            let next = match step {
                SweepStep::Evict(has) if evictions < EVICTIONS => {
                    evictions += 1;
                    self.evict(&snapshot.item, has).await?
                }
                SweepStep::EvictSuccessor(index) if evictions < EVICTIONS => {
                    evictions += 1;
                    self.evict_successor(&snapshot.item, index).await?
                }
                // The answer to an eviction shows no rows.
                SweepStep::ReadOn if !is_read => None,
                SweepStep::ReadOn if pages < PAGES => {
                    pages += 1;
                    self.read_on(snapshot).await?
                }
                SweepStep::Evict(_) | SweepStep::EvictSuccessor(_) | SweepStep::ReadOn => {
                    self.swept.has_more = true;
                    return Ok(Round::Over(snapshot));
                }
                SweepStep::Delete(upto) => {
                    // What is behind the first page comes to the front in the next round.
                    let is_removed = self
                        .remove_rows(snapshot.settled_rows(upto).collect())
                        .await?;
                    return Ok(Round::of(is_removed, snapshot));
                }
                SweepStep::Settle(over) => {
                    let is_removed = self.make_void(&snapshot, over).await?;
                    return Ok(Round::of(is_removed, snapshot));
                }
                SweepStep::Pass(upto) => {
                    let settle = || self.store.settle(&self.name, &snapshot.item, upto);
                    let answer = self.store.retry(self.policy, settle).await?;
                    return Ok(Round::of(answer.value.is_applied(), snapshot));
                }
                SweepStep::Idle => {
                    self.remove_idle(&snapshot.item).await?;
                    return Ok(Round::Over(snapshot));
                }
                SweepStep::Done => return Ok(Round::Over(snapshot)),
            };
            match next {
                Some(next) => snapshot = next,
                None => return Ok(Round::Removed),
            }
        }
    }

    /// What is over by a look, as `fairlock_protocol::sweep` has it.
    fn decide(&self, snapshot: &Snapshot) -> SweepStep {
        let grace = snapshot.item.grace(self.store.config().join_timeout);
        let now = self.store.now();
        let time = self.witnesses.time();
        let over = snapshot::gaps_are_over(self.store.config(), &snapshot.item, time);
        let ripe = |gap| match over {
            true => Some(snapshot.item.last),
            false => self.observer.gaps.ripe_to(gap, grace, now),
        };
        let digest = snapshot.digest(|place, entry| self.judge(place, entry));
        next_sweep(&digest.view(), ripe)
    }

    /// By the watches of earlier passes, or by DynamoDB's clock: whichever knows first.
    fn judge(&self, place: Place, entry: &Entry) -> Occupant {
        let now = self.store.now();
        if self.observer.watches.is_dead(place, entry, now) {
            Occupant::Dead
        } else {
            snapshot::by_common_clock(self.store.config(), entry, self.witnesses.time())
        }
    }

    /// The look that came of it: the successor that an eviction promotes may be dead too.
    async fn evict(&mut self, item: &LockItem, has: Has) -> Result<Option<Snapshot>, Failure> {
        let evicted = reclaim::evict(self.store, &self.name, self.policy, item, has).await?;
        let Some(answer) = evicted else {
            return Ok(None);
        };
        self.swept.holders += u64::from(answer.value.is_applied());
        Ok(self.follow(answer))
    }

    async fn evict_successor(
        &mut self,
        item: &LockItem,
        index: usize,
    ) -> Result<Option<Snapshot>, Failure> {
        let evicted_from_its_slot =
            reclaim::evict_successor(self.store, &self.name, self.policy, item, index).await?;
        let Some(answer) = evicted_from_its_slot else {
            return Ok(None);
        };
        self.swept.successors += u64::from(answer.value.is_applied());
        Ok(self.follow(answer))
    }

    /// The answer to a write on the lock item is a look at it, applied or not.
    fn follow(&mut self, answer: Timed<Write<LockItem>>) -> Option<Snapshot> {
        self.witnesses.hear(answer.date);
        let Timed { value, arrived, .. } = Snapshot::answered(answer.map(Write::shown))?;
        self.observer.poll(&value, arrived);
        Some(value)
    }

    async fn read_on(&mut self, snapshot: Snapshot) -> Result<Option<Snapshot>, Failure> {
        let further = snapshot
            .read_on(self.store, &self.name, self.policy)
            .await?;
        Ok(further.map(|answer| {
            self.observer.poll(&answer.value, answer.arrived);
            answer.value
        }))
    }

    /// Whether one was removed.
    async fn remove_rows(&mut self, rows: Vec<&TicketRow>) -> Result<bool, Failure> {
        let before = self.swept.rows;
        for row in rows {
            let remove = || self.store.remove_row(&self.name, row);
            let gone = self.store.retry(self.policy, remove).await?;
            self.swept.rows += u64::from(gone);
        }
        Ok(self.swept.rows > before)
    }

    /// Whether something was made void.
    async fn make_void(
        &mut self,
        snapshot: &Snapshot,
        over: Vec<Unsettled>,
    ) -> Result<bool, Failure> {
        let voided = reclaim::settle(self.store, &self.name, self.policy, snapshot, over).await?;
        self.swept.gaps += voided.gaps;
        self.swept.waiters += voided.waiters;
        Ok(voided.gaps + voided.waiters > 0)
    }

    /// A lock without lock item starts again above all tickets drawn before, so its rows are settled_rows; those of
    /// waiters that are alive are left to them. Read once more after the rows, so that these are none of a lock that
    /// started meanwhile.
    async fn remove_orphans(&mut self) -> Result<(), Failure> {
        let read = || self.store.read_queue(&self.name, None, ROWS);
        let Timed {
            value: page, date, ..
        } = self.store.retry(self.policy, read).await?;
        self.witnesses.hear(date);
        let read = || self.store.read_lock(&self.name);
        let Timed {
            value: lock, date, ..
        } = self.store.retry(self.policy, read).await?;
        self.witnesses.hear(date);
        if page.lock.is_some() || lock.is_some() {
            self.swept.has_more = true;
            return Ok(());
        }
        self.swept.has_more |= page.next.is_some();
        let is_over = |row: &&TicketRow| {
            row.waiting()
                .is_none_or(|entry| self.judge(Place::Row(row.ticket), entry) == Occupant::Dead)
        };
        let over: Vec<_> = page.rows.iter().filter(is_over).collect();
        self.remove_rows(over).await.map(|_| ())
    }

    /// Nobody has written to it for the idle retention, if idle locks are to go.
    async fn remove_idle(&mut self, item: &LockItem) -> Result<(), Failure> {
        if self.idle_locks != IdleLocks::Remove || !self.is_out_of_use(item) {
            return Ok(());
        }
        tracing::info!(lock = %self.name, last = %item.last, "removes an idle lock");
        let remove = || self.store.remove_idle(&self.name, item);
        let gone = self.store.retry(self.policy, remove).await?;
        self.swept.locks += u64::from(gone);
        Ok(())
    }

    /// By this host's clock and by DynamoDB's, if it tells the time. The ticket, which is a time in microseconds,
    /// must be past by a day too: then the lock comes back with larger ones.
    fn is_out_of_use(&self, item: &LockItem) -> bool {
        let host = self.store.config().clock.unix();
        let server = self.witnesses.hint();
        let now = server.map_or(host, |server| host.min(server.0));
        let drawn = Duration::from_micros(item.last.get());
        item.expires_at > 0 && item.expires_at < now.as_secs() && drawn + DAY < now
    }
}
