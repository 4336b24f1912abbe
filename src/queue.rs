//! A waiter in the line: joins, looks, keeps its place renewed, clears what is over out of its way, and leaves.

use std::time::Duration;

use crate::entry::Entry;
use crate::item::{LockItem, RowState, Spot, TicketRow};
use crate::lease::{Beats, Gaps, Place, Watches};
use crate::line::{self, Known, Occupant, Seating, Standing, Step, Unsettled};
use crate::look::{self, Look};
use crate::moment::Moment;
use crate::name::LockName;
use crate::passing;
use crate::store::{Attempt, Failure, Patience, Store, Timed, Write};
use crate::ticket::Ticket;
use crate::wait::{Pace, Position};

/// So near to its seat a waiter watches the rows before it with every look, for when they die; those further back do
/// so once a heartbeat, and read only the lock item meanwhile.
const NEAR: u64 = 32;
/// Gaps watched at a time, so that a damaged counter does not make a waiter remember millions.
const GAPS_WATCHED: usize = 1000;

/// What came of putting a ticket's row into the line.
#[derive(Debug)]
pub(crate) enum Joined {
    /// The ticket waits; its lease counts from before the row was first sent.
    Waiting(Beats),
    /// Others had closed the gap already: the ticket is void.
    TooSlow,
}

/// Puts the row of a drawn ticket into the line.
pub(crate) async fn join(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    attempt: &Attempt,
    ticket: Ticket,
) -> Result<Joined, Failure> {
    let first_sent = store.now();
    let answer = store
        .persist(patience, || store.join(name, attempt, ticket))
        .await?;
    let (Write::Applied(row) | Write::Refused(Some(row))) = answer.value else {
        return Ok(Joined::TooSlow);
    };
    Ok(match row.state {
        RowState::Waiting(entry) if entry.nonce == attempt.nonce => {
            Joined::Waiting(Beats::taken(first_sent))
        }
        RowState::Waiting(_) | RowState::Void(_) => Joined::TooSlow,
    })
}

/// Settles one's own ticket: no look can seat it afterwards, and if one did before, the seat is on the lock item
/// that comes back, to be given up.
pub(crate) async fn leave(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    attempt: &Attempt,
    ticket: Ticket,
) -> Result<Option<Timed<LockItem>>, Failure> {
    store
        .persist(patience, || store.void_own(name, ticket, attempt.nonce))
        .await?;
    let answer = store
        .persist(patience, || store.leave(name, ticket))
        .await?;
    let Timed {
        value: Write::Refused(item),
        sent,
        arrived,
    } = answer
    else {
        return Ok(None);
    };
    // A seat was given before; whoever gave it cleaned the row, which is back now. If that fails it is litter.
    let own = TicketRow {
        ticket,
        state: RowState::Void(None),
    };
    let _ = store
        .persist(patience, || store.remove_row(name, &own))
        .await;
    Ok(item.map(|value| Timed {
        value,
        sent,
        arrived,
    }))
}

/// How a look or a step on it turned out for the waiter.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The lock is the waiter's: the lock item shows it.
    Mine(LockItem),
    /// Look again after so long.
    Wait(Duration),
    /// Look again at once.
    Again,
    /// The ticket will never be granted.
    Retire,
}

/// One ticket's wait for its turn.
#[derive(Debug)]
pub(crate) struct Waiter {
    store: Store,
    name: LockName,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    pub(crate) beats: Beats,
    watches: Watches,
    gaps: Gaps,
    pace: Pace,
    look: Look,
    /// When the row, while it is in the queue, is to be renewed; a seat is renewed by what it shows.
    row_renewed: Moment,
    /// When the rows were last read and watched.
    rows_read: Option<Moment>,
    /// The row was found void: the ticket will be granted only if it was seated before.
    is_void: bool,
    litter: Vec<Ticket>,
}

