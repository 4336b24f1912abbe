//! The end of all descendants of this process: tried until none is left, and told while that does not succeed.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;

use super::{Member, members, own};
use crate::failure::say;
use crate::ipc::now;

/// The first pause between two attempts, and the longest. Each is twice as long as the one before, unless that found a process which none
/// before it had found: something still starts others.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long processes that were killed may take to die before that is told.
const DYING_TAKES: Duration = Duration::from_millis(500);
/// How often it is told again.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// Attempts to kill all descendants.
pub(crate) struct Killing {
    program: String,
    since: Duration,
    next: Duration,
    pause: Duration,
    /// When a message is due.
    tell: Duration,
    /// All that was found so far.
    found: Vec<Member>,
    /// Why the newest attempt was not the last.
    trouble: String,
}

impl Killing {
    /// The first attempt is due at once.
    pub(crate) fn of(program: String) -> Killing {
        let now = now();
        Killing {
            program,
            since: now,
            next: now,
            pause: FIRST_PAUSE,
            tell: now + DYING_TAKES,
            found: Vec::new(),
            trouble: String::new(),
        }
    }

    /// Attempts it if an attempt is due, and says what is left if that is due.
    pub(crate) fn go_on(&mut self) {
        if now() < self.next {
            return;
        }
        let known = self.found.len();
        self.trouble = self.kill();
        if now() >= self.tell {
            let Killing {
                program, trouble, ..
            } = self;
            say(&format!(
                "`{program}` still runs, and others may have its lock: {trouble}; goes on trying"
            ));
            self.tell = now() + TELL_INTERVAL;
        }
        if self.found.len() > known {
            self.pause = FIRST_PAUSE;
        }
        self.next = now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// How long to wait for the next attempt.
    pub(crate) fn until_next(&self) -> Duration {
        self.next.saturating_sub(now())
    }

    /// Whether killed processes would have died by now.
    pub(crate) fn is_stuck(&self) -> bool {
        now() >= self.since + DYING_TAKES
    }

    /// Why the newest attempt was not the last.
    pub(crate) fn trouble(&self) -> &str {
        &self.trouble
    }

    /// Kills all descendants that can be found and signalled, and notes them. They are stopped first, because a stopped process starts no
    /// others. Returns what may be left, and why.
    fn kill(&mut self) -> String {
        let (stopped, blind) = stop();
        let refused = |member: &Member| {
            let error = member.signal(Signal::KILL).err()?;
            Some((member.pid.as_raw_pid(), error))
        };
        let refused: BTreeMap<_, _> = stopped.iter().filter_map(refused).collect();
        let trouble = match (blind, refused.first_key_value()) {
            (Some(error), _) => format!("its processes cannot be found in /proc: {error}"),
            (None, Some((_, error))) => {
                let pids: Vec<_> = refused.keys().map(ToString::to_string).collect();
                format!("cannot end process {}: {error}", pids.join(", "))
            }
            (None, None) if stopped.is_empty() => {
                "a process of it is not dead yet, or /proc does not show it".into()
            }
            (None, None) => format!("{} killed processes are not dead", stopped.len()),
        };
        for member in stopped {
            note(member, &mut self.found);
        }
        trouble
    }
}

/// Stops all descendants that can be found and signalled, from the top of the tree down, until a round finds no new process. A process that
/// lives for a millisecond has ended before a search of all processes comes to it. So that follows only where the tree shows nothing new. Also
/// returns why a search failed.
fn stop() -> (Vec<Member>, Option<std::io::Error>) {
    let mut stopped: Vec<Member> = Vec::new();
    let mut blind = None;
    loop {
        let mut new = stop_tree(&mut stopped);
        if !new {
            let members = members().unwrap_or_else(|error| {
                blind = Some(error);
                Vec::new()
            });
            for member in members {
                new |= stop_one(member, &mut stopped);
            }
        }
        if !new {
            return (stopped, blind);
        }
    }
}

/// Stops what the kernel lists as children of this process, and theirs. Returns whether any was not known.
fn stop_tree(stopped: &mut Vec<Member>) -> bool {
    let mut parents: Vec<_> = own().into_iter().collect();
    let mut new = false;
    while let Some(parent) = parents.pop() {
        for child in parent.children() {
            new |= stop_one(child, stopped);
            parents.push(child);
        }
    }
    new
}

fn stop_one(member: Member, stopped: &mut Vec<Member>) -> bool {
    let new = note(member, stopped);
    if new {
        // The kill tells if it cannot be signalled.
        let _ = member.signal(Signal::STOP);
    }
    new
}

/// Returns whether it was not known.
fn note(member: Member, known: &mut Vec<Member>) -> bool {
    let new = !known.contains(&member);
    if new {
        known.push(member);
    }
    new
}
