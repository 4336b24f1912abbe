//! `fairlock run`: a command has its turn, ends as it would without a lock, and is over before its lease is.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

#[path = "common/command.rs"]
mod command;

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use command::{Said, fairlock, said};
use fairlock::embedded::Engine;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use tempfile::TempDir;

const FILE: [&str; 2] = ["--local", "locks.db"];
/// Nothing that is waited for takes so long, however busy the machine is.
const BOUND: Duration = Duration::from_secs(50);

/// A directory with a file of locks in it.
fn home() -> TempDir {
    let home = TempDir::new().unwrap();
    let made = said(&mut fairlock(
        home.path(),
        &["table", "create", "--local", "locks.db"],
    ));
    assert_eq!(made.code, Some(0), "{made:?}");
    home
}

fn run_line<'a>(flags: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&["run"], &FILE[..], flags, &["a", "--"], command].concat()
}

fn run(home: &Path, flags: &[&str], command: &[&str]) -> Said {
    said(&mut fairlock(home, &run_line(flags, command)))
}

fn sh(home: &Path, script: &str) -> Said {
    run(home, &[], &["sh", "-c", script])
}

/// Until it holds; a test that waits in vain says for what.
#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < BOUND, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `fairlock run` itself, without a `timeout` before it, so that its process can be signalled. Killed with its group when
/// dropped.
struct Running {
    process: Child,
    home: PathBuf,
}

impl Running {
    fn start(home: &Path, flags: &[&str], script: &str) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
        command.args(run_line(flags, &["sh", "-c", script]));
        command.current_dir(home).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running {
            process: command.process_group(0).spawn().unwrap(),
            home: home.to_owned(),
        }
    }

    /// With `pid` as soon as the script has written it to a file of that name.
    fn pid_in(&self, file: &str) -> Pid {
        let file = self.home.join(file);
        let read = || fs::read_to_string(&file).ok()?.trim().parse().ok();
        until("a process number", || read().is_some());
        Pid::from_raw(read().unwrap()).unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Its code, or 128 and the signal that ended it; and what it said.
    fn end(mut self) -> (i32, String, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < BOUND, "does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let (mut out, mut err) = (String::new(), String::new());
        // What a command left behind may still have these open.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        self.process
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        let killed = || 128 + status.signal().unwrap();
        (status.code().unwrap_or_else(killed), out, err)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.process.wait();
    }
}

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()));
    let is_dead = |stat: String| {
        let fields = stat.rsplit(')').next().unwrap();
        fields.starts_with(" Z") && fields.split(' ').nth(18) == Some("1")
    };
    test_kill_process(pid).is_ok() && !stat.map_or(true, is_dead)
}

fn is_free(home: &Path) -> bool {
    let shown = said(&mut fairlock(home, &["show", "--local", "locks.db", "a"]));
    shown.out.starts_with("a: free")
}

// ---------------------------------------------------------------------------------------------------------------
// The command as it would be without a lock

#[test]
fn a_command_finds_lock_and_ticket_in_its_environment_and_the_lock_held() {
    let home = home();
    let binary = env!("CARGO_BIN_EXE_fairlock");
    let script =
        format!("echo $FAIRLOCK_LOCK $FAIRLOCK_TICKET; {binary} show --json --local locks.db a");
    let ended = sh(home.path(), &script);
    let mut lines = ended.assert_done().lines();
    let ticket = lines.next().unwrap().strip_prefix("a ").unwrap();
    let shown: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(shown["holder"]["ticket"].to_string(), ticket);
    assert!(is_free(home.path()));
}

#[test]
fn tickets_grow_from_turn_to_turn() {
    let home = home();
    let ticket = || -> u64 {
        let ended = sh(home.path(), "echo $FAIRLOCK_TICKET");
        ended.assert_done().trim().parse().unwrap()
    };
    let tickets = [ticket(), ticket(), ticket()];
    assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
}

