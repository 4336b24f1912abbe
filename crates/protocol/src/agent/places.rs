//! A client's part in one lock: its places, and what it remembers of those that have gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cleaning::Cleaning;
use super::context::{Attempt, Context, Memory};
use super::door::Door;
use super::fate::{Exit, Fate};
use super::hold::Hold;
use super::leaving::Leaving;
use super::place::{Phase, Place};
use super::shared::{Key, Shared};
use super::{
    CallId, Claim, Clocks, Lock, Order, Output, Precision, Random, Refusal, Reply, ReplyId,
    RequestId, Terms,
};
use crate::item::LockItem;
use crate::moment::Moment;

#[derive(Default)]
pub(super) struct Agent {
    places: BTreeMap<Key, Place>,
    memory: Memory,
    refusing: Vec<Refusing>,
    /// Its number among the agents of the client that are idle, the oldest first.
    pub(super) resting: Option<u64>,
    /// When something is due, as the client has it in its index.
    pub(super) due: Option<Due>,
}

/// When something is due, and how exactly.
pub(super) type Due = (Moment, Precision);

/// A call that is to be refused once nothing of its places is left, because its process may end with the answer.
struct Refusing {
    call: CallId,
    why: Refusal,
    until: Moment,
}

/// What a turn of an agent goes by.
pub(super) struct Scene<'a> {
    pub(super) lock: &'a Lock,
    pub(super) terms: &'a Terms,
    pub(super) clocks: Clocks,
    pub(super) random: &'a mut dyn Random,
    pub(super) shared: &'a mut Shared,
}

impl Scene<'_> {
    fn context<'a>(&'a mut self, key: Key, memory: &'a mut Memory) -> Context<'a> {
        Context {
            lock: self.lock,
            key,
            terms: self.terms,
            clocks: self.clocks,
            random: self.random,
            shared: self.shared,
            memory,
        }
    }
}

/// What it is told.
impl Agent {
    pub(super) fn is_called(&mut self, call: CallId, claim: Claim, scene: &mut Scene<'_>) {
        let (key, claim) = (scene.shared.next_id(), Arc::new(claim));
        let asks = (call, Arc::clone(&claim));
        let door = Door::new(asks, &mut scene.context(key, &mut self.memory));
        let place = Place {
            call: Some(call),
            claim,
            began: scene.clocks.now,
            phase: Phase::Asking(Box::new(door)),
        };
        self.places.insert(key, place);
        let hint = self.memory.take_hint(scene.clocks.now);
        self.sets_out(key, hint, scene);
    }

    fn sets_out(&mut self, key: Key, hint: Option<Arc<LockItem>>, scene: &mut Scene<'_>) {
        self.act(key, scene, |place, cx| match &mut place.phase {
            Phase::Asking(door) => door.sets_out(hint, cx),
            _ => Fate::Stays,
        });
    }

    pub(super) fn is_cancelled(&mut self, call: CallId, scene: &mut Scene<'_>) {
        self.refusing.retain(|it| it.call != call);
        for key in self.of_call(call) {
            let why = Refusal::NotGranted(None);
            self.act(key, scene, |place, _| place.is_unwanted(why));
        }
    }

    fn of_call(&self, call: CallId) -> Vec<Key> {
        let of_call = |(_, place): &(&Key, &Place)| place.call == Some(call);
        let places = self.places.iter().filter(of_call);
        places.map(|(key, _)| *key).collect()
    }

