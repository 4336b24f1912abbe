//! `fairlock top` takes the terminal over, and gives it back however it ends.

use std::time::Instant;

use rustix::process::Signal;

use super::processes::signal;
use super::pty::Terminal;
use super::scenario::{CTRL_C, LOCK, UNTIL_GO};
use crate::home::Home;
use crate::running::Running;

/// What takes the terminal over, and what gives it back.
const TAKEN: &str = "\x1b[?1049h";
const BACK: &str = "\x1b[?1049l";
const TOP: &str = "fairlock top --local locks.db --every 100ms";

/// A terminal in which a lock is held in the background.
fn held() -> Terminal {
    let mut terminal = Terminal::new();
    terminal.run(&format!("{LOCK}{UNTIL_GO} > out &"));
    terminal.home.wait_for("out");
    terminal
}

/// Runs `top`, does something with it, and checks that the terminal is as it was. Returns what came last, and the exit code.
#[track_caller]
fn given_back(
    terminal: &mut Terminal,
    line: &str,
    act: impl FnOnce(&mut Terminal),
) -> (String, i32) {
    let before = terminal.run("stty -a");
    terminal.type_in(line);
    terminal.expect(TAKEN);
    act(terminal);
    terminal.expect(BACK);
    let ended = terminal.prompt();
    assert_eq!(terminal.run("stty -a"), before);
    ended
}

#[test]
fn a_lock_is_shown_inspected_filtered_and_q_ends_it() {
    let mut terminal = held();
    let (_, code) = given_back(&mut terminal, TOP, |terminal| {
        terminal.expect("TURNS/MIN");
        terminal.expect("30s");
        terminal.keys("\r");
        terminal.expect("STAGE");
        terminal.keys("\x1b");
        terminal.expect("TURNS/MIN");
        terminal.keys("/zzz");
        terminal.expect("such");
        // An escape and a letter in one are a command of the terminal's.
        terminal.keys("\x1b");
        terminal.expect("TURNS/MIN");
        terminal.keys("q");
    });
    assert_eq!(code, 0);
}

#[test]
fn ctrl_c_ends_it_and_so_does_a_signal() {
    let mut terminal = held();
    let (_, code) = given_back(&mut terminal, TOP, |terminal| {
        terminal.expect("TURNS/MIN");
        terminal.keys(CTRL_C);
    });
    assert_eq!(code, 0);
    for (number, expected) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let (_, code) = given_back(&mut terminal, TOP, |terminal| {
            terminal.expect("TURNS/MIN");
            signal(terminal.home.one("fairlock top").pid, number);
        });
        assert_eq!(code, expected);
    }
}

#[test]
fn an_error_and_a_panic_are_told_after_the_terminal_is_given_back() {
    let mut terminal = held();
    let (told, code) = given_back(&mut terminal, &format!("{TOP} --table none"), |_| {});
    assert_eq!(code, 69, "{told}");
    assert!(told.contains("none"), "{told}");
    let (told, code) = given_back(&mut terminal, &format!("{TOP} --plant-panic"), |_| {});
    assert_eq!(code, 101, "{told}");
    assert!(told.contains("planted"), "{told}");
}

#[test]
fn a_terminal_that_hangs_up_ends_it() {
    let home = Home::new();
    let mut terminal = Terminal::of(home, TOP);
    terminal.expect("no");
    terminal.close();
    terminal.end();
    terminal.home.nothing_runs();
}

#[test]
fn a_file_that_is_to_come_is_read_when_it_has_come() {
    let mut terminal = Terminal::new();
    terminal.type_in("fairlock top --local new.db --every 100ms");
    terminal.expect("locks");
    let made = "fairlock run --local new.db fresh -- true";
    assert_eq!(terminal.home.code(made), Some(0));
    terminal.expect("fresh");
    terminal.expect("free");
    terminal.keys("q");
    assert_eq!(terminal.prompt().1, 0);
}

/// A server answers, and counts by its own log how often it is asked.
#[test]
fn keys_cause_no_reads_and_there_is_at_most_one_in_each_interval() {
    let mut terminal = Terminal::new();
    let serve = "exec fairlock serve --local locks.db --listen 127.0.0.1:0 --log 2> log";
    let mut serve = terminal.home.script(serve);
    let mut served = Running::spawn(&mut serve, terminal.home.path());
    let url = served.line();
    let at = format!(
        "AWS_REGION=x AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x FAIRLOCK_ENDPOINT_URL={}",
        url.trim_end()
    );
    assert_eq!(terminal.run(&format!("{LOCK}true")).1, 0);
    let began = Instant::now();
    terminal.type_in(&format!("{at} fairlock top --every 2s"));
    terminal.expect("TURNS/MIN");
    for _ in 0..40 {
        terminal.keys("s/a\r\x1b[B\x1b[A");
        terminal.keys("\r");
    }
    // Each read, of a small table or of one lock, is one request.
    let reads = |home: &Home| home.lines("log").len() - 1;
    terminal.until("a second read", |home| reads(home) > 1);
    let (asked, most) = (reads(&terminal.home), began.elapsed().as_secs() / 2 + 1);
    let log = terminal.home.read("log");
    assert!(asked as u64 <= most, "{asked} reads: {log}");
    terminal.keys(CTRL_C);
    assert_eq!(terminal.prompt().1, 0);
}