#[test]
fn exit_codes_are_those_of_the_command_as_a_shell_has_them() {
    let home = home();
    for code in [0, 1, 7, 64, 75, 76, 126, 255] {
        let ended = sh(home.path(), &format!("exit {code}"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""));
    }
    for (signal, code) in [("TERM", 143), ("KILL", 137), ("INT", 130), ("SEGV", 139)] {
        let ended = sh(home.path(), &format!("kill -{signal} $$"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""));
    }
    fs::write(home.path().join("text"), "text").unwrap();
    for (command, code) in [
        ("no-such-command", 127),
        ("./text", 126),
        ("/", 126),
        ("", 127),
    ] {
        let ended = run(home.path(), &[], &[command]);
        ended.assert_refused(code, &["cannot run", command]);
    }
    assert!(is_free(home.path()));
}

#[test]
fn a_script_that_does_not_say_what_runs_it_is_the_shells() {
    let home = home();
    let script = home.path().join("script");
    fs::write(&script, "echo $0 $1; exit 6\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = run(home.path(), &[], &["./script", "a"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(6), "./script a\n"));
}

#[test]
fn standard_streams_and_arguments_pass_through_as_they_are() {
    let home = home();
    let line = run_line(
        &[],
        &[
            "sh",
            "-c",
            "cat; printf '%s|' \"$@\"; echo err >&2",
            "sh",
            "a b",
            "--help",
            "",
        ],
    );
    let mut command = fairlock(home.path(), &line);
    let input = home.path().join("input");
    fs::write(&input, "in\n").unwrap();
    let ended = said(command.stdin(fs::File::open(&input).unwrap()));
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(0), "in\na b|--help||")
    );
    assert_eq!(ended.err, "err\n");
}

#[test]
fn output_ends_when_the_command_ends_it_and_not_later() {
    let home = home();
    let mut running = Running::start(
        home.path(),
        &[],
        "echo $$ > pid; echo out; exec >&-; sleep 60",
    );
    let mut out = String::new();
    running
        .process
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(out, "out\n");
    let command = running.pid_in("pid");
    assert!(is_alive(command));
    running.signal(Signal::TERM);
    until("the command to end", || !is_alive(command));
}

#[test]
fn what_the_command_leaves_behind_goes_on_when_it_ends_by_itself() {
    let home = home();
    let running = Running::start(
        home.path(),
        &[],
        "setsid sleep 60 >/dev/null 2>&1 & echo $! > pid",
    );
    let left = running.pid_in("pid");
    assert_eq!(running.end().0, 0);
    assert!(is_alive(left));
    assert!(is_free(home.path()));
    kill_process(left, Signal::KILL).unwrap();
}

#[test]
fn a_signal_reaches_the_command_and_its_answer_comes_back() {
    let home = home();
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("ALRM", Signal::ALARM),
        ("XCPU", Signal::XCPU),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 9' {name}; echo $$ > pid; while :; do sleep 0.05; done"
        );
        let running = Running::start(home.path(), &[], &script);
        running.pid_in("pid");
        running.signal(signal);
        let (code, out, err) = running.end();
        assert_eq!((code, out), (9, format!("got {name}\n")), "{err}");
        fs::remove_file(home.path().join("pid")).unwrap();
    }
    assert!(is_free(home.path()));
}

#[test]
fn what_was_to_be_ignored_stays_ignored() {
    let home = home();
    let mut command = Command::new("sh");
    let script = format!(
        "trap '' HUP USR1; exec {} run --local locks.db a -- grep SigIgn /proc/self/status",
        env!("CARGO_BIN_EXE_fairlock")
    );
    command.args(["-c", &script]).current_dir(home.path());
    let ignored = |output: String| {
        let mask = output
            .trim()
            .strip_prefix("SigIgn:")
            .unwrap()
            .trim()
            .to_owned();
        u64::from_str_radix(&mask, 16).unwrap() & 0xffff
    };
    let with = ignored(String::from_utf8(command.output().unwrap().stdout).unwrap());
    assert_eq!(with, 1 | 1 << 9, "{with:x}");
}

