//! One look at a lock -> the next step: the protocol's decisions, as functions of values.
//!
//! The product, the model and the simulation call these same functions. They know neither time nor requests:
//! who is dead, and which gap has outlived its grace, is told to them.

use crate::ticket::{Sequence, Ticket};

/// Whoever stands at a place, as the one who looks judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occupant {
    /// The one who looks.
    Me,
    /// Renews in time.
    Alive,
    /// Not renewed for half of its lease: not dead yet, and no one to be given a slot, where it would have to be watched
    /// for a whole lease again. It blocks the queue until it renews or dies.
    Late,
    /// Not renewed for a whole lease: whatever removes it is conditional on the beat that was judged.
    Dead,
}

/// A row in the queue. Its key is its newest ticket; the others were drawn together with it, and share its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowAt {
    /// The oldest of its tickets.
    pub first: Ticket,
    /// The newest of its tickets, which is its key.
    pub ticket: Ticket,
    /// What it says of them.
    pub row: Row,
}

/// What a row says of its tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// Somebody waits there, judged so.
    Waiting(Occupant),
    /// Settled: its ticket will never be granted.
    Void,
}

/// How much of the queue behind the slots a look has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The lock item alone.
    Nothing,
    /// Every row up to this ticket; there are more.
    UpTo(Ticket),
    /// Every row there is.
    All,
}

/// What one look showed, digested for one who looks.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Who has the lock, unless all came to share it.
    pub holder: Option<Occupant>,
    /// Those who have it beside the holder, or after it.
    pub sharers: &'a [Occupant],
    /// In ticket order; nobody when the lock is free.
    pub successors: &'a [Occupant],
    /// How many of the first successors wait for no more than what is left.
    pub admitted: usize,
    /// The newest ticket drawn.
    pub last: Ticket,
    /// Every ticket up to this one is settled or among the successors.
    pub watermark: Ticket,
    /// In ticket order. Those up to `watermark` are settled_rows and are passed over.
    pub rows: &'a [RowAt],
    /// How far the rows were read.
    pub known: Known,
}

/// A look as one who looks judges it: what a [`View`] is of.
#[derive(Clone, Debug)]
pub struct JudgedSnapshot {
    /// Who has the lock, unless all came to share it.
    pub holder: Option<Occupant>,
    /// Those who have it beside the holder, or after it.
    pub sharers: Vec<Occupant>,
    /// In ticket order.
    pub successors: Vec<Occupant>,
    /// How many of the first successors wait for no more than what is left.
    pub admitted: usize,
    /// In ticket order.
    pub rows: Vec<RowAt>,
    /// The newest ticket drawn.
    pub last: Ticket,
    /// Every ticket up to this one is settled or among the successors.
    pub watermark: Ticket,
    /// How far the rows were read.
    pub known: Known,
}

impl JudgedSnapshot {
    /// For those who decide by it.
    pub fn view(&self) -> View<'_> {
        View {
            holder: self.holder,
            sharers: &self.sharers,
            successors: &self.successors,
            admitted: self.admitted,
            last: self.last,
            watermark: self.watermark,
            rows: &self.rows,
            known: self.known,
        }
    }
}

/// What a waiter does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The lock is mine.
    Enter,
    /// Somebody who has the lock is dead: if it is the last who has it, promote the next.
    Evict(Has),
    /// The successor at this index is dead: take its slot away.
    EvictSuccessor(usize),
    /// What the first successors wait for is left, and I am among them: so many of them have it now.
    Admit(usize),
    /// Nothing to do but look again.
    Wait(Standing),
    /// My ticket was passed over: nothing of it is left in the queue.
    Passed,
    /// My ticket will never be granted: settle it, and draw another.
    Retire,
    /// The decision needs rows that this look has not read.
    ReadOn,
    /// These stand in the way and are over: make them void.
    Settle(Vec<Unsettled>),
    /// Give slots to these, me among them.
    Fill(Filling),
}

/// Where one stands who has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// In the holder's place.
    Holder,
    /// Beside it: which of the sharers.
    Sharer(usize),
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The lock comes to this successor after that many others.
    Successor(usize),
    /// In the queue behind the slots.
    Queue,
}

/// A ticket that blocks the queue and will not move by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// Drawn, but no row came within the grace: all of them from the first to the last.
    Gap(Ticket, Ticket),
    /// Its row is dead.
    Dead(Ticket),
}

