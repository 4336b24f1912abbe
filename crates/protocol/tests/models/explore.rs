//! A search of every state of a `stateright` model, with shortest traces and pinned counts. It also finds states from which the end is out
//! of reach, which stateright's own checker does not look for.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use stateright::{Expectation, Model, Property};

use crate::watchdog;

/// A search for every change has at most so many states. `FAIRLOCK_THOROUGH` asks for all.
const BRIEF: usize = 500_000;

pub(crate) fn is_tried(states: usize) -> bool {
    let is_brief = matches!(
        std::env::var("FAIRLOCK_THOROUGH").as_deref(),
        Err(_) | Ok("" | "0")
    );
    states <= BRIEF || !is_brief
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Report {
    /// What was searched.
    what: String,
    pub(crate) states: usize,
    pub(crate) depth: usize,
    /// The property that broke first, and the shortest way there.
    pub(crate) broken: Option<(&'static str, Vec<String>)>,
    /// The shortest way to a state from which the end is out of reach.
    pub(crate) stuck: Option<Vec<String>>,
    pub(crate) never: Vec<&'static str>,
}

impl Report {
    /// Asserts that every property holds in every state, and that the end is in reach from every state. Also asserts that everything comes
    /// about that is to, and that there are exactly `states` states.
    pub(crate) fn proves(&self, states: usize) {
        let what = &self.what;
        println!("{what}: {} states, {} deep", self.states, self.depth);
        assert!(self.broken.is_none(), "{what}: {:#?}", self.broken);
        assert!(
            self.stuck.is_none(),
            "{what}: no end after {:#?}",
            self.stuck
        );
        assert!(self.never.is_empty(), "{what}: never {:?}", self.never);
        assert_eq!(self.states, states, "{what}");
    }

    /// Asserts that this property was broken.
    pub(crate) fn catches(&self, property: &str) {
        let what = &self.what;
        println!("{what}: {} states, {:?}", self.states, self.broken);
        let broken = self.broken.as_ref().map(|(broken, _)| *broken);
        assert_eq!(broken, Some(property), "{what}");
    }
}

pub(crate) struct Search<'m, M: Model> {
    model: &'m M,
    properties: Vec<Property<M>>,
    /// Whether an action is a fault: the clients must be able to come to the end without it.
    is_fault: fn(&M::Action) -> bool,
    is_end: fn(&M::State) -> bool,
    known: HashMap<u64, u32, BuildHasherDefault<Ready>>,
    prints: Vec<u64>,
    parents: Vec<u32>,
    ends: Vec<u32>,
    /// The steps that are no faults: from, to.
    steps: Vec<(u32, u32)>,
    depth: usize,
    never: Vec<&'static str>,
    broken: Option<(&'static str, u32)>,
}

impl<'m, M: Debug + Model<State: Hash, Action: Clone + Debug>> Search<'m, M> {
    pub(crate) fn new(
        model: &'m M,
        is_fault: fn(&M::Action) -> bool,
        is_end: fn(&M::State) -> bool,
    ) -> Self {
        let properties = model.properties();
        let never = properties
            .iter()
            .filter(|property| matches!(property.expectation, Expectation::Sometimes))
            .map(|property| property.name)
            .collect();
        Search {
            model,
            properties,
            is_fault,
            is_end,
            known: HashMap::default(),
            prints: Vec::new(),
            parents: Vec::new(),
            ends: Vec::new(),
            steps: Vec::new(),
            depth: 0,
            never,
            broken: None,
        }
    }

    /// Checks this property alone.
    pub(crate) fn only(mut self, name: &str) -> Self {
        self.properties.retain(|property| property.name == name);
        self.never.clear();
        self
    }

    /// Visits every state, breadth first, up to the first state in which a property is broken.
    pub(crate) fn run(self) -> Report {
        let what = format!("{:?}", self.model);
        watchdog::within(&what.clone(), || self.visit_all(what))
    }

    fn visit_all(mut self, what: String) -> Report {
        let mut level = Vec::new();
        for state in self.model.init_states() {
            self.visit(state, 0, &mut level);
        }
        while !level.is_empty() && self.broken.is_none() {
            let mut next = Vec::new();
            for (id, state) in level {
                self.expand(id, &state, &mut next);
            }
            level = next;
            self.depth += 1;
        }
        self.report(what)
    }

    fn expand(&mut self, id: u32, state: &M::State, next: &mut Vec<(u32, M::State)>) {
        let mut actions = Vec::new();
        self.model.actions(state, &mut actions);
        for action in actions {
            let is_fault = (self.is_fault)(&action);
            if let Some(after) = self.model.next_state(state, action) {
                let to = self.visit(after, id, next);
                if !is_fault && to != id {
                    self.steps.push((id, to));
                }
            }
        }
    }

    fn visit(&mut self, state: M::State, parent: u32, level: &mut Vec<(u32, M::State)>) -> u32 {
        let print = fingerprint(&state);
        let id = self.prints.len() as u32;
        let known = *self.known.entry(print).or_insert(id);
        if known == id {
            self.prints.push(print);
            self.parents.push(parent);
            self.check(id, &state);
            level.push((id, state));
        }
        known
    }

    fn check(&mut self, id: u32, state: &M::State) {
        for property in &self.properties {
            let holds = (property.condition)(self.model, state);
            match property.expectation {
                Expectation::Always if !holds => {
                    self.broken.get_or_insert((property.name, id));
                }
                Expectation::Sometimes if holds => self.never.retain(|name| *name != property.name),
                _ => {}
            }
        }
        if (self.is_end)(state) {
            self.ends.push(id);
        }
    }

    fn report(mut self, what: String) -> Report {
        let broken = self.broken.map(|(name, id)| (name, self.way_to(id)));
        let stuck = match broken {
            None => self.first_stuck().map(|id| self.way_to(id)),
            Some(_) => None,
        };
        Report {
            what,
            states: self.prints.len(),
            depth: self.depth,
            broken,
            stuck,
            never: self.never,
        }
    }

    /// Walks back from every end. The first state that the walk does not meet cannot come to an end.
    fn first_stuck(&mut self) -> Option<u32> {
        self.steps.sort_unstable_by_key(|(_, to)| *to);
        let mut comes = vec![false; self.prints.len()];
        let mut open = std::mem::take(&mut self.ends);
        open.iter().for_each(|end| comes[*end as usize] = true);
        while let Some(at) = open.pop() {
            let first = self.steps.partition_point(|(_, to)| *to < at);
            let into = self.steps[first..].iter().take_while(|(_, to)| *to == at);
            for (from, _) in into {
                if !std::mem::replace(&mut comes[*from as usize], true) {
                    open.push(*from);
                }
            }
        }
        let stuck = comes.iter().position(|comes| !comes);
        stuck.map(|id| id as u32)
    }

    /// The steps to a state, found again along the fingerprints of its ancestors.
    fn way_to(&self, id: u32) -> Vec<String> {
        let mut queue = vec![id];
        while let Some(&at) = queue.last().filter(|at| **at != 0) {
            queue.push(self.parents[at as usize]);
        }
        let mut state = self.model.init_states().swap_remove(0);
        let mut way = Vec::new();
        for at in queue.iter().rev().skip(1) {
            let print = self.prints[*at as usize];
            let steps = self.model.next_steps(&state);
            let mut taken = steps
                .into_iter()
                .filter(|(_, after)| fingerprint(after) == print);
            let Some((action, after)) = taken.next() else {
                break;
            };
            way.push(format!("{action:?}"));
            state = after;
        }
        way
    }
}

fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = Fold::default();
    state.hash(&mut hasher);
    hasher.finish()
}

/// Folds the 128 bits of a product, of eight bytes at a time. The result is the same in every build, so that counts can be pinned.
pub(crate) struct Fold {
    folded: u64,
    /// Bytes that are not folded yet, and how many there are.
    word: u64,
    bytes: u32,
}

impl Default for Fold {
    fn default() -> Self {
        Fold {
            folded: 0x243f_6a88_85a3_08d3,
            word: 0,
            bytes: 0,
        }
    }
}

impl Fold {
    fn fold(folded: u64, word: u64) -> u64 {
        let product = u128::from(folded ^ word) * 0x9e37_79b9_7f4a_7c15;
        ((product >> 64) as u64 ^ product as u64).wrapping_add(0x1234_5678_9abc_def1)
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u8(*byte));
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.word = self.word << 8 | u64::from(byte);
        self.bytes += 1;
        if self.bytes == 8 {
            self.folded = Fold::fold(self.folded, self.word);
            self.word = 0;
            self.bytes = 0;
        }
    }

    /// Mostly the index of an enum's variant.
    #[inline]
    fn write_isize(&mut self, word: isize) {
        match u8::try_from(word) {
            Ok(byte) if byte < u8::MAX => self.write_u8(byte),
            _ => {
                self.write_u8(u8::MAX);
                self.write(&word.to_le_bytes());
            }
        }
    }

    fn finish(&self) -> u64 {
        let last = Fold::fold(self.folded, self.word);
        Fold::fold(last, 0x5851_f42d_4c95_7f2d ^ u64::from(self.bytes))
    }
}

/// A fingerprint is its own hash.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, print: u64) {
        self.0 = print;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
