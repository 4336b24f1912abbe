//! A command behaves at a terminal as it does without a lock: in the foreground, stopped, in the background, in a pipe.
//! And it never outlives its turn.
//!
//! What can be is compared with what the same shell shows without `fairlock run`.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

#[path = "common/terminal.rs"]
mod terminal;

use std::fmt::Debug;

use rustix::process::Signal;
use terminal::{COLUMNS, Home, ROWS, Terminal, code, counted, signal, state, until};

/// In front of a command.
const LOCK: &str = "fairlock run --local l.db a -- ";
/// With the lease of a test that loses it.
const SHORT: &str = "fairlock run --local l.db --lease 2s a -- ";
/// Whether somebody has the lock: 75 if so.
const IS_FREE: &str = "fairlock run --local l.db --wait none a -- true";

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";

/// Does the same without a lock and with it, and gives what came of both.
#[track_caller]
fn alike<T: Debug + PartialEq>(scenario: impl Fn(&mut Terminal, &str) -> T) -> T {
    let without = scenario(&mut Terminal::new(), "");
    let with = scenario(&mut Terminal::new(), LOCK);
    assert_eq!(with, without, "with and without a lock");
    with
}

/// A command that says it is ready, and ends well once there is a file `go`.
const UNTIL_GO: &str =
    "bash -c 'echo $$ > pid; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went'";

fn pid(terminal: &Terminal, name: &str) -> i32 {
    terminal.home.wait_for(name).parse().unwrap()
}

#[test]
fn a_command_reads_what_is_typed() {
    let shown = alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}cat"));
        terminal.type_in("some words");
        terminal.expect("some words");
        terminal.keys(CTRL_D);
        terminal.prompt()
    });
    assert_eq!(shown, (String::new(), 0));
}

#[test]
fn a_command_has_the_terminal_with_its_name_and_size() {
    let mut terminal = Terminal::new();
    let ask = "sh -c 'tty; stty size; for f in 0 1 2; do [ -t $f ] && echo tty $f; done'";
    let without = terminal.run(ask);
    let with = terminal.run(&format!("{LOCK}{ask}"));
    assert_eq!(with, without);
    assert!(with.0.contains(&format!("{ROWS} {COLUMNS}")), "{with:?}");
    assert!(with.0.contains("tty 2"), "{with:?}");
}

#[test]
fn a_command_is_in_the_foreground_in_the_group_of_its_job() {
    alike(|terminal, lock| {
        let ask = "sh -c 'ps -o pgid=,tpgid=,sid= -p $$ > ids; ps -o pgid= -p $$'";
        terminal.run(&format!("{lock}{ask}"));
        let ids = terminal.home.read("ids");
        let ids: Vec<_> = ids.split_whitespace().collect();
        (ids[0] == ids[1], ids[0] == ids[2])
    });
}

#[test]
fn an_editor_reads_keys_without_an_end_of_line() {
    let shown = alike(|terminal, lock| {
        let edit =
            "stty raw -echo; printf ready; dd bs=1 count=3 2>/dev/null | od -An -c; stty -raw";
        terminal.type_in(&format!("{lock}sh -c '{edit}'"));
        terminal.expect("ready");
        terminal.keys("a\x03\r");
        terminal.prompt()
    });
    assert_eq!(shown, ("a 003  \\r".to_owned(), 0));
}

#[test]
fn ctrl_c_comes_to_the_command_once() {
    let shown = alike(|terminal, lock| {
        let count = "trap \"echo int >> ints\" INT; echo ready; \
                     while [ ! -s ints ]; do sleep 0.02; done; sleep 0.5; exit 130";
        terminal.type_in(&format!("{lock}sh -c '{count}'"));
        terminal.expect("ready");
        terminal.keys(CTRL_C);
        (terminal.prompt().1, terminal.home.read("ints"))
    });
    assert_eq!(shown, (130, "int\n".to_owned()));
}

#[test]
fn ctrl_c_ends_a_command_and_frees_the_lock() {
    let mut terminal = Terminal::new();
    terminal.type_in(&format!("{LOCK}sh -c 'echo ready; exec sleep 1000'"));
    terminal.expect("ready");
    terminal.keys(CTRL_C);
    assert_eq!(terminal.prompt().1, 130);
    assert_eq!(terminal.home.code(IS_FREE), Some(0));
}

