//! The model: every step that any client can take next, in any order.

use stateright::{Model, Property};

use super::client::{Client, Role, Task};
use super::driver::Hand;
use super::faults::{Fault, Faults};
use super::request::Request;
use super::rules::{Mutant, Rules};
use super::table::{Entry, Item, Table};
use fairlock_protocol::place::Claim;
use fairlock_protocol::step::Occupant;
use fairlock_protocol::ticket::Ticket;

/// What a run explores.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) roles: Vec<Role>,
    pub(crate) rounds: u8,
    pub(crate) rules: Rules,
    pub(crate) faults: Faults,
    /// Whether the first two clients are places of one process, which know of each other what its directory does.
    pub(crate) together: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) table: Table,
    pub(crate) clients: Vec<Client>,
    /// Requests that may apply at any time, and whose answers no client hears.
    pub(crate) late: Vec<Request>,
    pub(crate) faults: Faults,
    /// The newest ticket in which any client believed, and the newest in which a client believed that held the lock alone.
    pub(crate) newest: u8,
    pub(crate) newest_alone: u8,
    pub(crate) broken: Option<Broken>,
}

/// What a single step must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    TokenWentBack,
    CounterWentBack,
    HolderWaitsAgain,
    MoreThanThereAre,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The request in flight reaches its item.
    Apply(usize),
    /// Its answer arrives, and the client sends what it decides by it.
    Answer(usize),
    /// Reads the lock item.
    Snapshot(usize),
    /// Reads one more row.
    Read(usize),
    Release(usize),
    /// Deletes one row at or below `watermark`.
    Clean(usize),
    Late(usize),
    Fault(usize, Fault),
}

impl Action {
    /// Whether the clients must be able to get on without this action.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, Action::Fault(..) | Action::Late(_))
    }
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let roles = self.roles.iter().enumerate();
        let mut world = World {
            table: Table::default(),
            clients: roles
                .map(|(me, role)| Client::new(*role, me, self.rounds, self.rules.permits))
                .collect(),
            late: Vec::new(),
            faults: self.faults,
            newest: 0,
            newest_alone: 0,
            broken: None,
        };
        for me in (0..self.roles.len()).filter(|me| self.roles[*me].asks_for_a_place()) {
            world.sets_out(me, self, Hand::Nothing);
        }
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (me, client) in world.clients.iter().enumerate() {
            actions.extend(own_step(me, client));
            if client.settled_rows != 0 {
                actions.push(Action::Clean(me));
            }
        }
        actions.extend((0..world.late.len()).map(Action::Late));
        world.faults(&self.roles, &self.rules, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Apply(me) => world.apply(me, self),
            Action::Answer(me) => world.answer(me, self),
            Action::Snapshot(me) => world.poll(me, self),
            Action::Read(me) => world.read(me, self),
            Action::Release(me) => world.release(me, self),
            Action::Clean(me) => world.clean(me),
            Action::Late(index) => {
                let request = world.late.remove(index);
                world.table.apply(&request, &self.rules, true);
            }
            Action::Fault(me, fault) => world.suffer(me, fault, self),
        }
        world.settle(last, self);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all()
    }
}

fn own_step(me: usize, client: &Client) -> Option<Action> {
    match client.task {
        Task::Sent(_) => Some(Action::Apply(me)),
        Task::Answered(..) => Some(Action::Answer(me)),
        Task::Waiting | Task::AtTheDoor | Task::Finding => Some(Action::Snapshot(me)),
        Task::Reading(_) => Some(Action::Read(me)),
        Task::Holding { .. } => Some(Action::Release(me)),
        Task::Done | Task::Crashed => None,
    }
}

/// What a step did to the holders that no step may do.
fn broken_hold(before: &Item, after: &Item, rules: &Rules) -> Option<Broken> {
    let same =
        |one: Entry| move |other: Entry| (one.nonce, one.ticket) == (other.nonce, other.ticket);
    let waits_again =
        |held: Entry| after.places().any(same(held)) && !after.holders(rules).any(same(held));
    if before.holders(rules).any(waits_again) {
        return Some(Broken::HolderWaitsAgain);
    }
    let is_new = |holder: Entry| !before.holders(rules).any(same(holder));
    let taken: u8 = after.holders(rules).map(|holder| holder.share).sum();
    let is_over = taken > after.there_are(rules) && after.holders(rules).count() > 1;
    (is_over && after.holders(rules).any(is_new)).then_some(Broken::MoreThanThereAre)
}

impl World {
    fn apply(&mut self, me: usize, setup: &Setup) {
        let client = &mut self.clients[me];
        if let Task::Sent(request) = client.task {
            let answer = self.table.apply(&request, &setup.rules, false);
            let kept = match setup.sibling(me) {
                Some(_) => client.keeps_for_two(setup.roles[me], &request, answer, &setup.rules),
                None => client.keeps(setup.roles[me], &request, answer, &setup.rules),
            };
            client.task = Task::Answered(request, kept);
            if !Client::is_told_by(setup.roles[me], &request) {
                self.answer(me, setup);
            }
        }
    }

    fn clean(&mut self, me: usize) {
        let settled_rows = &mut self.clients[me].settled_rows;
        let ticket = settled_rows.trailing_zeros();
        *settled_rows &= *settled_rows - 1;
        self.table.rows[ticket as usize] = None;
    }

