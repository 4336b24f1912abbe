//! What happened in one run, in the order in which it happened.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::applied::Applied;
use crate::bounds::Bounds;
use crate::doom::Remains;
use crate::exchange::Exchange;

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A call was made.
    Asked(Asked),
    /// The call with this number stopped waiting without a grant.
    Gone(usize),
    /// A caller was given a guard, and believes in its hold.
    Granted(Granted),
    /// The hold keeps this many permits, and frees the others.
    Keeps(usize, u64),
    /// The release of the hold has succeeded.
    Released(usize),
    /// An operator asks to break a place.
    Broken(Break),
    /// The place was not as it was seen, or gone: the break with this reason has changed nothing.
    Spared(String),
    /// A holder was told that its hold was broken.
    ToldBroken {
        lock: String,
        ticket: u64,
        reason: String,
    },
    /// An operator asks for another number of permits.
    Resizes {
        lock: String,
        permits: u64,
    },
    /// An operator deletes the lock if it is idle, from the first of two such events to the second.
    MayBeDeleted(String),
    /// An operator asks the holders to give way, with a reason that no other request has.
    AsksToYield {
        lock: String,
        reason: String,
    },
    /// A holder was told that it is to give way.
    ToldToYield {
        lock: String,
        reason: String,
    },
    /// Another host gives up the place of a dead host. The place is named by its newest ticket.
    GivenUp {
        host: usize,
        lock: String,
        ticket: u64,
    },
    /// The holder stops believing in its hold.
    Ended(usize, End),
    /// The holder wrote to what the lock protects, with its ticket as token.
    Wrote {
        hold: usize,
        lock: String,
        token: u64,
        accepted: bool,
    },
    /// A hold found this data with its grant, or with its last renewal. `left` names the write of a hold that left the data.
    Found {
        lock: String,
        ticket: u64,
        /// The finder still believes in its hold, so no later holder has written since.
        is_held: bool,
        left: Option<Left>,
    },
    /// A hold is about to leave this data on the lock. With `LeftThere`, the data is there.
    Leaving {
        lock: String,
        left: Left,
    },
    LeftThere {
        lock: String,
        left: Left,
    },
    Exchanged(Box<Exchange>),
    /// The server applied this write.
    Applied(Box<Applied>),
    Mischief(String),
    /// A caller got a result that it must never get, or a task panicked.
    Surprise(String),
    /// A waiter still waited when the bound had passed.
    Stuck(String),
    /// What the table contained when it should have contained less.
    Left(String),
    /// What was left of a lock when all hosts died.
    Remains(Remains),
    /// No caller that does not wait was granted the lock within the bound after that.
    Barred(String),
}

impl Event {
    /// The promise that a run itself has found broken, and how.
    pub(crate) fn violation(&self) -> Option<(&'static str, &str)> {
        match self {
            Event::Stuck(what) => Some(("progress", what)),
            Event::Left(what) => Some(("nothing left", what)),
            Event::Barred(what) => Some(("past the dead", what)),
            Event::Surprise(what) => Some(("no surprise", what)),
            _ => None,
        }
    }
}

/// The ticket of a hold, and the number of its write.
pub(crate) type Left = (u64, u64);

/// A call. Its number follows the order in which the calls were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) call: usize,
    pub(crate) host: usize,
    pub(crate) lock: String,
    /// The call wants the lock exclusively, and may join a batch.
    pub(crate) is_alone: bool,
    /// The call waits until then, or for ever.
    pub(crate) until: Option<Duration>,
    /// The call returns by then, whatever happens.
    pub(crate) ends: Option<Duration>,
}

/// A hold, and how its caller bounds it.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) hold: usize,
    pub(crate) call: usize,
    pub(crate) host: usize,
    pub(crate) lock: String,
    pub(crate) ticket: u64,
    /// The newest ticket of its place, by which others name it: several calls of a client may share one.
    pub(crate) place: u64,
    pub(crate) share: Share,
    pub(crate) bounds: Bounds,
}

/// A place to be broken, with the tickets from the first to the last. No other break has the reason.
#[derive(Clone, Debug)]
pub(crate) struct Break {
    pub(crate) lock: String,
    /// The host of the place, if its owner's name tells it.
    pub(crate) host: Option<usize>,
    pub(crate) tickets: (u64, u64),
    pub(crate) reason: String,
}

/// Some of a lock's permits.
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

    /// Records a write. If the server answers a transaction again without applying it again, only the first answer counts.
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

/// The turns, and the faults of whole hosts, for people. With `FAIRLOCK_SIM_TICKET=N`, all that was sent for that ticket or shows it.
pub(crate) fn story(events: &[(Duration, Event)]) -> String {
    if let Ok(ticket) = std::env::var("FAIRLOCK_SIM_TICKET") {
        let told = events
            .iter()
            .map(|(at, event)| format!("{at:?}: {event:?}\n"));
        return told.filter(|line| line.contains(&ticket)).collect();
    }
    let queues = events.iter().filter_map(|(at, event)| match event {
        Event::Mischief(what) => Some(format!("{at:?}: {what}\n")),
        Event::Granted(_)
        | Event::Broken(_)
        | Event::Spared(_)
        | Event::Resizes { .. }
        | Event::MayBeDeleted(_) => Some(format!("{at:?}: {event:?}\n")),
        _ => None,
    });
    queues.collect()
}

/// Returns a number for a whole history (FNV-1a), the same wherever it is computed.
pub(crate) fn digest(events: &[(Duration, Event)]) -> u64 {
    let texts = events.iter().map(|event| format!("{event:?}\n"));
    texts.fold(0xcbf2_9ce4_8422_2325, |hash, text| {
        text.bytes().fold(hash, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    })
}
