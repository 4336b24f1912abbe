//! Nothing of a command outlives its turn.

use fairlock_testkit::effort::sampled;
use rustix::process::Signal;

use super::pty::{Home, Process, Terminal, code, counted, signal, until};
use super::scenario::{IS_FREE, LOCK, SHORT};

/// Everything that a command may start to stay behind. Each process writes `a` all the time.
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

/// Writes `b`, and what else is there.
const NEXT: &str = "fairlock run --local l.db --lease 2s a -- sh -c 'echo b >> ledger; sleep 0.3; \
                    echo b >> ledger'";

/// Takes the lock with all these processes, takes the lock away, and checks what the next command sees.
#[track_caller]
fn nothing_outlives_its_turn(take_away: impl Fn(&Home)) -> Option<i32> {
    let home = Home::new();
    home.write("clinging", CLINGING);
    let mut holder = home.start(&format!("exec {SHORT}sh clinging"));
    until("all are at it", || home.lines("ledger").len() > 50);
    until("two are stopped", || {
        let stopped = |process: &Process| process.state == 'T';
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
    // The table was away before it had a place, so it gave up.
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
    // A holder that was stopped continues only now.
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
fn nothing_outlives_a_supervisor_that_is_killed() {
    let code = nothing_outlives_its_turn(|home| {
        signal(supervisor(home), Signal::KILL);
    });
    assert_eq!(code, Some(70));
}

#[test]
fn nothing_outlives_a_lease_that_cannot_be_renewed() {
    let code = nothing_outlives_its_turn(keep_the_table_away);
    assert_eq!(code, Some(76));
}

#[test]
fn nothing_outlives_a_lease_whose_supervisor_is_stopped() {
    let code = nothing_outlives_its_turn(|home| {
        signal(supervisor(home), Signal::STOP);
        keep_the_table_away(home);
    });
    assert_eq!(code, Some(76));
}

/// Keeps the table away until nothing of the holder is left.
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

/// The supervisor of the holder: the next command has one too.
fn supervisor(home: &Home) -> i32 {
    let supervisors = home.named("fairlock supervisor");
    let mut its = supervisors
        .iter()
        .filter(|one| one.line.ends_with("clinging "));
    its.next().unwrap().pid
}

fn holder(home: &Home) -> i32 {
    home.one("fairlock run --local l.db --lease 2s a -- sh clinging")
        .pid
}

#[test]
fn a_supervisor_that_is_killed_takes_the_command_with_it() {
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
    signal(terminal.home.one("fairlock supervisor").pid, Signal::KILL);
    let (said, code) = terminal.prompt();
    assert!(said.contains("the supervisor of `a` was killed"), "{said}");
    assert_eq!(code, 70);
    assert_eq!(terminal.home.named("sleep").len(), 0);
    assert_eq!(terminal.home.code(IS_FREE), Some(0));
}

#[test]
fn a_holder_that_is_killed_at_any_moment_leaves_nothing_behind() {
    let home = Home::new();
    let work = "fairlock run --local l.db --lease 2s a -- sh -c 'echo b$$ >> ledger; sleep 0.1; \
                (setsid sleep 0.2; echo c$$ >> ledger) & sleep 0.1; echo e$$ >> ledger; wait'";
    for turn in sampled(0_u32..20, 3) {
        let mut runs: Vec<_> = (0..2)
            .map(|_| home.start(&format!("exec {work}")))
            .collect();
        // Spread over the life of one command, from before the grant to the end.
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
    // Between the first and the last line of a command there is no line of another.
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