#[test]
fn ctrl_c_ends_a_loop_around_a_command() {
    for shell in ["", "bash -c ", "sh -c "] {
        let code = alike(|terminal, lock| {
            let lines = format!("while true; do {lock}sh -c \"echo ready; exec sleep 1000\"; done");
            match shell {
                "" => terminal.type_in(&lines),
                _ => terminal.type_in(&format!("{shell}'{lines}'")),
            }
            terminal.expect("ready");
            terminal.keys(CTRL_C);
            terminal.prompt().1
        });
        assert_eq!(code, 130, "{shell}");
    }
}

#[test]
fn ctrl_c_ends_a_loop_that_waits_for_its_turn() {
    for shell in ["", "bash -c ", "sh -c "] {
        let mut terminal = Terminal::new();
        terminal.run(&format!("{LOCK}sleep 1000 &"));
        until("held", || terminal.home.named("sleep 1000").len() == 1);
        let lines = format!("while true; do {LOCK}true; done");
        match shell {
            "" => terminal.type_in(&lines),
            _ => terminal.type_in(&format!("{shell}'{lines}'")),
        }
        terminal.expect("has it");
        terminal.keys(CTRL_C);
        assert_eq!(terminal.prompt().1, 130, "{shell}");
    }
}

#[test]
fn a_command_that_ignores_ctrl_c_keeps_its_turn() {
    let mut terminal = Terminal::new();
    let ignore = "trap \"\" INT; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
    terminal.type_in(&format!("{LOCK}sh -c '{ignore}'"));
    terminal.expect("ready");
    terminal.keys(CTRL_C);
    assert_eq!(terminal.home.code(IS_FREE), Some(75));
    terminal.home.write("go", "");
    terminal.expect("went");
    assert_eq!(terminal.prompt().1, 0);
}

#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    let codes = alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}{UNTIL_GO}"));
        terminal.expect("ready");
        terminal.keys(CTRL_Z);
        terminal.expect("Stopped");
        let stopped = terminal.prompt().1;
        let is_stopped = state(pid(terminal, "pid"));
        assert!(terminal.run("jobs").0.contains("Stopped"));
        terminal.home.write("go", "");
        terminal.type_in("fg");
        terminal.expect("went");
        (stopped > 128, is_stopped, terminal.prompt().1)
    });
    assert_eq!(codes, (true, Some('T'), 0));
}

#[test]
fn ctrl_z_and_bg_let_the_job_go_on_in_the_background() {
    let shown = alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}{UNTIL_GO}"));
        terminal.expect("ready");
        for _ in 0..3 {
            terminal.keys(CTRL_Z);
            terminal.expect("Stopped");
            terminal.prompt();
            terminal.type_in("fg");
            let pid = pid(terminal, "pid");
            terminal.until("continued", |_| state(pid) != Some('T'));
        }
        terminal.keys(CTRL_Z);
        terminal.expect("Stopped");
        terminal.prompt();
        assert_eq!(terminal.run("bg").1, 0);
        assert!(terminal.run("jobs").0.contains("Running"));
        terminal.home.write("go", "");
        terminal.type_in("wait %1");
        terminal.expect("went");
        terminal.prompt().1
    });
    assert_eq!(shown, 0);
}

#[test]
fn a_job_that_is_stopped_for_longer_than_its_lease_is_ended_for_the_next() {
    let mut terminal = Terminal::new();
    terminal.type_in(&format!("{SHORT}{UNTIL_GO}"));
    terminal.expect("ready");
    terminal.keys(CTRL_Z);
    terminal.expect("Stopped");
    terminal.prompt();
    let stopped = pid(&terminal, "pid");
    let next = "fairlock run --local l.db a -- sh -c 'ps -o state= -p $(cat pid); true'";
    let next = terminal.home.command(next).output().unwrap();
    assert_eq!(next.status.code(), Some(0), "{next:?}");
    let shown = String::from_utf8(next.stdout).unwrap();
    assert!(shown.trim().is_empty() || shown.starts_with('Z'), "{shown}");
    terminal.until("dead", |_| matches!(state(stopped), None | Some('Z')));
    terminal.type_in("fg");
    terminal.expect("was lost");
    assert_eq!(terminal.prompt().1, 76);
}

