//! What a shell and `man` learn of the command line.

use std::fs;

use crate::command::{Said, rows, said, shell};
use crate::home::Home;

const COMMANDS: &str =
    "run hold table show ls ask break delete resize data lease sweep doctor top serve bench demo";
/// What is for the command itself.
const HIDDEN: [&str; 4] = ["supervisor", "demo-worker", "holder", "plant-fault"];

fn run(home: &Home, line: &str) -> Said {
    said(&mut home.bare(line))
}

/// All pages, in a directory.
fn written() -> Home {
    let home = Home::empty();
    home.make_dir("man1");
    assert_eq!(run(&home, "man --out man1").assert_done(), "");
    home
}

#[test]
fn every_shell_gets_a_script_with_the_commands_that_are_for_users() {
    let home = Home::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = run(&home, &format!("completions {shell}"));
        let script = ended.assert_done();
        let flags = ["endpoint-url", "lost-exit-code"];
        for word in COMMANDS.split(' ').chain(flags) {
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
    let home = Home::empty();
    home.write("script", run(&home, "completions bash").out);
    for (line, expected) in [
        ("fairlock table cre", "create"),
        ("fairlock swe", "sweep"),
        ("fairlock ho", "hold"),
        ("fairlock run --per", "--permits"),
        ("fairlock lease ext", "extend"),
        ("fairlock completions fi", "fish"),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let [.., before, last] = words[..] else {
            continue;
        };
        let asks = format!(
            "source ./script; COMP_WORDS=({line}); COMP_CWORD={}; _fairlock fairlock {last} {before}; echo \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let ended = said(&mut shell(home.path(), "bash", &asks));
        assert_eq!(ended.out.trim_end(), expected, "{ended:?}");
    }
}

#[test]
fn each_command_has_a_page_and_all_are_written_into_a_directory() {
    let home = written();
    let others = ["table-create", "data-put", "lease-acquire", "man"];
    for command in COMMANDS.split(' ').chain(others) {
        let page = home.read(&format!("man1/fairlock-{command}.1"));
        let version = env!("CARGO_PKG_VERSION");
        let head = format!(".TH fairlock-{command} 1  \"fairlock {version}\"");
        assert!(page.contains(&head), "{page}");
        let printed = run(&home, &format!("man {}", command.replace('-', " ")));
        assert_eq!(printed.assert_done(), page);
    }
    assert_eq!(
        run(&home, "man").assert_done(),
        home.read("man1/fairlock.1")
    );
    run(&home, "man run").assert_shows(&[
        "FAIRLOCK_WAIT",
        "exit code",
        "Examples:",
        "WHERE THE LOCKS ARE",
    ]);
    for entry in fs::read_dir(home.file("man1")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!HIDDEN.iter().any(|hidden| name.contains(hidden)), "{name}");
    }
}

/// Each field that a command's JSON may have stands on the page, with its type.
#[test]
fn the_fields_of_the_json_have_a_page() {
    let home = written();
    let page = run(&home, "man json").assert_done().to_owned();
    assert_eq!(home.read("man1/fairlock-json.1"), page);
    let rows = include_str!("../../src/json.md").lines();
    let fields = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    let fields: Vec<_> = fields.collect();
    assert!(fields.len() > 50, "{fields:?}");
    for field in fields {
        assert!(page.contains(&format!(".TP\n\\fB{field}\\fR (")), "{field}");
    }
    for words in ["number or null", "\\-\\-json"] {
        assert!(page.contains(words), "{page}");
    }
    let lines = page.lines();
    let control = lines.filter(|line| line.starts_with('.') && !line.starts_with(".TP"));
    let control: Vec<_> = control.filter(|line| *line != ".PP").collect();
    assert_eq!(control.len(), 3, "{control:?}");
}

/// The synopsis of each page names what the command needs, and each flag says what it does.
#[test]
fn a_page_has_the_values_of_flags_and_says_something_of_each() {
    const SYNOPSES: &str = r"
        run           | \fBfairlock run\fR [OPTIONS] <LOCK> \-\- <COMMAND>...
        lease acquire | \fBfairlock lease acquire\fR [OPTIONS] \-\-id <NAME> \-\-for <DURATION> <LOCK>
        lease         | \fBfairlock lease\fR <COMMAND>
        resize        | \fBfairlock resize\fR [OPTIONS] <LOCK> <PERMITS>
        ls            | \fBfairlock ls\fR [OPTIONS] [PREFIX]
                      | \fBfairlock\fR <COMMAND>
    ";
    let home = written();
    for [command, synopsis] in rows(SYNOPSES) {
        let page = run(&home, &format!("man {command}")).out;
        let mut lines = page.lines().skip_while(|line| *line != ".SH SYNOPSIS");
        assert_eq!(lines.nth(1), Some(synopsis));
    }
    for entry in fs::read_dir(home.file("man1")).unwrap() {
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
    let home = Home::empty();
    let page = run(&home, "man run").out;
    let set = said(home.bare("man run").env("FAIRLOCK_TABLE", "of-my-own"));
    assert_eq!(set.assert_done(), page);
    assert!(page.contains("FAIRLOCK_TABLE") && !page.contains("of-my-own"));
}

#[test]
fn pages_that_cannot_be_are_refused() {
    let home = Home::empty();
    run(&home, "man --out gone").assert_refused(74, &["gone", "make it first"]);
    let words = [
        "fairlock lease has no command `steal`",
        "fairlock lease --help",
    ];
    run(&home, "man lease steal").assert_refused(64, &words);
    run(&home, "man supervisor").assert_refused(64, &["`supervisor`"]);
}
