//! Removes what is settled or dead, and nothing else; every removal is conditional on what was seen.

use std::time::Duration;

use crate::look::{self, Look};
use crate::name::LockName;
use crate::reclaim;
use crate::store::{Failure, Patience, Store, Timed, Write};
use crate::swept::{IdleLocks, Swept};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::gaps::Gaps;
use fairlock_protocol::item::{LockItem, TicketRow};
use fairlock_protocol::lease::{Place, Watches};
use fairlock_protocol::line::{Has, Known, Occupant, Unsettled};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::sweep::{SweepStep, next_sweep};
use fairlock_protocol::witness::Witnesses;

/// Rounds of one pass over one lock, each of which removes something: a damaged counter must not keep one pass
/// busy for ever.
const ROUNDS: usize = 200;
/// Pages of a line read in one round at the most; what is further back is for later passes.
const PAGES: usize = 50;
/// Rows read at a time where there is no lock item.
const ROWS: usize = 100;
/// A lock's newest ticket is at least this old before its item is removed when idle.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Since when one who sweeps again and again has seen everyone stand still.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    watches: Watches,
    gaps: Gaps,
}

impl Observer {
    /// Whether there is anything to be remembered until the next pass.
    pub(crate) fn watches_somebody(&self) -> bool {
        !self.watches.is_empty() || !self.gaps.is_empty()
    }

    fn look(&mut self, look: &Look, arrived: Moment) {
        self.watches
            .look(arrived, |place| look.covers(place), look.entries());
        let shown = look.gaps(look.item.last);
        self.gaps.look(arrived, look.known.end(), shown);
    }
}

/// One pass over one lock.
pub(crate) struct Sweep<'a> {
    pub(crate) store: &'a Store,
    /// What time the answers of this pass told.
    pub(crate) witnesses: Witnesses,
    /// With as many permits as its item shows.
    pub(crate) name: LockName,
    pub(crate) patience: &'a Patience,
    pub(crate) observer: &'a mut Observer,
    pub(crate) idle_locks: IdleLocks,
    pub(crate) swept: Swept,
}

