//! A snapshot of a lock -> the next step: the protocol's decisions, as functions of values.
//!
//! The library, the models and the simulation call these same functions. They know neither time nor requests: the caller says which entries
//! have expired, and which gap has outlived its join timeout.

use crate::ticket::{Sequence, Ticket};

/// The entry at a place, as the client that polls judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occupant {
    /// The entry of the client that polls.
    Me,
    /// An entry that is renewed in time.
    Alive,
    /// Suspect: not renewed for half of its lease. It has not expired yet, but gets no slot, where it would have to be watched for a whole
    /// lease again. It blocks the queue until it renews or expires.
    Suspect,
    /// Expired: not renewed for a whole lease. Whatever removes it is conditional on the beat that was judged.
    Dead,
}

/// A row in the queue. Its key is its newest ticket. Its other tickets were drawn together with that one, and share its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowAt {
    /// The oldest of its tickets.
    pub first: Ticket,
    /// The newest of its tickets, which is its key.
    pub ticket: Ticket,
    /// What the row says of them.
    pub row: Row,
}

/// What a row says of its tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
    /// A waiter has this row, and is judged so.
    Waiting(Occupant),
    /// Settled: its tickets will never be granted.
    Void,
}

/// How much of the queue behind the slots a snapshot has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The lock item alone.
    Nothing,
    /// Every row up to this ticket; there are more.
    UpTo(Ticket),
    /// Every row there is.
    All,
}

/// A snapshot as one client judges it.
#[derive(Clone, Debug)]
pub struct JudgedSnapshot {
    /// The holder. `None` if the lock is free, or only sharers hold it.
    pub holder: Option<Occupant>,
    /// The entries that hold the lock beside the holder, or after it.
    pub sharers: Vec<Occupant>,
    /// The successors in ticket order; none when the lock is free.
    pub successors: Vec<Occupant>,
    /// How many of the first successors wait for no more than what is left.
    pub admitted: usize,
    /// In ticket order. Rows up to `watermark` are settled, and decisions pass over them.
    pub rows: Vec<RowAt>,
    /// The newest ticket drawn.
    pub last: Ticket,
    /// Every ticket up to this one is settled or among the successors.
    pub watermark: Ticket,
    /// How far the rows were read.
    pub known: Known,
}

/// What a waiter does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This waiter holds the lock.
    Hold,
    /// This has ended, and stands in the way: remove it.
    Remove(Removal),
    /// What the first successors wait for is left, and this waiter is among them: this many of them hold the lock now.
    Admit(usize),
    /// There is nothing to do but poll again.
    Wait(QueuePosition),
    /// This waiter's ticket was passed over: nothing of it is left in the queue.
    Passed,
    /// This waiter's ticket will never be granted: make it void, and draw another.
    Retire,
    /// The decision needs rows that this snapshot has not read.
    ReadOn,
    /// Give slots to these tickets, this waiter's among them.
    Fill(Filling),
}

/// What goes because it has ended, by whichever client finds it. Each removal applies only if the table is still as the snapshot showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// An entry that holds the lock has expired: evict it. If it is the last that holds the lock, this promotes the next.
    Evict(Has),
    /// The successor at this index has expired: take its slot away.
    EvictSuccessor(usize),
    /// These tickets stand in the queue and will not move by themselves: make them void.
    Void(Vec<Unsettled>),
    /// Every ticket up to this one is settled: record that on the lock item, so that no client reads their rows again.
    Settle(Ticket),
}

/// Where an entry that holds the lock stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Has {
    /// In the holder's place.
    Holder,
    /// Beside the holder: the index among the sharers.
    Sharer(usize),
}

/// Where a waiter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePosition {
    /// The lock comes to this successor after that many others.
    Successor(usize),
    /// In the queue behind the slots.
    Queue,
}

/// A ticket that blocks the queue and will not move by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsettled {
    /// Drawn, but no row came within the join timeout: all tickets from the first to the last.
    Gap(Ticket, Ticket),
    /// Its row has expired.
    Dead(Ticket),
}

/// Which tickets get a slot next, and up to which ticket the queue is then settled or with a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filling {
    /// In ticket order.
    pub found: Vec<Ticket>,
    /// Every ticket up to this one then has a slot, or needs none.
    pub watermark: Ticket,
}

/// What a caller that does not wait makes of a lock whose enter failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClearingStep {
    /// Nothing is in the way any more: enter again.
    Free,
    /// The lock is free, and every drawn ticket is settled: enter over them.
    Settled,
    /// A live entry holds the lock, or waits for it.
    Taken,
    /// The decision needs rows that this snapshot has not read.
    ReadOn,
    /// This has ended, and stands in the way: remove it.
    Remove(Removal),
}

/// How many expired rows and gaps are settled in one go at most, each by one write: a gap takes one write whatever its size.
const SETTLE_AT_ONCE: usize = 25;

