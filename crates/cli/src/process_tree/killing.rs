//! The end of all descendants of this process: tried until none is left, and told while that does not succeed.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::process::Signal;

use super::{Member, members};
use crate::failure::say;
use crate::ipc::now;

/// The first pause between two attempts, and the longest. Each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
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
            trouble: String::new(),
        }
    }

    /// Attempts it if an attempt is due, and says what is left if that is due.
    pub(crate) fn go_on(&mut self) {
        if now() < self.next {
            return;
        }
        self.trouble = kill();
        if now() >= self.tell {
            let Killing {
                program, trouble, ..
            } = self;
            say(&format!(
                "`{program}` still runs, and others may have its lock: {trouble}; goes on trying"
            ));
            self.tell = now() + TELL_INTERVAL;
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
}

/// Kills all descendants that can be found and signalled. They are stopped first, because a stopped process starts no others. The next
/// round finds what it started before. The rounds end when one finds no new process. Returns what may be left, and why.
fn kill() -> String {
    let mut stopped: Vec<Member> = Vec::new();
    let mut blind = None;
    loop {
        let members = members().unwrap_or_else(|error| {
            blind = Some(error);
            Vec::new()
        });
        let new: Vec<_> = members
            .into_iter()
            .filter(|member| !stopped.contains(member))
            .collect();
        if new.is_empty() {
            break;
        }
        for member in &new {
            // The kill tells if it cannot be signalled.
            let _ = member.signal(Signal::STOP);
        }
        stopped.extend(new);
    }
    let kill =
        |member: &Member| Some((member.pid.as_raw_pid(), member.signal(Signal::KILL).err()?));
    let refused: BTreeMap<_, _> = stopped.iter().filter_map(kill).collect();
    match (blind, refused.first_key_value()) {
        (Some(error), _) => format!("its processes cannot be found in /proc: {error}"),
        (None, Some((_, error))) => {
            let pids: Vec<_> = refused.keys().map(ToString::to_string).collect();
            format!("cannot end process {}: {error}", pids.join(", "))
        }
        (None, None) if stopped.is_empty() => {
            "a process of it is not dead yet, or /proc does not show it".into()
        }
        (None, None) => format!("{} killed processes are not dead", stopped.len()),
    }
}
