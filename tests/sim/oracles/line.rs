//! Every lock item that anybody is shown has its places in ticket order, none above `seated`, and no heirs when free.

use super::Events;
use crate::history::Event;
use crate::shown::Shown;

pub(super) fn check(events: &Events) -> Result<(), String> {
    for (at, event) in events {
        if let Event::Exchanged(exchange) = event
            && let Some(shown) = &exchange.shown
            && !is_in_order(shown)
        {
            return Err(format!("{at:?}: {} shows {shown:?}", exchange.verb));
        }
    }
    Ok(())
}

fn is_in_order(shown: &Shown) -> bool {
    let tickets: Vec<_> = shown.places().map(|place| place.ticket).collect();
    let ascend = tickets.is_sorted_by(|one, next| one < next);
    let seated = tickets.iter().all(|ticket| *ticket <= shown.seated);
    let is_free = shown.holder.is_none() && !shown.heirs.is_empty();
    ascend && seated && !is_free && shown.seated <= shown.last
}