#[test]
fn a_command_that_is_stopped_alone_stops_its_job() {
    let codes = alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}{UNTIL_GO}"));
        terminal.expect("ready");
        signal(pid(terminal, "pid"), Signal::STOP);
        terminal.expect("Stopped");
        let stopped = terminal.prompt().1;
        terminal.home.write("go", "");
        terminal.type_in("fg");
        terminal.expect("went");
        (stopped > 128, terminal.prompt().1)
    });
    assert_eq!(codes, (true, 0));
}

#[test]
fn a_command_that_is_stopped_and_continued_alone_goes_on_with_its_job() {
    for lock in ["", LOCK] {
        let mut terminal = Terminal::new();
        terminal.type_in(&format!("{lock}{UNTIL_GO}"));
        terminal.expect("ready");
        let pid = pid(&terminal, "pid");
        signal(pid, Signal::STOP);
        terminal.expect("Stopped");
        terminal.prompt();
        signal(pid, Signal::CONT);
        terminal.until("all go on", |home| {
            home.processes().iter().all(|process| process.state != 'T')
        });
        terminal.home.write("go", "");
        terminal.expect("went");
        assert_eq!(terminal.run("wait %1").1, 0);
    }
}

#[test]
fn a_command_that_ignores_ctrl_z_goes_on() {
    let shown = alike(|terminal, lock| {
        let ignore =
            "trap \"\" TSTP; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
        terminal.type_in(&format!("{lock}sh -c '{ignore}'"));
        terminal.expect("ready");
        terminal.keys(CTRL_Z);
        // What comes after it in the terminal came after it at the processes.
        terminal.keys("some words");
        terminal.home.write("go", "");
        terminal.expect("went");
        terminal.keys("\n");
        terminal.prompt().1
    });
    assert_eq!(shown, 0);
}

#[test]
fn ctrl_z_stops_one_that_waits_for_its_turn() {
    let mut terminal = Terminal::new();
    terminal.run(&format!("{LOCK}{UNTIL_GO} &"));
    terminal.expect("ready");
    terminal.type_in(&format!("{LOCK}echo mine"));
    terminal.expect("has it");
    terminal.keys(CTRL_Z);
    terminal.expect("Stopped");
    terminal.prompt();
    terminal.home.write("go", "");
    terminal.expect("went");
    terminal.type_in("fg");
    terminal.expect("mine");
    assert_eq!(terminal.prompt().1, 0);
}

#[test]
fn without_a_shell_nobody_could_continue_what_ctrl_z_stops() {
    for lock in ["", LOCK] {
        let mut terminal = Terminal::of(Home::new(), &format!("{lock}{UNTIL_GO}"));
        terminal.expect("ready");
        terminal.keys(CTRL_Z);
        terminal.keys("some words\n");
        terminal.home.write("go", "");
        terminal.expect("went");
        assert_eq!(terminal.end(), Some(0), "{lock}");
    }
}

#[test]
fn a_command_is_part_of_a_pipeline() {
    for (line, shown) in [
        ("LOCK sh -c 'echo one; echo two' | cat", "one\ntwo\n0 0"),
        ("seq 3 | LOCK cat", "1\n2\n3\n0 0"),
        ("seq 3 | LOCK cat | LOCK2 tail -1", "3\n0 0 0"),
        ("LOCK yes | head -1", "y\n141 0"),
        ("LOCK sh -c 'exit 3' | cat", "3 0"),
        (
            "LOCK sh -c 'echo one; echo two >&2' 2>&1 >/dev/null | cat",
            "two\n0 0",
        ),
        ("LOCK true < /dev/null | cat", "0 0"),
        // The reader has the keys, as a pager has.
        (
            "LOCK seq 2 | { cat; tty < /dev/tty | cut -c1-5; }",
            "1\n2\n/dev/\n0 0",
        ),
    ] {
        let got = alike(|terminal, lock| {
            let second = lock.replace(" a ", " b ");
            let line = line.replace("LOCK2 ", &second).replace("LOCK ", lock);
            terminal.run(&format!("{line}; echo ${{PIPESTATUS[@]}}")).0
        });
        assert_eq!(got, shown, "{line}");
    }
}

