//! A waiter in the line: joins, looks, keeps its place renewed, clears what is over out of its way, and leaves.

use std::time::Duration;

use crate::entry::Entry;
use crate::item::{LockItem, RowState, Spot, TicketRow};
use crate::lease::{self, Beats, Gaps, Place, Watches};
use crate::line::{self, Known, Occupant, Seating, Standing, Step, Unsettled};
use crate::look::{self, Look, WATCHED};
use crate::moment::Moment;
use crate::name::LockName;
use crate::passing;
use crate::store::{Attempt, Failure, Patience, Store, Timed, Write};
use crate::ticket::Ticket;
use crate::wait::{Pace, Position};

/// So near to its seat a waiter watches the rows before it with every look, for when they die.
const NEAR: u64 = 32;
/// Up to here it does so once a heartbeat. Those further back read only the lock item: one look reads no more rows.
const FAR: u64 = WATCHED as u64;
/// Gaps watched at a time, so that a damaged counter does not make a waiter remember millions.
const GAPS_WATCHED: usize = 1000;

/// What came of putting a ticket's row into the line.
#[derive(Debug)]
pub(crate) enum Joined {
    /// The ticket waits, with this row; its lease counts from before the row was first sent.
    Waiting(Beats, Entry),
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
            Joined::Waiting(Beats::taken(first_sent, store.config().lease), entry)
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
    if answer.value.is_applied() {
        return Ok(None);
    }
    // A seat was given before; whoever gave it cleaned the row, which is back now. If that fails it is litter.
    let own = TicketRow {
        ticket,
        state: RowState::Void(None),
    };
    let _ = store
        .persist(patience, || store.remove_row(name, &own))
        .await;
    Ok(answer.map(Write::shown).transpose())
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
    /// What its row showed when it was written last, if it has one.
    pub(crate) row: Option<Entry>,
    watches: Watches,
    gaps: Gaps,
    pub(crate) pace: Pace,
    look: Look,
    /// When the row, while it is in the queue, was renewed last, and for which lease; a seat is renewed by what it
    /// shows.
    row_renewed: Moment,
    row_lease: Duration,
    /// When the rows were last read and watched.
    rows_read: Option<Moment>,
    /// The row was found void: the ticket will be granted only if it was seated before.
    is_void: bool,
    /// The row was not there to be renewed: the line is to be read.
    is_row_missing: bool,
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
        pace: Pace,
    ) -> Self {
        let mut waiter = Waiter {
            name,
            attempt,
            ticket,
            beats,
            row: None,
            watches: Watches::default(),
            gaps: Gaps::default(),
            pace,
            look: Look::of(answer.value.clone()),
            row_renewed: answer.sent,
            row_lease: store.config().lease,
            rows_read: None,
            is_void: false,
            is_row_missing: false,
            litter: Vec::new(),
            store,
        };
        waiter.saw(answer.map(Look::of));
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
        let is_due = self.renewal_due() <= self.store.now();
        match self.look.item.place_of(self.attempt.nonce) {
            Some(Spot::Heir(index, _)) if is_due => return self.renew_seat(index, patience).await,
            None if is_due => self.renew_row(patience).await?,
            _ => {}
        }
        let brief = self.until_due(patience);
        let looked = if self.wants_rows() {
            self.read_line(&brief).await
        } else {
            self.read_lock(&brief).await
        };
        match looked {
            Err(failure) if self.gives_way(&failure, patience) => Ok(Some(())),
            looked => looked,
        }
    }

    /// As much of the patience as there is before the next renewal, to which all else gives way.
    fn until_due(&self, patience: &Patience) -> Patience {
        let due = self.renewal_due();
        Patience {
            until: Some(patience.until.map_or(due, |until| until.min(due))),
            ..patience.clone()
        }
    }

    /// Whether a failure only says that there was no time for more attempts before a renewal.
    fn gives_way(&self, failure: &Failure, patience: &Patience) -> bool {
        failure.is_transient() && self.store.has_patience(patience)
    }

    /// Who has a seat needs no rows; who is far from it has those before it looked at now and then, and who is
    /// farther, by others.
    fn wants_rows(&self) -> bool {
        if self.look.item.place_of(self.attempt.nonce).is_some() {
            return false;
        }
        let heartbeat = self.store.config().heartbeat;
        let is_recent = |read| self.store.now().since(read) < heartbeat;
        let behind = self.behind_the_seats();
        let is_stale = !self.rows_read.is_some_and(is_recent);
        self.is_row_missing || behind <= NEAR || behind <= FAR && is_stale
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
        self.saw(answer.map(Look::of));
        Ok(self.look.item.place_of(self.attempt.nonce).is_some())
    }

    /// What the last look asks for, done, or given up for a renewal that is due.
    pub(crate) async fn step(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        match self.take_step(&self.until_due(patience)).await {
            Err(failure) if self.gives_way(&failure, patience) => Ok(Turn::Wait(Duration::ZERO)),
            turn => turn,
        }
    }

    async fn take_step(&mut self, patience: &Patience) -> Result<Turn, Failure> {
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
        let position = match standing {
            Standing::Heir(index) => Position::Heir(index),
            Standing::Queue => Position::Queue(self.turns_to_a_seat()),
        };
        let jitter = self.store.config().chance.jitter();
        let span = self.pace.until_next(position, jitter, now) * self.store.braked();
        span.min(self.renewal_due().since(now))
    }

    /// Until a look that only makes sure.
    pub(crate) fn at_leisure(&self) -> Duration {
        let longest = self.store.config().longest_look;
        let place = u32::try_from(self.place()).unwrap_or(u32::MAX);
        let span = longest.saturating_mul(place);
        span.min(self.renewal_due().since(self.store.now()))
    }

    /// Adds rows that are known without reading them: those of this client, if they reach from the seats to this one.
    pub(crate) fn knows(&mut self, rows: impl FnOnce(Ticket, usize) -> Vec<TicketRow>) {
        let (seated, seats) = (self.look.item.seated, self.store.config().seats);
        let is_near = self.ticket > seated && self.behind_the_seats() <= seats as u64;
        if self.look.known == Known::Nothing && is_near {
            let rows = rows(seated, seats + 1);
            if rows.iter().any(|row| row.ticket == self.ticket) {
                self.look = self.look.clone().with_rows(rows);
            }
        }
    }

    /// Takes in a lock item that somebody else's answer showed.
    pub(crate) fn hear(&mut self, item: LockItem) {
        let now = self.store.now();
        self.look = Look::of(item);
        self.watch(now);
        self.pace.saw(self.holder(), now);
    }

    fn holder(&self) -> Option<Ticket> {
        let holder = self.look.item.holder.as_ref();
        holder.map(|holder| holder.ticket)
    }

    /// Seats are given again when half of them are free.
    fn turns_to_a_seat(&self) -> u64 {
        self.behind_the_seats() + self.look.item.heirs.len() as u64 / 2
    }

    fn renewal_due(&self) -> Moment {
        match self.look.item.place_of(self.attempt.nonce) {
            Some(Spot::Holder(entry) | Spot::Heir(_, entry)) => self.seat_due(entry),
            None => self.row_due(),
        }
    }

    /// A seat shows the beat that it was given with; when that was long ago it is due at once. So is one with the long
    /// lease of a place far back.
    fn seat_due(&self, entry: &Entry) -> Moment {
        let config = self.store.config();
        match self.beats.established(entry.beat) {
            Some(sent) if entry.lease <= config.lease => sent + config.heartbeat,
            _ => Moment::default(),
        }
    }

    /// At once if the line got so much faster that the turn would come before the lease of one who died is over.
    fn row_due(&self) -> Moment {
        let config = self.store.config();
        let left = self.pace.time_of(self.turns_to_a_seat());
        if self.row_lease > config.lease.max(left) {
            Moment::default()
        } else {
            self.row_renewed + config.heartbeat_of(self.row_lease)
        }
    }

    async fn read_lock(&mut self, patience: &Patience) -> Result<Option<()>, Failure> {
        let answer = self
            .store
            .persist(patience, || self.store.read_lock(&self.name))
            .await?;
        Ok(self.take_in(answer))
    }

    /// A renewal shows holder and neighbours, so it is a look; refused, it shows where the seat has shifted to.
    async fn renew_seat(
        &mut self,
        index: usize,
        patience: &Patience,
    ) -> Result<Option<()>, Failure> {
        let (lease, nonce) = (self.store.config().lease, self.attempt.nonce);
        self.beats.asks_for(lease);
        let renew = || self.store.renew_seat(&self.name, index, nonce, lease);
        let answer = self.store.insist(patience, renew).await?;
        if let Write::Applied(item) = &answer.value
            && let Some(Spot::Heir(_, entry)) = item.place_of(nonce)
        {
            self.beats.renewed(entry.beat, answer.sent);
        }
        Ok(self.take_in(answer.map(Write::shown)))
    }

    /// Renews the row while it waits; one that is no longer there to be renewed is found out about by reading the line.
    async fn renew_row(&mut self, patience: &Patience) -> Result<(), Failure> {
        let (config, nonce) = (self.store.config(), self.attempt.nonce);
        let left = self.pace.time_of(self.turns_to_a_seat());
        let lease = lease::stretched(config.lease, config.longest_lease(), left);
        self.beats.asks_for(lease);
        let renew = || self.store.renew_row(&self.name, self.ticket, nonce, lease);
        let answer = self.store.insist(patience, renew).await?;
        (self.row_renewed, self.row_lease) = (answer.sent, lease);
        match answer.value {
            Write::Applied(TicketRow {
                state: RowState::Waiting(entry),
                ..
            }) => {
                self.beats.renewed(entry.beat, answer.sent);
                self.row = Some(entry);
            }
            Write::Refused(Some(TicketRow {
                state: RowState::Void(_),
                ..
            })) => self.is_void = true,
            Write::Applied(_) | Write::Refused(_) => self.is_row_missing = true,
        }
        Ok(())
    }

    async fn read_line(&mut self, patience: &Patience) -> Result<Option<()>, Failure> {
        // All who are before it: those who died together are then timed together.
        let before = self.behind_the_seats() as usize;
        let answer = Look::read(&self.store, &self.name, before, patience).await?;
        Ok(answer.map(|answer| self.saw(answer)))
    }

    /// Reads the rows that a decision needs. Ends because every page brings the walk further, and the line has an end.
    async fn read_on(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        let look = self.look.clone();
        let further = look.read_on(&self.store, &self.name, patience).await?;
        Ok(self.again(further))
    }

    /// Takes in a look at the lock item alone. None: there is none.
    fn take_in(&mut self, answer: Timed<Option<LockItem>>) -> Option<()> {
        let answer = answer.transpose()?;
        self.saw(answer.map(Look::of));
        Some(())
    }

    fn saw(&mut self, look: Timed<Look>) {
        self.look = look.value;
        self.watch(look.arrived);
        self.pace.timed(look.sent, look.arrived);
        self.pace.saw(self.holder(), look.arrived);
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
        if look.known != Known::Nothing {
            let shown = look.gaps(self.ticket).take(GAPS_WATCHED);
            gaps.look(arrived, |gap| look.known.covers(gap), shown);
            self.rows_read = Some(arrived);
            self.is_row_missing = false;
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
        Ok(self.wrote(answer))
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
        Ok(self.wrote(answer))
    }

    /// The answer to a write on the lock item is a look at it, applied or not.
    fn wrote(&mut self, answer: Timed<Write<LockItem>>) -> Turn {
        let item = answer.map(Write::shown).transpose();
        self.again(item.map(|item| item.map(Look::of)))
    }

    fn again(&mut self, look: Option<Timed<Look>>) -> Turn {
        look.map_or(Turn::Retire, |look| {
            self.saw(look);
            Turn::Again
        })
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
        let turn = self.wrote(answer);
        if is_ours {
            self.litter
                .extend(before.litter(self.look.item.seated).map(|row| row.ticket));
        }
        Ok(turn)
    }
}
