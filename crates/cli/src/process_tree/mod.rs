//! All processes that a command has started and that still run, whichever process group or session they moved to.
//!
//! Their common ancestor finds them: it is a child subreaper (`PR_SET_CHILD_SUBREAPER`), so the kernel gives it the children of parents
//! that end. No process can leave its tree.

pub(crate) mod killing;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, kill_process, pidfd_open,
    pidfd_send_signal, wait,
};

use crate::failure::Failure;

/// A process. Its start time tells it from a later process with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pid: Pid,
    started: u64,
}

/// The fields of `/proc/PID/stat` that are of use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    parent: i32,
    group: i32,
    session: i32,
    threads: u64,
    started: u64,
}

impl Stat {
    /// Whether the process is dead. A process whose first thread has ended looks dead, but is alive while other threads of it run.
    fn is_dead(&self) -> bool {
        self.state == b'Z' && self.threads <= 1
    }
}

/// Tries everything by which this process finds, signals and reaps its descendants, on this process itself or on a child. A process that
/// lacks any of it could not end a command.
pub(crate) fn test_means(on: Pid) -> Result<(), Failure> {
    let fails = |what: &str, error: io::Error| {
        Failure::internal(format!(
            "cannot watch over a command, and asks for no lock: {what}: {error}"
        ))
    };
    let parent = if on == getpid() {
        getppid()
    } else {
        Some(getpid())
    };
    let tested = found(on.as_raw_pid()).and_then(|stat| match stat.parent {
        found if shows_own_namespace() && found == parent.map_or(0, Pid::as_raw_pid) => {
            Ok(stat.started)
        }
        _ => Err(foreign()),
    });
    let started = tested.map_err(|error| fails("processes cannot be found in /proc", error))?;
    // The signal has no effect on a process that runs.
    let sent = Member { pid: on, started }.signal(Signal::CONT);
    sent.map_err(|error| fails("processes cannot be signalled", error.into()))?;
    match wait(WaitOptions::NOHANG) {
        Ok(_) | Err(Errno::CHILD | Errno::INTR) => Ok(()),
        Err(error) => Err(fails("processes cannot be waited for", error.into())),
    }
}

/// This program, to be started once more.
pub(crate) const THIS_PROGRAM: &str = "/proc/self/exe";

/// Returns all descendants of this process that are not dead. Fails if it does not find its own process where it looks for others.
pub(crate) fn members() -> io::Result<Vec<Member>> {
    let all = processes()?;
    let mut found = vec![getpid().as_raw_pid()];
    let mut members = Vec::new();
    // The loop ends because each iteration adds the children of one more process, and a process has one parent.
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = all.iter().filter(|(_, stat)| stat.parent == parent);
        for (pid, stat) in children {
            found.push(*pid);
            if !stat.is_dead() {
                members.extend(member(*pid, stat));
            }
        }
    }
    Ok(members)
}

/// Signals that ask a process to end, and that are passed on to the command.
pub(crate) const ENDING: [Signal; 2] = [Signal::TERM, Signal::HUP];

/// Whether a process is stopped, and has a pending signal that asks it to end.
pub(crate) fn is_to_end(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid()));
    let status = status.unwrap_or_default();
    is_stopped(pid.as_raw_pid())
        && pending(&status).any(|number| ENDING.iter().any(|signal| signal.as_raw() == number))
}

/// The signals that are pending for the process as a whole.
fn pending(status: &str) -> impl Iterator<Item = i32> {
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let mask = mask.unwrap_or_default();
    (1..=64).filter(move |number| mask & 1 << (number - 1) != 0)
}

/// Whether the process is a descendant of this one.
pub(crate) fn is_member(pid: i32) -> bool {
    let mut members = members().into_iter().flatten();
    members.any(|member| member.pid.as_raw_pid() == pid)
}

/// Signals all descendants that can be found and signalled.
pub(crate) fn signal(signal: Signal) {
    for member in members().into_iter().flatten() {
        let _ = member.signal(signal);
    }
}

/// Signals a child that this process alone reaps, and has not: its number is its own until then.
pub(crate) fn signal_child(child: Pid, signal: Signal) -> Result<(), Errno> {
    match kill_process(child, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(_) => pidfd_open(child, PidfdFlags::empty())
            .and_then(|handle| pidfd_send_signal(&handle, signal)),
    }
}

/// Whether this process has any descendant at all. Reading `/proc` may miss one while another takes its place: the children of a process
/// that ends become children of this one at once. Reaps the children that have ended.
pub(crate) fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return false,
            // An error says nothing of children.
            Ok(None) | Err(_) => return true,
        }
    }
}

