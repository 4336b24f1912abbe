//! The command line explains itself, refuses senseless input, and has colours only where they are seen.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::process::Stdio;

use tempfile::TempDir;

use crate::command::{Said, fairlock, said};

const MISUSE: i32 = 64;

/// Runs in an empty directory, with some more environment variables.
fn run_with(environment: &[(&str, &str)], line: &[&str]) -> Said {
    let home = TempDir::new().unwrap();
    let ended = said(fairlock(home.path(), line).envs(environment.iter().copied()));
    let left = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(left, 0, "{line:?} left something behind");
    ended
}

fn run(line: &[&str]) -> Said {
    run_with(&[], line)
}

/// Behind `--`, as everywhere.
#[test]
fn a_lock_may_have_a_name_that_begins_with_a_dash() {
    let home = TempDir::new().unwrap();
    let flags = ["--local", "l.db"];
    for (verb, rest) in [
        (
            "run",
            &["--", "-dash", "--", "printenv", "FAIRLOCK_LOCK"][..],
        ),
        ("run", &["--", "--", "--", "printenv", "FAIRLOCK_LOCK"]),
        ("run", &["a", "--", "printf", "%s", "--"]),
        ("hold", &["--", "-dash"]),
        ("show", &["--", "-dash"]),
        ("ls", &["--", "-dash"]),
    ] {
        let line = [&[verb][..], &flags, rest].concat();
        let ended = said(&mut fairlock(home.path(), &line));
        assert_eq!(
            (ended.code, &*ended.err),
            (Some(0), ""),
            "{line:?}: {ended:?}"
        );
        let words = match rest {
            [.., name, "--", "printenv", _] => format!("{name}\n"),
            [.., "--"] => "--".to_owned(),
            _ if verb == "hold" => String::new(),
            _ => "-dash".to_owned(),
        };
        assert!(ended.out.contains(&words), "{line:?}: {ended:?}");
    }
    // Where there is a name before the first one, all behind it is the command.
    let line = ["run", "--local", "l.db", "a", "--", "-x", "--", "true"];
    said(&mut fairlock(home.path(), &line)).assert_refused(127, &["cannot run", "-x"]);
}

#[test]
fn a_word_of_another_tool_is_led_to_what_does_the_same_and_never_to_more() {
    for (word, tip) in [
        ("release", "fairlock lease release"),
        ("unlock", "fairlock lease release"),
        ("force-unlock", "fairlock break"),
        ("acquire", "fairlock hold"),
        ("lock", "fairlock run LOCK -- COMMAND"),
        ("renew", "fairlock lease extend"),
        ("list", "fairlock ls"),
        ("remove", "fairlock delete"),
        ("create", "fairlock table create"),
        ("brake", "'break'"),
        ("delte", "'delete'"),
        ("runn", "'run'"),
    ] {
        let ended = run(&[word, "a"]);
        assert_eq!(ended.code, Some(MISUSE), "{ended:?}");
        assert!(ended.err.contains(tip), "{word}: no {tip}: {ended:?}");
    }
    for word in ["relief", "steel", "frobnicate", "dream", "ready"] {
        let ended = run(&[word, "a"]);
        assert_eq!(ended.code, Some(MISUSE), "{ended:?}");
        assert!(!ended.err.contains("tip"), "{ended:?}");
    }
}

const LEASE: &str = "lease ef35c85bd09c7500e27e934d6e39209d 17 1795778214000 1 xa";

/// Each command with its required arguments. The flags of a place go between the two.
const COMMANDS: [(&[&str], &[&str]); 14] = [
    (&["run"], &["a", "--", "true"]),
    (&["hold"], &["a"]),
    (&["data", "get"], &["a"]),
    (&["data", "put"], &["a"]),
    (&["data", "clear"], &["a"]),
    (&["lease", "acquire"], &["--id", "x", "--for", "5m", "a"]),
    (&["lease", "extend"], &["--for", "5m", "a", LEASE]),
    (&["lease", "release"], &["a", LEASE]),
    (&["lease", "show"], &["a"]),
    (&["sweep"], &[]),
    (&["table", "create"], &[]),
    (&["table", "check"], &[]),
    (&["show"], &["a"]),
    (&["ls"], &[]),
];

