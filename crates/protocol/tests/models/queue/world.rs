//! The model: every step that anybody can take next, in any order.

use stateright::{Model, Property};

use super::client::{Client, Role, Task};
use super::faults::{Fault, Faults};
use super::look::Look;
use super::request::Request;
use super::rules::{Mutant, Rules};
use super::table::{Entry, Table};
use fairlock_protocol::line::Occupant;
use fairlock_protocol::ticket::Ticket;

/// What a run explores.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) roles: Vec<Role>,
    pub(crate) rounds: u8,
    pub(crate) rules: Rules,
    pub(crate) faults: Faults,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) table: Table,
    pub(crate) clients: Vec<Client>,
    /// Requests that may apply at any time, and whose answer nobody hears.
    pub(crate) late: Vec<Request>,
    pub(crate) faults: Faults,
    /// The newest ticket that anybody believed in, and that anybody did who had the lock alone.
    pub(crate) newest: u8,
    pub(crate) newest_alone: u8,
    pub(crate) broken: Option<Broken>,
}

/// What a single step must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    TokenWentBack,
    CounterWentBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The request in flight reaches its item.
    Apply(usize),
    /// Its answer arrives; what is decided by it is sent.
    Answer(usize),
    /// Reads the lock item.
    Look(usize),
    /// Reads one more row.
    Read(usize),
    Release(usize),
    /// Deletes one row at or below `seated`.
    Clean(usize),
    Late(usize),
    Fault(usize, Fault),
}

impl Action {
    /// Nobody may need it to get on.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, Action::Fault(..) | Action::Late(_))
    }
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let roles = self.roles.iter().enumerate();
        vec![World {
            table: Table::default(),
            clients: roles
                .map(|(me, role)| Client::new(*role, me, self.rounds, self.rules.permits))
                .collect(),
            late: Vec::new(),
            faults: self.faults,
            newest: 0,
            newest_alone: 0,
            broken: None,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (me, client) in world.clients.iter().enumerate() {
            actions.extend(own_step(me, client));
            if client.litter != 0 {
                actions.push(Action::Clean(me));
            }
        }
        actions.extend((0..world.late.len()).map(Action::Late));
        world.faults(&self.roles, &self.rules, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Apply(me) => world.apply(me, &self.rules),
            Action::Answer(me) => world.answer(me, self),
            Action::Look(me) => world.look(me, self),
            Action::Read(me) => world.read(me, self),
            Action::Release(me) => world.release(me, self),
            Action::Clean(me) => world.clean(me),
            Action::Late(index) => {
                let request = world.late.remove(index);
                world.table.apply(&request, &self.rules, true);
            }
            Action::Fault(me, fault) => world.suffer(me, fault, &self.rules),
        }
        world.settle(last, &self.rules);
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
        Task::Waiting | Task::Rising => Some(Action::Look(me)),
        Task::Reading(_) => Some(Action::Read(me)),
        Task::Holding { .. } => Some(Action::Release(me)),
        Task::Done | Task::Crashed => None,
    }
}

impl World {
    fn apply(&mut self, me: usize, rules: &Rules) {
        if let Task::Sent(request) = self.clients[me].task {
            let answer = self.table.apply(&request, rules, false);
            self.clients[me].task = Task::Answered(request, answer);
        }
    }

    fn answer(&mut self, me: usize, setup: &Setup) {
        let Task::Answered(request, answer) = self.clients[me].task else {
            return;
        };
        let client = &mut self.clients[me];
        match setup.roles[me] {
            Role::Waiter | Role::Drawer | Role::Pair | Role::Reader | Role::Downgrader => {
                client.answered(me, &setup.rules, request, answer);
            }
            Role::Sweeper => client.swept(request),
            Role::Caller | Role::Glance => {
                let look = client.caller_answered(me, &setup.rules, request, answer);
                if let Some(look) = look {
                    self.decide(me, setup, look);
                }
            }
        }
    }

