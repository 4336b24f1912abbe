//! Whatever happens, a command has ended before its lease does.

use std::fs;
use std::path::Path;
use std::process::Command;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Engine;
use rustix::process::{Pid, Signal, kill_process};

use super::running::{Running, home, is_alive, is_free, is_stopped, run, run_line, until};
use crate::command::{fairlock, said};

/// Starts processes that are hard to find and hard to end, each with its process number in a file.
const FAMILY: &str = "
    echo $$ > command
    sh -c 'trap \"\" TERM HUP; echo $$ > deaf; while :; do sleep 0.1; done' &
    setsid sh -c 'echo $$ > session; exec sleep 600' &
    (setsid sh -c 'echo $$ > daemon; exec sleep 600' &)
    sh -c 'echo $$ > stopped; kill -STOP $$; sleep 600' &
    python3 2> /dev/null -c 'import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
open(\"headless\", \"w\").write(str(os.getpid()))
ctypes.CDLL(None).pthread_exit(None)' &
    wait";
/// The last of them looks dead if only its first thread is examined. It is not there without Python.
const MEMBERS: [&str; 6] = [
    "command", "deaf", "session", "daemon", "stopped", "headless",
];

fn family(running: &Running) -> Vec<Pid> {
    let python = Command::new("python3")
        .args(["-c", "import ctypes"])
        .output();
    let count = match python.is_ok_and(|python| python.status.success()) {
        true => MEMBERS.len(),
        false => MEMBERS.len() - 1,
    };
    let members = MEMBERS[..count].iter();
    members.map(|file| running.pid_in(file)).collect()
}

/// The supervisor between `fairlock run` and its command.
pub(crate) fn supervisor_of(command: Pid) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", command.as_raw_pid())).unwrap();
    let parent = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap();
    Pid::from_raw(parent.parse().unwrap()).unwrap()
}

/// Waits for the lock, and then checks that no process of the command before is left.
fn assert_next_runs_alone(home: &Path, family: &[Pid]) {
    let waiting = run(
        home,
        &["--quiet", "--wait", "40s"],
        &["sh", "-c", &alive_words(family)],
    );
    assert_eq!(
        waiting.assert_done(),
        "",
        "somebody of the one before was still alive"
    );
}

/// A script that names the processes that are alive.
fn alive_words(family: &[Pid]) -> String {
    let check = |pid: &Pid| {
        let pid = pid.as_raw_pid();
        format!("grep -H -s -v -E '^State:.*[ZX]' /proc/{pid}/status | grep State:; ")
    };
    family.iter().map(check).collect::<String>() + "true"
}

#[test]
fn a_killed_fairlock_takes_everything_its_command_started_with_it() {
    let home = home();
    let running = Running::start(home.path(), &["--lease", "3s"], FAMILY);
    let family = family(&running);
    running.signal(Signal::KILL);
    assert_next_runs_alone(home.path(), &family);
    until("all to be dead", || {
        !family.iter().any(|pid| is_alive(*pid))
    });
}

/// Its lease is longer than this test: the supervisor gives its place up after the command has ended.
#[test]
fn a_killed_fairlock_is_not_waited_for() {
    let home = home();
    let lease = ["--lease", "10m", "--kill-after", "100ms"];
    let running = Running::start(home.path(), &lease, FAMILY);
    let family = family(&running);
    let waits = Running::start(home.path(), &lease, "touch never");
    until_in_queue(home.path(), 1);
    let last = Running::start(home.path(), &lease, "touch last");
    until_in_queue(home.path(), 2);
    waits.signal(Signal::KILL);
    until_in_queue(home.path(), 1);
    running.signal(Signal::KILL);
    let (code, _, err) = last.end();
    assert_eq!(code, 0, "{err}");
    assert!(!family.iter().any(|pid| is_alive(*pid)));
    assert!(!home.path().join("never").exists() && home.path().join("last").exists());
}