#[test]
fn a_pager_next_to_a_command_reads_the_keys() {
    let shown = alike(|terminal, lock| {
        let pager = "sh -c 'cat; echo page; read key < /dev/tty; echo got $key'";
        terminal.type_in(&format!("{lock}seq 2 | {pager}"));
        terminal.expect("page");
        terminal.type_in("q");
        terminal.prompt()
    });
    assert_eq!(shown, ("got q".to_owned(), 0));
}

#[test]
fn the_end_of_the_output_comes_when_the_command_closes_it() {
    alike(|terminal, lock| {
        let close = "echo one; exec >&-; while [ ! -e go ]; do sleep 0.02; done";
        terminal.type_in(&format!("{lock}sh -c '{close}' | {{ cat; echo end; }}"));
        terminal.expect("end");
        terminal.home.write("go", "");
        terminal.prompt().1
    });
}

#[test]
fn a_writer_is_told_when_the_command_closes_its_input() {
    alike(|terminal, lock| {
        let close = "exec <&-; while [ ! -e closed ]; do sleep 0.02; done";
        terminal.type_in(&format!(
            "{{ yes; echo > closed; }} | {lock}sh -c '{close}'"
        ));
        terminal.prompt().1
    });
}

#[test]
fn a_pipeline_stops_and_goes_on_as_one_job() {
    let code = alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}{UNTIL_GO} | cat"));
        terminal.expect("ready");
        terminal.keys(CTRL_Z);
        terminal.expect("Stopped");
        terminal.prompt();
        terminal.home.write("go", "");
        terminal.type_in("fg");
        terminal.expect("went");
        terminal.prompt().1
    });
    assert_eq!(code, 0);
}

#[test]
fn a_command_runs_in_the_background() {
    let shown = alike(|terminal, lock| {
        let (job, code) = terminal.run(&format!("{lock}{UNTIL_GO} > out &"));
        assert!(job.starts_with("[1]"), "{job}");
        terminal.home.wait_for("out");
        assert!(terminal.run("jobs").0.contains("Running"));
        terminal.home.write("go", "");
        let waited = terminal.run("wait %1").1;
        (code, waited, terminal.home.read("out"))
    });
    assert_eq!(shown, (0, 0, "ready\nwent\n".to_owned()));
}

#[test]
fn a_command_in_the_background_that_reads_the_terminal_is_stopped() {
    let shown = alike(|terminal, lock| {
        terminal.run(&format!("{lock}sh -c 'read word; echo got $word' &"));
        terminal.until("stopped", |home| {
            home.named("sh -c read")
                .iter()
                .any(|process| process.state == 'T')
        });
        let mut jobs = String::new();
        while !jobs.contains("Stopped") {
            jobs = terminal.run("jobs").0;
        }
        terminal.type_in("fg");
        terminal.type_in("some");
        terminal.expect("got some");
        (jobs.contains("(tty input)"), terminal.prompt().1)
    });
    assert_eq!(shown.1, 0);
}

#[test]
fn a_shell_inside_has_jobs_of_its_own() {
    alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}bash --norc --noediting -i"));
        assert_eq!(terminal.prompt(), (String::new(), 0));
        assert!(terminal.run("sleep 1000 &").0.starts_with("[1]"));
        assert!(terminal.run("jobs").0.contains("Running"));
        terminal.run("kill %1");
        assert_eq!(terminal.run("wait %1").1, 143);
        terminal.type_in("sh -c 'echo ready; exec sleep 1001'");
        terminal.expect("ready");
        terminal.keys(CTRL_Z);
        terminal.expect("Stopped");
        assert!(terminal.prompt().1 > 128);
        assert!(terminal.run("jobs").0.contains("Stopped"));
        terminal.type_in("fg");
        terminal.until("continued", |home| home.one("sleep 1001").state != 'T');
        terminal.keys(CTRL_C);
        assert_eq!(terminal.prompt().1, 130);
        terminal.type_in("exit 3");
        assert_eq!(terminal.prompt().1, 3);
        // The outer shell has the terminal back.
        terminal.type_in("cat");
        terminal.type_in("words");
        terminal.expect("words");
        terminal.keys(CTRL_D);
        assert_eq!(terminal.prompt().1, 0);
    });
}

