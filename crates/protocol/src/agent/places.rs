//! A client's part in one lock: its places, and what it remembers of those that have gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::callers::Callers;
use super::context::{Attempt, Context, Memory};
use super::doing::Doing;
use super::door::Door;
use super::fate::{Exit, Fate};
use super::gathering::{Gathering, gathers};
use super::hold::Hold;
use super::leaving::Leaving;
use super::place::{Phase, Place};
use super::post::Post;
use super::shared::{Key, Shared};
use super::{
    CallId, Claim, Clocks, Errand, HoldView, Lock, Note, Order, Output, Precision, Random, Refusal,
    Reply, ReplyId, RequestId, Stood, Terms, Wait,
};
use crate::entry::Nonce;
use crate::item::LockItem;
use crate::moment::Moment;
use crate::notification::Kind;
use crate::place::Place as Course;

#[derive(Default)]
pub(super) struct Agent {
    places: BTreeMap<Key, Box<Place>>,
    memory: Memory,
    gathering: Gathering,
    refusing: Vec<Refusing>,
    /// Its number among the agents of the client that are idle, the oldest first.
    pub(super) resting: Option<u64>,
    /// When something is due, as the client has it in its index.
    pub(super) due: Option<Due>,
}

/// When something is due, and how exactly.
pub(super) type Due = (Moment, Precision);

/// A call that is to be refused once nothing of its place is left, because its process may end with the answer.
struct Refusing {
    call: (CallId, Refusal),
    place: Key,
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
    fn notes(&mut self, note: Note) {
        self.shared.notes(self.lock, note);
    }

    fn context<'a>(
        &'a mut self,
        key: Key,
        memory: &'a mut Memory,
        (callers, post): (&'a mut Callers, &'a mut Option<Box<Post>>),
        is_own: &'a dyn Fn(Nonce) -> bool,
    ) -> Context<'a> {
        Context {
            lock: self.lock,
            key,
            terms: self.terms,
            clocks: self.clocks,
            random: self.random,
            shared: self.shared,
            memory,
            is_own,
            post,
            callers,
        }
    }
}

/// What it is told.
impl Agent {
    pub(super) fn is_called(&mut self, call: CallId, claim: Claim, scene: &mut Scene<'_>) {
        if claim.denies_self_wait
            && let Some(own) = self.own_hold(&claim, scene)
        {
            return scene.shared.refuses(call, Refusal::Own(Box::new(own)));
        }
        if self.gathering.adds(call, &claim) {
            return;
        }
        let is_plain = gathers(&claim);
        let key = self.asks(Callers::one(call, &claim), Arc::new(claim), scene);
        if is_plain {
            self.gathering.first = Some(key);
        }
    }

    /// The oldest hold of this client, if its holds leave too few permits for a claim. Of holds that have seen different numbers, the largest
    /// counts: no call is refused that could be granted.
    fn own_hold(&mut self, claim: &Claim, scene: &mut Scene<'_>) -> Option<HoldView> {
        let memory = &mut self.memory;
        let held = self.places.iter_mut().filter_map(|(key, place)| {
            let theirs = (&mut place.callers, &mut place.post);
            let cx = scene.context(*key, memory, theirs, &NONE);
            place.phase.hold()?.seen_as_held(&cx)
        });
        let held: Vec<_> = held.collect();
        let taken = held.iter().map(|held| held.held.permits);
        let taken = taken.fold(claim.takes(scene.lock), u64::saturating_add);
        let there_are = held.iter().map(|held| held.item.there_are()).max();
        let leave = claim.shares(scene.lock) && Some(taken) <= there_are;
        let held = held.into_iter().filter(|_| !leave);
        held.min_by_key(|held| held.ticket)
    }

    /// Callers ask for a place.
    fn asks(&mut self, mut callers: Callers, claim: Arc<Claim>, scene: &mut Scene<'_>) -> Key {
        let key = scene.shared.next_id();
        let began = scene.clocks.now;
        if claim.waits() {
            callers.kept.waits_since(began);
        }
        let hint = self.memory.take_hint(began);
        let door = Door::new(Arc::clone(&claim), scene.lock, began);
        let place = Box::new(Place {
            callers,
            post: None,
            beside: key,
            claim,
            began,
            phase: Phase::Asking(Box::new(door)),
        });
        self.places.insert(key, place);
        self.sets_out(key, hint, scene);
        key
    }