/// Otherwise the waiters behind it would wait for its lease to end when its turn comes.
#[test]
fn one_that_stands_still_while_it_waits_is_not_waited_for_and_has_its_turn_when_it_goes_on() {
    let home = home();
    let lease = ["--lease", "10m"];
    let holder = Running::start(
        home.path(),
        &[],
        "echo $$ > holder; until [ -e go ]; do sleep 0.05; done",
    );
    holder.pid_in("holder");
    let stands = Running::start(home.path(), &lease, "echo stands >> order");
    until_in_queue(home.path(), 1);
    stands.signal(Signal::STOP);
    until_in_queue(home.path(), 0);
    let next = Running::start(home.path(), &[], "echo next >> order");
    until_in_queue(home.path(), 1);
    fs::write(home.path().join("go"), "").unwrap();
    for ended in [holder.end(), next.end()] {
        assert_eq!(ended.0, 0, "{}", ended.2);
    }
    stands.signal(Signal::CONT);
    let (code, _, err) = stands.end();
    assert_eq!(code, 0, "{err}");
    let order = fs::read_to_string(home.path().join("order")).unwrap();
    assert_eq!(order, "next\nstands\n");
}

/// Waits until `count` callers wait for the lock.
fn until_in_queue(home: &Path, count: usize) {
    let show = ["show", "--json", "--local", "locks.db", "a"];
    until("a line of that length", || {
        let shown = said(&mut fairlock(home, &show)).out;
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap_or_default();
        shown["queue"]
            .as_array()
            .is_some_and(|line| line.len() == count)
    });
}

#[test]
fn a_stopped_fairlock_keeps_its_promise_and_learns_that_it_lost() {
    let home = home();
    let running = Running::start(home.path(), &["--lease", "3s"], FAMILY);
    let family = family(&running);
    running.signal(Signal::STOP);
    assert_next_runs_alone(home.path(), &family);
    running.signal(Signal::CONT);
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(err.contains("lock `a` was lost"), "{err}");
}

/// As in a script, whose shell waits for it and continues nothing.
#[test]
fn a_command_that_is_stopped_for_ever_is_ended_with_its_lease_and_the_script_goes_on() {
    let home = home();
    let script = "trap 'touch heard' TERM; echo $$ > command; kill -STOP $$; touch on; sleep 60";
    let running = Running::start(home.path(), &["--lease", "3s"], script);
    let command = running.pid_in("command");
    until("fairlock to stop too", || is_stopped(running.pid()));
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(err.contains("lock `a` was lost"), "{err}");
    assert!(!is_alive(command));
    run(home.path(), &[], &["true"]).assert_done();
}

/// A command that stops itself, and records if it is continued.
const STOPS: &str = "echo $$ > command; kill -STOP $$; touch on";

/// Runs that command in a session of its own, where no shell could continue anything.
fn without_a_shell(home: &Path, lease: &str) -> Command {
    let mut alone = Command::new("timeout");
    alone.args(["-s", "KILL", "60", "setsid", "--wait"]);
    alone.arg(env!("CARGO_BIN_EXE_fairlock"));
    alone.args(run_line(&["--lease", lease], &["sh", "-c", STOPS]));
    alone.current_dir(home).env_remove("FAIRLOCK_HELD");
    alone
}

/// Neither handles any signal while it is stopped.
#[test]
fn a_signal_to_end_ends_a_command_that_is_stopped_and_a_fairlock_that_stopped_along_with_it() {
    let home = home();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let running = Running::start(home.path(), &["--lease", "10m"], STOPS);
        let command = running.pid_in("command");
        until("fairlock to stop too", || is_stopped(running.pid()));
        running.signal(signal);
        let ended = running.end();
        assert_eq!((ended.0, is_alive(command)), (code, false), "{ended:?}");
        assert!(!home.path().join("on").exists());
        fs::remove_file(home.path().join("command")).unwrap();
    }
    assert!(is_free(home.path()));
}

/// Without a shell, `fairlock` does not stop: it passes the signal on.
#[test]
fn a_signal_to_end_ends_a_command_that_is_stopped_where_there_is_no_shell() {
    let home = home();
    let mut running = without_a_shell(home.path(), "10m").spawn().unwrap();
    let written = || fs::read_to_string(home.path().join("command")).ok();
    let command = || Pid::from_raw(written()?.trim().parse().ok()?);
    until("the command to stop", || command().is_some_and(is_stopped));
    let supervisor = supervisor_of(command().unwrap());
    // The supervisor's parent is `fairlock`.
    kill_process(supervisor_of(supervisor), Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(143));
    assert!(is_free(home.path()));
}

