//! What must hold in every state, and what must happen in some.

use stateright::Property;

use super::client::{Client, Task};
use super::request::Request;
use super::rules::Rules;
use super::table::{Entry, Item, Row};
use super::world::{Broken, Setup, World};

pub(crate) const EXCLUSION: &str =
    "those who believe they hold have no more permits than there are";
pub(crate) const HOLDER: &str = "who believes it holds does in the table";
pub(crate) const STAYS: &str = "an entry that holds the lock holds it until it goes";
pub(crate) const NO_MORE: &str =
    "no entry is let in beside others to more permits than there are by now";
pub(crate) const TOKENS: &str = "grants are in ticket order";
pub(crate) const COUNTERS: &str = "last and watermark only grow";
pub(crate) const NOT_OVERTAKEN: &str = "no timely waiter is passed over";
pub(crate) const SLOTS: &str = "no slot is left by somebody alive who went";
pub(crate) const QUEUE_ORDER: &str =
    "slots are in ticket order, successors behind those who hold, no more than there are";
pub(crate) const TAKEN: &str =
    "what is counted as left is left, and no more is taken than there is";
pub(crate) const ROOM: &str = "a slot is refused only for want of one";
pub(crate) const AT_ONCE: &str = "who does not wait has no slot behind others";
pub(crate) const ONCE: &str = "nobody has two places";
pub(crate) const DONE: &str = "all done";

pub(crate) fn all() -> Vec<Property<Setup>> {
    let always = Property::<Setup>::always;
    vec![
        always(EXCLUSION, excludes),
        always(HOLDER, who_believes_holds),
        always(STAYS, |_, it| it.broken != Some(Broken::HolderWaitsAgain)),
        always(NO_MORE, |_, it| it.broken != Some(Broken::MoreThanThereAre)),
        always(TOKENS, |_, it| it.broken != Some(Broken::TokenWentBack)),
        always(COUNTERS, |_, it| it.broken != Some(Broken::CounterWentBack)),
        always(NOT_OVERTAKEN, |_, world| {
            let mut clients = world.clients.iter();
            clients.all(|client| !is_passed_over(world, client))
        }),
        always(SLOTS, |_, world| {
            let mut places = world.table.item.iter().flat_map(Item::places);
            places.all(|entry| !is_left(world, entry))
        }),
        always(QUEUE_ORDER, |setup, world| {
            let mut queue = world.table.item.iter();
            queue.all(|item| is_in_order(item, &setup.rules))
        }),
        always(TAKEN, |setup, world| {
            let mut item = world.table.item.iter();
            item.all(|item| is_counted(item, &setup.rules))
        }),
        always(ROOM, |setup, world| {
            let mut clients = world.clients.iter();
            clients.all(|client| !is_refused_a_slot(client, setup.rules.slots))
        }),
        always(AT_ONCE, |setup, world| {
            let item = world.table.item.iter();
            let mut successors = item.flat_map(|item| item.successors(&setup.rules));
            successors.all(|successor| setup.roles[successor.nonce.process()].waits())
        }),
        always(ONCE, |_, world| {
            world.table.item.iter().all(has_everybody_once)
        }),
        Property::<Setup>::sometimes(DONE, |_, world| is_done(world)),
    ]
}

pub(crate) fn is_done(world: &World) -> bool {
    world.clients.iter().all(Client::is_gone)
}

/// Whether the clients that believe they hold have no more permits than there ever are, and a client that has the whole lock is alone.
fn excludes(setup: &Setup, world: &World) -> bool {
    let believers = world.clients.iter().filter(|client| client.believes());
    let has: Vec<_> = believers.map(|client| client.has).collect();
    let is_whole = has.iter().any(|has| *has >= setup.rules.permits);
    has.iter().sum::<u8>() <= setup.most_permits() && (!is_whole || has.len() == 1)
}

fn who_believes_holds(setup: &Setup, world: &World) -> bool {
    let mut believers = world.clients.iter().filter(|client| client.believes());
    believers.all(|client| {
        let item = world.table.item;
        let hold = client
            .nonce
            .and_then(|nonce| item?.hold(nonce, &setup.rules));
        hold.is_some_and(|at| Some(at.ticket) == client.ticket)
    })
}

/// Whether a client is in time, and yet out of the queue: every ticket up to the watermark is settled or has a slot, and the client's is
/// neither.
fn is_passed_over(world: &World, client: &Client) -> bool {
    if !client.counts_on_its_turn() {
        return false;
    }
    let item = world.table.item;
    if item.is_some_and(|item| item.places().any(|at| client.is(at))) {
        return false;
    }
    let in_queue = |ticket: u8| {
        let ahead = item.is_some_and(|item| item.watermark < ticket);
        ahead && !matches!(world.table.row(ticket), Some(Row::Void(_)))
    };
    is_placed(client) || client.drawn().is_some_and(|ticket| !in_queue(ticket))
}

/// Whether the client has a place on the lock item by an answer that has yet to arrive.
fn is_placed(client: &Client) -> bool {
    match client.task {
        Task::Answered(request, answer) => request.takes_a_place() && answer.applied,
        _ => false,
    }
}

/// Whether the client was refused a slot though no client waited for one, and there was one.
fn is_refused_a_slot(client: &Client, slots: usize) -> bool {
    let Task::Answered(Request::Enter { who, waits: true }, answer) = client.task else {
        return false;
    };
    let item = answer.shown.item().filter(|_| !answer.applied);
    item.is_some_and(|item| {
        let is_new = item.places().all(|at| at.nonce != who.nonce);
        is_new && item.last == item.watermark && item.slots.len() <= slots
    })
}

fn has_everybody_once(item: &Item) -> bool {
    let mut nonces: Vec<_> = item.places().map(|at| at.nonce).collect();
    let all = nonces.len();
    nonces.sort_unstable();
    nonces.dedup();
    nonces.len() == all
}

fn is_left(world: &World, entry: Entry) -> bool {
    let owner = &world.clients[entry.nonce.process()];
    !entry.stray && owner.task != Task::Crashed && owner.nonce != Some(entry.nonce)
}

fn is_in_order(item: &Item, rules: &Rules) -> bool {
    let newest = item.holders(rules).map(|at| at.ticket).max();
    let successors = item.successors(rules).map(|at| at.ticket);
    let tickets: Vec<_> = newest.into_iter().chain(successors).collect();
    let slots = item.slots.iter().map(|at| at.ticket);
    let covered = item.places().all(|at| at.ticket <= item.watermark);
    let room = item.slots.len() <= rules.slots + 1;
    let sorted = tickets.is_sorted_by(|a, b| a < b) && slots.is_sorted_by(|a, b| a < b);
    sorted && room && covered && item.watermark <= item.last
}

fn is_counted(item: &Item, rules: &Rules) -> bool {
    let shared = item.sharers.iter().map(|at| at.share).sum::<u8>();
    let taken = item.holders(rules).map(|at| at.share).sum::<u8>();
    let there_are = item.there_are(rules);
    // A holder keeps its permits, however few there are by now.
    let is_enough = taken <= there_are || item.resizes > 0;
    shared as i8 + item.room == there_are as i8 && is_enough
}
