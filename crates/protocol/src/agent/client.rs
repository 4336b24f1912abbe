//! A client: its agents, and what they share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::places::{Agent, Due, Scene};
use super::shared::{Key, Shared};
use super::{
    Done, Errand, HoldId, Input, Lock, Loss, Output, Precision, Refusal, Request, RequestId, Terms,
    Turn,
};
use crate::moment::Moment;
use crate::notification::Notification;

/// A client of a table: its part in each lock, and what these share.
pub struct Client {
    terms: Arc<Terms>,
    /// `None` while an agent has its turn: so a panic ends this agent alone.
    agents: BTreeMap<Lock, Option<Box<Agent>>>,
    /// When something is due in which lock.
    due: BTreeSet<(Due, Lock)>,
    shared: Shared,
    /// The lock whose agent has its turn.
    acting: Option<Lock>,
    /// Agents that only remember something, the oldest first.
    resting: BTreeMap<u64, Lock>,
}

/// The most agents that only remember something.
const MOST_RESTING: usize = 1024;

impl Client {
    /// A client that has done nothing yet.
    pub fn new(terms: Arc<Terms>) -> Self {
        Client {
            terms,
            agents: BTreeMap::new(),
            due: BTreeSet::new(),
            shared: Shared::default(),
            acting: None,
            resting: BTreeMap::new(),
        }
    }

    /// Takes in what a caller or the table tells. What is due by now happens first: an answer that comes after a deadline changes nothing.
    pub fn handle(&mut self, input: Input, mut turn: Turn<'_>) {
        self.does_what_is_due(&mut turn);
        match input {
            Input::Call { call, lock, claim } => {
                self.shared.calls.insert(call, lock.clone());
                if self.shared.is_closed {
                    return self.shared.refuses(call, Refusal::ShutDown);
                }
                self.with(&lock, &mut turn, |agent, scene| {
                    agent.is_called(call, claim, scene);
                });
            }
            Input::Cancel(call) => {
                if let Some(lock) = self.shared.calls.remove(&call) {
                    self.with(&lock, &mut turn, |agent, scene| {
                        agent.is_cancelled(call, scene)
                    });
                }
            }
            Input::Taken(hold) => self.with_hold(hold, &mut turn, |agent, key, scene| {
                agent.of_hold(key, scene, |hold, _| hold.is_taken());
            }),
            Input::Expired(hold) => self.with_hold(hold, &mut turn, Agent::expires),
            Input::Order { hold, order, reply } => {
                match (self.shared.holds.get(&hold), reply) {
                    (Some((lock, _)), Some(reply)) => {
                        self.shared.replies.insert(reply, lock.clone());
                    }
                    (None, reply) => self.shared.is_done(reply, Ok(Done::NotOurs(None))),
                    (Some(_), None) => {}
                }
                self.with_hold(hold, &mut turn, |agent, key, scene| {
                    agent.is_ordered(key, (order, reply), scene);
                });
            }
            Input::Answer { request, reply } => {
                if let Some((lock, key)) = self.shared.under_way.remove(&request) {
                    self.with(&lock, &mut turn, |agent, scene| {
                        agent.answered(key, (request, *reply), scene);
                    });
                }
            }
            Input::Datagram(datagram) => self.is_told(&datagram, &mut turn),
            Input::Seen { lock, item } => {
                if self.agents.contains_key(&lock) {
                    self.with(&lock, &mut turn, |agent, scene| agent.sees(&item, scene));
                }
            }
            Input::GiveUp {
                lock,
                place,
                item,
                reply,
                until,
            } => {
                if self.shared.is_closed {
                    let done = Ok(Done::Lost(Loss::ShutDown));
                    return self.shared.is_done(Some(reply), done);
                }
                self.shared.replies.insert(reply, lock.clone());
                self.with(&lock, &mut turn, |agent, scene| {
                    agent.gives_up(place, item, (reply, until), scene);
                });
            }
            Input::Close { keeps_holds } => self.closes(keeps_holds, &mut turn),
        }
    }

