//! Signals that this process receives: which of them it ignored at its start, and who sent them.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{getgid, getpid};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::flag;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::{Signals, SignalsInfo};
use signal_hook::low_level::siginfo::Cause;
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::ipc::now;

/// A signal that was sent to `fairlock run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    pub(crate) number: i32,
    /// The process that sent the signal. `None` means the kernel, which sends the terminal's keys and hang-up to the whole process group.
    pub(crate) sender: Option<i32>,
    /// When it was caught.
    pub(crate) at: Duration,
}

impl Caught {
    /// Whether the terminal sent it, for a key.
    pub(crate) fn is_key(self, number: i32) -> bool {
        self.number == number && self.sender.is_none()
    }

    /// Whether it asks a program to end.
    pub(crate) fn is_ending(self) -> bool {
        ENDINGS.contains(&self.number)
    }

    /// Whether this process has reached a limit of its own. The command has such limits too, and they count what it does itself.
    fn is_of_own_limit(self) -> bool {
        let is_own = self.sender.is_none_or(|it| it == getpid().as_raw_pid());
        is_own && matches!(self.number, SIGXCPU | SIGXFSZ)
    }

    /// Whether the command, in the same group, has received it too.
    pub(crate) fn is_everybodys(self) -> bool {
        self.sender.is_none() && TO_GROUPS.contains(&self.number)
    }
}

/// Signals that are passed on to the command. SIGTSTP is among them: this process stops only when the command does, and the command may
/// handle the signal in another way.
const PASSED: [i32; 15] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH, SIGTSTP, SIGALRM,
    SIGVTALRM, SIGPROF, SIGIO, SIGXCPU, SIGXFSZ,
];

/// The signals of `PASSED` that the kernel sends to a whole group. It sends any other signal to one process, which is this one.
const TO_GROUPS: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGCONT, SIGWINCH, SIGTSTP];

/// What a supervisor shrugs off beside the signals of `PASSED`: they would end or stop it, and only its one task may do that.
const OF_TERMINALS: [i32; 2] = [SIGTTIN, SIGTTOU];

/// Catches the signals that are passed on. A signal that this process was started to ignore stays ignored, for the command too.
pub(crate) fn catch() -> Result<mpsc::UnboundedReceiver<Caught>, Failure> {
    let failed = |error| Failure::internal(format!("cannot catch signals: {error}"));
    let mut signals = SignalsInfo::<WithOrigin>::new(unignored(&PASSED)).map_err(failed)?;
    let (tell, told) = mpsc::unbounded_channel();
    let deaf = Deaf::default();
    for number in unignored(&ENDINGS) {
        let ends = flag::register_conditional_default(number, Arc::clone(&deaf.0));
        ends.map_err(failed)?;
    }
    let catch = move || {
        let _deaf = deaf;
        for origin in signals.forever() {
            let caught = Caught {
                number: origin.signal,
                sender: match origin.cause {
                    Cause::Kernel => None,
                    // A signal without a sender's number counts as coming from no descendant.
                    _ => Some(origin.process.map_or(0, |process| process.pid)),
                },
                at: now(),
            };
            if !caught.is_of_own_limit() && tell.send(caught).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(catch).map_err(failed)?;
    Ok(told)
}

/// Is set when the thread that catches signals panics. From then on those that ask this process to end do so at once.
#[derive(Default)]
struct Deaf(Arc<AtomicBool>);

impl Drop for Deaf {
    fn drop(&mut self) {
        self.0.store(std::thread::panicking(), Ordering::SeqCst);
    }
}

/// Signals that ask a program to end.
const ENDINGS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Receives the signals that ask this process to end.
pub(crate) fn endings() -> Result<mpsc::UnboundedReceiver<i32>, Failure> {
    let failed = |error| Failure::internal(format!("cannot catch signals: {error}"));
    let mut signals = Signals::new(unignored(&ENDINGS)).map_err(failed)?;
    let (tell, told) = mpsc::unbounded_channel();
    let listens = move || {
        for number in signals.forever() {
            if tell.send(number).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().spawn(listens);
    thread.map(|_| told).map_err(failed)
}

/// Lets the signals pass that would end or stop a supervisor.
pub(crate) fn shrug_off() -> Result<(), Failure> {
    without_effect(&PASSED)?;
    without_effect(&OF_TERMINALS)
}

/// Lets a write beyond the longest file that is allowed fail, as any other write may, in place of ending this process.
pub(crate) fn outlive_long_files() -> Result<(), Failure> {
    without_effect(&[SIGXFSZ])
}

/// Lets these signals pass without effect. They are caught and not ignored, so that a command that is started later does not inherit
/// ignored signals.
fn without_effect(signals: &[i32]) -> Result<(), Failure> {
    for number in unignored(signals) {
        let unread = Arc::new(AtomicBool::new(false));
        let caught = flag::register(number, unread);
        caught.map_err(|error| Failure::internal(format!("cannot catch signals: {error}")))?;
    }
    Ok(())
}

/// Starts the command without additional ignored signals. A program that is started by `fork` and `exec` ignores exactly what its parent
/// ignores. When the C library starts it in one step, it also ignores two signals of the library's own. Setting the group that the program
/// would have anyway forces the two steps.
pub(crate) fn ignoring_nothing_more(command: &mut Command) -> &mut Command {
    command.gid(getgid().as_raw())
}

fn unignored(signals: &[i32]) -> Vec<i32> {
    let ignored = ignored();
    let is_caught = |number: &i32| ignored >> (number - 1) & 1 == 0;
    signals.iter().copied().filter(is_caught).collect()
}

/// A bit mask of the signals that this process ignores.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