// ---------------------------------------------------------------------------------------------------------------
// The wait

#[test]
fn a_held_lock_is_told_with_its_holder_and_what_to_do_and_the_code_is_the_callers() {
    let home = home();
    let running = Running::start(
        home.path(),
        &["--owner", "the nightly job"],
        "echo $$ > pid; sleep 60",
    );
    running.pid_in("pid");
    for (flags, code) in [
        (&["--wait", "none"][..], 75),
        (&["--wait", "200ms"], 75),
        (&["--wait", "none", "--conflict-exit-code", "0"], 0),
        (&["--wait", "none", "-E", "33"], 33),
    ] {
        let ended = run(home.path(), flags, &["touch", "ran"]);
        ended.assert_refused(
            code,
            &["`a`", "the nightly job", "fairlock show a --local locks.db"],
        );
    }
    assert!(!home.path().join("ran").exists());
    running.signal(Signal::TERM);
    assert_eq!(running.end().0, 143);
}

#[test]
fn who_waits_has_the_turn_when_the_one_before_is_done_in_the_order_of_coming() {
    let home = home();
    let first = Running::start(
        home.path(),
        &[],
        "echo $$ > pid; until [ -e go ]; do sleep 0.05; done; echo 0 >> order",
    );
    first.pid_in("pid");
    let waiting: Vec<_> = (1..=3)
        .map(|number| {
            let flags = ["--wait", "infinite", "--owner", &format!("w{number}")];
            let running = Running::start(home.path(), &flags, &format!("echo {number} >> order"));
            until("a place in line", || {
                let shown = said(&mut fairlock(
                    home.path(),
                    &["show", "--local", "locks.db", "a"],
                ));
                shown.out.contains(&format!("w{number}"))
            });
            running
        })
        .collect();
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(first.end().0, 0);
    for running in waiting {
        let (code, _, err) = running.end();
        // Nothing is drawn where nobody would see it.
        assert_eq!((code, err.as_str()), (0, ""));
    }
    let order = fs::read_to_string(home.path().join("order")).unwrap();
    assert_eq!(order, "0\n1\n2\n3\n");
}

#[test]
fn a_wait_that_is_interrupted_leaves_the_line_and_runs_nothing() {
    let home = home();
    let first = Running::start(home.path(), &[], "echo $$ > pid; sleep 60");
    first.pid_in("pid");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let waiting = Running::start(home.path(), &["--wait", "infinite"], "touch ran");
        let line = || {
            let show = ["show", "--json", "--local", "locks.db", "a"];
            let shown = said(&mut fairlock(home.path(), &show));
            let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
            shown["waiting"].as_u64().unwrap()
        };
        until("a place in line", || line() == 1);
        waiting.signal(signal);
        assert_eq!(waiting.end().0, code);
        assert_eq!(line(), 0);
    }
    assert!(!home.path().join("ran").exists());
    first.signal(Signal::KILL);
}

#[test]
fn a_lease_is_kept_for_as_long_as_the_command_runs() {
    let home = home();
    let ended = run(home.path(), &["--lease", "1s"], &["sleep", "3"]);
    ended.assert_done();
}

#[test]
fn a_setting_that_makes_no_sense_is_refused_and_nothing_runs() {
    let home = home();
    for (flags, words) in [
        (&["--lease", "500ms"][..], ["--lease", "1s"]),
        (
            &["--lease", "30s", "--grace", "11s"],
            ["--grace", "--lease"],
        ),
        (&["--lease", "25h"], ["lease", "one day"]),
        (&["--owner", ""], ["owner", "512"]),
        (&["--namespace", "a/b"], ["namespace", "/"]),
    ] {
        run(home.path(), flags, &["touch", "ran"]).assert_refused(64, &words);
    }
    assert!(!home.path().join("ran").exists());
}

