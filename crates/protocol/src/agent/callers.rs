//! The callers of a place, in the order in which they asked: they take their turns there one after the other.

use std::collections::VecDeque;
use std::time::Duration;

use super::terms::Wait;
use super::{CallId, Claim, Of};
use crate::moment::Moment;

/// A caller that waits for its turn.
#[derive(Clone, Copy)]
struct Caller {
    call: CallId,
    until: Moment,
    /// The most turns that may come before its own.
    most: Option<u64>,
}

/// The callers of a place.
#[derive(Default)]
pub(super) struct Callers(VecDeque<Caller>);

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
        let most = claim.max_waiters;
        self.0.push_back(Caller { call, until, most });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many tickets they need.
    pub(super) fn tickets(&self) -> u64 {
        self.0.len().max(1) as u64
    }

    /// For whom a request for their place is sent.
    pub(super) fn of(&self) -> Of {
        self.0
            .front()
            .map_or(Of::Nobody, |first| Of::Call(first.call))
    }

    /// The first, whose turn it is.
    pub(super) fn next(&mut self) -> Option<CallId> {
        Some(self.0.pop_front()?.call)
    }

    pub(super) fn has(&self, call: CallId) -> bool {
        self.0.iter().any(|caller| caller.call == call)
    }

    /// This one has gone.
    pub(super) fn leaves(&mut self, call: CallId) {
        self.0.retain(|caller| caller.call != call);
    }

    pub(super) fn all(&mut self) -> Vec<CallId> {
        self.0.drain(..).map(|caller| caller.call).collect()
    }

    /// Until when the last of them waits.
    pub(super) fn until(&self) -> Moment {
        let untils = self.0.iter().map(|caller| caller.until);
        untils.max().unwrap_or(Moment(Duration::MAX))
    }

    /// When the time of one of them is over.
    pub(super) fn next_until(&self) -> Option<Moment> {
        let untils = self.0.iter().map(|caller| caller.until);
        untils.min().filter(|until| until.0 < Duration::MAX)
    }

    /// Takes out those whose time is over.
    pub(super) fn late(&mut self, now: Moment) -> Vec<CallId> {
        self.take(|caller| caller.until <= now)
    }

    /// How many turns may come before the first of them so that all stay.
    pub(super) fn most_before(&self) -> Option<u64> {
        let limits = self.0.iter().zip(0..);
        let most = limits.filter_map(|(caller, index)| Some(caller.most?.saturating_sub(index)));
        most.min()
    }

    /// Whether none of them will wait behind so many turns.
    pub(super) fn are_unwilling(&self, before: u64) -> bool {
        let is = |caller: &Caller| caller.most.is_some_and(|most| most < before);
        self.0.iter().all(is)
    }

    /// Takes out those who will not wait behind so many turns and the earlier ones that stay.
    pub(super) fn unwilling(&mut self, mut before: u64) -> Vec<CallId> {
        self.take(|caller| {
            let goes = caller.most.is_some_and(|most| most < before);
            before = before.saturating_add(u64::from(!goes));
            goes
        })
    }

    fn take(&mut self, mut goes: impl FnMut(&Caller) -> bool) -> Vec<CallId> {
        let mut gone = Vec::new();
        self.0.retain(|caller| {
            let goes = goes(caller);
            gone.extend(goes.then_some(caller.call));
            !goes
        });
        gone
    }
}
