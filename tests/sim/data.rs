//! The data that holders leave on their locks, recorded when it is left and when it is found.

use fairlock::{LockData, LockGuard};
use fastrand::Rng;

use crate::history::{Event, Left};
use crate::world::World;

/// Records the data that came with the grant.
pub(crate) fn found(world: &World, guard: &LockGuard) {
    world.history.note(Event::Found {
        lock: guard.name().to_owned(),
        ticket: guard.ticket().get(),
        is_held: guard.is_held(),
        left: guard.data().map(|data| read(&data)),
    });
}

/// Leaves data once or twice. If a write is lost or not answered, the next holder finds either the old or the new data.
pub(crate) async fn put(world: &World, guard: &LockGuard, rng: &mut Rng) {
    for count in 1..=rng.u64(1..=2) {
        let (lock, left) = (guard.name(), (guard.ticket().get(), count));
        let noted = |event: fn(String, Left) -> Event| {
            world.history.note(event(lock.to_owned(), left));
        };
        noted(|lock, left| Event::Leaving { lock, left });
        let written = guard.set_data(format!("{} {}", left.0, left.1)).await;
        if written.is_ok() {
            noted(|lock, left| Event::LeftThere { lock, left });
        }
    }
}

/// Reads which hold's write this is. The bytes and the item must agree.
fn read(data: &LockData) -> Left {
    let text = std::str::from_utf8(&data.bytes).unwrap();
    let (ticket, count) = text.split_once(' ').unwrap();
    let left: Left = (ticket.parse().unwrap(), count.parse().unwrap());
    assert_eq!(left.0, data.ticket.get());
    left
}
