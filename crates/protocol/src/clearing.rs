//! What a caller without a place clears out of its way, and how much of that one call does.

use crate::judge::{Judge, Now};
use crate::problem::OF_A_FAIR_LOCK;
use crate::snapshot::Snapshot;
use crate::step::{self, ClearingStep, Removal};

/// With so many successors a write of the lock item costs some nine units. With more, it costs more than the rows that it saves.
pub const MAX_SLOTS: usize = 32;
/// The slots of the successors, and the first slot, in which a participant may wait behind sharers that have all permits.
pub const ALL_SLOTS: usize = MAX_SLOTS + 1;
/// The most steps that a caller takes through the queue: as many as there can be slots, and a few pages behind them.
const STEPS: usize = ALL_SLOTS + 16;
/// The most evictions of a caller: as many as can share a fair lock, and all slots, whose participants hold it after them.
const EVICTIONS: usize = OF_A_FAIR_LOCK as usize + ALL_SLOTS;

/// How many steps of each kind a call may still take.
#[derive(Clone, Copy, Debug)]
pub struct Clearing {
    steps: usize,
    evictions: usize,
    has_given_up: bool,
}

impl Default for Clearing {
    fn default() -> Self {
        Clearing {
            steps: STEPS,
            evictions: EVICTIONS,
            has_given_up: false,
        }
    }
}

impl Clearing {
    /// The verdict on what a claim to so many permits sees, which has watched nothing. Counts the step that it returns.
    pub fn next<Next>(
        &mut self,
        snapshot: &Snapshot<Next>,
        now: &Now,
        permits: u64,
    ) -> ClearingStep {
        let (judge, item) = (Judge::default(), &snapshot.item);
        let view = judge.view(snapshot, now);
        let expired = |gap| judge.expired(item, now, gap);
        let step = step::next_refusal(&view, item.has_left(permits), expired);
        if self.allows(&step) {
            return step;
        }
        self.has_given_up = true;
        // Dead participants that are left do not matter if there is room for the claim.
        match item.has_room_for(permits) {
            true => ClearingStep::Free,
            false => ClearingStep::Taken,
        }
    }

    /// Whether the call has left dead participants, because it has taken as many steps as it may.
    pub fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Whether another step of this kind may be taken. If so, counts it.
    fn allows(&mut self, step: &ClearingStep) -> bool {
        let left = match step {
            ClearingStep::Free | ClearingStep::Settled | ClearingStep::Taken => return true,
            ClearingStep::Remove(Removal::Evict(_)) => &mut self.evictions,
            _ => &mut self.steps,
        };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }
}
