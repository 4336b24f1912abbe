//! What holders leave on their locks, written down as it is left and found.

use fairlock::{LockData, LockGuard};
use fastrand::Rng;

use crate::history::{Event, Left};
use crate::world::World;

/// What a hold has with its grant.
pub(crate) fn found(world: &World, guard: &LockGuard) {
    world.history.note(Event::Found {
        lock: guard.name().to_owned(),
        ticket: guard.ticket().get(),
        is_held: guard.is_held(),
        left: guard.data().map(|data| read(&data)),
    });
}

/// Leaves something once or twice. Lost, or not answered: whoever has the lock next finds the one or the other.
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

/// Which hold's write it is, said by the bytes and by the item.
fn read(data: &LockData) -> Left {
    let text = std::str::from_utf8(&data.bytes).unwrap();
    let (ticket, count) = text.split_once(' ').unwrap();
    let left: Left = (ticket.parse().unwrap(), count.parse().unwrap());
    assert_eq!(left.0, data.ticket.get());
    left
}
