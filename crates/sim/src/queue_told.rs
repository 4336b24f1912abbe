//! What a caller is told of the queue: how it stands there, and why it is refused because of it.

use fairlock_protocol::agent::{CallId, Loss, Refusal, Waiting};
use fairlock_protocol::item::LockItem;

use crate::agenda::MS;
use crate::host::{Doing, Place};
use crate::world::World;

impl World {
    /// A call is told how it stands: nobody comes before it who did not before, and it is told no news twice.
    pub(crate) fn told_how_it_stands(&mut self, host: usize, call: CallId, waiting: &Waiting) {
        let Some(caller) = self.hosts[host].caller_of(call.0) else {
            return;
        };
        let it = &mut self.hosts[host].callers[caller];
        let lock = Some(it.lock);
        if !it.waits || !it.is_observed || !matches!(it.doing, Doing::Asking { .. }) {
            let message = format!("call {call:?} is told how it stands, which did not ask for it");
            return self.fail("queue", lock, message);
        }
        let holder = waiting.item.as_deref().and_then(LockItem::first_holder);
        let place = waiting
            .position
            .zip(waiting.place)
            .map(|(position, stood)| Place {
                stood,
                position,
                holder: holder.map(|holder| holder.ticket.get()),
            });
        let is_kept = waiting.outage.is_some() || waiting.place_lost.is_some();
        let before = it.place;
        it.place = place.or(before);
        let was_kept = std::mem::replace(&mut it.is_kept, is_kept);
        let same = before.zip(place).filter(|(a, b)| a.stood == b.stood);
        if same.is_some_and(|(before, now)| now.position > before.position) {
            let message = format!("call {call:?} stands further back: {before:?}, {place:?}");
            return self.fail("queue", lock, message);
        }
        if same.is_some_and(|(before, now)| before == now) && !is_kept && !was_kept {
            let message = format!("call {call:?} is told twice that it stands {place:?}");
            return self.fail("queue", lock, message);
        }
        if let Some(Loss::ShutDown) = waiting.place_lost {
            self.fail("queue", lock, "a place is lost to a shutdown".to_owned());
        }
    }

    /// A call that waits is refused when its time is over, where more come before it than it accepts, or where its own client is in the way.
    pub(crate) fn is_refused_early(&mut self, host: usize, caller: usize, why: &Refusal) {
        let it = &self.hosts[host].callers[caller];
        let (lock, limit, asked) = (it.lock, it.limit, it.asked);
        let message = match why {
            Refusal::NotGranted { .. } if it.waits && self.at + MS < it.until => {
                "refused before its time is over".to_owned()
            }
            Refusal::QueueFull { waiting, limit: of } if limit != Some(*of) || waiting < of => {
                format!("accepts {limit:?} before it, and is refused by {why:?}")
            }
            Refusal::Own(held) => {
                let of = &self.hosts[host];
                let ticket = held.ticket.get();
                let mut held = of.holds.values();
                // A hold that nobody took is known to its client alone.
                let own = held.find(|it| (it.lock, it.ticket) == (lock, ticket));
                let is_held = own.is_none_or(|it| it.ended >= asked);
                match of.callers[caller].denies_self_wait && is_held {
                    true => return,
                    false => format!("its client does not hold the lock by ticket {ticket}"),
                }
            }
            _ => return,
        };
        self.fail("calls", Some(lock), message);
    }
}