/// Who has a slot next, and up to which ticket the queue is then settled or with a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filling {
    /// In ticket order.
    pub found: Vec<Ticket>,
    /// Every ticket up to this one then has a slot, or needs none.
    pub watermark: Ticket,
}

/// What a caller that does not wait makes of a lock whose enter failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody is in the way any more: enter again.
    Free,
    /// Free, and every drawn ticket is settled: enter over them.
    Settled,
    /// Somebody alive holds it, or waits for it.
    Taken,
    /// This one who has the lock is dead.
    Evict(Has),
    /// Nobody alive waits, but this successor keeps a slot.
    EvictSuccessor(usize),
    /// The decision needs rows that this look has not read.
    ReadOn,
    /// These stand in the way and are over: make them void.
    Settle(Vec<Unsettled>),
    /// Every ticket up to this one is settled: say so on the lock item, so that nobody reads their rows again.
    Pass(Ticket),
}

/// Dead rows and gaps settled in one go at the most, by a write each: a gap takes one whatever its size.
const SETTLE_AT_ONCE: usize = 25;

/// The next step of the waiter with ticket `mine`. `ripe` tells up to which ticket a gap has outlived its grace, from a ticket of
/// it on; none if that one has not. What it says of tickets that have a row, or that no look has read, counts for nothing.
pub fn next_step(
    view: &View<'_>,
    mine: Ticket,
    slots: usize,
    ripe: impl Fn(Ticket) -> Option<Ticket>,
) -> Step {
    if view.has(Occupant::Me).is_some() {
        return Step::Enter;
    }
    if let Some(step) = remove_the_dead(view) {
        return step;
    }
    if let Some(index) = view
        .successors
        .iter()
        .position(|successor| *successor == Occupant::Me)
    {
        return match view.admitted {
            admitted if index < admitted => Step::Admit(admitted),
            _ => Step::Wait(Standing::Successor(index)),
        };
    }
    if mine <= view.watermark {
        // Slots are given in ticket order and we have none: we were passed as void, or evicted from its slot as dead.
        return Step::Passed;
    }
    match room(view, slots) {
        0 => Step::Wait(Standing::Queue),
        room => slot_or_settle(view, mine, room, ripe),
    }
}

/// What a caller that does not wait does next. Waiting rows and gaps are judged as for any other. `is_left` tells whether
/// what it asks for is left beside those who have the lock, whoever waits.
pub fn next_refusal(
    view: &View<'_>,
    is_left: bool,
    ripe: impl Fn(Ticket) -> Option<Ticket>,
) -> Refusal {
    if let Some(dead) = view.has(Occupant::Dead) {
        return Refusal::Evict(dead);
    }
    if !is_left
        || view
            .successors
            .iter()
            .any(|successor| *successor != Occupant::Dead)
    {
        return Refusal::Taken;
    }
    if !view.successors.is_empty() {
        return Refusal::EvictSuccessor(0);
    }
    if view.watermark == view.last {
        return Refusal::Free;
    }
    match over_the_queue(walk(view, None, usize::MAX, ripe), view.watermark) {
        Refusal::Settled if !view.is_free() => Refusal::Pass(view.last),
        further => further,
    }
}

/// What stands in the queue behind the slots, for a sweeper: the whole queue is ahead of it.
pub fn survey(view: &View<'_>, ripe: impl Fn(Ticket) -> Option<Ticket>) -> Walk {
    walk(view, None, usize::MAX, ripe)
}

/// The first dead one on the lock item, those who have it before successors.
pub fn remove_the_dead(view: &View<'_>) -> Option<Step> {
    if let Some(dead) = view.has(Occupant::Dead) {
        return Some(Step::Evict(dead));
    }
    view.successors
        .iter()
        .position(|successor| *successor == Occupant::Dead)
        .map(Step::EvictSuccessor)
}

/// Slots to be given now. None while more than half are taken: one write then slots several, and the successors
/// that are there cover the handoffs until it is made.
fn room(view: &View<'_>, slots: usize) -> usize {
    let waiting = view.successors.len();
    let taken = waiting + usize::from(view.holder.is_some());
    // The first slot is one more.
    let places = (slots + 1).saturating_sub(taken);
    if waiting <= slots / 2 { places } else { 0 }
}