// ---------------------------------------------------------------------------------------------------------------
// The promise

/// Starts what is hard to find and hard to end, each with its number in a file.
const FAMILY: &str = "
    echo $$ > command
    sh -c 'trap \"\" TERM HUP; echo $$ > deaf; while :; do sleep 0.1; done' &
    setsid sh -c 'echo $$ > session; exec sleep 600' &
    (setsid sh -c 'echo $$ > daemon; exec sleep 600' &)
    sh -c 'echo $$ > stopped; kill -STOP $$; sleep 600' &
    python3 -c 'import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
open(\"headless\", \"w\").write(str(os.getpid()))
ctypes.CDLL(None).pthread_exit(None)' &
    wait";
/// The last of them looks dead to those who look at its first thread only.
const MEMBERS: [&str; 6] = [
    "command", "deaf", "session", "daemon", "stopped", "headless",
];

fn family(running: &Running) -> Vec<Pid> {
    MEMBERS.iter().map(|file| running.pid_in(file)).collect()
}

/// The guardian between `fairlock run` and its command.
fn guardian_of(command: Pid) -> Pid {
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

/// Waits for the lock, and then sees that nobody of the one before is left.
fn assert_next_runs_alone(home: &Path, family: &[Pid]) {
    let waiting = run(
        home,
        &["--wait", "40s"],
        &["sh", "-c", &alive_words(family)],
    );
    assert_eq!(
        waiting.assert_done(),
        "",
        "somebody of the one before was still alive"
    );
}

/// A script that names those who live.
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

#[test]
fn a_lock_that_somebody_takes_away_ends_the_command() {
    let home = home();
    let running = Running::start(home.path(), &["--lease", "3s"], FAMILY);
    let family = family(&running);
    delete_lock(home.path());
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(!family.iter().any(|pid| is_alive(*pid)), "{err}");
}

/// Behind everybody's back.
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
    let script = "trap 'echo saved; exit 0' TERM; echo $$ > command; while :; do sleep 0.05; done";
    let running = Running::start(home.path(), &["--lease", "3s", "--grace", "1s"], script);
    let command = running.pid_in("command");
    running.signal(Signal::STOP);
    until("the command to end", || !is_alive(command));
    running.signal(Signal::CONT);
    let (code, out, err) = running.end();
    assert_eq!((code, out.as_str()), (76, "saved\n"), "{err}");
}

#[test]
fn a_killed_guardian_ends_the_command_too_and_gives_the_lock_back() {
    let home = home();
    let running = Running::start(home.path(), &[], FAMILY);
    let family = family(&running);
    kill_process(guardian_of(family[0]), Signal::KILL).unwrap();
    let (code, _, err) = running.end();
    assert_eq!(code, 70, "{err}");
    assert!(err.contains("guardian"), "{err}");
    assert!(!family.iter().any(|pid| is_alive(*pid)), "{err}");
    assert!(is_free(home.path()));
}

#[test]
fn signals_to_the_guardian_change_nothing() {
    let home = home();
    let script = "echo $$ > command; until [ -e go ]; do sleep 0.05; done; exit 4";
    let running = Running::start(home.path(), &[], script);
    let guardian = guardian_of(running.pid_in("command"));
    for signal in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::TSTP,
    ] {
        kill_process(guardian, signal).unwrap();
    }
    fs::write(home.path().join("go"), "").unwrap();
    let (code, _, err) = running.end();
    assert_eq!((code, err.as_str()), (4, ""));
}

#[test]
fn a_stopped_guardian_does_not_keep_a_command_alive_beyond_its_lease() {
    let home = home();
    let running = Running::start(home.path(), &["--lease", "3s"], FAMILY);
    let family = family(&running);
    kill_process(guardian_of(family[0]), Signal::STOP).unwrap();
    delete_lock(home.path());
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(!family.iter().any(|pid| is_alive(*pid)), "{err}");
}
