//! A command is a job of the shell: stopped, continued, in the background, and in a pipeline.

use rustix::process::Signal;

use super::processes::{signal, state};
use super::pty::Terminal;
use super::scenario::{CTRL_C, CTRL_D, CTRL_Z, IS_FREE, LOCK, SHORT, UNTIL_GO, alike, pid};
use crate::command::rows;
use crate::home::Home;

/// Also as a pipeline.
#[test]
fn ctrl_z_stops_the_job_and_fg_continues_it() {
    for rest in ["", " | cat"] {
        let codes = alike(|terminal, lock| {
            terminal.ready(&format!("{lock}{UNTIL_GO}{rest}"));
            let stopped = terminal.stops();
            let is_stopped = state(pid(terminal));
            assert!(terminal.run("jobs").0.contains("Stopped"));
            (stopped > 128, is_stopped, terminal.goes("fg"))
        });
        assert_eq!(codes, (true, Some('T'), 0));
    }
}

#[test]
fn ctrl_z_and_bg_let_the_job_go_on_in_the_background() {
    let shown = alike(|terminal, lock| {
        terminal.ready(&format!("{lock}{UNTIL_GO}"));
        for _ in 0..3 {
            terminal.stops();
            terminal.type_in("fg");
            let pid = pid(terminal);
            terminal.until("continued", |_| state(pid) != Some('T'));
        }
        terminal.stops();
        assert_eq!(terminal.run("bg").1, 0);
        assert!(terminal.run("jobs").0.contains("Running"));
        terminal.goes("wait %1")
    });
    assert_eq!(shown, 0);
}

#[test]
fn a_job_that_is_stopped_for_longer_than_its_lease_is_ended_for_the_next() {
    let mut terminal = Terminal::new();
    terminal.ready(&format!("{SHORT}{UNTIL_GO}"));
    terminal.stops();
    let stopped = pid(&terminal);
    let next = terminal
        .home
        .sh("", "cut -d' ' -f3 /proc/$(cat pid)/stat; true");
    assert_eq!(next.code, Some(0), "{next:?}");
    let shown = next.out.trim();
    assert!(shown.is_empty() || shown == "Z", "{shown}");
    terminal.until("dead", |_| matches!(state(stopped), None | Some('Z')));
    // It need not be continued for that.
    terminal.expect("was lost");
    assert_eq!(terminal.run("wait %1").1, 76);
}

#[test]
fn a_command_that_is_stopped_alone_stops_its_job() {
    let codes = alike(|terminal, lock| {
        terminal.ready(&format!("{lock}{UNTIL_GO}"));
        signal(pid(terminal), Signal::STOP);
        terminal.expect("Stopped");
        (terminal.prompt().1 > 128, terminal.goes("fg"))
    });
    assert_eq!(codes, (true, 0));
}

#[test]
fn a_command_that_is_stopped_and_continued_alone_goes_on_with_its_job() {
    for lock in ["", LOCK] {
        let mut terminal = Terminal::new();
        terminal.ready(&format!("{lock}{UNTIL_GO}"));
        let pid = pid(&terminal);
        signal(pid, Signal::STOP);
        terminal.expect("Stopped");
        terminal.prompt();
        signal(pid, Signal::CONT);
        terminal.until("all go on", |home| {
            home.processes().iter().all(|process| process.state != 'T')
        });
        terminal.home.go();
        terminal.expect("went");
        assert_eq!(terminal.run("wait %1").1, 0);
    }
}

#[test]
fn a_command_that_ignores_ctrl_z_goes_on() {
    let shown = alike(|terminal, lock| {
        let ignore =
            "trap \"\" TSTP; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
        terminal.ready(&format!("{lock}sh -c '{ignore}'"));
        terminal.keys(CTRL_Z);
        terminal.type_ahead("some words");
        terminal.home.go();
        terminal.expect("went");
        terminal.prompt().1
    });
    assert_eq!(shown, 0);
}

/// Otherwise the waiters behind it would wait for its lease to end when its turn comes.
#[test]
fn one_that_is_stopped_while_it_waits_leaves_the_queue_and_comes_back_to_its_end() {
    let mut terminal = Terminal::new();
    terminal.run_behind(&format!("{LOCK}{UNTIL_GO}"), "ready");
    terminal.type_in(&format!("{LOCK}echo mine"));
    terminal.expect("has it");
    terminal.stops();
    assert_eq!(terminal.home.shown()["waiting"], 0);
    terminal.home.go();
    terminal.expect("went");
    // Free at once, and not only after a lease has ended.
    assert_eq!(terminal.run(IS_FREE).1, 0);
    terminal.type_in("fg");
    terminal.expect("mine");
    assert_eq!(terminal.prompt().1, 0);
    // The time for which it stood still counts.
    terminal.run_behind(&format!("{LOCK}sh -c 'echo held; sleep 60'"), "held");
    terminal.type_in("fairlock run --local locks.db --wait 2s a -- echo mine");
    terminal.expect("has it");
    terminal.stops();
    terminal.run("sleep 2");
    terminal.type_in("fg");
    terminal.expect("was not granted");
    assert_eq!(terminal.prompt().1, 75);
}