    fn look(&mut self, me: usize, setup: &Setup) {
        let item = self.table.item;
        match (self.clients[me].task, item) {
            (Task::Rising, _) => self.clients[me].rise(me, item, &setup.rules),
            (_, Some(item)) => self.decide(me, setup, Look::new(item)),
            (_, None) if setup.roles[me] == Role::Sweeper => self.clients[me].finish(),
            (_, None) => self.clients[me].over(me),
        }
    }

    fn read(&mut self, me: usize, setup: &Setup) {
        let Task::Reading(mut look) = self.clients[me].task else {
            return;
        };
        if look.read(&self.table, setup.rules.seats) {
            self.decide(me, setup, look);
        } else {
            self.clients[me].task = Task::Reading(look);
        }
    }

    fn decide(&mut self, me: usize, setup: &Setup, look: Look) {
        let mut client = self.clients[me];
        let rules = &setup.rules;
        let judge = |entry: Entry| self.judge(me, entry);
        let ripe = |ticket: Ticket| {
            let ticket = ticket.get() as u8;
            let behind_a_ripe_one = rules.broken(Mutant::RunIntoGrace) && self.is_ripe(ticket - 1);
            self.is_ripe(ticket) || behind_a_ripe_one
        };
        match setup.roles[me] {
            Role::Waiter | Role::Drawer | Role::Pair | Role::Reader | Role::Downgrader => {
                client.decide(me, rules, look, judge, ripe);
            }
            Role::Caller | Role::Glance => client.refused(me, rules, look, judge, ripe),
            Role::Sweeper => client.sweep(rules, look, &self.table, judge, ripe),
        }
        self.clients[me] = client;
    }

    fn release(&mut self, me: usize, setup: &Setup) {
        let client = &mut self.clients[me];
        let Some(nonce) = client.nonce else { return };
        let share = client.has;
        if setup.roles[me] == Role::Downgrader && client.believes() && share > 1 {
            client.send(Request::Downgrade { nonce, share });
        } else {
            client.release(nonce);
        }
    }

    fn clean(&mut self, me: usize) {
        let litter = &mut self.clients[me].litter;
        let ticket = litter.trailing_zeros();
        *litter &= *litter - 1;
        self.table.rows[ticket as usize] = None;
    }

    fn judge(&self, me: usize, entry: Entry) -> Occupant {
        match entry {
            _ if self.clients[me].is(entry) => Occupant::Me,
            _ if self.is_dead(entry) => Occupant::Dead,
            _ if entry.beat < self.clients[entry.nonce.process()].tardy => Occupant::Late,
            _ => Occupant::Alive,
        }
    }

    /// Nobody renews it any more, or its owner is late.
    pub(crate) fn is_dead(&self, entry: Entry) -> bool {
        let owner = &self.clients[entry.nonce.process()];
        let renewed = !owner.is_gone() && owner.is(entry);
        !renewed || entry.beat < owner.lapsed
    }

    /// No process that is in time will come with this row.
    fn is_ripe(&self, gap: u8) -> bool {
        let mut comers = self.clients.iter().filter(|client| !client.slow);
        !comers.any(|client| !client.is_gone() && client.has_drawn(gap))
    }

    /// Notes what this step broke, and forgets the late requests that can do nothing any more.
    fn settle(&mut self, last: &World, rules: &Rules) {
        if let (Some(before), Some(after)) = (last.table.item, self.table.item)
            && (after.last < before.last || after.seated < before.seated)
        {
            self.broken = Some(Broken::CounterWentBack);
        }
        for (before, after) in last.clients.iter().zip(&self.clients) {
            let granted = after.believes() && !before.had;
            if let Some(ticket) = after.ticket.filter(|_| granted) {
                let is_alone = after.has == rules.permits;
                let before = if is_alone {
                    self.newest
                } else {
                    self.newest_alone
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
        let Table { item, .. } = self.table;
        if let Some(item) = item.filter(|_| rules.mutant.is_none()) {
            self.late.retain(|request| match request {
                Request::Seat { seen, .. } => seen.seated >= item.seated,
                Request::EnterOver { last, .. } => *last >= item.last,
                _ => true,
            });
        }
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
    pub(crate) fn mutated(mut self, mutant: Mutant) -> Self {
        self.rules.mutant = Some(mutant);
        self
    }
}
