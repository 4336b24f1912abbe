//! The model of time: an owner, an observer, a client that fills slots, and a clock that ticks between any two steps.

use stateright::{Model, Property};

use super::observer::{Observer, Snapshot as Sight};
use super::owner::{Course, Flight, Mark, Owner, Snapshot, Write};
use super::rules::{LEASE_TICKS, Mutant, Rules};

pub(crate) const STOPPED: &str = "who is evicted has stopped believing";
pub(crate) const HELD: &str = "somebody believes it holds";
pub(crate) const EVICTED: &str = "somebody is evicted";
pub(crate) const SLOT_OLD: &str = "a slot shows an older beat than the row";

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) first: Write,
    pub(crate) renewals: u8,
    /// Polls of the owner; the observer's are not counted.
    pub(crate) polls: u8,
    pub(crate) copies: u8,
    pub(crate) horizon: u8,
    /// Whether the row and the slot may be renewed for a longer lease too.
    pub(crate) stretches: bool,
    pub(crate) rules: Rules,
}

/// Enough for a row that is taken and renewed twice, where one of these requests may come twice with another beat.
const SHOWN: usize = 5;

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct World {
    now: u8,
    /// What the table shows of the owner.
    row: Option<Mark>,
    item: Option<Mark>,
    owner: Owner,
    observer: Observer,
    /// All that the row has shown, for the client that gives it a slot: the slot copies what that client read at any time before.
    shown: [Option<Mark>; SHOWN],
    had_a_slot: bool,
    /// Whether the owner asked to renew the row for a longer lease.
    stretched: bool,
    /// A copy of a request whose answer the owner never hears.
    late: Option<(Write, u8)>,
    copies: u8,
    was_evicted: bool,
    evicted_a_believer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Tick,
    Renew(Write),
    Apply(Write),
    Answer(Write),
    /// No answer came in time: the owner sends the request again, with the first copy still under way.
    Retry(Write),
    Late,
    Snapshot,
    HearPoll,
    /// A client fills the slot with the row as it read it.
    Fill(Mark),
    RemoveRow,
    /// For an observer whose watches count from the sending; no other step can tell when a poll was sent.
    SendLook,
    /// Reads the lock item alone.
    Observe,
    /// Reads the lock item, and then the row.
    ObserveItem,
    ObserveRow,
    /// Judges, and evicts.
    Evict,
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World {
            copies: self.copies,
            ..World::default()
        };
        world.owner.renewals = self.renewals;
        world.owner.polls = self.polls;
        world.owner.send(self.first, 0);
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.now < self.horizon && !world.was_evicted && !world.is_too_late(self) {
            actions.push(Action::Tick);
            world.of_the_owner(self, actions);
            world.of_the_table(actions);
            world.of_the_observer(self, actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        let rules = &self.rules;
        match action {
            Action::Tick => {
                world.now += 1;
                world.owner.watch_the_clock(world.now, rules);
            }
            Action::Renew(write) => {
                world.owner.renewals -= 1;
                world.stretched |= write == Write::StretchRow;
                world.owner.send(write, world.now);
            }
            Action::Apply(write) => world.apply(write, rules),
            Action::Answer(write) => world.answer(write, rules),
            Action::Retry(write) => world.retry(write, rules),
            Action::Late => {
                let late = world.late.take();
                late.map(|(write, beat)| world.write(write, beat, rules));
            }
            Action::Snapshot | Action::HearPoll => world.owner_polls(rules),
            Action::Fill(mark) => {
                world.item = Some(mark);
                world.had_a_slot = true;
                world.shown = [None; SHOWN];
            }
            Action::RemoveRow => world.row = None,
            Action::Evict => world.evict(rules),
            Action::SendLook => world.observer.snapshot = Some(Sight::Sent(world.now)),
            Action::Observe => world.observe(None, rules),
            Action::ObserveItem => world.observer.snapshot = Some(Sight::Read(world.item)),
            Action::ObserveRow => world.observe(Some(world.row), rules),
        }
        world.forget(rules);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::<Self>::always(STOPPED, |_, world| !world.evicted_a_believer),
            Property::<Self>::sometimes(HELD, |_, world| world.owner.believes()),
            Property::<Self>::sometimes(EVICTED, |_, world| world.was_evicted),
        ];
        if self.first == Write::Join {
            all.push(Property::<Self>::sometimes(SLOT_OLD, |_, world| {
                let beat = |mark: Option<Mark>| mark.map(|mark| mark.beat);
                world.item.is_some() && beat(world.item) < beat(world.row)
            }));
        }
        all
    }
}

