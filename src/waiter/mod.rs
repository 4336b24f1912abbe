//! A waiter in the line: looks, keeps its place renewed, clears what is over out of its way, and has its turn.

mod clear;
mod keep;
mod overlap;

use std::time::Duration;

use crate::look::{self, Look};
use crate::name::LockName;
use crate::place_id::PlaceId;
use crate::queue;
use crate::store::{Attempt, Failure, Patience, Store, Timed};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::gaps::Gaps;
use fairlock_protocol::item::{LockItem, Spot, TicketRow};
use fairlock_protocol::lease::{Beats, Place, Watches};
use fairlock_protocol::line::{self, Known, Occupant, Standing, Step};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::Pace;
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::witness::Witnesses;

/// How a look or a step on it turned out for the waiter.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The lock is the waiter's: the lock item shows it.
    Mine(Box<LockItem>),
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
    /// What time the last looks told.
    witnesses: Witnesses,
    gaps: Gaps,
    pub(crate) pace: Pace,
    look: Look,
    /// When it arrived.
    looked: Moment,
    /// When the row, while it is in the queue, was renewed last, and for which lease; a seat is renewed by what it
    /// shows.
    row_renewed: Moment,
    row_lease: Duration,
    look_due: Moment,
    /// The row was renewed since the last look: nothing more is decided by it.
    is_spent: bool,
    /// The newest ticket with a seat, and since when this has been seen to be so.
    seated: (Ticket, Moment),
    /// A look that was sent before the last one was answered.
    ahead: Option<overlap::Sent>,
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
            witnesses: Witnesses::default(),
            gaps: Gaps::default(),
            pace,
            look: Look::of(answer.value.clone()),
            looked: answer.arrived,
            row_renewed: answer.sent,
            row_lease: store.config().lease,
            look_due: answer.sent,
            is_spent: false,
            seated: (answer.value.seated, answer.arrived),
            ahead: None,
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

    pub(crate) fn place_id(&self) -> PlaceId {
        self.attempt.place_id(&self.name, self.ticket)
    }

    /// How many are before this waiter, the holder included, who have it together as one; void tickets among them count
    /// until they are seen.
    pub(crate) fn place(&self) -> usize {
        let item = &self.look.item;
        let before = match self.spot() {
            Some(Spot::Has(..)) => 0,
            Some(Spot::Heir(index, _)) => item.turns_before(index),
            None => {
                let behind = self.behind_the_seats().saturating_sub(1);
                item.turns_before(usize::MAX).saturating_add(behind)
            }
        };
        usize::try_from(before).unwrap_or(usize::MAX)
    }

    /// Where the last look showed it on the lock item.
    fn spot(&self) -> Option<Spot<'_>> {
        self.look.item.standing(self.attempt.nonce, self.ticket)
    }

    /// Tickets from the last one seated to the first of this waiter's.
    fn behind_the_seats(&self) -> u64 {
        let first = self.ticket.first_of(self.attempt.tickets);
        first.get().saturating_sub(self.look.item.seated.get())
    }

    /// Rows seen that the steps of this waiter have settled, for whoever cleans.
    pub(crate) fn take_litter(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.litter)
    }

    /// Leaves the queue with a ticket that was passed. A seat that was given before keeps it in line: whether it did.
    pub(crate) async fn retire(&mut self, patience: &Patience) -> Result<bool, Failure> {
        if self.ticket <= self.look.item.seated {
            return Ok(false);
        }
        let left = queue::leave(
            &self.store,
            &self.name,
            patience,
            &self.attempt,
            self.ticket,
        )
        .await?;
        let Some(answer) = left else { return Ok(false) };
        self.saw(answer.map(Look::of));
        Ok(self.spot().is_some())
    }

    /// What the last look asks for, done, or given up for a renewal that is due.
    pub(crate) async fn step(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        match self.take_step(&self.until_due(patience)).await {
            Err(failure) if self.gives_way(&failure, patience) => Ok(Turn::Wait(Duration::ZERO)),
            turn => turn,
        }
    }

    async fn take_step(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        if self.is_spent {
            return Ok(Turn::Wait(self.until_due_look()));
        }
        let step = match self.decide() {
            Step::ReadOn if !self.sees_to_seats() => Step::Wait(Standing::Queue),
            step => step,
        };
        match step {
            Step::Enter => Ok(Turn::Mine(Box::new(self.look.item.clone()))),
            Step::Passed | Step::Retire => Ok(Turn::Retire),
            Step::Wait(Standing::Queue) if self.is_void => Ok(Turn::Retire),
            Step::Wait(standing) => Ok(Turn::Wait(self.until_next(standing))),
            Step::ReadOn => self.read_on(patience).await,
            Step::Settle(unsettled) => self.settle(unsettled, patience).await,
            Step::Seat(seating) => self.seat(seating, patience).await,
            Step::Evict(has) => self.evict(has, patience).await,
            Step::Admit(heirs) => self.admit(heirs, patience).await,
            Step::Unseat(index) => self.unseat(index, patience).await,
        }
    }

    fn decide(&self) -> Step {
        let grace = self.look.item.grace(self.store.config().gap_grace);
        let now = self.store.now();
        let digest = self.look.digest(|place, entry| self.judge(place, entry));
        let ripe = |gap| self.gaps.ripe_to(gap, grace, now);
        line::next_step(&digest.view(), self.ticket, self.store.config().seats, ripe)
    }

    /// By DynamoDB's clock, or by this waiter's own watches: whichever knows first.
    fn judge(&self, place: Place, entry: &Entry) -> Occupant {
        let now = self.store.now();
        if (entry.nonce, entry.ticket) == (self.attempt.nonce, self.ticket) {
            Occupant::Me
        } else if self.watches.is_dead(place, entry, now) {
            Occupant::Dead
        } else {
            match look::by_common_clock(self.store.config(), entry, self.witnesses.time()) {
                Occupant::Alive if self.watches.is_late(place, entry, now) => Occupant::Late,
                judged => judged,
            }
        }
    }

    /// Adds rows that are known without reading them: those of this client, if they reach from the seats to this one.
    pub(crate) fn knows(&mut self, rows: impl FnOnce(Ticket, usize) -> Vec<TicketRow>) {
        let (seated, seats) = (self.look.item.seated, self.store.config().seats);
        let is_near = self.ticket > seated && self.behind_the_seats() <= seats as u64;
        if self.look.known == Known::Nothing && is_near {
            let rows = rows(seated, seats + 1);
            if rows.iter().any(|row| row.ticket == self.ticket) {
                self.look.know(rows);
            }
        }
    }

    /// Takes in a lock item that somebody else's answer showed.
    pub(crate) fn hear(&mut self, item: LockItem) {
        let now = self.store.now();
        self.shows(Look::of(item), now);
    }

    /// The first ticket of those who have the lock, by which turns are counted.
    fn holder(&self) -> Option<Ticket> {
        let holder = self.look.item.first_holder();
        holder.map(Entry::first)
    }

    /// Takes in a look at the lock item alone. None: there is none.
    fn take_in(&mut self, answer: Timed<Option<LockItem>>) -> Option<()> {
        let answer = answer.transpose()?;
        self.saw(answer.map(Look::of));
        Some(())
    }

    fn saw(&mut self, look: Timed<Look>) {
        self.pace.timed(look.sent, look.arrived);
        self.witnesses.hear(look.date);
        self.shows(look.value, look.arrived);
    }

    fn shows(&mut self, look: Look, arrived: Moment) {
        if look.item.seated != self.seated.0 {
            self.seated = (look.item.seated, arrived);
        }
        (self.look, self.looked) = (look, arrived);
        self.is_spent = false;
        self.watch(arrived);
        self.pace.saw(self.holder(), arrived);
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
            gaps.look(arrived, look.known.end(), look.gaps(self.ticket));
            self.rows_read = Some(arrived);
            self.is_row_missing = false;
        }
    }
}
