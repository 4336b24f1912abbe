//! Whoever asks for a seat has one by that write, whoever asks at the same time: it is refused only if the lock is free, no seat is
//! open, or somebody who has none waits for one.

use super::Events;
use crate::exchange::{Answer, Exchange};
use crate::history::Event;
use crate::plan::Plan;

pub(super) fn check(plan: &Plan, events: &Events) -> Result<(), String> {
    for (at, event) in events {
        if let Event::Exchanged(exchange) = event
            && exchange.verb == "sit"
            && exchange.answer == Answer::Refused
            && !has_a_reason(plan, exchange)
        {
            return Err(format!("{at:?}: refused a seat: {exchange:?}"));
        }
    }
    Ok(())
}

fn has_a_reason(plan: &Plan, exchange: &Exchange) -> bool {
    let (Some(shown), Some(host)) = (&exchange.shown, plan.hosts.get(exchange.host)) else {
        return true;
    };
    let is_free = shown.holders().next().is_none();
    let is_full = shown.heirs.len() >= host.seats;
    let is_waited_for = shown.seated < shown.last;
    let is_late = exchange.below.is_some_and(|below| below <= shown.last);
    let stays_longer = { exchange.keeps }.is_some_and(|keeps| Some(keeps) < shown.expires_at);
    let mut places = shown.places();
    let is_there = places.any(|place| Some(&place.nonce) == exchange.nonce.as_ref());
    is_free || is_full || is_waited_for || is_late || stays_longer || is_there
}