impl World {
    fn of_the_owner(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let (owner, stretches) = (&self.owner, setup.stretches);
        for flight in owner.row.iter().chain(&owner.slot) {
            actions.push(match flight.course {
                Course::Sent => Action::Apply(flight.write),
                _ => Action::Answer(flight.write),
            });
            if self.copies > 0 && self.late.is_none() {
                actions.push(Action::Retry(flight.write));
            }
        }
        if owner.renewals > 0 && owner.beats.is_some() {
            // The owner renews the row until it sees the slot, and the slot from then on.
            let in_row = self.had_a_slot || self.row.is_some();
            if owner.row.is_none() && owner.held.is_none() && in_row {
                actions.push(Action::Renew(Write::RenewRow));
                actions.extend(stretches.then_some(Action::Renew(Write::StretchRow)));
            }
            if owner.slot.is_none() && owner.held.is_some() {
                actions.push(Action::Renew(Write::RenewSlot));
                actions.extend(stretches.then_some(Action::Renew(Write::StretchSlot)));
            }
        }
        actions.extend(match owner.snapshot {
            None if owner.polls > 0 && owner.beats.is_some() => Some(Action::Snapshot),
            None => None,
            Some(Snapshot(_)) => Some(Action::HearPoll),
        });
    }

    fn of_the_table(&self, actions: &mut Vec<Action>) {
        actions.extend(self.late.map(|_| Action::Late));
        actions.extend(self.shown.iter().flatten().copied().map(Action::Fill));
        // The row's ticket has a slot, so the row may be removed. That matters only if a late copy may put it there again, or if a renewal
        // for another lease is then refused.
        let row = self.owner.row;
        let is_renewed = row.is_some_and(|flight| flight.course == Course::Sent);
        let is_told = self.late == Some((Write::Join, 0)) || self.stretched && is_renewed;
        if self.had_a_slot && self.row.is_some() && is_told {
            actions.push(Action::RemoveRow);
        }
    }

    /// The observer reads and hears a poll of the lock item alone in one step. Heard later, the poll would begin its watches later and
    /// leave the earlier ones as they are. So an entry that is dead by such a poll is dead by the poll that is heard at once. Judging and
    /// evicting is one step too: what is dead stays dead by the same poll, so it may as well be judged when the eviction is applied.
    ///
    /// A watch over the row could be taken for a watch over the lock item only until the lock item has a watch of its own. From then on the
    /// observer does not poll the row.
    fn of_the_observer(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let observer = &self.observer;
        match observer.snapshot {
            None if setup.rules.broken(Mutant::WatchFromTheSending) => {
                actions.push(Action::SendLook);
            }
            Some(Sight::Read(_)) => actions.push(Action::ObserveRow),
            _ => actions.push(Action::Observe),
        }
        let has_row = setup.first == Write::Join && observer.seen.is_none();
        if observer.snapshot.is_none() && has_row {
            actions.push(Action::ObserveItem);
        }
        if observer.judges(self.now, &setup.rules).is_some() {
            actions.push(Action::Evict);
        }
    }

    /// Whether no eviction can come before the end any more: a watch that has not begun yet has not run out by then.
    fn is_too_late(&self, setup: &Setup) -> bool {
        let observer = &self.observer;
        let is_watched = observer.seen.is_some() || observer.snapshot.is_some();
        !is_watched && self.now + LEASE_TICKS >= setup.horizon
    }

    /// Forgets what can make no difference any more.
    fn forget(&mut self, rules: &Rules) {
        if self.owner.lost {
            // An owner that has stopped believing cannot be evicted too early. The observer goes on with what stands on the lock item.
            (self.row, self.late) = (None, None);
            (self.copies, self.stretched, self.had_a_slot) = (0, false, false);
            self.shown = [None; SHOWN];
        }
        let is_spent = |(write, beat): &(Write, u8)| self.is_spent(*write, *beat);
        if rules.mutant.is_none() && self.late.as_ref().is_some_and(is_spent) {
            self.late = None;
        }
    }

