//! Nothing of a command outlives its turn.

use std::time::Duration;

use fairlock_testkit::effort::sampled;
use fairlock_testkit::real_time;
use rustix::process::Signal;

use super::processes::signal;
use super::pty::code;
use crate::clients::key;
use crate::command::{PROGRAM, Said};
use crate::home::Home;
use crate::running::{Running, until};

/// Everything that a command may start to stay behind. Each process writes `a` all the time. The first thread of the last one has ended, so
/// it looks dead; it is not there without Python.
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
python3 2> /dev/null -c 'import ctypes, threading, time
def beat():
    while True:
        open("ledger", "a").write("a\n")
        time.sleep(0.02)
threading.Thread(target=beat).start()
ctypes.CDLL(None).pthread_exit(None)' &
sh -c "trap '' TERM; $beat"
"#;

/// Writes `b`, and what else is there.
const NEXT: &str = "echo b >> ledger; sleep 0.3; echo b >> ledger";

/// Takes the lock with all these processes.
fn clinging(flags: &str) -> (Home, Running) {
    let home = Home::new();
    home.write("clinging", CLINGING);
    let holder = home.start(&format!("run {flags} a -- sh clinging"));
    until("all are at it", || home.lines("ledger").len() > 50);
    let are_stopped = || home.processes().iter().filter(|it| it.state == 'T').count() == 2;
    until("two are stopped", are_stopped);
    (home, holder)
}

/// The holder ends, and nothing is left of it.
#[track_caller]
fn ended(home: &Home, holder: Running) -> Said {
    until("its end", || holder.has_ended());
    home.nothing_runs();
    holder.end()
}

/// Takes the lock away from all these processes, and checks what the next command sees.
#[track_caller]
fn nothing_outlives_its_turn(flags: &str, take_away: impl Fn(&Home)) -> Said {
    let (home, holder) = clinging(flags);
    let next = || home.start_sh("--lease 30s", NEXT);
    let waits = next();
    until("the next waits", || home.has_a_successor());
    take_away(&home);
    let mut next_ended = waits.end();
    // The table was away before it had a place, so it gave up.
    for _ in 0..20 {
        if next_ended.code == Some(69) {
            next_ended = next().end();
        }
    }
    next_ended.assert_ended(0, &[]);
    let ledger = home.lines("ledger");
    let first = ledger.iter().position(|line| line == "b").unwrap();
    let others = ledger[first..].iter().filter(|line| *line != "b");
    assert_eq!(others.count(), 0, "{ledger:?}");
    // A holder that was stopped continues only now.
    signal(holder.pid().as_raw_pid(), Signal::CONT);
    ended(&home, holder)
}

fn signal_holder(home: &Home, number: Signal) {
    let holders = home.named(PROGRAM);
    let holder = holders.iter().find(|it| it.line.ends_with("clinging "));
    signal(holder.unwrap().pid, number);
}

/// Signals the supervisor of the holder: the next command has one too.
fn signal_supervisor(home: &Home, number: Signal) {
    let supervisors = home.named("fairlock supervisor");
    let its = supervisors.iter().find(|it| it.line.ends_with("clinging "));
    signal(its.unwrap().pid, number);
}

/// A lease whose end is waited for. The kill comes a second before it, also on a machine that is as busy as these processes make it.
const SHORT: &str = "--lease 8s";
/// A lease that is longer than a test: its end is not waited for.
const LONG: &str = "--lease 10m --kill-after 100ms";

#[test]
fn nothing_outlives_a_holder_that_is_killed() {
    let kill = |home: &Home| signal_holder(home, Signal::KILL);
    nothing_outlives_its_turn(LONG, kill).assert_ended(137, &[]);
}

#[test]
fn nothing_outlives_a_holder_that_is_stopped() {
    let stop = |home: &Home| signal_holder(home, Signal::STOP);
    let words = ["lock `a` was lost"];
    nothing_outlives_its_turn(SHORT, stop).assert_ended(76, &words);
}

#[test]
fn nothing_outlives_a_supervisor_that_is_killed() {
    let kill = |home: &Home| signal_supervisor(home, Signal::KILL);
    let words = ["the supervisor of `a` was killed"];
    nothing_outlives_its_turn(LONG, kill).assert_ended(70, &words);
}

#[test]
fn nothing_outlives_a_lease_that_cannot_be_renewed() {
    nothing_outlives_its_turn(SHORT, keep_the_table_away).assert_ended(76, &[]);
}

#[test]
fn nothing_outlives_a_lease_whose_supervisor_is_stopped() {
    let ended = nothing_outlives_its_turn(SHORT, |home| {
        signal_supervisor(home, Signal::STOP);
        keep_the_table_away(home);
    });
    ended.assert_ended(76, &[]);
}

/// Also if its supervisor stands still. The next one, which the table then lets in at once, is none of this.
#[test]
fn nothing_outlives_a_lock_that_somebody_takes_away() {
    for is_stopped in [false, true] {
        let (home, holder) = clinging("--lease 3s --lost-exit-code 42");
        if is_stopped {
            signal_supervisor(&home, Signal::STOP);
        }
        delete_lock(&home);
        ended(&home, holder).assert_ended(42, &[]);
    }
}

/// Deletes the lock's item without the client's knowledge.
fn delete_lock(home: &Home) {
    real_time(async {
        let [(pk, lock), (sk, item)] = key("a");
        let delete = home.engine().client().delete_item().table_name("fairlock");
        delete.key(pk, lock).key(sk, item).send().await.unwrap();
    });
}

/// Keeps the table away until nothing of the holder is left.
fn keep_the_table_away(home: &Home) {
    keep_the_table_away_until(home, || {
        let mut left = home.processes();
        left.retain(|process| !process.line.contains("fairlock") && process.line != "sleep 0.02 ");
        left.is_empty()
    });
}

fn keep_the_table_away_until(home: &Home, then: impl Fn() -> bool) {
    let file = rusqlite::Connection::open(home.file("locks.db")).unwrap();
    file.busy_timeout(Duration::from_secs(10)).unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    until("the table may come back", then);
}

/// Its parts are gone by then, and whoever looks at its exit code would think that it ended by itself.
#[test]
fn a_command_that_was_told_to_end_is_not_spared_by_a_renewal_that_comes_after_all() {
    let home = Home::new();
    home.write("deaf", "trap 'echo told >> ledger' TERM; echo ready >> ledger; for i in $(seq 600); do sleep 0.1; done");
    let holder = home.start("run --lease 9s --kill-after 3s a -- sh deaf");
    let has = |word: &str| home.lines("ledger").iter().any(|line| line == word);
    until("it is ready", || has("ready"));
    keep_the_table_away_until(&home, || has("told"));
    ended(&home, holder).assert_ended(76, &["lock `a` was lost", "could not be renewed"]);
}

#[test]
fn a_holder_that_is_killed_at_any_moment_leaves_nothing_behind() {
    let home = Home::new();
    let work = "exec fairlock run --local locks.db --lease 10s a -- sh -c 'echo b$$ >> ledger; sleep 0.1; \
                (setsid sleep 0.2; echo c$$ >> ledger) & sleep 0.1; echo e$$ >> ledger; wait'";
    for turn in sampled(0_u32..20, 3) {
        let mut runs = [home.spawn(work), home.spawn(work)];
        // Spread over the life of one command, from before the grant to the end.
        std::thread::sleep(Duration::from_millis(u64::from(turn) * 40));
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
