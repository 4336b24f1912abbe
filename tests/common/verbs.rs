//! Which step of the protocol a request is, read off its expressions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::embedded::{Fault, Network, Request};

/// What a verb's request has in it that no other verb's has; those of its operation alone come last.
const MARKS: [(&str, &str); 24] = [
    ("date", ".#renewed_at)"),
    ("enter", "if_not_exists(#last, :start)"),
    ("enter over", "#entered = :ticket"),
    ("share", "#taken = #taken + :share, #sharers"),
    ("admit", "#taken = #taken + :share, #expires_at"),
    ("downgrade", "#taken = #taken - :freed"),
    ("sit", "#last = :before"),
    ("draw", "#last = #last + :tickets"),
    ("settle", "#seated = :upto, #expires_at"),
    ("seat", "#seated = :upto"),
    ("renew hold", "#beat = :beat, #holder"),
    ("renew share", "#beat = :beat, #sharers"),
    ("renew seat", "#beat = :beat, #heirs["),
    ("extend", "#holder.#beat + :one"),
    ("renew row", "#beat = :beat, #entry"),
    ("leave", "#left = #left + :one"),
    ("void dead", "#entry.#beat = :beat"),
    ("void own", "attribute_not_exists(#pk) OR"),
    ("write data", "#written = :written"),
    ("pass on", ".#tickets = :left"),
    ("evict", "#beat = :beat AND"),
    ("release", ".#permits = :share AND"),
    ("unseat", "].#beat = :beat"),
    ("give up", "REMOVE #heirs["),
];

// Every suite is offered both, and need not use both.
const _: () = {
    let _ = (verb, meets);
};

pub(crate) fn verb(request: &Request) -> &'static str {
    let body = request.body().to_string();
    let marked = MARKS
        .into_iter()
        .find(|(_, mark)| body.contains(mark))
        .map(|(verb, _)| verb);
    marked.unwrap_or(match request.operation() {
        "PutItem" if request.mentions("waiting") => "join",
        "PutItem" => "void gap",
        "GetItem" => "read lock",
        "Query" => "read line",
        "BatchWriteItem" => "clean",
        "DeleteItem" => "remove row",
        _ => "other",
    })
}

/// From now on the first `times` requests of a verb meet a fault; all others pass.
pub(crate) fn meets(
    network: &Network,
    what: &'static str,
    times: usize,
    fault: Fault,
) -> Arc<AtomicUsize> {
    let met = Arc::new(AtomicUsize::new(0));
    let count = met.clone();
    let _ = network.clone().script(move |request| {
        let hit = verb(request) == what && count.load(Ordering::SeqCst) < times;
        hit.then(|| {
            count.fetch_add(1, Ordering::SeqCst);
            fault.clone()
        })
    });
    met
}
