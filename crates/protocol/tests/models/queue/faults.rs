//! What goes wrong: which client each fault may hit, how often, and what the fault does.

use super::client::{Client, Role, Task};
use super::driver::Hand;
use super::request::Request;
use super::rules::Rules;
use super::table::{Entry, Row};
use super::world::{Action, Setup, World};
use fairlock_protocol::step::Has;

/// Which faults may still happen, and how many in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    pub(crate) all: u8,
    /// A bit for each kind.
    kinds: u8,
}

impl Faults {
    pub(crate) const NONE: Faults = Faults { all: 0, kinds: 0 };

    /// Each fault but a late renewal, at most once, and at most `all` in total.
    pub(crate) const fn any(all: u8) -> Self {
        let kinds = !Fault::LateRenewal.kind();
        Faults { all, kinds }
    }

    /// This fault, once.
    pub(crate) const fn one(fault: Fault) -> Self {
        let kinds = fault.kind();
        Faults { all: 1, kinds }
    }

    pub(crate) const fn with(self, fault: Fault) -> Self {
        let kinds = self.kinds | fault.kind();
        Faults { kinds, ..self }
    }

    pub(crate) const fn without(self, fault: Fault) -> Self {
        let kinds = self.kinds & !fault.kind();
        Faults { kinds, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A process is gone for ever. Its request in flight may apply at any later time, or never.
    Crash,
    /// A caller loses interest. Its last request is answered before it leaves.
    Cancel,
    /// As `Cancel`, and the caller never hears the answer to its last request.
    Unheard,
    /// A process is so late that its entries may be judged dead. It has stopped believing by then.
    Expiry,
    /// A process is so late with its row that the gap outlives the join timeout.
    Slow,
    /// A second copy of a request in flight applies at any time. If it applies first, the answer to the first was lost and the retry must
    /// recognise itself. If it applies last, it is a late duplicate.
    Duplicate,
    /// A process renews so late that other clients see half of its lease go by. It is neither dead nor passed over.
    LateRenewal,
    /// An owner renews between its judge's last poll of it and the judgement. The process judges the entry at this place.
    RenewalRace(Place),
}

impl Fault {
    /// A caller that is not heard has lost interest, too.
    const fn kind(self) -> u8 {
        match self {
            Fault::Crash => 1,
            Fault::Cancel | Fault::Unheard => 2,
            Fault::Expiry => 4,
            Fault::Slow => 8,
            Fault::Duplicate => 16,
            Fault::LateRenewal => 32,
            Fault::RenewalRace(_) => 64,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Holder,
    Sharer(u8),
    Successor(u8),
    Row(u8),
}

impl World {
    pub(crate) fn faults(&self, roles: &[Role], rules: &Rules, actions: &mut Vec<Action>) {
        if self.faults.all == 0 {
            return;
        }
        for (me, client) in self.clients.iter().enumerate() {
            let plain = [
                Fault::Crash,
                Fault::Cancel,
                Fault::Unheard,
                Fault::Expiry,
                Fault::Slow,
                Fault::Duplicate,
                Fault::LateRenewal,
            ];
            let nicks = self.nicks(client);
            let all = plain.into_iter().chain(nicks.map(Fault::RenewalRace));
            let possible = all.filter(|fault| self.may((me, roles[me]), client, *fault, rules));
            actions.extend(possible.map(|fault| Action::Fault(me, fault)));
        }
    }

    fn may(&self, (me, role): (usize, Role), client: &Client, fault: Fault, rules: &Rules) -> bool {
        let possible = match fault {
            Fault::Crash => true,
            Fault::Cancel | Fault::Unheard if !client.can_go(role) => false,
            Fault::Cancel => !client.unwanted,
            Fault::Unheard => client.is_busy(),
            Fault::Expiry => self.newest_beat(client) >= Some(client.lapsed),
            Fault::LateRenewal => self.newest_beat(client) >= Some(client.late_renewal),
            Fault::Slow => !client.slow && is_to_join(client),
            Fault::Duplicate => matches!(client.task, Task::Sent(_)),
            Fault::RenewalRace(place) => self
                .at(place, rules)
                .is_some_and(|entry| !self.is_dead(entry) && entry.nonce.process() != me),
        };
        self.faults.kinds & fault.kind() > 0 && !client.is_gone() && possible
    }

    pub(crate) fn suffer(&mut self, me: usize, fault: Fault, setup: &Setup) {
        self.faults = self.faults.without(fault);
        self.faults.all -= 1;
        let client = self.clients[me];
        match fault {
            Fault::Crash => {
                self.crash(me);
                if let Some(sibling) = setup.sibling(me).filter(|at| !self.clients[*at].is_gone()) {
                    self.crash(sibling);
                }
            }
            Fault::Cancel => {
                self.clients[me].unwanted = true;
                if !client.is_busy() {
                    self.leaves(me, setup, Hand::Nothing);
                }
            }
            Fault::Unheard => {
                self.leave_in_flight(client.task);
                self.leaves_unheard(me, setup);
            }
            Fault::Expiry => self.expiry(me),
            Fault::Slow => {
                self.clients[me].slow = true;
                self.clients[me].timely = false;
            }
            Fault::Duplicate => self.leave_in_flight(client.task),
            Fault::LateRenewal => {
                let beat = self.newest_beat(&client);
                self.clients[me].late_renewal = beat.map_or(0, |beat| beat + 1);
            }
            Fault::RenewalRace(place) => self.renew_in_the_nick_of_time(me, place, &setup.rules),
        }
    }

    fn crash(&mut self, me: usize) {
        self.leave_in_flight(self.clients[me].task);
        self.clients[me].finish();
        self.clients[me].task = Task::Crashed;
        self.clients[me].settled_rows = 0;
    }

    fn leave_in_flight(&mut self, task: Task) {
        if let Task::Sent(request) = task {
            self.late.push(request);
        }
    }

    fn expiry(&mut self, me: usize) {
        let beat = self.newest_beat(&self.clients[me]);
        let client = &mut self.clients[me];
        client.lapsed = beat.map_or(0, |beat| beat + 1);
        client.timely = false;
        if let Task::Holding { believes } = &mut client.task {
            *believes = false;
        }
    }

    /// Puts the judge's request on its way, and then changes the beat that the request names.
    fn renew_in_the_nick_of_time(&mut self, judge: usize, place: Place, rules: &Rules) {
        let (judged, item) = (self.at(place, rules), self.table.item);
        let evicts = |has| Request::evict(&item?, has, rules);
        let request = match place {
            Place::Holder => evicts(Has::Holder),
            Place::Sharer(index) => evicts(Has::Sharer(index.into())),
            Place::Successor(index) => {
                item.and_then(|item| Request::evict_successor(&item, index.into(), rules))
            }
            Place::Row(_) => judged.map(Request::void_dead),
        };
        self.clients[judge].send(request);
        judged
            .into_iter()
            .for_each(|entry| self.put(place, entry.beaten(), rules));
    }

    /// Where a renewal may overtake a judge that is between two polls.
    fn nicks(&self, judge: &Client) -> impl Iterator<Item = Place> + use<> {
        let between = judge.task == Task::Waiting;
        let places = [
            Place::Holder,
            Place::Sharer(0),
            Place::Sharer(1),
            Place::Successor(0),
            Place::Successor(1),
        ];
        let last = self.table.item.map_or(0, |item| item.last);
        let rows = (1..=last).map(Place::Row);
        places.into_iter().chain(rows).filter(move |_| between)
    }

    fn at(&self, place: Place, rules: &Rules) -> Option<Entry> {
        match place {
            Place::Holder => self.table.item?.holder(rules),
            Place::Sharer(index) => self.table.item?.sharers.get(index.into()),
            Place::Successor(index) => self.table.item?.successors(rules).nth(index.into()),
            Place::Row(ticket) => match self.table.row(ticket)? {
                Row::Waiting(entry) => Some(entry),
                Row::Void(_) => None,
            },
        }
    }

    fn put(&mut self, place: Place, entry: Entry, rules: &Rules) {
        match (place, &mut self.table.item) {
            (Place::Holder, Some(item)) => item.slots.set(0, entry),
            (Place::Sharer(index), Some(item)) => item.sharers.set(index.into(), entry),
            (Place::Successor(index), Some(item)) => {
                let slot = usize::from(index) + item.first_successor(rules);
                item.slots.set(slot, entry);
            }
            (Place::Row(ticket), _) => {
                self.table.rows[usize::from(ticket)] = Some(Row::Waiting(entry));
            }
            _ => {}
        }
    }

    fn newest_beat(&self, client: &Client) -> Option<u8> {
        let places = self.table.item.iter().flat_map(|item| item.places());
        let rows = self.table.rows.iter().filter_map(|row| match row {
            Some(Row::Waiting(entry)) => Some(*entry),
            _ => None,
        });
        let mine = places
            .chain(rows)
            .filter(|entry| client.nonce == Some(entry.nonce));
        mine.map(|entry| entry.beat).max()
    }
}

impl Client {
    fn can_go(&self, role: Role) -> bool {
        role.asks_for_a_place() && !self.place.has_held()
    }

    /// Whether it has a request in flight, or an answer.
    fn is_busy(&self) -> bool {
        matches!(self.task, Task::Sent(_) | Task::Answered(..))
    }
}

/// Whether it has drawn, and has no row yet.
fn is_to_join(client: &Client) -> bool {
    match client.task {
        Task::Answered(Request::Draw { .. }, answer) => answer.applied,
        Task::Sent(Request::Join { .. }) => true,
        _ => false,
    }
}
