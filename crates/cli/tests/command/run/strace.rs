//! `fairlock run` under `strace`, which refuses system calls to it, to its supervisor and to its command.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use fairlock_testkit::http::say;
use rustix::process::Signal;

use crate::command::{PROGRAM, heeding};
use crate::home::{Home, scripted};
use crate::running::{Running, until};
use crate::terminal::processes::Process;

/// Longer than the wait for the lock. What stands still before it asks must end at a signal.
const STANDS_STILL: Duration = Duration::from_secs(30);

/// What ends a command that runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// An operator takes the lock away.
    Break,
    /// SIGTERM to `fairlock run`.
    Term,
    /// SIGKILL to `fairlock run`.
    Kill,
}

/// What became of a command.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) has_run: bool,
    pub(super) code: i32,
    pub(super) err: String,
}

/// Whether processes can be traced here. Says so if not: a container may refuse it.
pub(super) fn can_trace() -> bool {
    let traced = Command::new("strace")
        .args(["-D", "-f", "-qq", "-o", "/dev/null"])
        .args(["-e", "inject=kill:error=EPERM", "true"])
        .output();
    let can = traced.is_ok_and(|traced| traced.status.success() && traced.stderr.is_empty());
    if !can {
        say("strace is missing, or may not trace: no system call is refused");
    }
    can
}

/// `fairlock run` under strace with these options, with a command of two processes, one of them in a session of its own, or with a command
/// of one. The process is `fairlock`: strace is none of its family.
pub(super) fn start(home: &Home, options: &[&str], ending: Ending) -> Running {
    let script = match ending {
        Ending::Break | Ending::Kill => "setsid sleep 3456 & exec sleep 3456",
        // What a command leaves behind at a signal goes on, as without a lock.
        Ending::Term => "exec sleep 3456",
    };
    let program = [
        &["strace", "-D", "-f", "-qq"][..],
        options,
        &["--", PROGRAM],
    ]
    .concat();
    let line = scripted("--lease 3s --wait 20s", script);
    Running::spawn(&mut heeding(home.path(), &program, &line), home.path())
}

/// The living processes of the command.
pub(super) fn sleepers(home: &Home) -> Vec<Process> {
    home.named("sleep")
}

pub(super) fn break_hold(home: &Home) {
    // Another fault may have taken the lock away already.
    home.run("break --yes a");
}

/// Runs the command with these system calls refused, and ends it. Returns once `fairlock run` and all processes of the command have ended.
pub(super) fn with_refused(refusals: &[&str], ending: Ending) -> Trial {
    let home = Home::new();
    let options = refusing(refusals);
    let (running, began) = (start(&home, &options, ending), Instant::now());
    let has_run = || !sleepers(&home).is_empty();
    until("a command or an end", || {
        has_run() || running.has_ended() || began.elapsed() > STANDS_STILL
    });
    let has_run = has_run();
    match ending {
        _ if running.has_ended() => {}
        Ending::Break if has_run => break_hold(&home),
        Ending::Kill if has_run => running.signal(Signal::KILL),
        Ending::Break | Ending::Term | Ending::Kill => running.signal(Signal::TERM),
    }
    let what = format!("the end of fairlock: {options:?}");
    until(&what, || running.has_ended());
    let what = format!("the end of the command: {options:?}");
    until(&what, || sleepers(&home).is_empty());
    let ended = running.end();
    Trial {
        has_run,
        code: ended.code.unwrap(),
        err: ended.err,
    }
}

/// The options by which strace refuses.
pub(super) fn refusing<'a>(refusals: &[&'a str]) -> Vec<&'a str> {
    let refusals = refusals.iter().flat_map(|refusal| ["-e", *refusal]);
    ["-o", "/dev/null"].into_iter().chain(refusals).collect()
}

/// The system calls of `fairlock run` and its supervisor by name, and from which of the calls of a process on `main` has begun: as many of
/// the same name came before.
pub(super) fn calls() -> BTreeMap<String, BTreeSet<usize>> {
    let home = Home::new();
    let running = start(&home, &["-o", "trace"], Ending::Break);
    until("the command", || sleepers(&home).len() == 2);
    break_hold(&home);
    let main = running.pid().as_raw_pid().to_string();
    running.end();
    // Its last line may be written after the process has ended.
    let is_complete = || {
        let trace = home.read("trace");
        let mut lines = trace.lines();
        lines.any(|line| line.starts_with(&main) && line.contains("exit_group("))
    };
    until("the trace", is_complete);
    let mut lines = BTreeMap::<_, Vec<_>>::new();
    let trace = home.read("trace");
    for (pid, line) in trace.lines().filter_map(|line| line.split_once(' ')) {
        lines.entry(pid).or_default().push(line.trim_start());
    }
    let mut calls = BTreeMap::<String, BTreeSet<usize>>::new();
    for (pid, lines) in lines {
        let is_supervisor = lines.iter().any(|line| line.contains("\"supervisor\""));
        let is_program = pid == main || is_supervisor;
        // The command's own processes execute something, and threads nothing.
        if is_program || !lines.iter().any(|line| line.starts_with("execve(")) {
            note_calls(&mut calls, &lines, is_program);
        }
    }
    calls
}

/// The standard library polls its first files just before `main`. A thread has nothing before it.
fn note_calls(calls: &mut BTreeMap<String, BTreeSet<usize>>, lines: &[&str], is_program: bool) {
    let (mut before, mut has_begun) = (BTreeMap::<_, usize>::new(), !is_program);
    for line in lines {
        let Some((name, _)) = line.split_once('(') else {
            continue;
        };
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !name.bytes().all(is_of_name) {
            continue;
        }
        if has_begun {
            let first = before.get(name).map_or(1, |count| count + 1);
            calls.entry(name.into()).or_default().insert(first);
        } else {
            *before.entry(name).or_default() += 1;
            has_begun = name == "poll";
        }
    }
}
