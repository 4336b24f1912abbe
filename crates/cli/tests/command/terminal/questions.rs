//! `fairlock break` asks before it breaks a lock, `fairlock bench` before it begins, and `fairlock run` tells that it is asked for a lock.

use rustix::process::Signal;

use super::processes::signal;
use super::pty::{Terminal, code};
use crate::home::Home;
use crate::running::until;

/// Starts a holder, and waits until its command runs.
fn held(home: &Home) -> std::process::Child {
    let holder = "exec fairlock run --local locks.db --lease 8s a -- sleep 1000 2> told";
    let holder = home.spawn(holder);
    home.one("sleep 1000");
    holder
}

/// Answers a question with anything but yes, which ends it with these words, and then with yes. Returns what the question was and what
/// came after the yes.
#[track_caller]
fn answered(terminal: &mut Terminal, line: &str, words: &str) -> (String, String) {
    for answer in ["n", "", "ye"] {
        terminal.type_in(line);
        terminal.expect("[y/N]");
        terminal.type_in(answer);
        let (said, code) = terminal.prompt();
        assert_eq!(code, 75, "{answer}: {said}");
        assert!(said.contains(words), "{said}");
    }
    terminal.type_in(line);
    let question = terminal.expect("[y/N]");
    terminal.type_in("y");
    let (said, code) = terminal.prompt();
    assert_eq!(code, 0, "{said}");
    (question, said)
}

#[test]
fn a_lock_is_broken_after_a_yes_and_after_nothing_else() {
    let mut terminal = Terminal::new();
    let mut holder = held(&terminal.home);
    let line = "fairlock break --local locks.db --reason 'it hangs' a";
    let (question, said) = answered(&mut terminal, line, "nothing was broken");
    assert!(question.contains("held by"), "{question}");
    for words in ["broke ticket", "it is free"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(code(holder.wait().unwrap()), Some(76));
    let told = terminal.home.read("told");
    assert!(told.contains("broke it: it hangs"), "{told}");
    assert_eq!(terminal.home.named("sleep").len(), 0);
    assert_eq!(terminal.home.named("fairlock").len(), 0);
}

#[test]
fn a_contest_tells_its_price_and_begins_after_a_yes_and_after_nothing_else() {
    let mut terminal = Terminal::new();
    let line = "fairlock bench --local locks.db --leave --workers 2 --turns 2 --hold 1ms";
    let (question, said) = answered(&mut terminal, line, "nothing was begun");
    for words in ["price ", "dollars"] {
        assert!(question.contains(words), "{question}");
    }
    assert!(said.contains("2 workers, 4 turns: 0 overlaps"), "{said}");
    let listed = terminal.home.run("ls").out;
    assert_eq!(listed.matches("bench/").count(), 1, "{listed}");
}

/// As `fairlock run` draws it. Elsewhere the command is silent.
#[test]
fn a_lease_that_is_waited_for_shows_who_has_the_lock() {
    let mut terminal = Terminal::new();
    let mut holder = held(&terminal.home);
    let waits = "fairlock lease acquire --local locks.db --id x --for 5m --wait 15s a > text";
    terminal.type_in(waits);
    terminal.expect("has it, you are next");
    signal(terminal.home.one("fairlock run").pid, Signal::TERM);
    let (_, ended) = terminal.prompt();
    assert_eq!(ended, 0);
    assert_eq!(code(holder.wait().unwrap()), Some(143));
    assert!(terminal.home.read("text").starts_with("lease "));
    let refused = terminal
        .home
        .run("lease acquire --id y --for 5m --wait 200ms a");
    assert_eq!(refused.code, Some(75));
    // Who has the lock, and that it was not granted.
    assert_eq!(refused.err.lines().count(), 2, "{refused:?}");
}

#[test]
fn a_command_is_told_that_its_lock_is_asked_for_and_keeps_it() {
    let home = Home::new();
    let mut holder = held(&home);
    assert_eq!(home.run("ask --reason tea a").code, Some(0));
    until("it is told", || {
        home.read("told").contains("asks for it: tea")
    });
    assert_eq!(home.named("sleep 1000").len(), 1);
    signal(home.one("fairlock run").pid, Signal::TERM);
    assert_eq!(code(holder.wait().unwrap()), Some(143));
    assert_eq!(home.read("told").matches("asks for it").count(), 1);
    home.nothing_runs();
}