impl Sweep<'_> {
    /// Sweeps until a look shows nothing more to be removed, and gives back what it showed. Each round but the last
    /// removes something, and they are of a bounded number.
    pub(crate) async fn run(&mut self) -> Result<Option<LockItem>, Failure> {
        for _ in 0..ROUNDS {
            if self.patience.stop.is_cancelled() {
                break;
            }
            let Some(look) = self.look().await? else {
                self.remove_orphans().await?;
                return Ok(None);
            };
            if let Some(look) = self.round(look).await? {
                reclaim::date(self.store, &self.name, &look).await;
                return Ok(Some(look.item));
            }
        }
        self.swept.is_unfinished = true;
        Ok(None)
    }

    /// Looks, and looks again where one answer alone says that somebody is dead.
    async fn look(&mut self) -> Result<Option<Look>, Failure> {
        let look = self.look_once().await?;
        match look {
            Some(look) if self.suspects(&look) => self.look_once().await,
            look => Ok(look),
        }
    }

    async fn look_once(&mut self) -> Result<Option<Look>, Failure> {
        let answer = Look::read(self.store, &self.name, 0, self.patience).await?;
        Ok(answer.map(|answer| {
            self.name = self.name.with_permits(answer.value.item.permits);
            self.witnesses.hear(answer.date);
            self.observer.look(&answer.value, answer.arrived);
            answer.value
        }))
    }

    /// Whether something would be over if one more answer told the same time.
    fn suspects(&self, look: &Look) -> bool {
        let (config, hint) = (self.store.config(), self.witnesses.hint());
        let is_dead = |entry| look::by_common_clock(config, entry, hint) == Occupant::Dead;
        let is_over = || look::gaps_are_over(config, &look.item, hint);
        let is_alone = self.witnesses.time().is_none();
        is_alone && (is_over() || look.entries().any(|(_, entry)| is_dead(entry)))
    }

    /// Removes what a look shows to be over. The look, if that is nothing. None: something was removed, so that the look is out of
    /// date. Each turn of the loop reads a page of a bounded number, or removes one who is dead, or finds it renewed.
    async fn round(&mut self, mut look: Look) -> Result<Option<Look>, Failure> {
        let mut pages = 1;
        loop {
            let next = match self.decide(&look) {
                SweepStep::Evict(has) => self.evict(&look.item, has).await?,
                SweepStep::Unseat(index) => self.unseat(&look.item, index).await?,
                // The answer to an eviction shows no rows.
                SweepStep::ReadOn if look.known == Known::Nothing => None,
                SweepStep::ReadOn if pages < PAGES => {
                    pages += 1;
                    self.read_on(look).await?
                }
                SweepStep::ReadOn => {
                    self.swept.is_unfinished = true;
                    return Ok(Some(look));
                }
                SweepStep::Delete(upto) => {
                    // What is behind the first page comes to the front in the next round.
                    let is_removed = self.remove_rows(look.litter(upto).collect()).await?;
                    return Ok((!is_removed).then_some(look));
                }
                SweepStep::Settle(over) => {
                    let is_removed = self.make_void(&look, over).await?;
                    return Ok((!is_removed).then_some(look));
                }
                SweepStep::Pass(upto) => {
                    let settle = || self.store.settle(&self.name, &look.item, upto);
                    let answer = self.store.persist(self.patience, settle).await?;
                    return Ok((!answer.value.is_applied()).then_some(look));
                }
                SweepStep::Idle => {
                    self.remove_idle(&look.item).await?;
                    return Ok(Some(look));
                }
                SweepStep::Done => return Ok(Some(look)),
            };
            match next {
                Some(next) => look = next,
                None => return Ok(None),
            }
        }
    }

    /// What is over by a look, as `fairlock_protocol::sweep` has it.
    fn decide(&self, look: &Look) -> SweepStep {
        let grace = look.item.grace(self.store.config().gap_grace);
        let now = self.store.now();
        let time = self.witnesses.time();
        let over = look::gaps_are_over(self.store.config(), &look.item, time);
        let ripe = |gap| match over {
            true => Some(look.item.last),
            false => self.observer.gaps.ripe_to(gap, grace, now),
        };
        let digest = look.digest(|place, entry| self.judge(place, entry));
        next_sweep(&digest.view(), ripe)
    }

    /// By the watches of earlier passes, or by DynamoDB's clock: whichever knows first.
    fn judge(&self, place: Place, entry: &Entry) -> Occupant {
        let now = self.store.now();
        if self.observer.watches.is_dead(place, entry, now) {
            Occupant::Dead
        } else {
            look::by_common_clock(self.store.config(), entry, self.witnesses.time())
        }
    }

    /// The look that came of it: the heir that an eviction promotes may be dead too.
    async fn evict(&mut self, item: &LockItem, has: Has) -> Result<Option<Look>, Failure> {
        let evicted = reclaim::evict(self.store, &self.name, self.patience, item, has).await?;
        let Some(answer) = evicted else {
            return Ok(None);
        };
        self.swept.holders += u64::from(answer.value.is_applied());
        Ok(self.follow(answer))
    }

    async fn unseat(&mut self, item: &LockItem, index: usize) -> Result<Option<Look>, Failure> {
        let unseated = reclaim::unseat(self.store, &self.name, self.patience, item, index).await?;
        let Some(answer) = unseated else {
            return Ok(None);
        };
        self.swept.heirs += u64::from(answer.value.is_applied());
        Ok(self.follow(answer))
    }

    /// The answer to a write on the lock item is a look at it, applied or not.
    fn follow(&mut self, answer: Timed<Write<LockItem>>) -> Option<Look> {
        self.witnesses.hear(answer.date);
        let Timed { value, arrived, .. } = Look::answered(answer.map(Write::shown))?;
        self.observer.look(&value, arrived);
        Some(value)
    }

    async fn read_on(&mut self, look: Look) -> Result<Option<Look>, Failure> {
        let further = look.read_on(self.store, &self.name, self.patience).await?;
        Ok(further.map(|answer| {
            self.observer.look(&answer.value, answer.arrived);
            answer.value
        }))
    }

    /// Whether one was removed.
    async fn remove_rows(&mut self, rows: Vec<&TicketRow>) -> Result<bool, Failure> {
        let before = self.swept.rows;
        for row in rows {
            let remove = || self.store.remove_row(&self.name, row);
            let gone = self.store.persist(self.patience, remove).await?;
            self.swept.rows += u64::from(gone);
        }
        Ok(self.swept.rows > before)
    }

    /// Whether something was made void.
    async fn make_void(&mut self, look: &Look, over: Vec<Unsettled>) -> Result<bool, Failure> {
        let voided = reclaim::settle(self.store, &self.name, self.patience, look, over).await?;
        self.swept.gaps += voided.gaps;
        self.swept.waiters += voided.waiters;
        Ok(voided.gaps + voided.waiters > 0)
    }

    /// A lock without lock item starts again above all tickets drawn before, so its rows are litter; those of
    /// waiters that are alive are left to them. Read once more after the rows, so that these are none of a lock that
    /// started meanwhile.
    async fn remove_orphans(&mut self) -> Result<(), Failure> {
        let read = || self.store.read_line(&self.name, None, ROWS);
        let Timed {
            value: page, date, ..
        } = self.store.persist(self.patience, read).await?;
        self.witnesses.hear(date);
        let read = || self.store.read_lock(&self.name);
        let Timed {
            value: lock, date, ..
        } = self.store.persist(self.patience, read).await?;
        self.witnesses.hear(date);
        if page.lock.is_some() || lock.is_some() {
            self.swept.is_unfinished = true;
            return Ok(());
        }
        self.swept.is_unfinished |= page.next.is_some();
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
        let gone = self.store.persist(self.patience, remove).await?;
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