#[test]
fn every_command_helps_with_examples_that_fit_a_terminal() {
    let all: [&[&str]; 26] = [
        &[],
        &["run"],
        &["hold"],
        &["ask"],
        &["break"],
        &["delete"],
        &["resize"],
        &["data"],
        &["data", "get"],
        &["data", "put"],
        &["data", "clear"],
        &["lease"],
        &["lease", "acquire"],
        &["lease", "extend"],
        &["lease", "release"],
        &["lease", "show"],
        &["sweep"],
        &["doctor"],
        &["completions"],
        &["man"],
        &["table"],
        &["table", "create"],
        &["table", "check"],
        &["show"],
        &["ls"],
        &["demo"],
    ];
    for command in all {
        let ended = run(&[command, &["--help"]].concat());
        let help = ended.assert_done();
        assert!(help.contains("Usage: fairlock"), "{help}");
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        let invocation = ["fairlock", &command.join(" ")].join(" ");
        assert!(examples.contains(invocation.trim()), "{help}");
        assert!(examples.lines().all(|line| line.len() <= 80), "{help}");
        let short = run(&[command, &["-h"]].concat());
        assert!(short.assert_done().len() <= help.len());
    }
}

#[test]
fn help_puts_the_arguments_apart_from_the_flags_of_the_place() {
    for command in ["run", "hold", "show", "sweep"] {
        let help = run(&[command, "--help"]).out;
        let at = |heading| help.find(heading).unwrap();
        let name = if command == "sweep" {
            "Only the lock"
        } else {
            "The lock's name"
        };
        let order = [at("Arguments:"), at(name), at("Options:")];
        assert!(order.is_sorted(), "{help}");
        assert!(at("Options:") < at("Where the locks are:"), "{help}");
    }
}

