//! Signals that this process gets: which of them it had been told to ignore, and who sent them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::getgid;
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use tokio::sync::mpsc;

use crate::failure::Failure;

/// A signal that was sent to `fairlock run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    pub(crate) number: i32,
    /// A process, or none: the kernel, which sends to the whole process group the terminal's keys, and its hang-up.
    pub(crate) sender: Option<i32>,
}

impl Caught {
    /// Whether the terminal sent it, for a key.
    pub(crate) fn is_key(self, number: i32) -> bool {
        self.number == number && self.sender.is_none()
    }

    /// Whether the command, in the same group, has it too.
    pub(crate) fn is_everybodys(self) -> bool {
        self.sender.is_none() && TO_GROUPS.contains(&self.number)
    }
}

/// Those that are passed on to the command. SIGTSTP among them: this process stops when the command does, which may
/// think otherwise about it.
const PASSED: [i32; 15] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH, SIGTSTP, SIGALRM,
    SIGVTALRM, SIGPROF, SIGIO, SIGXCPU, SIGXFSZ,
];

/// Those of them that the kernel sends to a whole group. Any other it sends to one process, which is this one here.
const TO_GROUPS: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGWINCH, SIGTSTP];

/// Those that would end or stop a supervisor, which only its one task may do.
const SHRUGGED_OFF: [i32; 9] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGTTIN, SIGTTOU,
];

/// Catches what is to be passed on. What this process was started to ignore stays ignored, for the command too.
pub(crate) fn catch() -> Result<mpsc::UnboundedReceiver<Caught>, Failure> {
    let failed = |error| Failure::internal(format!("cannot catch signals: {error}"));
    let mut signals = SignalsInfo::<WithOrigin>::new(unignored(&PASSED)).map_err(failed)?;
    let (tell, told) = mpsc::unbounded_channel();
    let catch = move || {
        for origin in signals.forever() {
            let caught = Caught {
                number: origin.signal,
                sender: match origin.cause {
                    Cause::Kernel => None,
                    // One that says nothing of itself is nobody's descendant.
                    _ => Some(origin.process.map_or(0, |process| process.pid)),
                },
            };
            if tell.send(caught).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(catch).map_err(failed)?;
    Ok(told)
}

/// Lets signals pass without effect. Caught, and not ignored: a command that is started later ignores nothing by that.
pub(crate) fn shrug_off() -> Result<(), Failure> {
    for number in unignored(&SHRUGGED_OFF) {
        let unread = Arc::new(AtomicBool::new(false));
        let caught = signal_hook::flag::register(number, unread);
        caught.map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    }
    Ok(())
}

/// A program that is started as `fork` and `exec` start it ignores what its parent does. What the C library starts in one step also
/// ignores two signals that are its own, and passes that on: so a program is given the group that it would have anyway, which takes
/// the two steps.
pub(crate) fn ignoring_nothing_more(command: &mut Command) -> &mut Command {
    command.gid(getgid().as_raw())
}

fn unignored(signals: &[i32]) -> Vec<i32> {
    let ignored = ignored();
    let is_caught = |number: &i32| ignored >> (number - 1) & 1 == 0;
    signals.iter().copied().filter(is_caught).collect()
}

/// A bit for each signal that this process ignores.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