/// Whether a shell with job control watches this process's group: some process in the group has a parent in another group of the same
/// session. The kernel calls a group without such a parent orphaned, and the terminal's stop signals do not stop it.
pub(crate) fn has_job_control() -> bool {
    let all = processes().unwrap_or_default();
    let Some(own) = all.get(&getpid().as_raw_pid()) else {
        return false;
    };
    let mut group = all.values().filter(|stat| stat.group == own.group);
    group.any(|stat| {
        let parent = all.get(&stat.parent);
        parent.is_some_and(|parent| parent.session == own.session && parent.group != own.group)
    })
}

/// The process group of this process, or 0 if that is one of another PID namespace, which has no number here.
pub(crate) fn own_group() -> i32 {
    stat(getpid().as_raw_pid()).map_or(0, |stat| stat.group)
}

/// Whether a process is stopped, as by SIGSTOP.
pub(crate) fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == b'T')
}

/// This process.
fn own() -> Option<Member> {
    let pid = getpid().as_raw_pid();
    member(pid, &stat(pid)?)
}

impl Member {
    /// Returns its children that are not dead, as far as the kernel lists them.
    fn children(&self) -> Vec<Member> {
        let parent = self.pid.as_raw_pid();
        let mut children = Vec::new();
        let threads = fs::read_dir(format!("/proc/{parent}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            children.extend(list.split_whitespace().filter_map(|pid| {
                let pid = pid.parse().ok()?;
                let stat = stat(pid).filter(|stat| stat.parent == parent && !stat.is_dead())?;
                member(pid, &stat)
            }));
        }
        // If it has ended, another process may have its number.
        let is_same = stat(parent).is_some_and(|stat| stat.started == self.started);
        children.retain(|_| is_same);
        children
    }

    /// Signals through a handle on the process, because another process may have its number by now. A sandbox may refuse handles. Then the
    /// start time, which is read just before, tells that the number is still its own.
    fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let handle = pidfd_open(self.pid, PidfdFlags::empty());
        let now = stat(self.pid.as_raw_pid());
        let is_same = now.is_some_and(|stat| stat.started == self.started);
        if !is_same || matches!(handle, Err(Errno::SRCH)) {
            return Ok(());
        }
        let sent = match handle.and_then(|handle| pidfd_send_signal(&handle, signal)) {
            Ok(()) | Err(Errno::SRCH) => return Ok(()),
            Err(_) => kill_process(self.pid, signal),
        };
        sent.or_else(|error| match error {
            Errno::SRCH => Ok(()),
            error => Err(error),
        })
    }
}

fn member(pid: i32, stat: &Stat) -> Option<Member> {
    let started = stat.started;
    Pid::from_raw(pid).map(|pid| Member { pid, started })
}

/// All processes that can be seen. Fails if this one is not among them.
fn processes() -> io::Result<BTreeMap<i32, Stat>> {
    let stats = pids()?
        .into_iter()
        .filter_map(|pid| Some((pid, stat(pid)?)));
    let seen: BTreeMap<_, _> = stats.collect();
    let own = getpid().as_raw_pid();
    match seen.contains_key(&own) {
        true => Ok(seen),
        false => Err(found(own).map_or_else(|error| error, |_| foreign())),
    }
}

fn pids() -> io::Result<Vec<i32>> {
    let names = fs::read_dir("/proc")?.map(|entry| entry.map(|entry| entry.file_name()));
    let names: Vec<_> = names.collect::<io::Result<_>>()?;
    let number = |name: &OsString| name.to_str()?.parse().ok();
    Ok(names.iter().filter_map(number).collect())
}

/// Finds one process as `processes` finds them.
fn found(pid: i32) -> io::Result<Stat> {
    let is_listed = pids()?.contains(&pid);
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    parse(&text).filter(|_| is_listed).ok_or_else(foreign)
}

/// Whether `/proc` is that of this process's PID namespace. Elsewhere a process has a number in each namespace from that of `/proc` on.
fn shows_own_namespace() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_none_or(|numbers| numbers.split_whitespace().count() == 1)
}

fn foreign() -> io::Error {
    io::Error::other("it shows the processes of another PID namespace, or none")
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/PID/stat`. The name, in parentheses, may contain any characters, also parentheses. The fields after it are numbers.
fn parse(text: &[u8]) -> Option<Stat> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 2..)?).ok()?;
    let fields: Vec<_> = rest.split(' ').collect();
    Some(Stat {
        state: *fields.first()?.as_bytes().first()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_hides_nothing() {
        let line = b"42 (a) R 1 (b) T 7 42 41 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0";
        let (state, parent, group, session, threads, started) = (b'T', 7, 42, 41, 1, 99);
        assert_eq!(
            parse(line),
            Some(Stat {
                state,
                parent,
                group,
                session,
                threads,
                started
            })
        );
        assert_eq!(parse(b"42 (a"), None);
        assert_eq!(parse(b""), None);
    }
}