#[test]
fn a_shell_inside_suspends_itself_and_comes_back() {
    alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}bash --norc --noediting -i"));
        terminal.prompt();
        terminal.type_in("PS1='in[$?]>'");
        terminal.expect("in[0]>");
        terminal.type_in("suspend");
        terminal.expect("Stopped");
        terminal.prompt();
        terminal.type_in("fg");
        terminal.expect("in[");
        terminal.expect("]>");
        terminal.type_in("echo $((6 * 7))");
        terminal.expect("42");
        terminal.expect("in[0]>");
        terminal.type_in("exit 4");
        terminal.prompt().1
    });
}

#[test]
fn a_command_may_make_groups_of_its_own() {
    let code = alike(|terminal, lock| {
        let groups = "set -m; sleep 1000 & echo ready; wait";
        terminal.type_in(&format!("{lock}sh -c '{groups}'"));
        terminal.expect("ready");
        terminal.keys(CTRL_C);
        let code = terminal.prompt().1;
        // Not of the group that was interrupted.
        assert_eq!(terminal.home.named("sleep 1000").len(), 1);
        code
    });
    assert_eq!(code, 130);
}

#[test]
fn a_daemon_that_a_command_leaves_behind_lives_on() {
    alike(|terminal, lock| {
        let daemon = "setsid sleep 1000 > /dev/null 2>&1 < /dev/null & sleep 0.1";
        assert_eq!(terminal.run(&format!("{lock}sh -c '{daemon}'")).1, 0);
        assert_eq!(terminal.home.named("sleep 1000").len(), 1);
        assert_eq!(terminal.home.code(IS_FREE), Some(0));
        assert_eq!(terminal.home.named("fairlock").len(), 0);
    });
}

/// Everything that a command may start to stay behind; each says `a` all the time.
const CLINGING: &str = r#"
beat='while :; do echo a >> ledger; sleep 0.02; done'
setsid sh -c "$beat" &
(setsid sh -c "$beat" &) &
nohup sh -c "$beat" > /dev/null 2>&1 &
sh -c "trap '' TERM HUP INT; $beat" &
setsid sh -c "trap '' TERM; (trap '' TERM; $beat) & $beat" &
sh -c 'kill -STOP $$; exec sh -c "$0"' "$beat" &
setsid sh -c 'trap "" TERM; kill -STOP $$; exec sh -c "$0"' "$beat" &
set -m
sh -c "$beat" &
bash -c 'hop() { echo a >> ledger; hop & }; hop' &
(while :; do sh -c 'sleep 0.001 & exec true'; done) &
sh -c "trap '' TERM; $beat"
"#;

/// Says `b`, and what else is there.
const NEXT: &str = "fairlock run --local l.db --lease 2s a -- sh -c 'echo b >> ledger; sleep 0.3; \
                    echo b >> ledger'";

/// Takes the lock with everything that clings to life, takes it away, and looks what the next sees.
#[track_caller]
fn nothing_outlives_its_turn(take_away: impl Fn(&Home)) -> Option<i32> {
    let home = Home::new();
    home.write("clinging", CLINGING);
    let mut holder = home.start(&format!("exec {SHORT}sh clinging"));
    until("all are at it", || home.lines("ledger").len() > 50);
    until("two are stopped", || {
        let stopped = |process: &terminal::Process| process.state == 'T';
        home.processes()
            .iter()
            .filter(|process| stopped(process))
            .count()
            == 2
    });
    let mut next = home.start(NEXT);
    until("the next waits", || home.named("fairlock run").len() == 2);
    take_away(&home);
    let mut ended = code(next.wait().unwrap());
    // It came to a table that was away before it had a place, and gave up.
    for _ in 0..20 {
        if ended == Some(69) {
            ended = code(home.start(NEXT).wait().unwrap());
        }
    }
    assert_eq!(ended, Some(0));
    let ledger = home.lines("ledger");
    let first = ledger.iter().position(|line| line == "b").unwrap();
    let counts = counted(&ledger[first..]);
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("b", 2)]);
    // One that is stopped continues only now.
    for process in home.named("fairlock run") {
        signal(process.pid, Signal::CONT);
    }
    let code = code(holder.wait().unwrap());
    home.nothing_runs();
    code
}

