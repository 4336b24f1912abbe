//! The model of a gap: clients that draw tickets and may yet join, a late copy of a draw, and a caller that makes void what is overdue.
//!
//! Stamps of a draw have no beat. What a write of them rests on is the newest ticket, or that no stamp is set back.

use std::time::Duration;

use fairlock_protocol::item::LockItem;
use fairlock_protocol::stamps::{LastDate, Reading, Stamps, Wall};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{Drawing, LockWrite, end};
use stateright::{Model, Property};

use super::rules::{Mutant, Rules};

pub(crate) const OVERDUE: &str = "what is made void has had its join timeout";
pub(crate) const VOID: &str = "a ticket is made void";

/// What a draw may set stamps back by, in milliseconds: so much less than the join timeout a ticket may have.
const SET_BACK: i64 = 2_000;

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) join_timeout: Duration,
    pub(crate) polls: u8,
    pub(crate) horizon: u8,
    /// Whether a client may draw that was told no time.
    pub(crate) draws_undated: bool,
    pub(crate) rules: Rules,
}

/// A draw under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Draw {
    began: u8,
    own: Stamps,
    /// What stood there when it was sent: by it the draw says which of its stamps it writes.
    seen: Stamps,
}

impl Draw {
    /// What becomes of the stamps that stand there. Returns `None` if the draw is refused, because it left others when it was sent.
    fn writes(self, stands: &LockItem, rules: &Rules) -> Option<Stamps> {
        if rules.broken(Mutant::DrawsGoBack) {
            return Some(self.own);
        }
        let how = Drawing {
            stamps: self.own,
            seen: self.seen,
            join_timeout: Duration::ZERO,
            raises_join_timeout: true,
            keeps: None,
        };
        let draw = LockWrite::draw(0, 1, end(1), how);
        Some(draw.apply(Some(stands))??.drawn)
    }
}

/// The lock item with this newest ticket.
fn item(last: u8, drawn: Stamps) -> LockItem {
    LockItem {
        drawn,
        ..LockItem::free(Ticket::new(last.into()), Ticket::default())
    }
}

/// A client that draws one ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Drawer {
    #[default]
    Idle,
    Draws(Draw),
    /// Its ticket, and since when it counts.
    Has(u8, u8),
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    /// Up to this ticket.
    Void(u8),
    /// The newest ticket that was seen and its stamps, and those to write.
    Date(u8, Stamps, Stamps),
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct World {
    now: u8,
    last: u8,
    drawn: Stamps,
    drawers: [Drawer; 2],
    copy: Option<Draw>,
    polls: u8,
    act: Option<Act>,
    was_void: bool,
    is_broken: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Tick,
    /// By what the client was told of the time, if it was.
    Draw(usize, Option<LastDate>, Wall),
    Serve(usize),
    /// No answer arrives, and a copy may be applied at any time.
    Lose(usize),
    Late,
    Poll(Reading),
    Apply,
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            polls: self.polls,
            ..World::default()
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.was_void || world.polls == 0 && world.act.is_none() {
            return;
        }
        if world.now < self.horizon {
            actions.push(Action::Tick);
        }
        let time = self.rules.time(world.now);
        for (who, drawer) in world.drawers.iter().enumerate() {
            match drawer {
                Drawer::Idle => {
                    let walls = self.rules.walls(0, time);
                    let with = |last| walls.iter().map(move |wall| Action::Draw(who, last, *wall));
                    let told = self.rules.told(time).into_iter().map(Some);
                    let undated = self.draws_undated.then_some(None);
                    actions.extend(told.chain(undated).flat_map(with));
                }
                Drawer::Draws(_) => actions.extend([Action::Serve(who), Action::Lose(who)]),
                Drawer::Has(..) | Drawer::Gone => {}
            }
        }
        actions.extend(world.copy.map(|_| Action::Late));
        if world.act.is_some() {
            actions.push(Action::Apply);
        } else if world.last > 0 {
            let reads = self.rules.readings(1, time).into_iter();
            actions.extend(reads.map(Action::Poll));
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Tick => world.now += 1,
            Action::Draw(who, last, wall) => {
                let time = self.rules.time(world.now);
                let (began, seen) = (world.now, world.drawn);
                let own = self.rules.own_stamps(last, time, wall);
                world.drawers[who] = Drawer::Draws(Draw { began, own, seen });
            }
            Action::Serve(who) => world.serve(who, &self.rules),
            Action::Lose(who) => {
                if let Drawer::Draws(draw) = world.drawers[who] {
                    world.copy = Some(draw);
                }
                world.drawers[who] = Drawer::Gone;
            }
            Action::Late => {
                let copy = world.copy.take()?;
                world.drawn = copy.writes(&item(world.last, world.drawn), &self.rules)?;
                world.last += 1;
            }
            Action::Poll(read) => world.poll(read, self),
            Action::Apply => world.apply(self)?,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(OVERDUE, |_, world| !world.is_broken),
            Property::<Self>::sometimes(VOID, |_, world| world.was_void),
        ]
    }
}

impl World {
    /// The draw is applied, or is refused and sent again as the refusal shows.
    fn serve(&mut self, who: usize, rules: &Rules) {
        let Drawer::Draws(draw) = self.drawers[who] else {
            return;
        };
        self.drawers[who] = match draw.writes(&item(self.last, self.drawn), rules) {
            Some(drawn) => {
                (self.drawn, self.last) = (drawn, self.last + 1);
                Drawer::Has(self.last, draw.began)
            }
            None => {
                let seen = self.drawn;
                Drawer::Draws(Draw { seen, ..draw })
            }
        };
    }

    fn poll(&mut self, read: Reading, setup: &Setup) {
        let rules = &setup.rules;
        self.polls -= 1;
        if rules.is_over((self.drawn, setup.join_timeout, false), read) {
            self.act = Some(Act::Void(self.last));
            return;
        }
        let redated = rules.redated(self.drawn, read);
        self.act = redated.map(|stamps| Act::Date(self.last, self.drawn, stamps));
    }

    fn apply(&mut self, setup: &Setup) -> Option<()> {
        let rules = &setup.rules;
        match self.act.take()? {
            Act::Void(upto) => {
                let timeout = rules.whole(setup.join_timeout);
                let now = rules.time(self.now);
                let ends = |began| rules.time(began) + timeout - SET_BACK;
                let is_early = |drawer: &Drawer| match *drawer {
                    Drawer::Has(ticket, began) => ticket <= upto && now < ends(began),
                    _ => false,
                };
                self.is_broken = self.drawers.iter().any(is_early);
                self.was_void = true;
            }
            Act::Date(.., stamps) if rules.broken(Mutant::DatesWithoutBeat) => self.drawn = stamps,
            Act::Date(last, seen, stamps) => {
                let write = LockWrite::date_draw(0, &item(last, seen), stamps);
                let dated = write.apply(Some(&item(self.last, self.drawn)));
                self.drawn = dated.flatten().map_or(self.drawn, |item| item.drawn);
            }
        }
        Some(())
    }
}
