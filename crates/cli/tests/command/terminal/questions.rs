//! `fairlock break` asks before it breaks a lock, `fairlock bench` before it begins, and `fairlock run` tells that it is asked for a lock.

use rustix::process::Signal;

use super::pty::{Home, Terminal, code, signal, until};

const HOLDER: &str = "exec fairlock run --local l.db --lease 2s a -- sleep 1000 2> told";
const BREAK: &str = "fairlock break --local l.db --reason 'it hangs' a";

/// Starts a holder, and waits until its command runs.
fn held(home: &Home) -> std::process::Child {
    let holder = home.start(HOLDER);
    until("the command runs", || home.named("sleep 1000").len() == 1);
    holder
}

#[test]
fn a_lock_is_broken_after_a_yes_and_after_nothing_else() {
    let mut terminal = Terminal::new();
    let mut holder = held(&terminal.home);
    for answer in ["n", "", "ye"] {
        terminal.type_in(BREAK);
        terminal.expect("[y/N]");
        terminal.type_in(answer);
        let (said, code) = terminal.prompt();
        assert_eq!(code, 75, "{answer}: {said}");
        assert!(said.contains("nothing was broken"), "{said}");
    }
    assert_eq!(terminal.home.named("sleep 1000").len(), 1);
    terminal.type_in(BREAK);
    let shown = terminal.expect("[y/N]");
    assert!(shown.contains("held by"), "{shown}");
    terminal.type_in("y");
    let (said, ended) = terminal.prompt();
    assert_eq!(ended, 0, "{said}");
    assert!(
        said.contains("broke ticket") && said.contains("it is free"),
        "{said}"
    );
    assert_eq!(code(holder.wait().unwrap()), Some(76));
    let told = terminal.home.read("told");
    assert!(told.contains("broke it: it hangs"), "{told}");
    assert_eq!(terminal.home.named("sleep").len(), 0);
    assert_eq!(terminal.home.named("fairlock").len(), 0);
}

/// As `fairlock run` draws it. Elsewhere the command is silent.
#[test]
fn a_lease_that_is_waited_for_shows_who_has_the_lock() {
    let mut terminal = Terminal::new();
    let mut holder = held(&terminal.home);
    let waits = "fairlock lease acquire --local l.db --id x --for 5m --wait 15s a > text";
    terminal.type_in(waits);
    terminal.expect("has it, you are next");
    signal(terminal.home.one("fairlock run").pid, Signal::TERM);
    let (_, ended) = terminal.prompt();
    assert_eq!(ended, 0);
    assert_eq!(code(holder.wait().unwrap()), Some(143));
    assert!(terminal.home.read("text").starts_with("lease "));
    let waits = "fairlock lease acquire --local l.db --id y --for 5m --wait 200ms a";
    assert_eq!(terminal.home.code(&format!("{waits} 2> told")), Some(75));
    let told = terminal.home.read("told");
    // Who has the lock, and that it was not granted.
    assert_eq!(told.lines().count(), 2, "{told}");
}

#[test]
fn a_command_is_told_that_its_lock_is_asked_for_and_keeps_it() {
    let home = Home::new();
    let mut holder = held(&home);
    let asked = home.code("fairlock ask --local l.db --reason tea a");
    assert_eq!(asked, Some(0));
    until("it is told", || {
        home.read("told").contains("asks for it: tea")
    });
    assert_eq!(home.named("sleep 1000").len(), 1);
    signal(home.one("fairlock run").pid, Signal::TERM);
    assert_eq!(code(holder.wait().unwrap()), Some(143));
    assert_eq!(home.read("told").matches("asks for it").count(), 1);
    home.nothing_runs();
}

#[test]
fn a_contest_tells_its_price_and_begins_after_a_yes_and_after_nothing_else() {
    let mut terminal = Terminal::new();
    let line = "fairlock bench --local l.db --leave --workers 2 --turns 2 --hold 1ms";
    for answer in ["n", "", "ye"] {
        terminal.type_in(line);
        let price = terminal.expect("[y/N]");
        assert!(
            price.contains("price ") && price.contains("dollars"),
            "{price}"
        );
        terminal.type_in(answer);
        let (said, code) = terminal.prompt();
        assert_eq!(code, 75, "{answer}: {said}");
        assert!(said.contains("nothing was begun"), "{said}");
    }
    let (listed, _) = terminal.run("fairlock ls --local l.db");
    assert!(listed.starts_with("no locks"), "{listed}");
    terminal.type_in(line);
    terminal.expect("[y/N]");
    terminal.type_in("y");
    let (said, code) = terminal.prompt();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("2 workers, 4 turns: 0 overlaps"), "{said}");
}