fn slot_or_settle(
    view: &View<'_>,
    mine: Ticket,
    room: usize,
    ripe: impl Fn(Ticket) -> Option<Ticket>,
) -> Step {
    let queue = walk(view, Some(mine), room, ripe);
    match queue.end {
        End::Unread => Step::ReadOn,
        End::MineIsOver => Step::Retire,
        End::MineIsFound => Step::Fill(Filling {
            found: queue.found,
            watermark: queue.upto,
        }),
        _ if !queue.unsettled.is_empty() => Step::Settle(queue.unsettled),
        // Those found before me are alive, so they slot themselves; several writers would only race.
        End::Full | End::Blocked | End::Over => Step::Wait(Standing::Queue),
    }
}

/// What is over is settled page by page, and passed for good: a caller that cannot come to the end of a long queue
/// leaves a shorter one to the next.
fn over_the_queue(queue: Walk, watermark: Ticket) -> Refusal {
    match queue.end {
        _ if queue.alive => Refusal::Taken,
        _ if !queue.unsettled.is_empty() => Refusal::Settle(queue.unsettled),
        End::Over => Refusal::Settled,
        End::Unread if queue.upto > watermark => Refusal::Pass(queue.upto),
        End::Unread => Refusal::ReadOn,
        _ => Refusal::Taken,
    }
}

/// What a walk along the rows after `watermark` met, in ticket order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Waiting, with nothing unsettled before them.
    pub found: Vec<Ticket>,
    /// Every ticket up to this one is settled or found.
    pub upto: Ticket,
    /// Ripe to be made void.
    pub unsettled: Vec<Unsettled>,
    /// Somebody alive waits, found or behind something unsettled.
    pub alive: bool,
    /// Why the walk ended.
    pub end: End,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// I am among the found, and so is everyone after me for whom there was room.
    MineIsFound,
    /// My row is void, or has been gone for the grace.
    MineIsOver,
    /// As many were found as there is room for.
    Full,
    /// Something unsettled comes before me, or a gap within its grace, my own row's included.
    Blocked,
    /// The rows read so far are not enough.
    Unread,
    /// No ticket is left.
    Over,
}

/// Walks the tickets after `watermark`, the whole queue for one who has none (`mine`), and ends at the latest at the
/// first ticket that no row tells about: each turn of the loop passes a row, notes a ripe gap or a piece of one (of a
/// bounded number), or ends it.
fn walk(
    view: &View<'_>,
    mine: Option<Ticket>,
    room: usize,
    ripe: impl Fn(Ticket) -> Option<Ticket>,
) -> Walk {
    let mut queue = Walk {
        found: Vec::new(),
        upto: view.watermark,
        unsettled: Vec::new(),
        alive: false,
        end: End::Over,
    };
    let mut rows = view
        .rows
        .iter()
        .skip_while(|at| at.ticket <= view.watermark)
        .peekable();
    let mut next = view.watermark.next();
    while let Some(ticket) = next.filter(|ticket| *ticket <= view.last) {
        let walker = Walker { view, mine, room };
        let met = match rows.next_if(|at| at.first <= ticket) {
            Some(at) => Met::Row(at.ticket, at.row),
            None => walker.meets_gap(ticket, rows.peek().copied(), &ripe),
        };
        if let Some(end) = queue.pass(met, &walker) {
            queue.end = end;
            break;
        }
        next = met.last().next();
    }
    if mine.is_some_and(|mine| queue.found.contains(&mine)) {
        queue.end = End::MineIsFound;
    }
    queue
}

/// Who walks, and over what.
struct Walker<'a> {
    view: &'a View<'a>,
    mine: Option<Ticket>,
    room: usize,
}

/// What a walk comes to next.
#[derive(Clone, Copy, Debug)]
enum Met {
    Row(Ticket, Row),
    /// Tickets without a row that have all outlived their grace.
    Ripe(Ticket, Ticket),
    /// A ticket without a row, within its grace.
    Unripe(Ticket),
    Unread(Ticket),
}

impl Met {
    fn last(self) -> Ticket {
        let (Met::Row(last, _) | Met::Ripe(_, last) | Met::Unripe(last) | Met::Unread(last)) = self;
        last
    }
}

