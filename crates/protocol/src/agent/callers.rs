//! The callers of a place, in the order in which they asked: they take their turns there one after the other.

use std::collections::VecDeque;
use std::time::Duration;

use super::kept::Kept;
use super::terms::Wait;
use super::waiting::{Shown, Stand, Waiting};
use super::{CallId, Claim, Of, Refusal, Terms};
use crate::moment::Moment;

/// A caller that waits for its turn.
#[derive(Clone, Copy)]
struct Caller {
    call: CallId,
    until: Moment,
    /// The most turns that may come before its own.
    most: Option<u64>,
    /// What it was told last, if it is told how it stands.
    shown: Option<Shown>,
}

/// The callers of a place.
#[derive(Default)]
pub(super) struct Callers {
    waiting: VecDeque<Caller>,
    /// What keeps them from their turn, besides those before them.
    pub(super) kept: Kept,
    /// Some are told how they stand, or were.
    are_observed: bool,
}

/// Calls that are refused, and why.
pub(super) type Refused = Vec<(CallId, Refusal)>;

impl Callers {
    pub(super) fn one(call: CallId, claim: &Claim) -> Self {
        let mut callers = Callers::default();
        callers.add(call, claim);
        callers
    }

    /// Adds a caller behind all others.
    pub(super) fn add(&mut self, call: CallId, claim: &Claim) {
        let until = match claim.wait {
            Wait::Until(until) => until,
            Wait::No | Wait::Forever => Moment(Duration::MAX),
        };
        let is_observed = claim.is_observed && claim.waits();
        self.are_observed |= is_observed;
        self.waiting.push_back(Caller {
            call,
            until,
            most: claim.max_waiters,
            shown: is_observed.then(Shown::default),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many tickets they need.
    pub(super) fn tickets(&self) -> u64 {
        self.waiting.len().max(1) as u64
    }

    /// For whom a request for their place is sent.
    pub(super) fn of(&self) -> Of {
        let first = self.waiting.front();
        first.map_or(Of::Nobody, |first| Of::Call(first.call))
    }

    /// The first, whose turn it is.
    pub(super) fn next(&mut self) -> Option<CallId> {
        Some(self.waiting.pop_front()?.call)
    }

    pub(super) fn has(&self, call: CallId) -> bool {
        self.waiting.iter().any(|caller| caller.call == call)
    }

    /// This one has gone.
    pub(super) fn leaves(&mut self, call: CallId) {
        self.waiting.retain(|caller| caller.call != call);
    }

    /// Takes out all of them, who are refused. Each stands behind those that asked before it.
    pub(super) fn all(&mut self, why: &Refusal) -> Refused {
        self.take(|_| true, why)
    }

    /// Until when each of them waits.
    pub(super) fn untils(&self) -> Vec<Moment> {
        self.waiting.iter().map(|caller| caller.until).collect()
    }

    /// Until when the last of them waits.
    pub(super) fn until(&self) -> Moment {
        let untils = self.waiting.iter().map(|caller| caller.until);
        untils.max().unwrap_or(Moment(Duration::MAX))
    }

    /// When they give up: the time of the last of them is over, or nothing has been answered for too long.
    pub(super) fn give_up(&self, terms: &Terms) -> Moment {
        let silent = self.kept.gives_up(terms.outage);
        silent.into_iter().fold(self.until(), Moment::min)
    }

    /// When the time of one of them is over.
    pub(super) fn next_until(&self) -> Option<Moment> {
        let untils = self.waiting.iter().map(|caller| caller.until);
        untils.min().filter(|until| until.0 < Duration::MAX)
    }

    /// Whether the time of one of them is over.
    pub(super) fn are_late(&self, now: Moment) -> bool {
        self.next_until().is_some_and(|until| until <= now)
    }

    /// Takes out those whose time is over.
    pub(super) fn late(&mut self, now: Moment, why: &Refusal) -> Refused {
        self.take(|caller| caller.until <= now, why)
    }

    /// How many turns may come before the first of them so that all stay.
    pub(super) fn most_before(&self) -> Option<u64> {
        let limits = self.waiting.iter().zip(0..);
        let most = limits.filter_map(|(caller, index)| Some(caller.most?.saturating_sub(index)));
        most.min()
    }

    /// Whether none of them will wait behind so many turns.
    pub(super) fn are_unwilling(&self, before: u64) -> bool {
        let is = |caller: &Caller| caller.most.is_some_and(|most| most < before);
        !self.is_empty() && self.waiting.iter().all(is)
    }

    /// Takes out those who will not wait behind so many turns and the earlier ones that stay.
    pub(super) fn unwilling(&mut self, mut before: u64) -> Refused {
        let mut refused = Vec::new();
        self.waiting.retain(|caller| {
            let limit = caller.most.filter(|most| *most < before);
            match limit {
                Some(limit) => refused.push((caller.call, Refusal::too_long(before, limit))),
                None => before = before.saturating_add(1),
            }
            limit.is_none()
        });
        refused
    }

    fn take(&mut self, goes: impl Fn(&Caller) -> bool, why: &Refusal) -> Refused {
        let (mut refused, mut index) = (Vec::new(), 0);
        self.waiting.retain(|caller| {
            let goes = goes(caller);
            if goes {
                refused.push((caller.call, why.behind(index, caller.most)));
            }
            index += 1;
            !goes
        });
        refused
    }

    /// What is to be told to those who are told how they stand, if the first of them stands so.
    pub(super) fn news(&mut self, first: impl FnOnce() -> Stand) -> Vec<(CallId, Box<Waiting>)> {
        if !self.are_observed {
            return Vec::new();
        }
        let first = first();
        self.kept.stands(&first);
        let kept = &self.kept;
        let told = self.waiting.iter_mut().zip(0..).filter_map(|(it, index)| {
            let mut waiting = first.behind(index);
            kept.adds_to(&mut waiting);
            let is_news = it.shown.as_mut()?.changes_to(&mut waiting);
            is_news.then(|| (it.call, Box::new(waiting)))
        });
        told.collect()
    }
}