    /// Whether a late copy of a renewal is refused whenever it comes. Beats do not go back, and what has gone does not come back: the only
    /// copy that might bring it back is this one.
    fn is_spent(&self, write: Write, beat: u8) -> bool {
        let at = match write {
            Write::RenewRow | Write::StretchRow => self.row,
            Write::RenewSlot | Write::StretchSlot => self.item,
            Write::Enter | Write::Join => return false,
        };
        at.is_none_or(|mark| mark.beat >= beat)
    }

    /// Applies a write to the table. Returns what its place shows then, or `None` if the owner is not there.
    fn write(&mut self, write: Write, beat: u8, rules: &Rules) -> Option<Mark> {
        let place = match write {
            Write::Join | Write::RenewRow | Write::StretchRow => &mut self.row,
            Write::Enter | Write::RenewSlot | Write::StretchSlot => &mut self.item,
        };
        let lease = write.lease();
        *place = match (write, *place) {
            // A failed condition that shows the owner's own nonce is a success.
            (Write::Enter | Write::Join, at) => Some(at.unwrap_or(Mark { beat, lease })),
            (_, Some(mark)) if rules.broken(Mutant::BeatsCountedInTheTable) => Some(Mark {
                beat: mark.beat + 1,
                lease,
            }),
            (_, Some(mark)) if mark.beat < beat || rules.broken(Mutant::BeatsGoBack) => {
                Some(Mark { beat, lease })
            }
            (_, at) => at,
        };
        let shows = *place;
        self.note_the_row();
        shows
    }

    /// Notes that the client that gives the row a slot may have read it now.
    fn note_the_row(&mut self) {
        let is_new = !self.shown.contains(&self.row);
        if let (Some(mark), false, true) = (self.row, self.had_a_slot, is_new) {
            let known = self.shown.iter().flatten().count();
            self.shown[known] = Some(mark);
        }
    }

    fn apply(&mut self, write: Write, rules: &Rules) {
        let Some(Flight { beat, .. }) = *self.owner.flight(write) else {
            return;
        };
        let mark = self.write(write, beat, rules);
        if let Some(flight) = self.owner.flight(write) {
            flight.course = mark.map_or(Course::Failed, Course::Applied);
        }
    }

    fn answer(&mut self, write: Write, rules: &Rules) {
        if let Some(flight) = *self.owner.flight(write) {
            self.owner.answered(flight, self.now, rules);
        }
    }

    /// The first copy was applied and its answer lost, or it is still under way; or both, if the network made two of it.
    fn retry(&mut self, write: Write, rules: &Rules) {
        self.copies -= 1;
        if let Some(flight) = *self.owner.flight(write) {
            self.late = Some((write, flight.beat));
            self.owner.send_again(flight, self.now, rules);
        }
    }

    fn owner_polls(&mut self, rules: &Rules) {
        match self.owner.snapshot.take() {
            None => {
                self.owner.polls -= 1;
                self.owner.snapshot = Some(Snapshot(self.item));
            }
            Some(Snapshot(Some(mark))) => self.owner.shown(mark, self.now, rules),
            Some(Snapshot(None)) => {}
        }
    }

    /// A poll is answered. If it read the row too, it shows the lock item as it was before.
    fn observe(&mut self, row: Option<Option<Mark>>, rules: &Rules) {
        let item = match self.observer.snapshot {
            Some(Sight::Read(item)) => item,
            _ => self.item,
        };
        self.observer.arrived(item, row, self.now, rules);
    }

    fn evict(&mut self, rules: &Rules) {
        let judged = self.observer.judges(self.now, rules);
        let any_beat = rules.broken(Mutant::EvictWithoutBeat) && self.item.is_some();
        if judged == self.item.map(|mark| mark.beat) || any_beat {
            self.item = None;
            self.was_evicted = true;
            self.evicted_a_believer = self.owner.believes();
        }
    }
}