    pub(super) fn judge(&self, me: usize, entry: Entry) -> Occupant {
        match entry {
            _ if self.clients[me].is(entry) => Occupant::Me,
            _ if self.is_dead(entry) => Occupant::Dead,
            _ if entry.beat < self.clients[entry.nonce.process()].late_renewal => Occupant::Suspect,
            _ => Occupant::Alive,
        }
    }

    /// Whether no client renews the entry any more, or its owner is late.
    pub(crate) fn is_dead(&self, entry: Entry) -> bool {
        let owner = &self.clients[entry.nonce.process()];
        let renewed = !owner.is_gone() && owner.is(entry);
        !renewed || entry.beat < owner.lapsed
    }

    /// Whether no process that is in time will come with the row of this gap.
    pub(super) fn is_over(&self, gap: Ticket, rules: &Rules) -> bool {
        let gap = gap.get() as u8;
        let has_expired = |gap| {
            let mut comers = self.clients.iter().filter(|client| !client.slow);
            !comers.any(|client| !client.is_gone() && client.has_drawn(gap))
        };
        has_expired(gap) || rules.broken(Mutant::RunIntoGrace) && has_expired(gap - 1)
    }

    /// Notes what this step broke, and forgets what can make no difference any more.
    fn settle(&mut self, last: &World, setup: &Setup) {
        self.note_what_broke(last, &setup.rules);
        if setup.rules.mutant.is_none() {
            self.forget_the_late();
        }
        self.forget_litter();
        self.late.sort_unstable();
        self.sort(&setup.roles, setup.together);
    }

    fn note_what_broke(&mut self, last: &World, rules: &Rules) {
        if let (Some(before), Some(after)) = (last.table.item, self.table.item) {
            if after.last < before.last || after.watermark < before.watermark {
                self.broken = Some(Broken::CounterWentBack);
            }
            let broken = broken_hold(&before, &after, rules);
            self.broken = broken.or(self.broken);
        }
        for (before, after) in last.clients.iter().zip(&self.clients) {
            let granted = after.believes() && !before.place.has_held();
            if let Some(ticket) = after.ticket.filter(|_| granted) {
                let is_alone = after.has == rules.permits;
                let before = match is_alone {
                    true => self.newest,
                    false => self.newest_alone,
                };
                if ticket + 1 - after.size <= before {
                    self.broken = Some(Broken::TokenWentBack);
                }
                self.newest = self.newest.max(ticket);
                if is_alone {
                    self.newest_alone = ticket;
                }
            }
        }
    }

    /// Forgets requests that can do nothing any more.
    fn forget_the_late(&mut self) {
        let Some(item) = self.table.item else { return };
        self.late.retain(|request| match request {
            Request::Fill(fill) => fill.seen.watermark >= item.watermark,
            Request::EnterOver { last, .. } => *last >= item.last,
            _ => true,
        });
    }

    /// Forgets rows that no client reads any more, and that no request names: it does not matter whether they are deleted.
    fn forget_litter(&mut self) {
        let item = self.table.item;
        let watermark = item.map_or(self.table.clock, |item| item.watermark);
        for ticket in 1..=watermark {
            let bit = 1 << ticket;
            let mut clients = self.clients.iter();
            let is_settled = clients.any(|client| client.settled_rows & bit != 0);
            let is_there = is_settled || self.table.row(ticket).is_some();
            if is_there && !self.is_in_use(ticket) {
                self.table.rows[usize::from(ticket)] = None;
                for client in &mut self.clients {
                    client.settled_rows &= !bit;
                }
            }
        }
    }

    /// Whether the row of a settled ticket may still make a difference to a client.
    fn is_in_use(&self, ticket: u8) -> bool {
        let names = |request: &Request| request.row() == Some(ticket);
        let uses = |client: &Client| match client.task {
            Task::Reading(snapshot) => snapshot.item.watermark < ticket,
            Task::Sent(request) => names(&request),
            Task::Answered(Request::Draw { .. }, _) => client.drawn() == Some(ticket),
            _ => false,
        };
        self.clients.iter().any(uses) || self.late.iter().any(names)
    }
}

impl Client {
    pub(crate) fn believes(&self) -> bool {
        self.task == Task::Holding { believes: true }
    }

    fn has_drawn(&self, ticket: u8) -> bool {
        let newest = self.drawn();
        newest.is_some_and(|newest| (newest + 1 - self.size..=newest).contains(&ticket))
    }

    /// The newest ticket that it has drawn, whether it knows it yet or not.
    pub(crate) fn drawn(&self) -> Option<u8> {
        match self.task {
            Task::Answered(Request::Draw { .. }, answer) if answer.applied => {
                answer.shown.item().map(|item| item.last)
            }
            _ => self.ticket,
        }
    }
}

impl Setup {
    /// The claim for a place of one of the clients, which draws its ticket at once if its role does.
    pub(super) fn claim(&self, me: usize, draws: bool) -> Claim {
        self.roles[me].claim(me, self.rules.permits, draws)
    }

    /// The other place of the same process.
    pub(crate) fn sibling(&self, me: usize) -> Option<usize> {
        (self.together && me < 2).then(|| 1 - me)
    }

    pub(crate) fn mutated(mut self, mutant: Mutant) -> Self {
        self.rules.mutant = Some(mutant);
        self
    }
}