/// Returns the next step of the waiter with ticket `mine`. `expired` takes a ticket of a gap. It returns up to which ticket the gap has
/// outlived its join timeout from there on, or `None` if that ticket has not. What `expired` says of tickets that have a row, or that no poll
/// has read, counts for nothing.
pub fn next_step(
    view: &JudgedSnapshot,
    mine: Ticket,
    slots: usize,
    expired: impl Fn(Ticket) -> Option<Ticket>,
) -> Step {
    if view.has(Occupant::Me).is_some() {
        return Step::Hold;
    }
    if let Some(removal) = remove_the_dead(view) {
        return Step::Remove(removal);
    }
    if let Some(index) = view
        .successors
        .iter()
        .position(|successor| *successor == Occupant::Me)
    {
        return match view.admitted {
            admitted if index < admitted => Step::Admit(admitted),
            _ => Step::Wait(QueuePosition::Successor(index)),
        };
    }
    if mine <= view.watermark {
        // Slots are given in ticket order and this waiter has none: its ticket was passed as void, or evicted from its slot as expired.
        return Step::Passed;
    }
    match room(view, slots) {
        0 => Step::Wait(QueuePosition::Queue),
        room => slot_or_settle(view, mine, room, expired),
    }
}

/// Returns what a caller that does not wait does next. Waiting rows and gaps are judged as for any other caller. `is_left` says whether the
/// permits that it asks for are left beside the entries that hold the lock, whichever waiters there are.
pub fn next_refusal(
    view: &JudgedSnapshot,
    is_left: bool,
    expired: impl Fn(Ticket) -> Option<Ticket>,
) -> ClearingStep {
    if let Some(dead) = view.has(Occupant::Dead) {
        return ClearingStep::Remove(Removal::Evict(dead));
    }
    if !is_left
        || view
            .successors
            .iter()
            .any(|successor| *successor != Occupant::Dead)
    {
        return ClearingStep::Taken;
    }
    if !view.successors.is_empty() {
        return ClearingStep::Remove(Removal::EvictSuccessor(0));
    }
    if view.watermark == view.last {
        return ClearingStep::Free;
    }
    over_the_queue(view, walk(view, None, usize::MAX, expired))
}

/// Walks the queue behind the slots for a sweeper: the whole queue is ahead of it.
pub fn survey(view: &JudgedSnapshot, expired: impl Fn(Ticket) -> Option<Ticket>) -> Walk {
    walk(view, None, usize::MAX, expired)
}

/// Returns the removal of the first expired entry on the lock item. Entries that hold the lock come before successors.
pub fn remove_the_dead(view: &JudgedSnapshot) -> Option<Removal> {
    if let Some(dead) = view.has(Occupant::Dead) {
        return Some(Removal::Evict(dead));
    }
    view.successors
        .iter()
        .position(|successor| *successor == Occupant::Dead)
        .map(Removal::EvictSuccessor)
}

/// How many slots to give now. Zero while more than half are taken: a later write then fills several at once, and until then the successors
/// that are there cover the handoffs.
fn room(view: &JudgedSnapshot, slots: usize) -> usize {
    let waiting = view.successors.len();
    let taken = waiting + usize::from(view.holder.is_some());
    // `slots` does not count the first slot.
    let places = (slots + 1).saturating_sub(taken);
    if waiting <= slots / 2 { places } else { 0 }
}

fn slot_or_settle(
    view: &JudgedSnapshot,
    mine: Ticket,
    room: usize,
    expired: impl Fn(Ticket) -> Option<Ticket>,
) -> Step {
    let queue = walk(view, Some(mine), room, expired);
    match queue.end {
        End::Unread => Step::ReadOn,
        End::MineIsOver => Step::Retire,
        End::MineIsFound => Step::Fill(Filling {
            found: queue.found,
            watermark: queue.upto,
        }),
        _ if !queue.unsettled.is_empty() => Step::Remove(Removal::Void(queue.unsettled)),
        // Waiters found before this one are alive, so they take their slots themselves; several writers would only race.
        End::Full | End::Blocked | End::Over => Step::Wait(QueuePosition::Queue),
    }
}

/// What has ended is settled page by page, and passed for good. So a caller that cannot come to the end of a long queue leaves a shorter
/// queue to the next caller.
fn over_the_queue(view: &JudgedSnapshot, queue: Walk) -> ClearingStep {
    match queue.end {
        _ if queue.alive => ClearingStep::Taken,
        _ if !queue.unsettled.is_empty() => ClearingStep::Remove(Removal::Void(queue.unsettled)),
        End::Over if view.is_free() => ClearingStep::Settled,
        End::Over => ClearingStep::Remove(Removal::Settle(view.last)),
        End::Unread if queue.upto > view.watermark => {
            ClearingStep::Remove(Removal::Settle(queue.upto))
        }
        End::Unread => ClearingStep::ReadOn,
        _ => ClearingStep::Taken,
    }
}