    fn closes(&mut self, keeps_holds: bool, turn: &mut Turn<'_>) {
        self.shared.is_closed = true;
        let locks: Vec<_> = self.agents.keys().cloned().collect();
        for lock in locks {
            self.with(&lock, turn, |agent, scene| agent.closes(keeps_holds, scene));
        }
    }

    /// What is for no place of this client is dropped.
    fn is_told(&mut self, datagram: &[u8], turn: &mut Turn<'_>) {
        let known = Notification::read(datagram).and_then(|told| {
            let place = self.shared.posts.get(&told.to)?;
            Some((place.clone(), told.kind))
        });
        match known {
            Some(((lock, key), kind)) => {
                self.with(&lock, turn, |agent, scene| agent.is_told(key, kind, scene));
            }
            None => self.shared.outputs.push_back(Output::Unfit),
        }
    }

    /// A turn with an input, or with what is due.
    pub fn turn(&mut self, input: Option<Input>, turn: Turn<'_>) {
        match input {
            Some(input) => self.handle(input, turn),
            None => self.handle_timeout(turn),
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, mut turn: Turn<'_>) {
        self.does_what_is_due(&mut turn);
    }

    /// Takes in that a turn ended in a panic: the agent whose turn it was has gone. What it held is lost, so that its lease ends, its calls are
    /// refused, its orders answered, and what it was about to send is not sent. An input that came with the turn may be lost, if what was due
    /// before it broke: a driver lets that happen first.
    pub fn buries(&mut self) {
        let Some(lock) = self.acting.take() else {
            return;
        };
        self.agents.remove(&lock);
        self.due.retain(|(_, of)| *of != lock);
        let shared = &mut self.shared;
        // What it would have done is about its lock, and no other agent may do it in its own.
        shared.to_do.clear();
        shared.errands.retain(|_, of| of.lock != lock);
        shared.are_errands_new = true;
        shared.to_ask.clear();
        shared.posts.retain(|_, (of, _)| *of != lock);
        shared.requests.retain(|(_, request)| request.lock != lock);
        shared.under_way.retain(|_, (of, _)| *of != lock);
        let holds = shared.holds.extract_if(.., |_, (of, _)| *of == lock);
        for (hold, _) in holds {
            let why = Loss::Crashed;
            shared.outputs.push_back(Output::Lost { hold, why });
        }
        for (reply, _) in shared.replies.extract_if(.., |_, of| *of == lock) {
            let done = Ok(Done::Lost(Loss::Crashed));
            shared.outputs.push_back(Output::Done { reply, done });
        }
        for (call, _) in shared.calls.extract_if(.., |_, of| *of == lock) {
            let why = Refusal::Crashed;
            shared.outputs.push_back(Output::Refused { call, why });
        }
    }

    /// When something is due.
    pub fn next_timeout(&self) -> Option<(Moment, Precision)> {
        self.due.first().map(|(due, _)| *due)
    }

    /// What a caller is told next. Drained before [`Client::poll_request`].
    pub fn poll_output(&mut self) -> Option<Output> {
        self.shared.outputs.pop_front()
    }

    /// What is sent next.
    pub fn poll_request(&mut self) -> Option<(RequestId, Request)> {
        self.shared.requests.pop_front()
    }

    /// What is done that no caller may wait for, if that has changed since it was last told.
    pub fn poll_errands(&mut self) -> Option<impl Iterator<Item = (u64, &Errand)>> {
        let are_new = std::mem::take(&mut self.shared.are_errands_new);
        are_new.then(|| self.shared.errands.iter().map(|(key, it)| (*key, it)))
    }

    /// How long a turn at a lock takes, as far as that is known.
    pub fn mean_turn(&self, lock: &Lock) -> Option<Duration> {
        self.agents.get(lock)?.as_ref()?.mean_turn()
    }

    /// Whether nothing is under way, held or left to do.
    pub fn is_idle(&self) -> bool {
        let mut agents = self.agents.values().flatten();
        agents.all(|agent| agent.is_idle())
    }

    /// Each round does something that is due once, and sets it later.
    fn does_what_is_due(&mut self, turn: &mut Turn<'_>) {
        let now = turn.clocks.now;
        while let Some((_, lock)) = self.due.first().filter(|((due, _), _)| *due <= now) {
            let lock = lock.clone();
            self.with(&lock, turn, Agent::on_time);
        }
    }

    fn with_hold(
        &mut self,
        hold: HoldId,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut Agent, Key, &mut Scene<'_>),
    ) {
        if let Some((lock, key)) = self.shared.holds.get(&hold).cloned() {
            self.with(&lock, turn, |agent, scene| act(agent, key, scene));
        }
    }

    fn with(
        &mut self,
        lock: &Lock,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut Agent, &mut Scene<'_>),
    ) {
        let mut agent = match self.agents.get_mut(lock) {
            Some(kept) => kept.take().unwrap_or_default(),
            None => {
                self.agents.insert(lock.clone(), None);
                Box::default()
            }
        };
        let was_due = agent.due;
        if let Some(number) = agent.resting.take() {
            self.resting.remove(&number);
        }
        self.acting = Some(lock.clone());
        let mut scene = Scene {
            lock,
            terms: &self.terms,
            clocks: turn.clocks,
            random: turn.random,
            shared: &mut self.shared,
        };
        act(&mut agent, &mut scene);
        agent.ends_turn(&mut scene);
        self.acting = None;
        if was_due != agent.due {
            was_due.map(|due| self.due.remove(&(due, lock.clone())));
            agent.due.map(|due| self.due.insert((due, lock.clone())));
        }
        if agent.is_forgettable() {
            self.agents.remove(lock);
            return;
        }
        if agent.is_idle() {
            let number = self.shared.next_id();
            agent.resting = Some(number);
            self.resting.insert(number, lock.clone());
        }
        if let Some(kept) = self.agents.get_mut(lock) {
            *kept = Some(agent);
        }
        if self.resting.len() > MOST_RESTING
            && let Some((_, oldest)) = self.resting.pop_first()
        {
            self.agents.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::agent::{CallId, Claim, Clocks, Random, Wait};
    use crate::entry::Nonce;
    use crate::moment::HostTime;
    use crate::told::ToldTime;

    /// So many nonces, and then a panic.
    struct Chance(u128);

    impl Random for Chance {
        fn nonce(&mut self) -> Nonce {
            self.0 = self.0.checked_sub(1).expect("chance has run out");
            Nonce::new(self.0)
        }

        fn unit(&mut self) -> f64 {
            0.5
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn client() -> Client {
        Client::new(Arc::new(Terms::of_tests()))
    }

    fn calls(client: &mut Client, call: u64, chance: &mut Chance) {
        let clocks = Clocks {
            now: Moment(SECOND),
            host: HostTime(SECOND),
            told: ToldTime::default(),
            boot: None,
        };
        let (call, name) = (CallId(call), "a".into());
        let lock = Lock { name, permits: 1 };
        let wait = match call {
            CallId(1) => Wait::Until(Moment(SECOND * 9)),
            _ => Wait::No,
        };
        let claim = Claim {
            wait,
            ..Claim::default()
        };
        let turn = Turn {
            clocks,
            random: chance,
        };
        client.handle(Input::Call { call, lock, claim }, turn);
    }

    /// What it was about to send is not sent, and nothing of it is due.
    #[test]
    fn an_agent_that_has_crashed_leaves_nothing() {
        let (mut client, mut chance) = (client(), Chance(1));
        calls(&mut client, 1, &mut chance);
        let second = AssertUnwindSafe(|| calls(&mut client, 2, &mut chance));
        assert!(catch_unwind(second).is_err());
        client.buries();
        assert!(client.poll_request().is_none() && client.next_timeout().is_none());
        let told = std::iter::from_fn(|| client.poll_output());
        let refused = told.filter(|told| matches!(told, Output::Refused { .. }));
        assert_eq!(refused.count(), 2);
        assert!(client.is_idle());
        calls(&mut client, 3, &mut Chance(9));
        assert!(client.poll_request().is_some());
    }
}
