//! Whatever a system refuses to `fairlock run` and its supervisor, no command outlives its lock, and none starts that could.

use std::process::{Command, Stdio};

use fairlock_testkit::effort::is_thorough;
use fairlock_testkit::http::say;
use rustix::process::Signal;

use super::running::{FILE, Running, home, run_line, until};
use super::strace::{
    Ending, Trial, break_hold, calls, can_trace, refusing, sleepers, start, with_refused,
};
use crate::command::{fairlock, said};

/// The calls on which the supervisor's promise stands.
const VITAL: [&str; 11] = [
    "getdents64",
    "kill",
    "pidfd_open",
    "pidfd_send_signal",
    "ppoll",
    "prctl",
    "recvmsg",
    "sendto",
    "shutdown",
    "timerfd_settime",
    "wait4",
];
/// No kernel refuses these.
const NEVER_REFUSED: [&str; 4] = ["close", "exit", "exit_group", "rt_sigreturn"];

/// As in older container runtimes, whose filter does not know these calls.
#[test]
fn a_command_is_ended_without_handles_on_processes() {
    if !can_trace() {
        return;
    }
    for call in ["pidfd_open", "pidfd_send_signal"] {
        for error in ["EPERM", "ENOSYS", "ENOSYS:when=1", "ENOSYS:when=2"] {
            let refusal = format!("inject={call}:error={error}");
            let trial = with_refused(&[&refusal], Ending::Break);
            assert!(trial.has_run, "{refusal}: {trial:?}");
            assert_eq!(trial.code, 76, "{refusal}: {trial:?}");
        }
    }
}

/// The supervisor's first time is one that it tries. From the second on, the command's deadlines are refused.
#[test]
fn a_supervisor_whose_timer_fails_later_ends_the_command_without_it() {
    if !can_trace() {
        return;
    }
    for ending in [Ending::Break, Ending::Kill] {
        let trial = with_refused(&["inject=timerfd_settime:error=EPERM:when=2+"], ending);
        assert!(trial.has_run, "{ending:?}: {trial:?}");
    }
}

#[test]
fn a_refused_call_leaves_no_command_behind_when_the_lock_is_lost() {
    with_each_call_refused(Ending::Break);
}

#[test]
fn a_refused_call_leaves_no_command_behind_at_a_signal() {
    with_each_call_refused(Ending::Term);
}

/// Each call that is seen is refused once, and always, from the beginning of `main` on.
fn with_each_call_refused(ending: Ending) {
    if !can_trace() {
        return;
    }
    let mut tried = 0;
    let vital = |name: &str| VITAL.contains(&name);
    let mut calls = calls();
    for name in VITAL {
        // Some are made only where others are refused.
        calls.entry(name.into()).or_insert_with(|| [1].into());
    }
    for (name, firsts) in calls {
        let is_tried = is_thorough() && !NEVER_REFUSED.contains(&&*name) || vital(&name);
        for first in firsts.into_iter().filter(|_| is_tried) {
            // The handler of a signal wakes a thread by `sendto`. If that is refused once, one signal is lost, and the next is heard. The C
            // library reads the mask of signals by `rt_sigprocmask`, does not look whether it could, and sets what it took for the mask.
            let is_lossy = matches!(&*name, "sendto" | "rt_sigprocmask");
            let loses_a_signal = is_lossy && matches!(ending, Ending::Term);
            let once = (!loses_a_signal).then(|| first.to_string());
            for when in once.into_iter().chain([format!("{first}+")]) {
                let refusal = format!("inject={name}:error=EPERM:when={when}");
                check(&refusal, &with_refused(&[&refusal], ending));
                tried += 1;
            }
        }
    }
    say(&format!(
        "{tried} refusals of system calls, then {ending:?}"
    ));
    assert!(tried >= VITAL.len(), "{tried}");
}

