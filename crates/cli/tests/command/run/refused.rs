//! Whatever a system refuses to `fairlock run` and its supervisor, no command outlives its lock, and none starts that could.

use fairlock_testkit::effort::is_thorough;
use fairlock_testkit::http::say;
use rustix::process::Signal;

use super::strace::{
    Ending, Trial, break_hold, calls, can_trace, refusing, sleepers, start, with_refused,
};
use crate::command::{heeding, said};
use crate::home::{Home, local, scripted};
use crate::running::{Running, until};
use crate::terminal::processes::signal;

/// The calls on which the supervisor's promise stands.
const VITAL: &str = "getdents64 kill pidfd_open pidfd_send_signal ppoll prctl recvmsg sendto shutdown timerfd_settime wait4";
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
    let vital: Vec<_> = VITAL.split(' ').collect();
    let mut calls = calls();
    for name in &vital {
        // Some are made only where others are refused.
        calls.entry((*name).into()).or_insert_with(|| [1].into());
    }
    for (name, firsts) in calls {
        let is_tried = is_thorough() && !NEVER_REFUSED.contains(&&*name) || vital.contains(&&*name);
        for first in firsts.into_iter().filter(|_| is_tried) {
            // The handler of a signal wakes a thread by `sendto`. If that is refused once, one signal is lost, and the next is heard. The C
            // library reads the mask of signals by `rt_sigprocmask`, does not look whether it could, and sets what it took for the mask.
            let is_lossy = matches!(&*name, "sendto" | "rt_sigprocmask");
            let loses_a_signal = is_lossy && matches!(ending, Ending::Term);
            let once = (!loses_a_signal).then(|| first.to_string());
            let mut whens: Vec<_> = once.into_iter().chain([format!("{first}+")]).collect();
            if !is_thorough() && whens.len() > 1 {
                // For a change, every other call is refused once, and the others always.
                whens.remove(tried % 2);
            }
            for when in whens {
                let refusal = format!("inject={name}:error=EPERM:when={when}");
                check(&refusal, &with_refused(&[&refusal], ending));
                tried += 1;
            }
        }
    }
    say(&format!(
        "{tried} refusals of system calls, then {ending:?}"
    ));
    assert!(tried >= vital.len(), "{tried}");
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
    let home = Home::new();
    let refusals = [
        "inject=kill:error=EPERM",
        "inject=pidfd_open:error=EPERM:when=2+",
    ];
    let running = start(&home, &refusing(&refusals), Ending::Break);
    let are_there = || sleepers(&home).len() == 2;
    until("the command", are_there);
    break_hold(&home);
    running.signal(Signal::TERM);
    until("the end of fairlock", || running.has_ended());
    assert!(are_there());
    running
        .end()
        .assert_ended(71, &["`sh` still runs", "cannot end process"]);
    until("nothing to be left", || {
        for sleeper in sleepers(&home) {
            signal(sleeper.pid, Signal::KILL);
        }
        sleepers(&home).is_empty()
    });
}

/// What runs in a process namespace of its own, once the mount has succeeded.
const APART: [&str; 9] = [
    "unshare",
    "--map-root-user",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "sh",
    "-c",
    "eval \"$0\" && exec \"$@\"",
];

/// Without `/proc`, and with that of other processes.
#[test]
fn a_proc_that_does_not_show_the_commands_processes_is_named_and_nothing_is_asked_for() {
    let home = Home::new();
    for mount in ["mount -t tmpfs none /proc", "true"] {
        let apart = |words: &[String]| {
            let program = [&APART[..], &[mount]].concat();
            said(&mut heeding(home.path(), &program, words))
        };
        if apart(&["true".to_owned()]).code != Some(0) {
            return say("unshare may not make namespaces: /proc is always there");
        }
        let fairlock = |line: &str| [vec!["fairlock".to_owned()], local(line)].concat();
        let refused = apart(&fairlock("run a -- touch ran"));
        refused.assert_refused(70, &["/proc"]);
        let doctor = apart(&fairlock("doctor"));
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        assert!(doctor.out.starts_with("problem  processes: "), "{doctor:?}");
        assert!(!home.has("ran"));
    }
}

/// A `/proc` that hides the processes of other users shows those of the command.
#[test]
fn a_command_is_ended_where_proc_hides_the_processes_of_others() {
    let home = Home::new();
    let mount = "mount -t proc -o hidepid=2 proc /proc";
    let apart = [&APART[..], &[mount]].concat();
    if said(&mut heeding(home.path(), &apart, &["true"])).code != Some(0) {
        return say("unshare may not make namespaces: /proc hides nothing");
    }
    let apart = [&apart[..], &["fairlock"]].concat();
    let script = "setsid sleep 3456 & exec sleep 3456";
    let mut command = heeding(home.path(), &apart, &scripted("--lease 3s", script));
    let running = Running::spawn(&mut command, home.path());
    until("the command", || sleepers(&home).len() == 2);
    break_hold(&home);
    until("the end of the command", || sleepers(&home).is_empty());
    running.end().assert_ended(76, &[]);
}