impl Waiter {
    /// A waiter whose place the answer shows or, if it has a row only, whose ticket was drawn with that answer.
    pub(crate) fn new(
        store: Store,
        name: LockName,
        attempt: Attempt,
        ticket: Ticket,
        beats: Beats,
        answer: Timed<LockItem>,
    ) -> Self {
        let config = store.config();
        let pace = Pace::new(config.shortest_look, config.longest_look);
        let mut waiter = Waiter {
            name,
            attempt,
            ticket,
            beats,
            watches: Watches::default(),
            gaps: Gaps::default(),
            pace,
            look: Look::of(answer.value.clone()),
            row_renewed: answer.sent,
            rows_read: None,
            is_void: false,
            litter: Vec::new(),
            store,
        };
        waiter.take_in(answer);
        waiter
    }

    /// The lock item as the last look showed it.
    pub(crate) fn item(&self) -> &LockItem {
        &self.look.item
    }

    /// How many are before this waiter, the holder included; void tickets among them count until they are seen.
    pub(crate) fn place(&self) -> usize {
        let holder = usize::from(self.look.item.holder.is_some());
        match self.look.item.place_of(self.attempt.nonce) {
            Some(Spot::Holder(_)) => 0,
            Some(Spot::Heir(index, _)) => holder + index,
            None => {
                let behind = self.behind_the_seats().saturating_sub(1);
                holder + self.look.item.heirs.len() + usize::try_from(behind).unwrap_or(usize::MAX)
            }
        }
    }

    /// Tickets from the last one seated to this one.
    fn behind_the_seats(&self) -> u64 {
        self.ticket
            .get()
            .saturating_sub(self.look.item.seated.get())
    }