/// Without a command there is a reason, but for one that stood still until the signal, or that died of one before `main`.
fn check(refusal: &str, trial: &Trial) {
    if !trial.has_run {
        assert_ne!(trial.code, 0, "{refusal}: {trial:?}");
        let may_be_silent = trial.code > 128 || refusal.starts_with("inject=write:");
        assert!(
            may_be_silent || !trial.err.is_empty(),
            "{refusal}: {trial:?}"
        );
    }
}

/// As with processes that belong to another user. Only the attempts of the start succeed.
#[test]
fn processes_that_cannot_be_ended_are_told_and_a_signal_ends_fairlock_with_a_code_of_its_own() {
    if !can_trace() {
        return;
    }
    let home = home();
    let refusals = [
        "inject=kill:error=EPERM",
        "inject=pidfd_open:error=EPERM:when=2+",
    ];
    let running = start(home.path(), &refusing(&refusals), Ending::Break);
    let are_there = || sleepers(home.path()).len() == 2;
    until("the command", are_there);
    break_hold(home.path());
    running.signal(Signal::TERM);
    until("the end of fairlock", || running.has_ended());
    assert!(are_there());
    let (code, _, err) = running.end();
    assert_eq!(code, 71, "{err}");
    assert!(err.contains("`sh` still runs"), "{err}");
    assert!(err.contains("cannot end process"), "{err}");
    until("nothing to be left", || {
        for pid in sleepers(home.path()) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        sleepers(home.path()).is_empty()
    });
}

/// Without `/proc`, and with that of other processes.
#[test]
fn a_proc_that_does_not_show_the_commands_processes_is_named_and_nothing_is_asked_for() {
    let home = home();
    for mount in ["mount -t tmpfs none /proc", "true"] {
        let apart = |command: &Command| {
            let mut apart = Command::new("unshare");
            apart.args(["--map-root-user", "--mount", "--pid", "--fork", "sh", "-c"]);
            apart.args([&format!("{mount} && exec \"$@\""), "sh"]);
            apart.arg(command.get_program()).args(command.get_args());
            apart.current_dir(home.path());
            said(&mut apart)
        };
        if apart(&Command::new("true")).code != Some(0) {
            return say("unshare may not make namespaces: /proc is always there");
        }
        let line = [&["run"], &FILE[..], &["a", "--", "touch", "ran"]].concat();
        apart(&fairlock(home.path(), &line)).assert_refused(70, &["/proc"]);
        let doctor = apart(&fairlock(home.path(), &[&["doctor"], &FILE[..]].concat()));
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        assert!(doctor.out.starts_with("problem  processes: "), "{doctor:?}");
        assert!(!home.path().join("ran").exists());
    }
}

/// A `/proc` that hides the processes of other users shows those of the command.
#[test]
fn a_command_is_ended_where_proc_hides_the_processes_of_others() {
    let home = home();
    let mount = "mount -t proc -o hidepid=2 proc /proc";
    let apart = |script: &str| {
        let mut apart = Command::new("unshare");
        apart.args([
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
        ]);
        apart
            .args(["sh", "-c", script, "sh"])
            .current_dir(home.path());
        apart
    };
    if said(&mut apart(mount)).code != Some(0) {
        return say("unshare may not make namespaces: /proc hides nothing");
    }
    let mut command = apart(&format!("{mount} && exec \"$@\""));
    command.args(["env", "--default-signal", env!("CARGO_BIN_EXE_fairlock")]);
    let script = "setsid sleep 3456 & exec sleep 3456";
    command.args(run_line(&["--lease", "3s"], &["sh", "-c", script]));
    // Marks the processes of this home.
    command.stdin(Stdio::null()).env("HOME", home.path());
    let running = Running::spawn(&mut command, home.path());
    until("the command", || sleepers(home.path()).len() == 2);
    break_hold(home.path());
    until("the end of the command", || {
        sleepers(home.path()).is_empty()
    });
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
}
