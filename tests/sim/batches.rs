//! The turns of callers that share one place in the queue, gathered from a history.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::exchange::Answer;
use crate::history::{self, End, Event};
use crate::oracles::{Events, exchanges};

/// Calls by their numbers, which follow the order in which the calls were made.
pub(crate) type Calls<'a> = BTreeMap<usize, Asked<'a>>;

/// A call for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub(crate) of: &'a history::Asked,
    pub(crate) at: Duration,
    /// When the call was granted, or ended without a grant.
    pub(crate) granted: Option<Duration>,
    pub(crate) gone: Option<Duration>,
}

impl Asked<'_> {
    /// Whether the call waits at all, and may join a batch.
    pub(crate) fn may_join_batch(&self) -> bool {
        self.of.until != Some(self.at) && self.of.is_alone
    }

    /// Whether both calls wait for the same lock, in the same client.
    pub(crate) fn waits_with(&self, other: &Asked<'_>) -> bool {
        let (of, other) = (self.of, other.of);
        self.may_join_batch() && (of.host, &of.lock) == (other.host, &other.lock)
    }

    /// Whether the call is neither granted nor gone, and has time left.
    pub(crate) fn waits(&self, at: Duration) -> bool {
        let ends = [self.of.until, self.granted, self.gone];
        let end = ends.into_iter().flatten().min();
        self.at <= at && end.is_none_or(|end| at < end)
    }
}

/// All calls of a history.
pub(crate) fn calls(events: &Events) -> Calls<'_> {
    let mut calls = BTreeMap::new();
    for (at, event) in events {
        match event {
            Event::Asked(of) => {
                let asked = Asked {
                    of,
                    at: *at,
                    granted: None,
                    gone: None,
                };
                calls.insert(of.call, asked);
            }
            Event::Granted(it) => {
                let granted = |asked: &mut Asked<'_>| asked.granted = Some(*at);
                calls.entry(it.call).and_modify(granted);
            }
            Event::Gone(call) => {
                let gone = |asked: &mut Asked<'_>| asked.gone = Some(*at);
                calls.entry(*call).and_modify(gone);
            }
            _ => {}
        }
    }
    calls
}

/// How many calls held several locks at once.
pub(crate) fn together(events: &Events) -> u64 {
    let granted = events.iter().filter_map(|(_, event)| match event {
        Event::Granted(it) => Some(it.call),
        _ => None,
    });
    let mut times: BTreeMap<_, u64> = BTreeMap::new();
    granted.for_each(|call| *times.entry(call).or_default() += 1);
    times.into_values().filter(|locks| *locks > 1).count() as u64
}

/// A turn at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) at: Duration,
    pub(crate) call: usize,
    pub(crate) ticket: u64,
    pub(crate) end: Option<(Duration, End)>,
}

/// A place with several tickets, and the turns that were taken there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// When its tickets were requested, if an answer tells that.
    pub(crate) drawn: Option<Duration>,
    pub(crate) turns: Vec<Turn>,
}

/// Places by lock and newest ticket.
type Places<'a> = BTreeMap<(&'a str, u64), Batch>;

/// All places with several tickets at which at least one turn was taken.
pub(crate) fn batches(events: &Events) -> Vec<Batch> {
    let (mut batches, ends, calls) = (places(events), ends(events), calls(events));
    for (at, event) in events {
        if let Event::Granted(it) = event
            && let Some((_, batch)) = batches.range_mut(of_lock(&it.lock, it.ticket)).next()
            && (batch.first..=batch.last).contains(&it.ticket)
            // Only the call itself knows when a call for several locks requested this one.
            && calls.get(&it.call).is_some_and(|asked| asked.of.is_alone)
        {
            batch.turns.push(Turn {
                at: *at,
                call: it.call,
                ticket: it.ticket,
                end: ends.get(&it.hold).copied(),
            });
        }
    }
    let had = batches.into_values();
    had.filter(|batch| !batch.turns.is_empty()).collect()
}

fn places(events: &Events) -> Places<'_> {
    let mut places = Places::new();
    for (_, exchange) in exchanges(events) {
        let (lock, shown) = (exchange.lock.as_str(), &exchange.shown);
        let several = shown.iter().flat_map(|shown| shown.places());
        for place in several.filter(|place| place.first < place.ticket) {
            let batch = places.entry((lock, place.ticket)).or_default();
            (batch.first, batch.last) = (place.first, place.ticket);
        }
        if let (Some(shown), Some(2..), Answer::Ok) = (shown, exchange.draws, exchange.answer)
            && matches!(exchange.verb, "enter" | "enter known" | "draw")
        {
            let batch = places.entry((lock, shown.last)).or_default();
            batch.drawn = Some(exchange.sent);
        }
    }
    places
}

/// The places of a lock from this ticket on.
fn of_lock(lock: &str, from: u64) -> RangeInclusive<(&str, u64)> {
    (lock, from)..=(lock, u64::MAX)
}

/// How each hold ended, and when.
fn ends(events: &Events) -> BTreeMap<usize, (Duration, End)> {
    let ends = events.iter().filter_map(|(at, event)| match event {
        Event::Ended(hold, how) => Some((*hold, (*at, *how))),
        _ => None,
    });
    ends.collect()
}

/// What became of the batches in one history.
pub(crate) fn fates(events: &Events) -> Vec<&'static str> {
    let calls = calls(events);
    let batches = batches(events);
    batches
        .iter()
        .flat_map(|batch| batch.fates(&calls))
        .collect()
}

/// What happens to batches in every thousand seeds.
pub(crate) const FATES: [&str; 5] = [
    "batch",
    "turn passed on",
    "batch cut by a loss",
    "batch cut by a crash",
    "gone from the middle of a batch",
];

impl Batch {
    fn fates(&self, calls: &Calls<'_>) -> Vec<&'static str> {
        let passed_on = self.turns.len() - 1;
        let mut fates = vec!["turn passed on"; passed_on];
        fates.extend((passed_on > 0).then_some("batch"));
        fates.extend(self.cut(calls));
        let pairs = self.turns.windows(2);
        let gone = pairs.filter(|pair| is_between(calls, &pair[0], &pair[1]));
        fates.extend(gone.map(|_| "gone from the middle of a batch"));
        fates
    }

    /// Whether the last turn ended by force while the batch's next caller waited.
    fn cut(&self, calls: &Calls<'_>) -> Option<&'static str> {
        let turn = self.turns.last().filter(|turn| turn.ticket < self.last)?;
        let (at, how) = turn.end?;
        let next = next(calls, turn.call)?;
        let is_member = self.drawn.is_some_and(|drawn| next.at <= drawn);
        let waited = next.granted.or(next.gone).is_none_or(|end| at <= end);
        match how {
            _ if !is_member || !waited => None,
            End::Lost => Some("batch cut by a loss"),
            End::Crashed => Some("batch cut by a crash"),
            End::GivenBack => None,
        }
    }
}

/// The next call of the same client that waits for the same lock.
fn next<'a>(calls: &'a Calls<'a>, call: usize) -> Option<&'a Asked<'a>> {
    let mut later = calls.range(call + 1..).map(|(_, later)| later);
    later.find(|later| later.waits_with(&calls[&call]))
}

/// Whether some call waited between two calls with successive turns, and left during the first of these turns.
fn is_between(calls: &Calls<'_>, one: &Turn, other: &Turn) -> bool {
    let mut between = calls.range(one.call + 1..other.call);
    between.any(|(_, call)| {
        let gone = call.gone.is_some_and(|gone| one.at < gone);
        call.waits_with(&calls[&one.call]) && gone
    })
}
