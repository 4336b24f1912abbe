//! Calls of one client that wait for the same lock are granted in the order in which they were made.
//!
//! Nothing excuses another order among the calls of one place. Among other calls, a younger call may be granted before an older one only if
//! something went wrong with their host since the older call was made:
//!
//! - A request failed, or a draw or a join was refused.
//! - A request took at least half of the shortest join timeout, so other clients may have closed a gap in its place.
//! - The host took a place on an item that DynamoDB may have deleted by then.
//! - A hold was lost, and the rest of its batch joined the queue again.
//! - The host gave back a place that no caller was granted: its lease was over when its turn came, as short ones are by what clocks differ.
//! - An operator broke a place of the host. Its callers learn of that within a lease or two, and join the queue again.
//!
//! Calls that do not wait are not part of this.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Events, broken};
use crate::batches::{Asked, Calls, batches, calls};
use crate::exchange::{Answer, Exchange};
use crate::history::{End, Event};
use crate::plan::Plan;

/// When something went wrong with each host, from its beginning to its end.
type Troubles = BTreeMap<usize, Vec<(Duration, Duration)>>;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    let calls = calls(events);
    at_one_place(events, &calls)?;
    let troubles = troubles(plan, events);
    granted(events, &calls).try_for_each(|granted| {
        let mut older = older(&calls, granted, 0);
        let passed = older.find(|older| !is_excused(&troubles, older, granted));
        passed.map_or(Ok(()), |passed| wrong(granted, &passed))
    })
}

/// How often a call was granted while a younger one of its client waited, and no other order would have been excused.
pub(crate) fn compared(plan: &Plan, events: &Events) -> u64 {
    let (calls, troubles) = (calls(events), troubles(plan, events));
    let compared = granted(events, &calls).flat_map(|granted| {
        let younger = calls.range(granted.of.call + 1..);
        let at = granted.granted.unwrap_or_default();
        let younger = younger.take_while(move |(_, younger)| younger.at <= at);
        let younger =
            younger.filter(move |(_, younger)| younger.waits(at) && younger.waits_with(granted));
        younger.filter(|_| !is_excused(&troubles, granted, granted))
    });
    compared.count() as u64
}

fn at_one_place(events: &Events, calls: &Calls<'_>) -> Result<(), String> {
    for batch in batches(events) {
        let turns = batch.turns.iter().map(|turn| turn.call);
        if !turns.is_sorted_by(|one, next| one < next) {
            return Err(format!("not as asked: {batch:?}"));
        }
        for turn in &batch.turns {
            let granted = &calls[&turn.call];
            if let Some(passed) = older(calls, granted, batch.turns[0].call).next() {
                return wrong(granted, &passed);
            }
        }
    }
    Ok(())
}

fn wrong(granted: &Asked<'_>, passed: &Asked<'_>) -> Result<(), String> {
    Err(format!("{granted:?} while {passed:?} waits"))
}

/// The granted calls that waited, in no particular order.
fn granted<'a>(events: &'a Events, calls: &'a Calls<'a>) -> impl Iterator<Item = &'a Asked<'a>> {
    let granted = events.iter().filter_map(|(_, event)| match event {
        Event::Granted(it) => calls.get(&it.call),
        _ => None,
    });
    granted.filter(|asked| asked.may_join_batch())
}

/// Older calls of the same client for the same lock, from number `from` on, that still waited when `granted` was granted.
fn older<'a>(
    calls: &'a Calls<'a>,
    granted: &'a Asked<'a>,
    from: usize,
) -> impl Iterator<Item = Asked<'a>> {
    let at = granted.granted.unwrap_or_default();
    let older = calls.range(from..granted.of.call).map(|(_, older)| *older);
    older.filter(move |older| older.waits(at) && older.waits_with(granted))
}

fn is_excused(troubles: &Troubles, older: &Asked<'_>, granted: &Asked<'_>) -> bool {
    let mut of_host = troubles.get(&older.of.host).into_iter().flatten();
    of_host.any(|(begun, ended)| Some(*begun) <= granted.granted && older.at <= *ended)
}

fn troubles(plan: &Plan, events: &Events) -> Troubles {
    let mut troubles = Troubles::new();
    let mut holders = BTreeMap::new();
    let granted = events.iter().filter_map(|(_, event)| match event {
        Event::Granted(it) => Some((it.host, Some(it.place))),
        _ => None,
    });
    let granted: BTreeSet<_> = granted.collect();
    for (at, event) in events {
        let (host, begun) = match event {
            Event::Exchanged(exchange)
                if is_trouble(plan, exchange, *at)
                    || exchange.verb == "release"
                        && !granted.contains(&(exchange.host, exchange.ticket)) =>
            {
                (exchange.host, exchange.sent)
            }
            Event::Granted(it) => {
                holders.insert(it.hold, it.host);
                continue;
            }
            Event::Ended(hold, End::Lost) => (holders[hold], *at),
            _ => continue,
        };
        troubles.entry(host).or_default().push((begun, *at));
    }
    for (_, host, _, at) in broken::places(events) {
        let until = at + 2 * plan.longest_lease();
        troubles.entry(host).or_default().push((at, until));
    }
    troubles
}

fn is_trouble(plan: &Plan, exchange: &Exchange, at: Duration) -> bool {
    let is_slow = plan.shortest_grace() / 2 <= at.saturating_sub(exchange.sent);
    let gives = matches!(exchange.verb, "draw" | "join");
    match exchange.answer {
        Answer::Ok => is_slow || !exchange.item_stays(at),
        Answer::Refused => is_slow || gives,
        Answer::Failed => true,
    }
}