impl Walker<'_> {
    /// The gap that begins with a ticket: up to the next row, to one's own ticket, and to where the look has read.
    fn meets_gap(
        &self,
        ticket: Ticket,
        row: Option<&RowAt>,
        ripe: impl Fn(Ticket) -> Option<Ticket>,
    ) -> Met {
        if !self.view.known.covers(ticket) {
            return Met::Unread(ticket);
        }
        let Some(ripe) = ripe(ticket) else {
            return Met::Unripe(ticket);
        };
        let before_row = row.and_then(|at| at.first.before());
        let before_mine = self.mine.filter(|mine| *mine > ticket);
        let before_mine = before_mine.and_then(Ticket::before);
        let ends = before_row.into_iter().chain(before_mine);
        let ends = ends.chain([self.view.last, self.view.known.end()]);
        Met::Ripe(ticket, ends.fold(ripe, Ord::min).max(ticket))
    }

    fn is_mine(&self, ticket: Ticket) -> bool {
        self.mine == Some(ticket)
    }
}

impl Walk {
    /// Passes what comes next, or says why the walk ends here.
    fn pass(&mut self, met: Met, walker: &Walker<'_>) -> Option<End> {
        if self.found.len() == walker.room {
            return Some(End::Full);
        }
        match met {
            Met::Row(ticket, row) => self.pass_row(ticket, row, walker),
            Met::Unread(_) => Some(End::Unread),
            // Nobody deletes a row before `watermark` has passed it, so it did since the lock item was read, and we may
            // well have a slot: look again. Removed by hand, it is a gap like any other.
            Met::Ripe(ticket, _) if walker.is_mine(ticket) => Some(End::MineIsOver),
            Met::Ripe(first, last) => self.note(Unsettled::Gap(first, last), walker.mine),
            Met::Unripe(_) => Some(End::Blocked),
        }
    }

    fn pass_row(&mut self, ticket: Ticket, row: Row, walker: &Walker<'_>) -> Option<End> {
        let is_mine = walker.is_mine(ticket);
        match row {
            Row::Void if is_mine => Some(End::MineIsOver),
            Row::Void => self.skip(ticket),
            Row::Waiting(Occupant::Dead) => self.note(Unsettled::Dead(ticket), walker.mine),
            Row::Waiting(Occupant::Late) => {
                self.alive = true;
                Some(End::Blocked)
            }
            Row::Waiting(Occupant::Me | Occupant::Alive) => self.find(ticket, is_mine),
        }
    }

    fn skip(&mut self, void: Ticket) -> Option<End> {
        if self.unsettled.is_empty() {
            self.upto = void;
        }
        None
    }

    fn find(&mut self, waiting: Ticket, is_mine: bool) -> Option<End> {
        self.alive = true;
        if self.unsettled.is_empty() {
            self.found.push(waiting);
            self.upto = waiting;
        } else if is_mine {
            return Some(End::Blocked);
        }
        None
    }

    /// Nobody settles what comes after its own ticket: those behind see to that.
    fn note(&mut self, unsettled: Unsettled, mine: Option<Ticket>) -> Option<End> {
        let (Unsettled::Gap(ticket, _) | Unsettled::Dead(ticket)) = unsettled;
        if let Some(Unsettled::Gap(_, last)) = self.unsettled.last_mut()
            && let Unsettled::Gap(_, further) = unsettled
            && last.next() == Some(ticket)
            && mine.is_none_or(|mine| ticket < mine)
        {
            *last = further;
            return None;
        }
        if mine.is_some_and(|mine| ticket > mine) || self.unsettled.len() == SETTLE_AT_ONCE {
            return Some(End::Blocked);
        }
        self.unsettled.push(unsettled);
        None
    }
}

impl View<'_> {
    /// Where one like this has the lock.
    fn has(&self, occupant: Occupant) -> Option<Has> {
        if self.holder == Some(occupant) {
            return Some(Has::Holder);
        }
        let index = self.sharers.iter().position(|sharer| *sharer == occupant);
        index.map(Has::Sharer)
    }

    fn is_free(&self) -> bool {
        self.holder.is_none() && self.sharers.is_empty()
    }
}

impl Known {
    /// Whether a ticket without a row is known to have none.
    pub fn covers(self, ticket: Ticket) -> bool {
        match self {
            Known::Nothing => false,
            Known::UpTo(end) => ticket <= end,
            Known::All => true,
        }
    }

    /// The newest ticket of which the look tells.
    pub fn end(self) -> Ticket {
        match self {
            Known::Nothing => Ticket::default(),
            Known::UpTo(end) => end,
            Known::All => Ticket::new(u64::MAX),
        }
    }
}