#[test]
fn nothing_outlives_a_holder_that_is_killed() {
    let code = nothing_outlives_its_turn(|home| {
        signal(holder(home), Signal::KILL);
    });
    assert_eq!(code, Some(137));
}

#[test]
fn nothing_outlives_a_holder_that_is_stopped() {
    let code = nothing_outlives_its_turn(|home| {
        signal(holder(home), Signal::STOP);
    });
    assert_eq!(code, Some(76));
}

#[test]
fn nothing_outlives_a_guardian_that_is_killed() {
    let code = nothing_outlives_its_turn(|home| {
        signal(home.one("fairlock guardian").pid, Signal::KILL);
    });
    assert_eq!(code, Some(70));
}

#[test]
fn nothing_outlives_a_lease_that_cannot_be_renewed() {
    let code = nothing_outlives_its_turn(keep_the_table_away);
    assert_eq!(code, Some(76));
}

#[test]
fn nothing_outlives_a_lease_whose_guardian_is_stopped() {
    let code = nothing_outlives_its_turn(|home| {
        signal(home.one("fairlock guardian").pid, Signal::STOP);
        keep_the_table_away(home);
    });
    assert_eq!(code, Some(76));
}

/// Until nothing of the holder is left.
fn keep_the_table_away(home: &Home) {
    let file = rusqlite::Connection::open(home.path().join("l.db")).unwrap();
    file.busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    until("nothing is left", || {
        let mut left = home.processes();
        left.retain(|process| !process.line.contains("fairlock") && process.line != "sleep 0.02 ");
        left.is_empty()
    });
}

fn holder(home: &Home) -> i32 {
    home.one("fairlock run --local l.db --lease 2s a -- sh clinging")
        .pid
}

#[test]
fn a_hang_up_ends_the_job() {
    alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}sh -c 'echo ready; sleep 1000'"));
        terminal.expect("ready");
        terminal.close();
        terminal.home.nothing_runs();
    });
}

#[test]
fn a_hang_up_ends_the_job_in_the_background() {
    alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}sh -c 'echo ready; sleep 1000' &"));
        terminal.expect("ready");
        terminal.close();
        terminal.home.nothing_runs();
    });
}

#[test]
fn a_hang_up_ends_the_job_that_is_stopped() {
    alike(|terminal, lock| {
        terminal.type_in(&format!("{lock}sh -c 'echo ready; exec sleep 1000'"));
        terminal.expect("ready");
        terminal.keys(CTRL_Z);
        terminal.expect("Stopped");
        terminal.close();
        terminal.home.nothing_runs();
    });
}

#[test]
fn a_command_with_nohup_survives_the_hang_up() {
    alike(|terminal, lock| {
        terminal.type_in(&format!("nohup {lock}{UNTIL_GO} > out 2>&1 &"));
        terminal.home.wait_for("pid");
        terminal.close();
        until("the shell is gone", || {
            terminal.home.named("bash --norc").is_empty()
        });
        terminal.home.write("go", "");
        until("the end", || terminal.home.read("out").contains("went"));
        terminal.home.nothing_runs();
    });
}

#[test]
fn a_guardian_that_is_killed_takes_the_command_with_it() {
    let mut terminal = Terminal::new();
    terminal.type_in(&format!(
        "{LOCK}sh -c 'echo ready; setsid sleep 1000 & sleep 1001'"
    ));
    terminal.expect("ready");
    until("two sleep", || {
        terminal
            .home
            .named("s")
            .iter()
            .filter(|p| p.line.starts_with("sleep 100"))
            .count()
            == 2
    });
    signal(terminal.home.one("fairlock guardian").pid, Signal::KILL);
    let (said, code) = terminal.prompt();
    assert!(said.contains("the guardian of `a` was killed"), "{said}");
    assert_eq!(code, 70);
    assert_eq!(terminal.home.named("sleep").len(), 0);
    assert_eq!(terminal.home.code(IS_FREE), Some(0));
}

