//! What happened in one run, in the order in which it happened.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::applied::Applied;
use crate::doom::Remains;
use crate::exchange::Exchange;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A call was made, which waits until then, or for ever.
    Asked {
        call: usize,
        host: usize,
        lock: String,
        /// It wants the lock alone.
        is_alone: bool,
        until: Option<Duration>,
        /// It returns by then, whatever happens.
        ends: Option<Duration>,
    },
    /// It waits no more, and was not granted.
    Gone {
        call: usize,
    },
    /// A caller was given a guard, and believes.
    Granted {
        hold: usize,
        call: usize,
        host: usize,
        lock: String,
        ticket: u64,
        share: Share,
    },
    /// It keeps one permit, and frees the others.
    Downgraded {
        hold: usize,
    },
    /// Another host gives up the place of one that is dead, by the newest of its tickets.
    GivenUp {
        host: usize,
        lock: String,
        ticket: u64,
    },
    /// It believes no more.
    Ended {
        hold: usize,
        how: End,
    },
    /// It wrote to what the lock protects, with its ticket as token.
    Wrote {
        hold: usize,
        lock: String,
        token: u64,
        accepted: bool,
    },
    /// A hold has with its grant, or its last renewal, what this write of a hold left on the lock.
    Found {
        lock: String,
        ticket: u64,
        /// It believes in the hold: nobody else has written since.
        is_held: bool,
        left: Option<Left>,
    },
    /// A hold is about to leave that on the lock; and it is there.
    Leaving {
        lock: String,
        left: Left,
    },
    LeftThere {
        lock: String,
        left: Left,
    },
    Exchanged(Box<Exchange>),
    /// The server did that.
    Applied(Box<Applied>),
    Mischief(String),
    /// A caller was told what it never should be, or a task panicked.
    Surprise(String),
    /// Somebody still waited when the bound was over.
    Stuck(String),
    /// What the table had when it should have had less.
    Left(String),
    /// What was there of a lock when all died.
    Remains(Remains),
    /// Nobody who does not wait was let in after that.
    Barred(String),
}

/// The ticket of a hold, and which of its writes.
pub(crate) type Left = (u64, u64);

/// So many of a lock's permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) permits: u64,
    pub(crate) of: u64,
}

impl Share {
    pub(crate) fn is_alone(self) -> bool {
        self.permits == self.of
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    GivenBack,
    Lost,
    Crashed,
}

#[derive(Debug)]
pub(crate) struct History {
    started: Instant,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<(Duration, Event)>,
    holds: usize,
    calls: usize,
    transactions: usize,
    applied: BTreeSet<String>,
}

impl History {
    pub(crate) fn new() -> History {
        History {
            started: Instant::now(),
            log: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn note(&self, event: Event) {
        let now = self.now();
        self.log.lock().unwrap().events.push((now, event));
    }

    /// Of a transaction that the server answers again, without applying it again, only the first.
    pub(crate) fn note_applied(&self, applied: Applied) {
        let name = applied.transaction.clone();
        let is_new = name.is_none_or(|name| self.log.lock().unwrap().applied.insert(name));
        if is_new {
            self.note(Event::Applied(Box::new(applied)));
        }
    }

    pub(crate) fn next_hold(&self) -> usize {
        let mut log = self.log.lock().unwrap();
        log.holds += 1;
        log.holds
    }

    pub(crate) fn next_call(&self) -> usize {
        let mut log = self.log.lock().unwrap();
        log.calls += 1;
        log.calls
    }

    pub(crate) fn next_transaction(&self) -> String {
        let mut log = self.log.lock().unwrap();
        log.transactions += 1;
        log.transactions.to_string()
    }

    pub(crate) fn take(&self) -> Vec<(Duration, Event)> {
        std::mem::take(&mut self.log.lock().unwrap().events)
    }
}

/// The turns, and what befell whole hosts, for people.
pub(crate) fn story(events: &[(Duration, Event)]) -> String {
    let queues = events.iter().filter_map(|(at, event)| match event {
        Event::Granted {
            host, lock, ticket, ..
        } => Some(format!("{at:?}: host {host} has {lock} with {ticket}\n")),
        Event::Mischief(what) => Some(format!("{at:?}: {what}\n")),
        _ => None,
    });
    queues.collect()
}

/// One number for a whole history (FNV-1a), the same wherever it is computed.
pub(crate) fn digest(events: &[(Duration, Event)]) -> u64 {
    let texts = events.iter().map(|event| format!("{event:?}\n"));
    texts.fold(0xcbf2_9ce4_8422_2325, |hash, text| {
        text.bytes().fold(hash, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    })
}