#[test]
fn without_a_shell_nobody_could_continue_what_ctrl_z_stops() {
    for lock in ["", LOCK] {
        let mut terminal = Terminal::of(Home::new(), &format!("{lock}{UNTIL_GO}"));
        terminal.expect("ready");
        terminal.keys(CTRL_Z);
        terminal.type_ahead("some words");
        terminal.home.go();
        terminal.expect("went");
        assert_eq!(terminal.end(), Some(0), "{lock}");
    }
}

#[test]
fn a_command_is_part_of_a_pipeline() {
    // `@` stands for the bar between two commands, and `;` between the lines that are shown. The reader receives the keys, as a pager does.
    const LINES: &str = r"
        LOCK sh -c 'echo one; echo two' @ cat                       | one;two;0 0
        seq 3 @ LOCK cat                                            | 1;2;3;0 0
        seq 3 @ LOCK cat @ LOCK2 tail -1                            | 3;0 0 0
        LOCK yes @ head -1                                          | y;141 0
        LOCK sh -c 'exit 3' @ cat                                   | 3 0
        LOCK sh -c 'echo one; echo two >&2' 2>&1 >/dev/null @ cat   | two;0 0
        LOCK true < /dev/null @ cat                                 | 0 0
        LOCK seq 2 @ { cat; tty <&2 @ cut -c1-5; }                  | 1;2;/dev/;0 0
    ";
    // One terminal is enough for all of them.
    alike(|terminal, lock| {
        for [line, shown] in rows(LINES) {
            let second = lock.replace(" a ", " b ");
            let line = line.replace("LOCK2 ", &second).replace("LOCK ", lock);
            let line = line.replace('@', "|");
            let got = terminal.run(&format!("{line}; echo ${{PIPESTATUS[@]}}")).0;
            assert_eq!(got, shown.replace(';', "\n"), "{line}");
        }
    });
}

#[test]
fn a_pager_next_to_a_command_reads_the_keys() {
    let shown = alike(|terminal, lock| {
        let pager = "sh -c 'cat; echo page; read key <&2; echo got $key'";
        terminal.type_in(&format!("{lock}seq 2 | {pager}"));
        terminal.expect("page");
        terminal.type_in("q");
        terminal.prompt()
    });
    assert_eq!(shown, ("got q".to_owned(), 0));
}

#[test]
fn the_end_of_the_output_and_of_the_input_come_when_the_command_closes_them() {
    alike(|terminal, lock| {
        let close = "echo one; exec >&-; while [ ! -e go ]; do sleep 0.02; done";
        terminal.type_in(&format!("{lock}sh -c '{close}' | {{ cat; echo end; }}"));
        terminal.expect("end");
        terminal.home.go();
        let code = terminal.prompt().1;
        let close = "exec <&-; while [ ! -e closed ]; do sleep 0.02; done";
        let line = format!("{{ yes; echo > closed; }} | {lock}sh -c '{close}'");
        (code, terminal.run(&line).1)
    });
}

#[test]
fn a_command_runs_in_the_background() {
    let shown = alike(|terminal, lock| {
        let (job, code) = terminal.run(&format!("{lock}{UNTIL_GO} > out &"));
        assert!(job.starts_with("[1]"), "{job}");
        terminal.home.wait_for("out");
        assert!(terminal.run("jobs").0.contains("Running"));
        terminal.home.go();
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
            let reads = home.named("sh -c read");
            reads.iter().any(|process| process.state == 'T')
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
        // In one line: a shell that reports the end at its prompt forgets the job.
        assert_eq!(terminal.run("kill %1; wait $!").1, 143);
        terminal.ready("sh -c 'echo ready; exec sleep 1001'");
        assert!(terminal.stops() > 128);
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
        terminal.ready(&format!("{lock}sh -c '{groups}'"));
        terminal.keys(CTRL_C);
        let code = terminal.prompt().1;
        // This process is not in the group that was interrupted.
        terminal.home.one("sleep 1000");
        code
    });
    assert_eq!(code, 130);
}

#[test]
fn a_daemon_that_a_command_leaves_behind_lives_on() {
    alike(|terminal, lock| {
        let daemon = "setsid sh -c \"echo > gone; exec sleep 1000\" > /dev/null 2>&1 < /dev/null & \
                      while [ ! -e gone ]; do sleep 0.02; done";
        assert_eq!(terminal.run(&format!("{lock}sh -c '{daemon}'")).1, 0);
        terminal.home.one("sleep 1000");
        assert_eq!(terminal.home.code(IS_FREE), Some(0));
        assert_eq!(terminal.home.named("fairlock").len(), 0);
    });
}