    pub(super) fn of_hold(
        &mut self,
        key: Key,
        scene: &mut Scene<'_>,
        act: impl FnOnce(&mut Hold, &mut Context<'_>),
    ) {
        self.act(key, scene, |place, cx| {
            if let Some(hold) = place.hold() {
                act(hold, cx);
            }
            Fate::Stays
        });
    }

    /// The caller of a hold has seen its deadline pass, by the same clock.
    pub(super) fn expires(&mut self, key: Key, scene: &mut Scene<'_>) {
        self.act(key, scene, |place, cx| {
            place.hold().map_or(Fate::Stays, |hold| hold.expires(cx))
        });
    }

    pub(super) fn is_ordered(
        &mut self,
        key: Key,
        (order, reply): (Order, Option<ReplyId>),
        scene: &mut Scene<'_>,
    ) {
        self.act(key, scene, |place, cx| {
            let hold = place.hold();
            hold.map_or(Fate::Stays, |hold| hold.ordered(order, reply, cx))
        });
    }

    pub(super) fn answered(
        &mut self,
        key: Key,
        (request, reply): (RequestId, Reply),
        scene: &mut Scene<'_>,
    ) {
        let item = reply.item().cloned();
        self.act(key, scene, |place, cx| place.answered(request, reply, cx));
        if let Some(item) = item {
            self.hands_over(key, &item, scene);
            self.sees(&item, scene);
        }
    }

    /// What an answer to one place shows of the turn of another.
    fn hands_over(&mut self, from: Key, item: &Arc<LockItem>, scene: &mut Scene<'_>) {
        let keys: Vec<_> = self
            .places
            .keys()
            .copied()
            .filter(|key| *key != from)
            .collect();
        for key in keys {
            self.act(key, scene, |place, cx| match &mut place.phase {
                Phase::Asking(door) => door.hears(item, cx),
                _ => Fate::Stays,
            });
        }
    }

    /// Takes in an item, after the places that asked for it: what it shows of an attempt that has ended is given back.
    pub(super) fn sees(&mut self, item: &Arc<LockItem>, scene: &mut Scene<'_>) {
        scene.shared.outputs.push_back(Output::Shown {
            lock: scene.lock.clone(),
            item: Arc::clone(item),
        });
        for (nonce, ticket) in self.memory.doubts.shown(item) {
            let mut attempt = Attempt::new(nonce);
            // More copies may come.
            attempt.is_in_doubt = true;
            let key = scene.shared.next_id();
            let exit = Exit::of(attempt, ticket, Arc::clone(item));
            self.leaves(key, None, *exit, scene);
        }
    }

    pub(super) fn closes(&mut self, keeps_holds: bool, scene: &mut Scene<'_>) {
        let keys: Vec<_> = self.places.keys().copied().collect();
        for key in keys {
            self.act(key, scene, |place, cx| place.closes(keeps_holds, cx));
        }
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self, scene: &mut Scene<'_>) {
        let now = scene.clocks.now;
        let keys: Vec<_> = self.places.keys().copied().collect();
        for key in keys {
            self.act(key, scene, |place, cx| {
                match place.due(cx).is_some_and(|due| due <= now) {
                    true => place.on_time(cx),
                    false => Fate::Stays,
                }
            });
        }
    }
}

/// What becomes of its places.
impl Agent {
    fn act(
        &mut self,
        key: Key,
        scene: &mut Scene<'_>,
        act: impl FnOnce(&mut Place, &mut Context<'_>) -> Fate,
    ) {
        let Some(mut place) = self.places.remove(&key) else {
            return;
        };
        let fate = act(&mut place, &mut scene.context(key, &mut self.memory));
        self.becomes(key, place, fate, scene);
    }

    fn becomes(&mut self, key: Key, mut place: Place, fate: Fate, scene: &mut Scene<'_>) {
        match fate {
            Fate::Over => {}
            Fate::Stays => self.stays(key, place),
            Fate::Holds(taken) => {
                let cx = &mut scene.context(key, &mut self.memory);
                match Hold::taken(*taken, cx) {
                    Ok(hold) => {
                        place.phase = Phase::Holding(hold);
                        self.stays(key, place);
                    }
                    Err(fate) => self.becomes(key, place, fate, scene),
                }
            }
            Fate::Refused(why) => self.refuses(&place, why, scene),
            Fate::Leaves(why, leaving) => {
                self.refuses(&place, why, scene);
                self.leaves(key, place.call, *leaving, scene);
            }
            Fate::Again(leaving) => {
                if let Some(call) = place.call {
                    let asks = (call, Arc::clone(&place.claim));
                    let door = Door::new(asks, &mut scene.context(key, &mut self.memory));
                    place.phase = Phase::Asking(Box::new(door));
                    self.places.insert(key, place);
                    self.sets_out(key, None, scene);
                }
                if let Some(leaving) = leaving {
                    let beside = scene.shared.next_id();
                    self.leaves(beside, None, *leaving, scene);
                }
            }
            Fate::Beside(leaving) => {
                let (call, beside) = (place.call, scene.shared.next_id());
                self.places.insert(key, place);
                self.leaves(beside, call, *leaving, scene);
            }
        }
    }

    /// A hold of which its caller was told answers no call any more.
    fn stays(&mut self, key: Key, mut place: Place) {
        if place.hold().is_some_and(|hold| !hold.is_granting()) {
            place.call = None;
        }
        self.places.insert(key, place);
    }

    fn refuses(&mut self, place: &Place, why: Refusal, scene: &Scene<'_>) {
        let Some(call) = place.call else { return };
        let soon = scene.clocks.now + scene.terms.request_timeout;
        let until = match place.claim.waits() {
            true => soon,
            false => soon.min(place.began + scene.terms.no_wait_lasts()),
        };
        self.refusing.push(Refusing { call, why, until });
    }

    fn leaves(&mut self, key: Key, call: Option<CallId>, exit: Exit, scene: &mut Scene<'_>) {
        let leaving = Leaving::new(exit, &scene.context(key, &mut self.memory));
        let place = Place {
            call,
            claim: Arc::default(),
            began: scene.clocks.now,
            phase: Phase::Leaving(Box::new(leaving)),
        };
        self.places.insert(key, place);
        self.act(key, scene, |place, cx| match &mut place.phase {
            Phase::Leaving(leaving) => leaving.goes_on(cx),
            _ => Fate::Stays,
        });
    }

    /// Begins to delete what its places have left to that, answers calls of whose places nothing is left, and sets when it is due.
    pub(super) fn ends_turn(&mut self, scene: &mut Scene<'_>) {
        for rows in std::mem::take(&mut scene.shared.to_clean) {
            let key = scene.shared.next_id();
            let place = Place {
                call: None,
                claim: Arc::default(),
                began: scene.clocks.now,
                phase: Phase::Cleaning(Box::new(Cleaning::new(rows))),
            };
            self.places.insert(key, place);
            self.act(key, scene, Place::on_time);
        }
        let (places, now) = (&self.places, scene.clocks.now);
        let waits = |it: &Refusing| {
            it.until > now && places.values().any(|place| place.call == Some(it.call))
        };
        for told in self.refusing.extract_if(.., |it| !waits(it)) {
            scene.shared.refuses(told.call, told.why);
        }
        let due = self.next_due(scene);
        self.due = due;
    }

    fn next_due(&mut self, scene: &mut Scene<'_>) -> Option<Due> {
        let cx = scene.context(0, &mut self.memory);
        let due = |place: &Place| Some((place.due(&cx)?, place.precision()));
        let places = self.places.values().filter_map(due);
        let refusing = self.refusing.iter().map(|it| (it.until, Precision::Coarse));
        places.chain(refusing).min()
    }

    /// Whether nothing is under way, held or left to do.
    pub(super) fn is_idle(&self) -> bool {
        self.places.is_empty() && self.refusing.is_empty()
    }

    /// Whether nothing of it is to be remembered.
    pub(super) fn is_forgettable(&self) -> bool {
        self.is_idle() && self.memory.is_empty()
    }
}