/// As in a cron job or a service.
#[test]
fn a_command_that_is_stopped_where_there_is_no_shell_is_ended_with_its_lease() {
    let home = home();
    let ended = said(&mut without_a_shell(home.path(), "3s"));
    ended.assert_refused(
        76,
        &["lock `a` was lost", "what ran in its turn was stopped for"],
    );
    run(home.path(), &[], &["true"]).assert_done();
}

#[test]
fn a_lock_that_somebody_takes_away_ends_the_command() {
    let home = home();
    let flags = ["--lease", "3s", "--lost-exit-code", "42"];
    let running = Running::start(home.path(), &flags, FAMILY);
    let family = family(&running);
    delete_lock(home.path());
    let (code, _, err) = running.end();
    assert_eq!(code, 42, "{err}");
    assert!(!family.iter().any(|pid| is_alive(*pid)), "{err}");
}

/// Deletes the lock's item without the client's knowledge.
fn delete_lock(home: &Path) {
    let engine = Engine::file(home.join("locks.db")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let text = |value: &str| AttributeValue::S(value.into());
    runtime.block_on(async {
        let delete = engine.client().delete_item().table_name("fairlock");
        let delete = delete
            .key("pk", text("a"))
            .key("sk", text("fairlock/#lock"));
        delete.send().await.unwrap();
    });
}

#[test]
fn a_command_that_heeds_the_warning_has_its_grace() {
    let home = home();
    let script = "trap 'touch heard' USR1; trap 'echo saved; exit 0' TERM; echo $$ > command;
        while :; do sleep 0.05; done";
    let running = Running::start(
        home.path(),
        &["--lease", "3s", "--kill-after", "1s"],
        script,
    );
    let command = running.pid_in("command");
    // What it passes on shows that it watches the command already.
    running.signal(Signal::USR1);
    until("a signal", || home.path().join("heard").exists());
    running.signal(Signal::STOP);
    until("the command to end", || !is_alive(command));
    running.signal(Signal::CONT);
    let (code, out, err) = running.end();
    assert_eq!((code, out.as_str()), (76, "saved\n"), "{err}");
    // It cannot know whether it was stopped or had no processor.
    assert!(err.contains("fairlock did not run for"), "{err}");
}

#[test]
fn a_killed_supervisor_ends_the_command_too_and_gives_the_lock_back() {
    let home = home();
    let running = Running::start(home.path(), &[], FAMILY);
    let family = family(&running);
    kill_process(supervisor_of(family[0]), Signal::KILL).unwrap();
    let (code, _, err) = running.end();
    assert_eq!(code, 70, "{err}");
    assert!(err.contains("supervisor"), "{err}");
    assert!(!family.iter().any(|pid| is_alive(*pid)), "{err}");
    assert!(is_free(home.path()));
}

#[test]
fn signals_to_the_supervisor_change_nothing() {
    let home = home();
    let script = "echo $$ > command; until [ -e go ]; do sleep 0.05; done; exit 4";
    let running = Running::start(home.path(), &[], script);
    let supervisor = supervisor_of(running.pid_in("command"));
    for signal in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::TSTP,
    ] {
        kill_process(supervisor, signal).unwrap();
    }
    fs::write(home.path().join("go"), "").unwrap();
    let (code, _, err) = running.end();
    assert_eq!((code, err.as_str()), (4, ""));
}

#[test]
fn a_stopped_supervisor_does_not_keep_a_command_alive_beyond_its_lease() {
    let home = home();
    let running = Running::start(home.path(), &["--lease", "3s"], FAMILY);
    let family = family(&running);
    kill_process(supervisor_of(family[0]), Signal::STOP).unwrap();
    delete_lock(home.path());
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(!family.iter().any(|pid| is_alive(*pid)), "{err}");
}