    /// Rows seen that the steps of this waiter have settled, for whoever cleans.
    pub(crate) fn take_litter(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.litter)
    }

    /// Looks again: by renewing a seat that is due, by reading the lock item, or by reading the line where the rows
    /// are due to be watched. None: there is no lock item any more.
    pub(crate) async fn look_again(&mut self, patience: &Patience) -> Result<Option<()>, Failure> {
        let now = self.store.now();
        if let Some(Spot::Heir(index, entry)) = self.look.item.place_of(self.attempt.nonce) {
            let due = self.renewal_due(entry);
            return if due <= now {
                self.renew_seat(index, patience).await
            } else {
                self.read_lock(patience).await
            };
        }
        let heartbeat = self.store.config().heartbeat;
        if now.since(self.row_renewed) >= heartbeat {
            self.renew_row(patience).await?;
        }
        let is_near = self.behind_the_seats() <= NEAR;
        match self.rows_read {
            Some(read) if !is_near && now.since(read) < heartbeat => self.read_lock(patience).await,
            _ => self.read_line(patience).await,
        }
    }

    /// Leaves the queue with a ticket that was passed. A seat that was given before keeps it in line: whether it did.
    pub(crate) async fn retire(&mut self, patience: &Patience) -> Result<bool, Failure> {
        if self.ticket <= self.look.item.seated {
            return Ok(false);
        }
        let left = leave(
            &self.store,
            &self.name,
            patience,
            &self.attempt,
            self.ticket,
        )
        .await?;
        let Some(answer) = left else { return Ok(false) };
        self.take_in(answer);
        Ok(self.look.item.place_of(self.attempt.nonce).is_some())
    }

    /// What the last look asks for, done.
    pub(crate) async fn step(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        match self.decide() {
            Step::Enter => Ok(Turn::Mine(self.look.item.clone())),
            Step::Retire => Ok(Turn::Retire),
            Step::Wait(Standing::Queue) if self.is_void => Ok(Turn::Retire),
            Step::Wait(standing) => Ok(Turn::Wait(self.until_next(standing))),
            Step::ReadOn => self.read_on(patience).await,
            Step::Settle(unsettled) => self.settle(unsettled, patience).await,
            Step::Seat(seating) => self.seat(seating, patience).await,
            Step::Evict => self.evict(patience).await,
            Step::Unseat(index) => self.unseat(index, patience).await,
        }
    }

    fn decide(&self) -> Step {
        let (now, grace) = (self.store.now(), self.store.config().gap_grace);
        let digest = self.look.digest(|place, entry| self.judge(place, entry));
        let ripe = |gap| self.gaps.is_ripe(gap, grace, now);
        line::next_step(&digest.view(), self.ticket, self.store.config().seats, ripe)
    }

    /// By DynamoDB's clock, or by this waiter's own watches: whichever knows first.
    fn judge(&self, place: Place, entry: &Entry) -> Occupant {
        let now = self.store.now();
        if entry.nonce == self.attempt.nonce {
            Occupant::Me
        } else if self.watches.is_dead(place, entry, now) {
            Occupant::Dead
        } else {
            match look::by_common_clock(&self.store, entry) {
                Occupant::Alive if self.watches.is_late(place, entry, now) => Occupant::Late,
                judged => judged,
            }
        }
    }

    fn until_next(&self, standing: Standing) -> Duration {
        let now = self.store.now();
        let item = &self.look.item;
        let (position, due) = match standing {
            Standing::Heir(index) => {
                let due = item.heirs.get(index).map_or(now, |me| self.renewal_due(me));
                (Position::Heir(index), due)
            }
            Standing::Queue => {
                let turns = self.behind_the_seats() + item.heirs.len() as u64 / 2;
                (
                    Position::Queue(turns),
                    self.row_renewed + self.store.config().heartbeat,
                )
            }
        };
        let config = self.store.config();
        let span = self.pace.until_next(position, now);
        let span = span.mul_f64(config.chance.jitter());
        span.clamp(config.shortest_look, config.longest_look)
            .min(due.since(now))
    }

    /// A seat shows the beat that it was given with; when that was long ago it is due at once.
    fn renewal_due(&self, entry: &Entry) -> Moment {
        self.beats
            .established(entry.beat)
            .map_or(Moment::default(), |sent| {
                sent + self.store.config().heartbeat
            })
    }

    async fn read_lock(&mut self, patience: &Patience) -> Result<Option<()>, Failure> {
        let answer = self
            .store
            .persist(patience, || self.store.read_lock(&self.name))
            .await?;
        Ok(self.take_in_item(answer))
    }

    /// A renewal shows holder and neighbours, so it is a look; refused, it shows where the seat has shifted to.
    async fn renew_seat(
        &mut self,
        index: usize,
        patience: &Patience,
    ) -> Result<Option<()>, Failure> {
        let (lease, nonce) = (self.store.config().lease, self.attempt.nonce);
        let renew = || self.store.renew_seat(&self.name, index, nonce, lease);
        let answer = self.store.persist(patience, renew).await?;
        let Timed {
            value,
            sent,
            arrived,
        } = answer;
        let item = match value {
            Write::Applied(item) => {
                if let Some(Spot::Heir(_, entry)) = item.place_of(nonce) {
                    self.beats.renewed(entry.beat, sent);
                }
                Some(item)
            }
            Write::Refused(item) => item,
        };
        Ok(self.take_in_item(Timed {
            value: item,
            sent,
            arrived,
        }))
    }

    /// Renews the row while it waits; one that is no longer there to be renewed is found out about by reading the line.
    async fn renew_row(&mut self, patience: &Patience) -> Result<(), Failure> {
        let (lease, nonce) = (self.store.config().lease, self.attempt.nonce);
        let renew = || self.store.renew_row(&self.name, self.ticket, nonce, lease);
        let answer = self.store.persist(patience, renew).await?;
        self.row_renewed = answer.sent;
        match answer.value {
            Write::Applied(TicketRow {
                state: RowState::Waiting(entry),
                ..
            }) => self.beats.renewed(entry.beat, answer.sent),
            Write::Refused(Some(TicketRow {
                state: RowState::Void(_),
                ..
            })) => self.is_void = true,
            Write::Applied(_) | Write::Refused(_) => self.rows_read = None,
        }
        Ok(())
    }

    async fn read_line(&mut self, patience: &Patience) -> Result<Option<()>, Failure> {
        // All who are before it: those who died together are then timed together.
        let before = self.behind_the_seats() as usize;
        let answer = Look::read(&self.store, &self.name, before, patience).await?;
        Ok(answer.map(|answer| {
            self.look = answer.value;
            self.watch(answer.arrived);
        }))
    }

    /// Reads the rows that a decision needs. Ends because every page brings the walk further, and the line has an end.
    async fn read_on(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        let arrived = self.look.read_on(&self.store, &self.name, patience).await?;
        Ok(arrived.map_or(Turn::Retire, |arrived| {
            self.watch(arrived);
            Turn::Again
        }))
    }

    fn take_in_item(&mut self, answer: Timed<Option<LockItem>>) -> Option<()> {
        let Timed {
            value,
            sent,
            arrived,
        } = answer;
        value.map(|item| {
            self.take_in(Timed {
                value: item,
                sent,
                arrived,
            })
        })
    }

    /// Takes in a look at the lock item alone.
    fn take_in(&mut self, answer: Timed<LockItem>) {
        self.look = Look::of(answer.value);
        self.watch(answer.arrived);
    }

    /// Watches everyone whom the look shows from its arrival on, and the gaps that it shows.
    fn watch(&mut self, arrived: Moment) {
        let Waiter {
            look,
            watches,
            gaps,
            ..
        } = self;
        watches.look(arrived, |place| look.covers(place), look.entries());
        self.pace.saw(
            look.item.holder.as_ref().map(|holder| holder.ticket),
            arrived,
        );
        if look.known != Known::Nothing {
            let shown = look.gaps(self.ticket).take(GAPS_WATCHED);
            gaps.look(arrived, |gap| look.known.covers(gap), shown);
            self.rows_read = Some(arrived);
        }
    }

    async fn evict(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        let Some(dead) = self.look.item.holder.clone() else {
            return Ok(Turn::Again);
        };
        tracing::info!(lock = %self.name, ticket = %dead.ticket, owner = %dead.owner, "evicts a dead holder");
        let answer = self
            .store
            .persist(patience, || self.store.evict(&self.name, &dead))
            .await?;
        Ok(self.again(answer))
    }

    async fn unseat(&mut self, index: usize, patience: &Patience) -> Result<Turn, Failure> {
        let Some(dead) = self.look.item.heirs.get(index).cloned() else {
            return Ok(Turn::Again);
        };
        tracing::info!(lock = %self.name, ticket = %dead.ticket, owner = %dead.owner, "unseats a dead heir");
        let answer = self
            .store
            .persist(patience, || self.store.unseat(&self.name, index, &dead))
            .await?;
        Ok(self.again(answer))
    }

    /// The answer to a write on the lock item is a look at it, applied or not.
    fn again(&mut self, answer: Timed<Write<LockItem>>) -> Turn {
        let Timed {
            value: Write::Applied(item) | Write::Refused(Some(item)),
            sent,
            arrived,
        } = answer
        else {
            return Turn::Retire;
        };
        self.take_in(Timed {
            value: item,
            sent,
            arrived,
        });
        Turn::Again
    }

    async fn settle(&mut self, over: Vec<Unsettled>, patience: &Patience) -> Result<Turn, Failure> {
        passing::settle(&self.store, &self.name, patience, &self.look, over).await?;
        Ok(self
            .read_line(patience)
            .await?
            .map_or(Turn::Retire, |()| Turn::Again))
    }

    /// Seats the next in line. The rows passed are settled then, and litter.
    async fn seat(&mut self, seating: Seating, patience: &Patience) -> Result<Turn, Failure> {
        let found: Vec<_> = seating
            .found
            .iter()
            .filter_map(|ticket| self.look.waiting(*ticket).cloned())
            .collect();
        let unanswered = Attempt::new(self.attempt.nonce);
        let seat = || {
            self.store.seat(
                &self.name,
                &unanswered,
                &self.look.item,
                &found,
                seating.seated,
            )
        };
        let answer = self.store.persist(patience, seat).await?;
        let is_ours = matches!(answer.value, Write::Applied(_)) || unanswered.is_in_doubt();
        let before = self.look.clone();
        let turn = self.again(answer);
        if is_ours {
            self.litter
                .extend(before.litter(self.look.item.seated).map(|row| row.ticket));
        }
        Ok(turn)
    }
}