    fn sets_out(&mut self, key: Key, hint: Option<Arc<LockItem>>, scene: &mut Scene<'_>) {
        self.act(key, scene, |phase, cx| match phase {
            Phase::Asking(door) => door.sets_out(hint, cx),
            _ => Fate::Stays,
        });
    }

    pub(super) fn is_cancelled(&mut self, call: CallId, scene: &mut Scene<'_>) {
        self.gathering.leaves(call);
        self.refusing.retain(|refusing| refusing.call.0 != call);
        for key in self.keys(|_, place| place.callers.has(call)) {
            self.act(key, scene, |phase, cx| {
                cx.callers.leaves(call);
                match cx.callers.is_empty() {
                    true => phase.is_unwanted(Refusal::not_granted(None), cx),
                    false => Fate::Stays,
                }
            });
        }
    }

    fn keys(&self, are: impl Fn(Key, &Place) -> bool) -> Vec<Key> {
        let places = self.places.iter().filter(|(key, place)| are(**key, place));
        places.map(|(key, _)| *key).collect()
    }

    pub(super) fn of_hold(
        &mut self,
        key: Key,
        scene: &mut Scene<'_>,
        act: impl FnOnce(&mut Hold, &mut Context<'_>),
    ) {
        self.act(key, scene, |phase, cx| {
            if let Some(hold) = phase.hold() {
                act(hold, cx);
            }
            Fate::Stays
        });
    }

    /// The caller of a hold has seen its deadline pass, by the same clock.
    pub(super) fn expires(&mut self, key: Key, scene: &mut Scene<'_>) {
        self.act(key, scene, |phase, cx| {
            phase.hold().map_or(Fate::Stays, |hold| hold.expires(cx))
        });
    }

    pub(super) fn is_ordered(
        &mut self,
        key: Key,
        (order, reply): (Order, Option<ReplyId>),
        scene: &mut Scene<'_>,
    ) {
        self.act(key, scene, |phase, cx| {
            let hold = phase.hold();
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
        self.act(key, scene, |phase, cx| phase.answered(request, reply, cx));
        if let Some(item) = item {
            self.hands_over(key, &item, scene);
            self.sees(&item, scene);
        }
    }

    /// A notification has come for a place.
    pub(super) fn is_told(&mut self, key: Key, kind: Kind, scene: &mut Scene<'_>) {
        self.act(key, scene, |phase, cx| {
            cx.receives(kind);
            phase.is_told(cx)
        });
    }

    /// What an answer to one place shows of the turn of another.
    fn hands_over(&mut self, from: Key, item: &Arc<LockItem>, scene: &mut Scene<'_>) {
        for key in self.keys(|key, place| key != from && place.phase.holds_by(item)) {
            self.act(key, scene, |phase, cx| match phase {
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
        self.gathering.sees(item);
        for key in self.keys(|_, place| place.phase.is_asked_by(item)) {
            self.of_hold(key, scene, |hold, cx| hold.hears(item, cx));
        }
        for (nonce, ticket) in self.memory.doubts.shown(item) {
            scene.notes(Note::CameLate(ticket));
            let mut attempt = Attempt::new(nonce, 1);
            // More copies may come.
            attempt.is_in_doubt = true;
            let key = scene.shared.next_id();
            let exit = Exit::of(attempt, ticket, Arc::clone(item));
            self.leaves((key, key), None, *exit, scene);
        }
    }

    /// A place of another process leaves.
    pub(super) fn gives_up(
        &mut self,
        place: Stood,
        item: Arc<LockItem>,
        (reply, until): (ReplyId, Moment),
        scene: &mut Scene<'_>,
    ) {
        let attempt = Attempt::new(place.nonce, place.tickets);
        let exit = Exit::of_queue(Course::of_another(), attempt, place.ticket, item);
        let leaving = Leaving::of_another(*exit, (reply, until), (scene.clocks.now, scene.terms));
        let key = scene.shared.next_id();
        let leaving = Phase::Leaving(Box::new(leaving));
        self.puts_in((key, key), None, leaving, scene);
        self.act(key, scene, Phase::goes_on);
    }

    pub(super) fn closes(&mut self, keeps_holds: bool, scene: &mut Scene<'_>) {
        let refused = self.gathering.all(&Refusal::ShutDown);
        scene.shared.refuses_all(refused);
        for key in self.keys(|_, _| true) {
            self.act(key, scene, |phase, cx| phase.closes(keeps_holds, cx));
        }
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self, scene: &mut Scene<'_>) {
        let now = scene.clocks.now;
        let late = self.gathering.late(now);
        scene.shared.refuses_all(late);
        for key in self.due_by(now, scene) {
            self.act(key, scene, Phase::on_time);
        }
    }
}

/// What becomes of its places.
impl Agent {
    fn act(
        &mut self,
        key: Key,
        scene: &mut Scene<'_>,
        act: impl FnOnce(&mut Phase, &mut Context<'_>) -> Fate,
    ) {
        let Some(mut place) = self.places.remove(&key) else {
            return;
        };
        let theirs = (&mut place.callers, &mut place.post);
        let others = &self.places;
        let is_own = |nonce| others.values().any(|other| other.phase.has(nonce));
        let cx = &mut scene.context(key, &mut self.memory, theirs, &is_own);
        let fate = act(&mut place.phase, cx);
        self.becomes(key, place, fate, scene);
    }

    fn becomes(&mut self, key: Key, mut place: Box<Place>, fate: Fate, scene: &mut Scene<'_>) {
        match fate {
            Fate::Over => {
                scene.shared.lists(key, None);
                let theirs = (&mut place.callers, &mut place.post);
                let mut cx = scene.context(key, &mut self.memory, theirs, &NONE);
                cx.asks_again();
                cx.closes_post();
            }
            Fate::Stays => self.stays(key, place, scene),
            Fate::Holds(taken) => {
                let theirs = (&mut place.callers, &mut place.post);
                let cx = &mut scene.context(key, &mut self.memory, theirs, &NONE);
                match Hold::taken(*taken, cx) {
                    Ok(hold) => {
                        place.phase = Phase::Holding(hold);
                        self.stays(key, place, scene);
                    }
                    Err(fate) => self.becomes(key, place, fate, scene),
                }
            }
            Fate::Refused(why) => {
                self.refuses(key, &mut place, why, scene);
                self.becomes(key, place, Fate::Over, scene);
            }
            Fate::Leaves(why, leaving) => {
                if let (Phase::Asking(_), Some(ticket)) = (&place.phase, leaving.ticket) {
                    scene.notes(Note::Leaves(ticket));
                }
                self.refuses(key, &mut place, why, scene);
                self.leaves((key, place.beside), place.post, *leaving, scene);
            }
            Fate::Again(leaving) => {
                let post = place.post.take_if(|_| leaving.is_some());
                if place.callers.is_empty() {
                    self.becomes(key, place, Fate::Over, scene);
                } else {
                    let claim = Arc::clone(&place.claim);
                    let door = Door::new(claim, scene.lock, scene.clocks.now);
                    place.phase = Phase::Asking(Box::new(door));
                    self.places.insert(key, place);
                    self.sets_out(key, None, scene);
                }
                if let Some(leaving) = leaving {
                    let beside = scene.shared.next_id();
                    self.leaves((beside, beside), post, *leaving, scene);
                }
            }
            Fate::Beside(leaving) => {
                self.places.insert(key, place);
                let beside = scene.shared.next_id();
                self.leaves((beside, key), None, *leaving, scene);
            }
        }
    }

    /// Tells its callers how they stand, and lists what it does for nobody.
    fn stays(&mut self, key: Key, mut place: Box<Place>, scene: &mut Scene<'_>) {
        let errand = place.phase.errand();
        let errand = errand.map(|(ticket, work)| Errand {
            lock: scene.lock.clone(),
            ticket,
            work,
        });
        scene.shared.lists(key, errand);
        let (phase, memory) = (&place.phase, &self.memory);
        let news = place.callers.news(|| phase.stands(memory));
        let behind = self.gathering.hears(key, &place.callers.kept);
        for (call, waiting) in news.into_iter().chain(behind) {
            let told = Output::Waits { call, waiting };
            scene.shared.outputs.push_back(told);
        }
        self.places.insert(key, place);
    }

    fn refuses(&mut self, key: Key, place: &mut Place, why: Refusal, scene: &Scene<'_>) {
        let over = { scene.clocks.now }.min(place.callers.give_up(scene.terms));
        let untils = place.callers.untils();
        for (call, until) in place.callers.all(&why).into_iter().zip(untils) {
            let over = over.min(until);
            self.refusing.push(Refusing {
                call,
                place: key,
                until: scene.terms.answers_by(over, &place.claim, place.began),
            });
        }
    }

    fn leaves(
        &mut self,
        (key, beside): (Key, Key),
        post: Option<Box<Post>>,
        exit: Exit,
        scene: &mut Scene<'_>,
    ) {
        if let Some(post) = &post {
            let place = (scene.lock.clone(), key);
            scene.shared.posts.insert(post.key, place);
        }
        let leaving = Leaving::new(exit, (scene.clocks.now, scene.terms));
        let leaving = Phase::Leaving(Box::new(leaving));
        self.puts_in((key, beside), post, leaving, scene);
        self.act(key, scene, Phase::goes_on);
    }

    /// A place that no caller waits for.
    fn puts_in(
        &mut self,
        (key, beside): (Key, Key),
        post: Option<Box<Post>>,
        phase: Phase,
        scene: &Scene<'_>,
    ) {
        let place = Box::new(Place {
            callers: Callers::default(),
            post,
            beside,
            claim: Arc::default(),
            began: scene.clocks.now,
            phase,
        });
        self.places.insert(key, place);
    }

    /// Begins what its places have left to that, answers calls of whose places nothing is left, and sets when it is due.
    pub(super) fn ends_turn(&mut self, scene: &mut Scene<'_>) {
        for chore in std::mem::take(&mut scene.shared.to_do) {
            let key = scene.shared.next_id();
            let doing = Phase::Doing(Box::new(Doing::new(chore)));
            self.puts_in((key, key), None, doing, scene);
            self.act(key, scene, Phase::on_time);
        }
        for mut callers in std::mem::take(&mut scene.shared.to_ask) {
            match scene.shared.is_closed {
                true => scene.shared.refuses_all(callers.all(&Refusal::ShutDown)),
                false => _ = self.asks(callers, plain(), scene),
            }
        }
        self.goes_in(scene);
        let (places, now) = (&self.places, scene.clocks.now);
        let waits =
            |it: &Refusing| it.until > now && places.values().any(|place| place.beside == it.place);
        for Refusing { call, .. } in self.refusing.extract_if(.., |it| !waits(it)) {
            scene.shared.refuses(call.0, call.1);
        }
        self.due = self.next_due(scene);
    }

    /// The callers that have gathered go in, once the place before them is in the queue, or has come to nothing. Each round is a place.
    fn goes_in(&mut self, scene: &mut Scene<'_>) {
        while !self.is_on_its_way()
            && let Some(callers) = self.gathering.goes_in()
        {
            let key = self.asks(callers, plain(), scene);
            self.gathering.first = Some(key);
        }
    }

    fn is_on_its_way(&self) -> bool {
        let first = self.gathering.first;
        let place = first.and_then(|first| self.places.get(&first));
        place.is_some_and(|place| place.phase.is_on_its_way())
    }

    /// When something of each place is due.
    fn dues(&mut self, scene: &mut Scene<'_>) -> impl Iterator<Item = (Key, Due)> {
        let memory = &mut self.memory;
        self.places.iter_mut().filter_map(move |(key, place)| {
            let theirs = (&mut place.callers, &mut place.post);
            let cx = scene.context(*key, memory, theirs, &NONE);
            Some((*key, (place.phase.due(&cx)?, place.phase.precision())))
        })
    }

    fn due_by(&mut self, now: Moment, scene: &mut Scene<'_>) -> Vec<Key> {
        let due = self.dues(scene).filter(|(_, (due, _))| *due <= now);
        due.map(|(key, _)| key).collect()
    }

    fn next_due(&mut self, scene: &mut Scene<'_>) -> Option<Due> {
        let places = self.dues(scene).map(|(_, due)| due).min();
        let refusing = self.refusing.iter().map(|it| it.until);
        let coarse = refusing.chain(self.gathering.due());
        let coarse = coarse.map(|due| (due, Precision::Coarse));
        places.into_iter().chain(coarse).min()
    }

    /// Whether nothing is under way, held or left to do.
    pub(super) fn is_idle(&self) -> bool {
        self.places.is_empty() && self.refusing.is_empty()
    }

    /// How long a turn takes, as far as that is known.
    pub(super) fn mean_turn(&self) -> Option<Duration> {
        self.memory.turn()
    }

    /// Whether nothing of it is to be remembered.
    pub(super) fn is_forgettable(&self) -> bool {
        self.is_idle() && self.memory.is_empty()
    }
}

/// Where it does not matter which places are of this client.
const NONE: fn(Nonce) -> bool = |_| false;

/// The claim of callers that take their turns at one place.
fn plain() -> Arc<Claim> {
    Arc::new(Claim {
        wait: Wait::Forever,
        ..Claim::default()
    })
}
