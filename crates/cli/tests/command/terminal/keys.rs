//! The terminal is the command's: what is typed, its name and size, and its interrupts.

use super::processes::state;
use super::pty::{COLUMNS, ROWS, Terminal};
use super::scenario::{CTRL_C, CTRL_D, IS_FREE, LOCK, UNTIL_GO, alike, pid};
use crate::running::until;

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
fn a_command_has_the_terminal_with_its_name_and_size_and_is_in_the_foreground() {
    let mut terminal = Terminal::new();
    let ask = "sh -c 'tty; stty size; for f in 0 1 2; do [ -t $f ] && echo tty $f; done'";
    let without = terminal.run(ask);
    let with = terminal.run(&format!("{LOCK}{ask}"));
    assert_eq!(with, without);
    assert!(with.0.contains(&format!("{ROWS} {COLUMNS}")), "{with:?}");
    assert!(with.0.contains("tty 2"), "{with:?}");
    let in_group_of_its_job = ["", LOCK].map(|lock| {
        let ask = "sh -c 'cut -d\" \" -f5,6,8 /proc/$$/stat > ids'";
        terminal.run(&format!("{lock}{ask}"));
        let ids = terminal.home.read("ids");
        let ids: Vec<_> = ids.split_whitespace().collect();
        (ids[0] == ids[2], ids[0] == ids[1])
    });
    assert_eq!(in_group_of_its_job[0], in_group_of_its_job[1]);
}

#[test]
fn an_editor_reads_keys_without_an_end_of_line() {
    let shown = alike(|terminal, lock| {
        let edit =
            "stty raw -echo; printf ready; dd bs=1 count=3 2>/dev/null | od -An -c; stty -raw";
        terminal.ready(&format!("{lock}sh -c '{edit}'"));
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
        terminal.ready(&format!("{lock}sh -c '{count}'"));
        terminal.keys(CTRL_C);
        (terminal.prompt().1, terminal.home.read("ints"))
    });
    assert_eq!(shown, (130, "int\n".to_owned()));
}

/// Shells that run a loop: the one at the terminal, and two that it starts.
const SHELLS: [&str; 3] = ["", "bash -c ", "sh -c "];

fn looping(shell: &str, command: &str) -> String {
    let lines = format!("while true; do {command}; done");
    match shell {
        "" => lines,
        _ => format!("{shell}'{lines}'"),
    }
}

#[test]
fn ctrl_c_ends_a_command_and_a_loop_around_it_and_frees_the_lock() {
    for shell in SHELLS {
        let code = alike(|terminal, lock| {
            let sleeps = format!("{lock}sh -c \"echo ready; exec sleep 1000\"");
            terminal.ready(&looping(shell, &sleeps));
            terminal.keys(CTRL_C);
            let code = terminal.prompt().1;
            assert_eq!(terminal.home.code(IS_FREE), Some(0));
            code
        });
        assert_eq!(code, 130, "{shell}");
    }
}

#[test]
fn ctrl_c_ends_a_loop_that_waits_for_its_turn() {
    let mut terminal = Terminal::new();
    terminal.run(&format!("{LOCK}sleep 1000 &"));
    terminal.home.one("sleep 1000");
    for shell in SHELLS {
        terminal.type_in(&looping(shell, &format!("{LOCK}true")));
        terminal.expect("has it");
        terminal.keys(CTRL_C);
        assert_eq!(terminal.prompt().1, 130, "{shell}");
    }
}

#[test]
fn a_command_that_ignores_ctrl_c_keeps_its_turn() {
    let mut terminal = Terminal::new();
    let ignore = "trap \"\" INT; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
    terminal.ready(&format!("{LOCK}sh -c '{ignore}'"));
    terminal.keys(CTRL_C);
    assert_eq!(terminal.home.code(IS_FREE), Some(75));
    terminal.home.go();
    terminal.expect("went");
    assert_eq!(terminal.prompt().1, 0);
}

#[test]
fn the_wait_is_shown_at_a_terminal_and_gone_afterwards() {
    let mut terminal = Terminal::new();
    terminal.run(&format!("{LOCK}{UNTIL_GO} > out &"));
    terminal.home.wait_for("out");
    terminal.type_in(&format!("{LOCK}echo mine"));
    terminal.expect("has it, you are next");
    terminal.home.go();
    let (shown, code) = terminal.prompt();
    assert_eq!(code, 0);
    // The line is cleared before the command shows anything.
    assert!(shown.contains("\x1b[2K"), "{shown:?}");
    let after = shown.rsplit("\x1b[2K").next().unwrap();
    assert_eq!(after.lines().next(), Some("mine"), "{shown:?}");
}

#[test]
fn the_wait_is_not_shown_in_the_background_or_to_a_pipe() {
    let mut terminal = Terminal::new();
    // Nothing to wait for.
    assert_eq!(terminal.run(&format!("{LOCK}true")), (String::new(), 0));
    terminal.run(&format!("{LOCK}{UNTIL_GO} > out &"));
    terminal.home.wait_for("out");
    // In the background, and to a pipe.
    terminal.run(&format!("{LOCK}echo > second &"));
    terminal.run("fairlock run --quiet --local locks.db a -- echo > third 2> errors &");
    until("three", || terminal.home.named("fairlock run").len() == 3);
    let (shown, _) = terminal.run("sleep 1");
    assert_eq!(shown, "");
    terminal.home.go();
    terminal.home.wait_for("third");
    let (shown, code) = terminal.run("wait");
    assert_eq!(code, 0);
    assert!(!terminal.transcript().contains('\x1b'), "{shown:?}");
    assert_eq!(terminal.home.read("errors"), "");
}

#[test]
fn a_hold_at_a_terminal_ends_by_ctrl_d_and_by_ctrl_c() {
    let mut terminal = Terminal::new();
    for key in [CTRL_D, CTRL_C] {
        terminal.type_in("fairlock hold --local locks.db a");
        // A ticket counts from the time in microseconds, so it has more digits than any place in the queue. It is shown once keys are heard.
        let is_number = |word: &str| word.len() >= 16 && word.bytes().all(|it| it.is_ascii_digit());
        while !terminal.expect("\n").split_whitespace().any(is_number) {}
        until("a holder", || terminal.home.code(IS_FREE) == Some(75));
        terminal.keys(key);
        assert_eq!(terminal.prompt().1, 0);
        assert_eq!(terminal.home.code(IS_FREE), Some(0));
        assert!(terminal.home.named("fairlock").is_empty());
    }
}

/// The table is kept away while the lock is released, and the key is pressed then. A shell's loop must end by it.
#[test]
fn ctrl_c_while_the_lock_is_released_ends_the_loop() {
    let mut terminal = Terminal::new();
    let once = "sh -c 'echo $$ > pid; echo ready; while [ ! -e go ]; do sleep 0.02; done'";
    terminal.ready(&format!("while :; do {LOCK}{once}; done; echo after"));
    let file = rusqlite::Connection::open(terminal.home.file("locks.db")).unwrap();
    file.busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    terminal.home.go();
    let command = pid(&terminal);
    until("the command is over", || state(command).is_none());
    // One key before the end of the command is known would be the command's.
    let mut presses = 0;
    until("twenty presses", || {
        terminal.keys(CTRL_C);
        presses += 1;
        presses == 20
    });
    file.execute_batch("ROLLBACK").unwrap();
    let (shown, code) = terminal.prompt();
    assert!(!shown.contains("after"), "{shown}");
    assert_eq!(code, 130, "{shown}");
    assert_eq!(terminal.run(IS_FREE).1, 0);
}
