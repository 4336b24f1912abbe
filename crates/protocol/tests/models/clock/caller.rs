//! A caller that has not watched the entry: it judges it by the dates of answers alone.

use std::time::Duration;

use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::lease;
use fairlock_protocol::step::{ClearingStep, Has, Removal};
use fairlock_protocol::witness::{Judge, Witnesses};

use super::client::Client;
use super::rules::{Judging, Mutant, Rules, Way};
use super::table::Mark;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    polls: u8,
    judge: Option<Judge>,
    witnesses: Witnesses,
    /// What the answer before told, for a caller that takes the later of the two.
    before: Option<ServerTime>,
    pub(crate) flight: Option<Flight>,
}

/// A write under way, conditional on this beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flight {
    Evict(u8),
    Date(u8, ServerTime),
}

impl Caller {
    /// A process that knows nothing, and polls at most `polls` times.
    pub(crate) fn new(polls: u8) -> Self {
        Caller {
            polls,
            ..Caller::default()
        }
    }

    pub(crate) fn may_poll(&self) -> bool {
        self.polls > 0 && self.flight.is_none()
    }

    /// Whether it does nothing more.
    pub(crate) fn is_through(&self) -> bool {
        self.polls == 0 && self.flight.is_none()
    }

    /// Takes in a poll that went this way, and acts on it.
    pub(crate) fn poll(&mut self, way: Way, shows: Mark, now: u8, rules: &Rules) {
        self.polls -= 1;
        let Some(link) = self.client.connect(way) else {
            return;
        };
        let date = self.client.hear(link, [now; 3], rules.caller, rules);
        let date = date.map(|date| self.as_mutant(date, rules));
        let dates = self.client.dates(rules.caller, rules);
        match (rules.judging, &mut self.judge) {
            (Judging::Refused, None) => {
                // The answer that refused the caller has just come.
                let newest = dates.newest(rules.here(rules.caller, now));
                self.judge = Some(Judge::hears(newest.and(date)));
            }
            (Judging::Refused, Some(judge)) => {
                judge.hear(date);
                if rules.broken(Mutant::LaterOfTwo) {
                    judge.hear(date);
                }
            }
            (Judging::Polling, _) => {
                self.witnesses.hear(date);
                if rules.broken(Mutant::LaterOfTwo) {
                    self.witnesses.hear(date);
                }
            }
        }
        self.before = date.filter(|_| rules.broken(Mutant::LaterOfTwo));
        self.decide(shows, now, rules);
    }

    fn as_mutant(&self, date: ServerTime, rules: &Rules) -> ServerTime {
        match rules.mutant {
            Some(Mutant::NoGrain) => ServerTime(date.0 + Duration::from_secs(1)),
            Some(Mutant::LaterOfTwo) => date.max(self.before.unwrap_or(date)),
            _ => date,
        }
    }

    /// Acts on what is shown.
    fn decide(&mut self, shows: Mark, now: u8, rules: &Rules) {
        let allowance = match rules.broken(Mutant::NoAllowance) {
            true => Duration::ZERO,
            false => rules.allowance,
        };
        let is_dead = |time| lease::is_over(&shows.entry(rules.lease), allowance, time);
        let Some(mut judge) = self.judge else {
            let time = match rules.broken(Mutant::OneAnswer) {
                true => self.witnesses.hint(),
                false => self.witnesses.time(),
            };
            self.flight = match is_dead(time) {
                true => Some(Flight::Evict(shows.beat)),
                false => self.dating(shows, now, rules),
            };
            return;
        };
        let (dates, here) = (
            self.client.dates(rules.caller, rules),
            rules.here(rules.caller, now),
        );
        let refusal = match is_dead(judge.time()) {
            true => ClearingStep::Remove(Removal::Evict(Has::Holder)),
            false => ClearingStep::Taken,
        };
        let is_alone = || !dates.has_stamp(here) && dates.latest(here.now).is_some();
        let polls_again = judge.polls_again(&refusal, || is_alone() && shows.date.is_none());
        self.judge = Some(judge);
        if polls_again && !rules.broken(Mutant::OneAnswer) {
            return;
        }
        self.flight = match refusal {
            ClearingStep::Taken => {
                self.judge = None;
                self.dating(shows, now, rules)
            }
            _ => Some(Flight::Evict(shows.beat)),
        };
    }

    /// Stamps what has no date, if the caller knows the time.
    fn dating(&self, shows: Mark, now: u8, rules: &Rules) -> Option<Flight> {
        if shows.date.is_some() || rules.broken(Mutant::LeavesUndated) {
            return None;
        }
        let dates = self.client.dates(rules.caller, rules);
        let here = rules.here(rules.caller, now);
        let stamp = match rules.broken(Mutant::UnconfirmedStamp) {
            true => dates.newest(here),
            false => dates.stamp(here),
        };
        Some(Flight::Date(shows.beat, stamp?))
    }

    /// Takes in that the caller's eviction was refused, and that the answer shows this.
    pub(crate) fn refused(&mut self, shows: Mark, now: u8, rules: &Rules) {
        if self.judge.is_some() {
            self.decide(shows, now, rules);
        }
    }
}