#[test]
fn the_wait_is_shown_at_a_terminal_and_gone_afterwards() {
    let mut terminal = Terminal::new();
    terminal.run(&format!("{LOCK}{UNTIL_GO} > out &"));
    terminal.home.wait_for("out");
    terminal.type_in(&format!("{LOCK}echo mine"));
    terminal.expect("a: next");
    terminal.home.write("go", "");
    let (shown, code) = terminal.prompt();
    assert_eq!(code, 0);
    // The line is cleared before the command shows anything.
    assert!(shown.contains("\x1b[2K"), "{shown:?}");
    let after = shown.rsplit("\x1b[2K").next().unwrap();
    assert_eq!(after.lines().next(), Some("mine"), "{shown:?}");
}

#[test]
fn the_wait_is_not_shown_to_those_who_do_not_look() {
    let mut terminal = Terminal::new();
    // Nothing to wait for.
    assert_eq!(terminal.run(&format!("{LOCK}true")), (String::new(), 0));
    terminal.run(&format!("{LOCK}{UNTIL_GO} > out &"));
    terminal.home.wait_for("out");
    // In the background, and to a pipe.
    terminal.run(&format!("{LOCK}echo > second &"));
    terminal.run(&format!("{LOCK}echo > third 2> errors &"));
    until("three", || terminal.home.named("fairlock run").len() == 3);
    let (shown, _) = terminal.run("sleep 1");
    assert_eq!(shown, "");
    terminal.home.write("go", "");
    terminal.home.wait_for("third");
    let (shown, code) = terminal.run("wait");
    assert_eq!(code, 0);
    assert!(!terminal.transcript().contains('\x1b'), "{shown:?}");
    assert_eq!(terminal.home.read("errors"), "");
}

#[test]
fn a_signal_to_the_job_comes_to_the_command() {
    // From a shell it may come twice: who sends to the group and who sends to `fairlock run` alone look the same.
    let code = alike(|terminal, lock| {
        let wait =
            "trap \"code=3\" TERM; echo ready; until [ $code ]; do sleep 0.02; done; exit $code";
        terminal.type_in(&format!("{lock}sh -c '{wait}' &"));
        terminal.expect("ready");
        terminal.run("kill %1; wait %1").1
    });
    assert_eq!(code, 3);
}

#[test]
fn a_command_that_signals_its_own_group_hears_it_once() {
    let heard = alike(|terminal, lock| {
        let heard = "trap \"echo term >> terms\" TERM; kill 0; sleep 0.5 & wait; exit 3";
        let code = terminal.run(&format!("{lock}sh -c '{heard}'")).1;
        (code, terminal.home.read("terms"))
    });
    assert_eq!(heard, (3, "term\n".to_owned()));
}

#[test]
fn a_holder_that_is_killed_at_any_moment_leaves_nothing_behind() {
    let home = Home::new();
    let work = "fairlock run --local l.db --lease 2s a -- sh -c 'echo b$$ >> ledger; sleep 0.1; \
                (setsid sleep 0.2; echo c$$ >> ledger) & sleep 0.1; echo e$$ >> ledger; wait'";
    for turn in 0_u32..20 {
        let mut runs: Vec<_> = (0..2)
            .map(|_| home.start(&format!("exec {work}")))
            .collect();
        // Spread over the life of one, from before the grant to the end.
        let moment = std::time::Duration::from_millis(u64::from(turn) * 40);
        wait(moment);
        if let Some(process) = home.named("fairlock run").first() {
            signal(process.pid, Signal::KILL);
        }
        for run in &mut runs {
            let code = code(run.wait().unwrap());
            assert!(matches!(code, Some(0 | 137)), "{turn}: {code:?}");
        }
        home.nothing_runs();
    }
    // Between the first and the last line of one there is none of another.
    let ledger = home.lines("ledger");
    let mut ended = Vec::new();
    for lines in ledger.chunk_by(|one, other| one[1..] == other[1..]) {
        let who = &lines[0][1..];
        assert!(!ended.contains(&who), "{who} is back in {ledger:?}");
        ended.push(who);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a real process is killed at some moment of its life"
)]
fn wait(moment: std::time::Duration) {
    std::thread::sleep(moment);
}