/// What a walk along the rows after the watermark met, in ticket order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Waiting tickets with nothing unsettled before them.
    pub found: Vec<Ticket>,
    /// Every ticket up to this one is settled or found.
    pub upto: Ticket,
    /// Expired tickets, to be made void.
    pub unsettled: Vec<Unsettled>,
    /// Whether a live waiter waits, found or behind something unsettled.
    pub alive: bool,
    /// Why the walk ended.
    pub end: End,
}

/// Why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The walker's own ticket is among the found, and so is every later waiter for which there was room.
    MineIsFound,
    /// The walker's own row is void, or has been missing for the join timeout.
    MineIsOver,
    /// As many were found as there is room for.
    Full,
    /// Something unsettled comes before the walker's own ticket, or a gap within its join timeout, which may be the walker's own missing
    /// row.
    Blocked,
    /// The rows read so far are not enough.
    Unread,
    /// No ticket is left.
    Over,
}

/// Walks the tickets after the watermark. A caller without a ticket (`mine` is `None`) walks the whole queue. The walk ends at the latest
/// at the first ticket that no row tells about. Each turn of the loop passes a row, notes an expired gap or a piece of one (of a bounded
/// number), or ends the walk.
fn walk(
    view: &JudgedSnapshot,
    mine: Option<Ticket>,
    room: usize,
    expired: impl Fn(Ticket) -> Option<Ticket>,
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
            None => walker.meets_gap(ticket, rows.peek().copied(), &expired),
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

/// The walker: its view, its own ticket and its room.
struct Walker<'a> {
    view: &'a JudgedSnapshot,
    mine: Option<Ticket>,
    room: usize,
}

/// What a walk comes to next.
#[derive(Clone, Copy, Debug)]
enum Met {
    Row(Ticket, Row),
    /// Tickets without a row that have all outlived their join timeout.
    Expired(Ticket, Ticket),
    /// A ticket without a row, within its join timeout.
    Pending(Ticket),
    Unread(Ticket),
}

impl Met {
    fn last(self) -> Ticket {
        let (Met::Row(last, _) | Met::Expired(_, last) | Met::Pending(last) | Met::Unread(last)) =
            self;
        last
    }
}

impl Walker<'_> {
    /// The gap that begins with a ticket. It extends up to the next row, to the walker's own ticket, and to where the snapshot ends.
    fn meets_gap(
        &self,
        ticket: Ticket,
        row: Option<&RowAt>,
        expired: impl Fn(Ticket) -> Option<Ticket>,
    ) -> Met {
        if !self.view.known.covers(ticket) {
            return Met::Unread(ticket);
        }
        let Some(expired) = expired(ticket) else {
            return Met::Pending(ticket);
        };
        let before_row = row.and_then(|at| at.first.before());
        let before_mine = self.mine.filter(|mine| *mine > ticket);
        let before_mine = before_mine.and_then(Ticket::before);
        let ends = before_row.into_iter().chain(before_mine);
        let ends = ends.chain([self.view.last, self.view.known.end()]);
        Met::Expired(ticket, ends.fold(expired, Ord::min).max(ticket))
    }

    fn is_mine(&self, ticket: Ticket) -> bool {
        self.mine == Some(ticket)
    }
}

impl Walk {
    /// Passes what comes next, or returns why the walk ends here.
    fn pass(&mut self, met: Met, walker: &Walker<'_>) -> Option<End> {
        if self.found.len() == walker.room {
            return Some(End::Full);
        }
        match met {
            Met::Row(ticket, row) => self.pass_row(ticket, row, walker),
            Met::Unread(_) => Some(End::Unread),
            // No client deletes a row before the watermark has passed it. So the watermark passed this row since the lock item was read,
            // and the waiter may well have a slot: poll again. A row that was removed by hand is a gap like any other.
            Met::Expired(ticket, _) if walker.is_mine(ticket) => Some(End::MineIsOver),
            Met::Expired(first, last) => self.note(Unsettled::Gap(first, last), walker.mine),
            Met::Pending(_) => Some(End::Blocked),
        }
    }

    fn pass_row(&mut self, ticket: Ticket, row: Row, walker: &Walker<'_>) -> Option<End> {
        let is_mine = walker.is_mine(ticket);
        match row {
            Row::Void if is_mine => Some(End::MineIsOver),
            Row::Void => self.skip(ticket),
            Row::Waiting(Occupant::Dead) => self.note(Unsettled::Dead(ticket), walker.mine),
            // It gets no slot. A walk without a ticket gives none.
            Row::Waiting(Occupant::Suspect) if walker.mine.is_some() => {
                self.alive = true;
                Some(End::Blocked)
            }
            Row::Waiting(Occupant::Me | Occupant::Alive | Occupant::Suspect) => {
                self.find(ticket, is_mine)
            }
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

    /// A waiter makes nothing void after its own ticket: later waiters see to that.
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

impl JudgedSnapshot {
    /// Where an entry that is judged so holds the lock.
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

    /// The newest ticket that the snapshot covers.
    pub fn end(self) -> Ticket {
        match self {
            Known::Nothing => Ticket::default(),
            Known::UpTo(end) => end,
            Known::All => Ticket::new(u64::MAX),
        }
    }
}