#[test]
fn what_is_for_the_command_itself_is_not_in_the_help() {
    let help = run(&["--help"]).out;
    for hidden in ["supervisor", "worker", "  holder "] {
        assert!(!help.contains(hidden), "{help}");
    }
    assert!(!run(&["demo", "--help"]).out.contains("plant"));
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("fairlock ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]).assert_done(), version);
    assert_eq!(run(&["-V"]).assert_done(), version);
}

/// The command line was refused. The error says what is wrong with which flag, and where to read on.
#[track_caller]
fn assert_misuse(ended: &Said, words: &[&str]) {
    assert_eq!(ended.code, Some(MISUSE), "{ended:?}");
    assert_eq!(ended.out, "", "{ended:?}");
    for word in words {
        assert!(ended.err.contains(word), "no {word}: {ended:?}");
    }
}

#[test]
fn a_line_that_is_none_is_refused() {
    let wrong: [(&[&str], &str); 26] = [
        (&[], "Usage"),
        (&["lock"], "'lock'"),
        (&["--colour"], "--colour"),
        (&["table"], "Usage"),
        (&["table", "drop"], "'drop'"),
        (&["table", "create", "locks"], "'locks'"),
        (&["table", "check", "locks"], "'locks'"),
        (&["show"], "<LOCK>"),
        (&["show", "a", "b"], "'b'"),
        (&["hold"], "<LOCK>"),
        (&["hold", "a", "--", "true"], "'true'"),
        (&["data"], "Usage"),
        (&["data", "put"], "<LOCK>"),
        (&["data", "put", "a", "bytes"], "'bytes'"),
        (&["lease"], "Usage"),
        (&["lease", "acquire", "a"], "--id"),
        (&["lease", "extend", "a"], "--for"),
        (&["lease", "release", "a"], "<LEASE>"),
        (&["sweep", "a", "--every", "1h"], "--every"),
        (&["doctor", "a"], "'a'"),
        (&["completions"], "<SHELL>"),
        (&["completions", "tcsh"], "tcsh"),
        (&["ls", "a", "b"], "'b'"),
        (&["run"], "<LOCK>"),
        (&["run", "a"], "<COMMAND>"),
        (&["run", "a", "true"], "'true'"),
    ];
    for (line, word) in wrong {
        assert_misuse(&run(line), &[word]);
    }
}

/// Commands with a flag whose value, or use, makes no sense.
const SENSELESS: [(&[&str], &[&str]); 58] = [
    (&["run"], &["--shared", "--permits", "3"]),
    (&["run"], &["--shared", "--exclusive"]),
    (&["run"], &["--exclusive", "--permits", "3"]),
    (&["run"], &["--also", "b", "--shared"]),
    (&["run"], &["--also", "b", "--permits", "3"]),
    (&["run"], &["--take", "2"]),
    (&["run"], &["--permits=-1"]),
    (&["run"], &["--permits", "some"]),
    (&["hold"], &["--kill-after", "2s"]),
    (&["hold"], &["--wait", "5"]),
    (&["hold"], &["--json=yes"]),
    (&["data", "put"], &["--wait", "0s"]),
    (&["data", "get"], &["--wait", "1s"]),
    (&["lease", "acquire"], &["--for", "5"]),
    (&["lease", "extend"], &["--for", "0s"]),
    (&["sweep"], &["--every", "1"]),
    (&["doctor"], &["--json=yes"]),
    (&["man"], &["--out", "a", "--out", "b"]),
    (&["completions"], &["--json", "bash"]),
    (&["run"], &["--wait", "soon"]),
    (&["run"], &["--wait", "0s"]),
    (&["run"], &["--wait=-1s"]),
    (&["run"], &["--wait", "60"]),
    (&["run"], &["--wait", ""]),
    (&["run"], &["--wait"]),
    (&["run"], &["--lease", "0s"]),
    (&["run"], &["--lease", "0"]),
    (&["run"], &["--kill-after", "0.0"]),
    (&["run"], &["--lease", "forever"]),
    (&["run"], &["--lease", "30"]),
    (&["run"], &["--kill-after", "0s"]),
    (&["run"], &["--kill-after", "x"]),
    (&["run"], &["--conflict-exit-code", "256"]),
    (&["run"], &["--conflict-exit-code=-1"]),
    (&["run"], &["--conflict-exit-code", "none"]),
    (&["run"], &["--lease", "1s", "--lease", "2s"]),
    (&["table", "create"], &["--tag", "team"]),
    (&["table", "create"], &["--tag"]),
    (&["table", "create"], &["--tag", "=payments"]),
    (&["table", "create"], &["--tag", "aws:team=payments"]),
    (&["table", "create"], &["--tag", "team=pay;ments"]),
    (&["show"], &["--json=yes"]),
    (&["show"], &["--older-than", "1h"]),
    (&["show"], &["--watch=0s"]),
    (&["show"], &["--watch", "--exit-code"]),
    (&["ls"], &["--older-than", "long"]),
    (&["ls"], &["--json=yes"]),
    (&["demo"], &["--workers", "0"]),
    (&["demo"], &["--workers", "101"]),
    (&["demo"], &["--workers", "x"]),
    (&["demo"], &["--turns", "0"]),
    (&["demo"], &["--turns", "10001"]),
    (&["demo"], &["--turns", "1.5"]),
    (&["demo"], &["--hold", "50"]),
    (&["demo"], &["--hold=-1s"]),
    (&["demo"], &["--hold", "x"]),
    (&["demo"], &["--local", "a.db"]),
    (&["demo"], &["--table", "a"]),
];

#[test]
fn values_that_make_no_sense_are_refused_by_the_name_of_their_flag() {
    for (command, flags) in SENSELESS {
        let rest = COMMANDS.iter().find(|(known, _)| known == &command);
        let rest = rest.map_or(&[][..], |(_, rest)| rest);
        let flag = flags[0].split('=').next().unwrap();
        let ended = run(&[command, flags, rest].concat());
        assert_misuse(&ended, &[flag]);
    }
}

#[test]
fn a_wait_that_makes_no_sense_is_told_what_would() {
    let wait = |value| run(&["run", "--wait", value, "a", "--", "true"]).err;
    for nothing in ["0s", "0", "0.0"] {
        assert!(wait(nothing).contains("called none"));
    }
    for (line, words) in [
        (
            &["lease", "acquire", "--id", "x", "--for", "0s", "a"][..],
            &["--for", "at least 1s, and at most 1day"][..],
        ),
        (
            &[
                "lease",
                "acquire",
                "--id",
                "x",
                "--for",
                "5m",
                "--permits",
                "abc",
                "a",
            ],
            &["--permits", "a whole number from 1 to 1000"],
        ),
        (
            &["run", "--permits", "3", "--take", "1.5", "a", "--", "true"],
            &["--take", "a whole number from 1 to 1000"],
        ),
        (
            &["resize", "a", "many"],
            &["<PERMITS>", "a whole number from 1 to 1000"],
        ),
    ] {
        assert_misuse(&run(line), words);
    }
    // A lease is no wait.
    let lease = run(&["run", "--lease", "0", "a", "--", "true"]);
    assert_misuse(&lease, &["must be more than nothing"]);
    let told = wait("soon");
    assert!(
        told.contains("none nor infinite") && told.contains("90s"),
        "{told}"
    );
    for flag in ["--wait", "--lease", "--kill-after"] {
        let told = run(&["run", flag, "60", "a", "--", "true"]);
        assert_misuse(&told, &["60 what? Say 60s, or 60m"]);
    }
}

#[test]
fn reads_that_follow_too_closely_are_refused() {
    for line in [
        &["top", "--every", "1ms"][..],
        &["show", "--watch=99ms", "a"],
    ] {
        let line = [line, &["--local", "locks.db"]].concat();
        run(&line).assert_refused(64, &["too short: at least 100ms", "each read"]);
    }
}

#[test]
fn a_tag_that_is_named_twice_is_refused() {
    let tags = ["--tag", "a=1", "--tag", "b=1", "--tag", "a=2"];
    let line = [&["table", "create", "--local", "locks.db"][..], &tags].concat();
    run(&line).assert_refused(64, &["--tag names `a` twice"]);
}

#[test]
fn a_command_without_dashes_before_it_is_told_where_they_belong() {
    for (line, tip) in [
        (&["run", "a", "true"][..], "fairlock run a -- true\n"),
        (
            &["run", "--wait", "5s", "a", "ls", "-l", "my dir"],
            "fairlock run --wait 5s a -- ls -l 'my dir'\n",
        ),
        (
            &["run", "a", "./x", "--json"],
            "fairlock run a -- ./x --json\n",
        ),
        // As `flock` accepts it.
        (
            &["run", "a", "-c", "echo hi"],
            "fairlock run a -- sh -c 'echo hi'\n",
        ),
    ] {
        let put = format!("put -- before the command: {tip}");
        assert_misuse(&run(line), &[&put]);
    }
    // Here the dashes are present.
    let told = run(&["run", "a", "b", "--", "true"]);
    assert!(!told.err.contains("put --"), "{told:?}");
    // A flag is no command.
    let told = run(&["run", "-Z", "a", "true"]);
    assert!(!told.err.contains("put --"), "{told:?}");
}

/// `flock`'s `-n`, `-w`, `-x`, `-e` and `-s` mean the same here.
#[test]
fn flags_of_flock_are_understood() {
    let refused = |flags: &[&str]| {
        run(&[&["run", "--local", "no/b.db"], flags, &["a", "--", "true"]].concat())
    };
    for flags in [
        &["-n"][..],
        &["--nonblock"],
        &["-w", "5"],
        &["-w", "0"],
        &["--timeout", "0.5"],
        &["-x"],
        &["-s"],
        &["-e", "-E", "3"],
    ] {
        refused(flags).assert_refused(69, &["there is no directory no"]);
    }
    for (flags, words) in [
        (&["-w", "5s"][..], &["--timeout", "--wait"][..]),
        (&["-w=-1"], &["--timeout"]),
        (&["-n", "-w", "5"], &["-n", "-w"]),
        (&["--wait", "5s", "-n"], &["--wait", "-n"]),
        (&["--wait", "5s", "-w", "5"], &["--wait", "-w"]),
        (&["-s", "-x"], &["--shared", "--exclusive"]),
    ] {
        assert_misuse(&refused(flags), words);
    }
}

#[test]
fn flags_of_a_place_are_checked_by_every_command_that_takes_them() {
    let wrong: [&[&str]; 9] = [
        &["--endpoint-url", "localhost:8000"],
        &["--endpoint-url", "ftp://a"],
        &["--endpoint-url", "http://"],
        &["--endpoint-url", ""],
        &["--endpoint-url", "http://127.0.0.1:1", "--local", "b.db"],
        &["--local", ""],
        &["--local"],
        &["--table", "abc", "--table", "def"],
        &["--namespace"],
    ];
    for (command, rest) in COMMANDS {
        for flags in wrong {
            // The last of them would take the next word for its value.
            let rest = if flags.len() == 1 { &[] } else { rest };
            assert_misuse(&run(&[command, flags, rest].concat()), &[flags[0]]);
        }
    }
}

/// Some values only the library can judge. Read-only commands report them like any other misuse, before anything is sent.
#[test]
fn names_that_cannot_be_are_refused_before_anything_is_sent() {
    let long = "x".repeat(1025);
    let wrong: [(&[&str], &str); 13] = [
        (&["--table", ""], "table"),
        (&["--table", "ab"], "table"),
        (&["--table", "a b c"], "table"),
        (&["--table", &long], "table"),
        (&["--namespace", ""], "namespace"),
        (&["--namespace", "a/b"], "namespace"),
        (&["--namespace", &long], "namespace"),
        (&["--partition-key", ""], "partition key"),
        (&["--partition-key", "slots"], "partition key"),
        (&["--sort-key", ""], "sort key"),
        (&["--sort-key", "pk"], "sort key"),
        (&["--ttl-attribute", &long], "TTL attribute"),
        (&["--ttl-attribute", "sk"], "too"),
    ];
    let cloud = [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let nowhere = ["--endpoint-url", "http://127.0.0.1:1"];
    for (flags, word) in wrong {
        for (command, rest) in &COMMANDS {
            let line = [*command, &nowhere, flags, rest].concat();
            run_with(&cloud, &line).assert_refused(MISUSE, &[word]);
        }
    }
    for lock in ["", &"x".repeat(2049)] {
        let line = [&["show"], &nowhere[..], &[lock]].concat();
        run_with(&cloud, &line).assert_refused(MISUSE, &["a lock's name"]);
    }
}

#[test]
fn the_environment_stands_in_for_flags_and_is_checked_as_they_are() {
    let listed = |environment: &[_], flags: &[&str]| {
        run_with(environment, &[&["ls", "--local", "b.db"], flags].concat()).out
    };
    let table = ("FAIRLOCK_TABLE", "other");
    assert!(listed(&[table], &[]).starts_with("no locks in table other in b.db"));
    let namespace = ("FAIRLOCK_NAMESPACE", "x");
    assert!(listed(&[namespace], &[]).ends_with("namespace x\n"));
    let both = listed(&[table], &["--table", "flag"]);
    assert!(both.starts_with("no locks in table flag in b.db"), "{both}");
}

/// Each flag that a fleet sets has a variable, which is checked under its own name. A command that does not use the variable ignores its
/// value.
#[test]
fn a_variable_that_makes_no_sense_is_told_by_its_own_name() {
    for (variable, value, flag) in [
        ("FAIRLOCK_WAIT", "soon", "--wait"),
        ("FAIRLOCK_WAIT", "5", "--wait"),
        ("FAIRLOCK_LEASE", "0s", "--lease"),
        ("FAIRLOCK_ENDPOINT_URL", "localhost:8000", "--endpoint-url"),
    ] {
        let told = run_with(&[(variable, value)], &["run", "a", "--", "true"]);
        assert_misuse(&told, &[flag, variable]);
        // If the value is given on the command line, the error names the flag only.
        let line = ["run", &format!("{flag}={value}"), "a", "--", "true"];
        let told = run_with(&[(variable, "10s")], &line);
        assert_misuse(&told, &[flag]);
        assert!(!told.err.contains(variable), "{told:?}");
    }
}

#[test]
fn a_variable_that_a_flag_beats_may_be_of_no_use() {
    let wait = ("FAIRLOCK_WAIT", "5");
    let url = ("FAIRLOCK_ENDPOINT_URL", "localhost:8000");
    let place = ["--local", "no/b.db"];
    for (variables, flags) in [
        (&[wait][..], &["-n"][..]),
        (&[wait], &["-w", "3"]),
        (&[wait], &["--wait", "3s"]),
        (&[url], &[]),
        (&[url, wait], &["-n"]),
    ] {
        let line = [&["run"], &place[..], flags, &["a", "--", "true"]].concat();
        run_with(variables, &line).assert_refused(69, &["there is no directory no"]);
    }
    let line = [&["run"], &place[..], &["a", "--", "-n"]].concat();
    assert_misuse(&run_with(&[wait], &line), &["FAIRLOCK_WAIT"]);
    assert_misuse(&run_with(&[url, wait], &line), &["FAIRLOCK_WAIT"]);
}

#[test]
fn an_empty_variable_is_none() {
    let empty = [
        ("FAIRLOCK_TABLE", ""),
        ("FAIRLOCK_NAMESPACE", ""),
        ("FAIRLOCK_LOCAL", ""),
        ("FAIRLOCK_ENDPOINT_URL", ""),
        ("FAIRLOCK_WAIT", ""),
        ("FAIRLOCK_LEASE", ""),
        ("FAIRLOCK_OWNER", ""),
        ("FAIRLOCK_NOTIFY", ""),
    ];
    let told = run_with(&empty, &["run", "--local", "no/b.db", "a", "--", "true"]);
    told.assert_refused(69, &["there is no directory no"]);
    let told = run_with(&empty, &["show", "--local", "b.db", "a"]);
    assert!(told.assert_done().starts_with("a: free"), "{told:?}");
}

#[test]
fn a_flag_beats_a_variable_and_two_places_are_told_as_they_were_given() {
    let nowhere = "http://127.0.0.1:1";
    for (command, rest) in COMMANDS {
        let file = [("FAIRLOCK_LOCAL", "b.db")];
        let url = [("FAIRLOCK_ENDPOINT_URL", nowhere)];
        let by_flag = |flags: &[&'static str]| [command, flags, rest].concat();
        // The region is none: the command got as far as that.
        let regionless = [file[0], ("AWS_REGION", "no region")];
        let told = run_with(&regionless, &by_flag(&["--endpoint-url", nowhere]));
        told.assert_refused(69, &["AWS"]);
        let told = run_with(&url, &by_flag(&["--local", "no/b.db"]));
        told.assert_refused(69, &["no/b.db"]);
        let told = run_with(&[file, url].concat(), &by_flag(&[]));
        assert_misuse(&told, &["FAIRLOCK_LOCAL", "FAIRLOCK_ENDPOINT_URL"]);
        assert!(!told.err.contains("--local"), "{told:?}");
        let told = run_with(&[file, url].concat(), &by_flag(&["--local", "no/b.db"]));
        told.assert_refused(69, &["no/b.db"]);
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for line in [&["--help"][..], &["run", "-h"], &["--version"]] {
        let home = TempDir::new().unwrap();
        let full = std::fs::File::create("/dev/full").unwrap();
        let output = fairlock(home.path(), line).stdout(full).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74), "{err}");
        assert!(err.contains("cannot write the output"), "{err}");
    }
}

fn has_colours(text: &str) -> bool {
    text.contains('\u{1b}')
}

#[test]
fn colours_are_for_terminals_and_for_who_forces_them_and_never_where_they_are_unwanted() {
    let forced = ("CLICOLOR_FORCE", "1");
    let unwanted = ("NO_COLOR", "1");
    let helped = |environment: &[_]| run_with(environment, &["--help"]).out;
    let refused = |environment: &[_]| run_with(environment, &["show"]).err;
    for told in [&helped as &dyn Fn(&[_]) -> String, &refused] {
        assert!(!has_colours(&told(&[])), "in a pipe");
        assert!(has_colours(&told(&[forced])));
        assert!(!has_colours(&told(&[forced, unwanted])));
        assert!(!has_colours(&told(&[unwanted])));
    }
}

#[test]
fn nobody_need_be_left_to_read_the_help_or_the_error() {
    for (line, code) in [
        (&["--help"][..], 0),
        (&["show"], MISUSE),
        (&["show", "a"], 69),
    ] {
        let home = TempDir::new().unwrap();
        let mut command = fairlock(home.path(), line);
        let closed = || {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            Stdio::from(writer)
        };
        let status = command.stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line:?}");
    }
}
