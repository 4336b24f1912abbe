//! A waiter that requests a slot gets it by that write, whatever other clients request at the same time. It is refused only if there is no
//! lock item, no slot is free, or a waiter without a slot waits for one. A caller that does not wait gets the lock by that write, or
//! nothing.

use super::{Events, exchanges};
use crate::exchange::{Answer, Exchange};
use crate::plan::Plan;
use crate::shown::Shown;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    for (at, exchange) in exchanges(events) {
        if !matches!(exchange.verb, "enter" | "enter known") {
            continue;
        }
        let is_kept = match exchange.answer {
            Answer::Refused => !exchange.waits || has_a_reason(plan, exchange),
            Answer::Ok => exchange.waits || has_it(exchange),
            Answer::Failed => true,
        };
        if !is_kept {
            return Err(format!("{at:?}: {exchange:?}"));
        }
    }
    Ok(())
}

/// Whether the lock item shows that the requester holds the lock.
fn has_it(exchange: &Exchange) -> bool {
    let shown = exchange.shown.as_ref();
    let mut holders = shown.into_iter().flat_map(Shown::holders);
    holders.any(|holder| Some(&holder.nonce) == exchange.nonce.as_ref())
}

fn has_a_reason(plan: &Plan, exchange: &Exchange) -> bool {
    let (Some(shown), Some(host)) = (&exchange.shown, plan.hosts.get(exchange.host)) else {
        return true;
    };
    let is_full = shown.slots.len() > host.slots;
    let is_waited_for = shown.watermark < shown.last;
    let is_late = exchange.below.is_some_and(|below| below <= shown.last);
    let stays_longer = { exchange.keeps }.is_some_and(|keeps| Some(keeps) < shown.expires_at);
    let mut places = shown.places();
    let is_there = places.any(|place| Some(&place.nonce) == exchange.nonce.as_ref());
    is_full || is_waited_for || is_late || stays_longer || is_there
}
