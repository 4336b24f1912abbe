//! A waiter in the line: looks, keeps its place renewed, clears what is over out of its way, and has its turn.

mod keep;
mod overlap;

use std::time::Duration;

use crate::look::{self, Look};
use crate::name::LockName;
use crate::place_id::PlaceId;
use crate::reclaim;
use crate::store::{Attempt, Failure, Patience, Store, Timed, Write};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::gaps::Gaps;
use fairlock_protocol::item::{LockItem, Spot, TicketRow};
use fairlock_protocol::lease::{Beats, Place, Watches};
use fairlock_protocol::line::{self, Known, Occupant, Seating, Standing, Step};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::Pace;
use fairlock_protocol::place::Act;
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::witness::Witnesses;

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
    pub(crate) is_spent: bool,
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

    /// What its newest poll asks for.
    pub(crate) fn decide(&self) -> Step {
        let grace = self.look.item.grace(self.store.config().gap_grace);
        let now = self.store.now();
        let digest = self.look.digest(|place, entry| self.judge(place, entry));
        let ripe = |gap| self.gaps.ripe_to(gap, grace, now);
        let seats = self.store.config().seats;
        let step = match line::next_step(&digest.view(), self.ticket, seats, ripe) {
            Step::ReadOn if !self.sees_to_seats() => Step::Wait(Standing::Queue),
            step => step,
        };
        match step {
            Step::Wait(Standing::Queue) if self.is_void => Step::Retire,
            step => step,
        }
    }

    /// Does what its place asks for, by its newest poll, whose successor it then has. Given up for a renewal that is due. None: there is
    /// no lock item any more.
    pub(crate) async fn does(
        &mut self,
        act: Act,
        patience: &Patience,
    ) -> Result<Option<()>, Failure> {
        let brief = self.until_due(patience);
        match act {
            Act::Settle(over) => {
                reclaim::settle(&self.store, &self.name, &brief, &self.look, over).await?;
                self.read_line(&brief).await
            }
            Act::Seat(seating) => self.seat(seating, &brief).await,
            act => {
                let (store, name) = (&self.store, &self.name);
                let look = reclaim::carry_out(store, name, &brief, &self.look, act).await?;
                Ok(self.took(look))
            }
        }
    }

    /// Seats the next in line. The rows passed are settled then, and litter.
    async fn seat(&mut self, seating: Seating, patience: &Patience) -> Result<Option<()>, Failure> {
        let before = self.look.clone();
        let found = seating.found.iter();
        let found: Vec<_> = found
            .filter_map(|at| before.waiting(*at).cloned())
            .collect();
        let own = &self.attempt;
        let unanswered = Attempt::new(own.nonce, own.tickets, own.permits);
        let (store, name, item) = (&self.store, &self.name, &before.item);
        let seat = || store.seat(name, &unanswered, item, &found, seating.seated);
        let answer = store.persist(patience, seat).await?;
        let is_ours = answer.value.is_applied() || unanswered.is_in_doubt();
        let taken = self.take_in(answer.map(Write::shown));
        if is_ours {
            let litter = before.litter(self.look.item.seated);
            self.litter.extend(litter.map(|row| row.ticket));
        }
        Ok(taken)
    }

    fn took(&mut self, look: Option<Timed<Look>>) -> Option<()> {
        look.map(|look| self.saw(look))
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
        self.took(Look::answered(answer))
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
