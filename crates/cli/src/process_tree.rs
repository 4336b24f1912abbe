//! All processes that a command has started and that still run, whichever process group or session they moved to.
//!
//! Their common ancestor finds them: it is a child subreaper (`PR_SET_CHILD_SUBREAPER`), so the kernel gives it the children of parents
//! that end. No process can leave its tree.

use std::collections::BTreeMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, wait,
};

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

/// Returns all descendants of this process that are not dead.
pub(crate) fn members() -> Vec<Member> {
    let all = processes();
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
    members
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
    let members = members();
    members.iter().any(|member| member.pid.as_raw_pid() == pid)
}

/// Signals all descendants. Returns whether there were any.
pub(crate) fn signal(signal: Signal) -> bool {
    let members = members();
    members.iter().for_each(|member| member.signal(signal));
    !members.is_empty()
}

/// Kills all descendants. Returns whether there were any. They are stopped first, because a stopped process starts no others. The next
/// round finds what it started before. The rounds end when one finds no new process.
pub(crate) fn kill() -> bool {
    let mut stopped = Vec::new();
    loop {
        let members = members();
        let new: Vec<_> = members
            .into_iter()
            .filter(|member| !stopped.contains(member))
            .collect();
        if new.is_empty() {
            break;
        }
        new.iter().for_each(|member| member.signal(Signal::STOP));
        stopped.extend(new);
    }
    stopped
        .iter()
        .for_each(|member| member.signal(Signal::KILL));
    !stopped.is_empty()
}

/// Whether this process has any descendant at all. Reading `/proc` may miss one while another takes its place: the children of a process
/// that ends become children of this one at once. Reaps the children that have ended.
pub(crate) fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Whether a shell with job control watches this process's group: some process in the group has a parent in another group of the same
/// session. The kernel calls a group without such a parent orphaned, and the terminal's stop signals do not stop it.
pub(crate) fn has_job_control() -> bool {
    let all = processes();
    let Some(own) = all.get(&getpid().as_raw_pid()) else {
        return false;
    };
    let mut group = all.values().filter(|stat| stat.group == own.group);
    group.any(|stat| {
        let parent = all.get(&stat.parent);
        parent.is_some_and(|parent| parent.session == own.session && parent.group != own.group)
    })
}

/// Whether a process is stopped, as by SIGSTOP.
pub(crate) fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == b'T')
}

impl Member {
    /// Signals through a handle on the process, because another process may have its number by now.
    fn signal(&self, signal: Signal) {
        let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty()) else {
            return;
        };
        let now = stat(self.pid.as_raw_pid());
        if now.is_some_and(|stat| stat.started == self.started) {
            // The process has ended meanwhile, or belongs to another user and only root may signal it.
            let _ = pidfd_send_signal(&handle, signal);
        }
    }
}

fn member(pid: i32, stat: &Stat) -> Option<Member> {
    let started = stat.started;
    Pid::from_raw(pid).map(|pid| Member { pid, started })
}

fn processes() -> BTreeMap<i32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
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
