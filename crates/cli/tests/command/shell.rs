//! What a shell and `man` learn of the command line.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::command::{Said, fairlock, said};

const COMMANDS: [&str; 17] = [
    "run", "hold", "table", "show", "ls", "ask", "break", "delete", "resize", "data", "lease",
    "sweep", "doctor", "top", "serve", "bench", "demo",
];
/// What is for the command itself.
const HIDDEN: [&str; 4] = ["supervisor", "demo-worker", "holder", "plant-fault"];

fn run(home: &Path, line: &[&str]) -> Said {
    said(&mut fairlock(home, line))
}

#[test]
fn every_shell_gets_a_script_with_the_commands_that_are_for_users() {
    let home = TempDir::new().unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = run(home.path(), &["completions", shell]);
        let script = ended.assert_done();
        for word in COMMANDS.iter().chain(&["endpoint-url", "lost-exit-code"]) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
        // The word `holder` is one of the helps too.
        for word in HIDDEN.iter().filter(|word| **word != "holder") {
            assert!(!script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn bash_completes_commands_flags_and_shells() {
    let home = TempDir::new().unwrap();
    let script = run(home.path(), &["completions", "bash"]).out;
    fs::write(home.path().join("script"), script).unwrap();
    for (words, expected) in [
        (&["fairlock", "table", "cre"][..], "create"),
        (&["fairlock", "swe"], "sweep"),
        (&["fairlock", "ho"], "hold"),
        (&["fairlock", "run", "--per"], "--permits"),
        (&["fairlock", "lease", "ext"], "extend"),
        (&["fairlock", "completions", "fi"], "fish"),
    ] {
        let line = words.join(" ");
        let [.., before, last] = words else { continue };
        let asks = format!(
            "source ./script; COMP_WORDS=({line}); COMP_CWORD={}; _fairlock fairlock {last} {before}; echo \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let mut bash = Command::new("timeout");
        bash.args(["-s", "KILL", "60", "bash", "--norc", "-c", &asks]);
        let ended = said(bash.current_dir(home.path()));
        assert_eq!(ended.out.trim_end(), expected, "{ended:?}");
    }
}

#[test]
fn each_command_has_a_page_and_all_are_written_into_a_directory() {
    let home = TempDir::new().unwrap();
    let pages = home.path().join("man1");
    fs::create_dir(&pages).unwrap();
    assert_eq!(
        run(home.path(), &["man", "--out", "man1"]).assert_done(),
        ""
    );
    for command in COMMANDS
        .iter()
        .chain(&["table-create", "data-put", "lease-acquire", "man"])
    {
        let page = fs::read_to_string(pages.join(format!("fairlock-{command}.1"))).unwrap();
        let head = format!(
            ".TH fairlock-{command} 1  \"fairlock {}\"",
            env!("CARGO_PKG_VERSION")
        );
        assert!(page.contains(&head), "{page}");
        let printed = run(
            home.path(),
            &[&["man"], &command.split('-').collect::<Vec<_>>()[..]].concat(),
        );
        assert_eq!(printed.assert_done(), page);
    }
    let whole = fs::read_to_string(pages.join("fairlock.1")).unwrap();
    assert_eq!(run(home.path(), &["man"]).assert_done(), whole);
    let page = run(home.path(), &["man", "run"]).out;
    for word in [
        "FAIRLOCK_WAIT",
        "exit code",
        "Examples:",
        "WHERE THE LOCKS ARE",
    ] {
        assert!(page.contains(word), "no {word}: {page}");
    }
    for entry in fs::read_dir(&pages).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!HIDDEN.iter().any(|hidden| name.contains(hidden)), "{name}");
    }
}

/// Each field that a command's JSON may have stands on the page, with its type.
#[test]
fn the_fields_of_the_json_have_a_page() {
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join("man1")).unwrap();
    run(home.path(), &["man", "--out", "man1"]).assert_done();
    let page = run(home.path(), &["man", "json"]).assert_done().to_owned();
    let written = fs::read_to_string(home.path().join("man1/fairlock-json.1")).unwrap();
    assert_eq!(written, page);
    let rows = include_str!("../../src/json.md").lines();
    let fields = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    let fields: Vec<_> = fields.collect();
    assert!(fields.len() > 50, "{fields:?}");
    for field in fields {
        assert!(page.contains(&format!(".TP\n\\fB{field}\\fR (")), "{field}");
    }
    assert!(
        page.contains("number or null") && page.contains("\\-\\-json"),
        "{page}"
    );
    let lines = page.lines();
    let control = lines.filter(|line| line.starts_with('.') && !line.starts_with(".TP"));
    let control: Vec<_> = control.filter(|line| *line != ".PP").collect();
    assert_eq!(control.len(), 3, "{control:?}");
}

/// The synopsis of each page names what the command needs, and each flag says what it does.
#[test]
fn a_page_has_the_values_of_flags_and_says_something_of_each() {
    let home = TempDir::new().unwrap();
    for (command, synopsis) in [
        (
            &["run"][..],
            r"\fBfairlock run\fR [OPTIONS] <LOCK> \-\- <COMMAND>...",
        ),
        (
            &["lease", "acquire"],
            r"\fBfairlock lease acquire\fR [OPTIONS] \-\-id <NAME> \-\-for <DURATION> <LOCK>",
        ),
        (&["lease"], r"\fBfairlock lease\fR <COMMAND>"),
        (
            &["resize"],
            r"\fBfairlock resize\fR [OPTIONS] <LOCK> <PERMITS>",
        ),
        (&["ls"], r"\fBfairlock ls\fR [OPTIONS] [PREFIX]"),
        (&[], r"\fBfairlock\fR <COMMAND>"),
    ] {
        let page = run(home.path(), &[&["man"], command].concat()).out;
        let mut lines = page.lines().skip_while(|line| *line != ".SH SYNOPSIS");
        assert_eq!(lines.nth(1), Some(synopsis));
    }
    let pages = home.path().join("man1");
    fs::create_dir(&pages).unwrap();
    run(home.path(), &["man", "--out", "man1"]).assert_done();
    for entry in fs::read_dir(&pages).unwrap() {
        let page = fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines: Vec<_> = page.lines().collect();
        for option in lines.windows(3).filter(|lines| lines[0] == ".TP") {
            let is_said = !option[2].is_empty() && !option[2].starts_with('.');
            assert!(is_said, "{option:?} in {}", lines[2]);
        }
    }
}

/// A value that a variable has at the time is none of the page's.
#[test]
fn a_page_does_not_depend_on_the_environment() {
    let home = TempDir::new().unwrap();
    let page = run(home.path(), &["man", "run"]).out;
    let set = said(fairlock(home.path(), &["man", "run"]).env("FAIRLOCK_TABLE", "of-my-own"));
    assert_eq!(set.assert_done(), page);
    assert!(page.contains("FAIRLOCK_TABLE") && !page.contains("of-my-own"));
}

#[test]
fn pages_that_cannot_be_are_refused() {
    let home = TempDir::new().unwrap();
    let gone = run(home.path(), &["man", "--out", "gone"]);
    gone.assert_refused(74, &["gone", "make it first"]);
    let unknown = run(home.path(), &["man", "lease", "steal"]);
    unknown.assert_refused(
        64,
        &[
            "fairlock lease has no command `steal`",
            "fairlock lease --help",
        ],
    );
    let hidden = run(home.path(), &["man", "supervisor"]);
    hidden.assert_refused(64, &["`supervisor`"]);
    for line in [&["man"][..], &["completions", "zsh"]] {
        let full = fs::File::create("/dev/full").unwrap();
        let output = fairlock(home.path(), line).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(74), "{line:?}");
    }
}
