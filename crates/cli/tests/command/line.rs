//! The command line explains itself, refuses senseless input, and has colours only where they are seen.

use crate::command::{Said, rows, said};
use crate::home::Home;
use crate::served::AWS;
use fairlock_testkit::effort::sampled;

const MISUSE: i32 = 64;

/// Runs in an empty directory, with some more environment variables.
fn run_with(environment: &[(&str, &str)], line: &str) -> Said {
    let home = Home::empty();
    let ended = said(home.bare(line).envs(environment.iter().copied()));
    assert!(home.files().is_empty(), "{line} left something behind");
    ended
}

fn run(line: &str) -> Said {
    run_with(&[], line)
}

/// Behind `--`, as everywhere.
#[test]
fn a_lock_may_have_a_name_that_begins_with_a_dash() {
    let home = Home::empty();
    for (line, words) in [
        ("run -- -dash -- printenv FAIRLOCK_LOCK", "-dash\n"),
        ("run -- -- -- printenv FAIRLOCK_LOCK", "--\n"),
        ("run a -- printf %s --", "--"),
        ("hold -- -dash", ""),
        ("show -- -dash", "-dash"),
        ("ls -- -dash", "-dash"),
    ] {
        home.run(line).assert_shows(&[words]);
    }
    // Where there is a name before the first one, all behind it is the command.
    let ended = home.run("run a -- -x -- true");
    ended.assert_refused(127, &["cannot run", "-x"]);
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
        run(&format!("{word} a")).assert_ended(MISUSE, &[tip]);
    }
    for word in ["relief", "steel", "frobnicate", "dream", "ready"] {
        let ended = run(&format!("{word} a"));
        assert_eq!(ended.code, Some(MISUSE), "{ended:?}");
        assert!(!ended.err.contains("tip"), "{ended:?}");
    }
}

/// Each command, and what it requires. The flags of a place go between the two.
const COMMANDS: &str = "
    run           | a -- true
    hold          | a
    data get      | a
    data put      | a
    data clear    | a
    lease acquire | --id x --for 5m a
    lease extend  | --for 5m a 'lease ef35c85bd09c7500e27e934d6e39209d 17 1795778214000 1 xa'
    lease release | a 'lease ef35c85bd09c7500e27e934d6e39209d 17 1795778214000 1 xa'
    lease show    | a
    sweep         |
    table create  |
    table check   |
    show          | a
    ls            |
";

#[test]
fn every_command_helps_with_examples_that_fit_a_terminal() {
    let all = ", run, hold, ask, break, delete, resize, data, data get, data put, data clear, lease, lease acquire, \
               lease extend, lease release, lease show, sweep, doctor, completions, man, table, table create, \
               table check, show, ls, demo";
    for command in all.split(", ") {
        let ended = run(&format!("{command} --help"));
        let help = ended.assert_done();
        assert!(help.contains("Usage: fairlock"), "{help}");
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        assert!(
            examples.contains(format!("fairlock {command}").trim()),
            "{help}"
        );
        assert!(examples.lines().all(|line| line.len() <= 80), "{help}");
        let short = run(&format!("{command} -h"));
        assert!(short.assert_done().len() <= help.len());
    }
}

#[test]
fn help_puts_the_arguments_apart_from_the_flags_of_the_place() {
    for (command, name) in [
        ("run", "The lock's name"),
        ("hold", "The lock's name"),
        ("show", "The lock's name"),
        ("sweep", "Only the lock"),
    ] {
        let help = run(&format!("{command} --help")).out;
        let order = ["Arguments:", name, "Options:", "Where the locks are:"];
        let order = order.map(|heading| help.find(heading).unwrap());
        assert!(order.is_sorted(), "{help}");
    }
}

#[test]
fn the_version_is_told_and_what_is_for_the_command_itself_is_not_in_the_help() {
    let help = run("--help").out;
    for hidden in ["supervisor", "worker", "  holder "] {
        assert!(!help.contains(hidden), "{help}");
    }
    assert!(!run("demo --help").out.contains("plant"));
    let version = concat!("fairlock ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run("--version").assert_done(), version);
    assert_eq!(run("-V").assert_done(), version);
}

/// The command line was refused. The error says what is wrong with which flag, and where to read on.
#[track_caller]
fn assert_misuse(ended: &Said, words: &[&str]) {
    ended.assert_ended(MISUSE, words);
    assert_eq!(ended.out, "", "{ended:?}");
}

#[test]
fn a_line_that_is_none_is_refused() {
    const WRONG: &str = "
                             | Usage
        lock                 | 'lock'
        --colour             | --colour
        table                | Usage
        table drop           | 'drop'
        table create locks   | 'locks'
        table check locks    | 'locks'
        show                 | <LOCK>
        show a b             | 'b'
        hold                 | <LOCK>
        hold a -- true       | 'true'
        data                 | Usage
        data put             | <LOCK>
        data put a bytes     | 'bytes'
        lease                | Usage
        lease acquire a      | --id
        lease extend a       | --for
        lease release a      | <LEASE>
        sweep a --every 1h   | --every
        doctor a             | 'a'
        completions          | <SHELL>
        completions tcsh     | tcsh
        ls a b               | 'b'
        run                  | <LOCK>
        run a                | <COMMAND>
        run a true           | 'true'
    ";
    for [line, word] in rows(WRONG) {
        assert_misuse(&run(line), &[word]);
    }
}

/// Commands, and flags whose value, or use, makes no sense. Semicolons stand between the trials.
const SENSELESS: &str = "
    run           | --shared --permits 3 ; --shared --exclusive ; --exclusive --permits 3 ; --also b --shared
    run           | --also b --permits 3 ; --take 2 ; --permits=-1 ; --permits some
    run           | --wait soon ; --wait 0s ; --wait=-1s ; --wait 60 ; --wait '' ; --wait
    run           | --lease 0s ; --lease 0 ; --lease forever ; --lease 30 ; --lease 1s --lease 2s
    run           | --kill-after 0.0 ; --kill-after 0s ; --kill-after x
    run           | --conflict-exit-code 256 ; --conflict-exit-code=-1 ; --conflict-exit-code none
    hold          | --kill-after 2s ; --wait 5 ; --json=yes
    data put      | --wait 0s
    data get      | --wait 1s
    lease acquire | --for 5
    lease extend  | --for 0s
    sweep         | --every 1
    doctor        | --json=yes
    man           | --out a --out b
    completions   | --json bash
    table create  | --tag team ; --tag ; --tag =payments ; --tag aws:team=payments ; --tag team=pay;ments
    show          | --json=yes ; --older-than 1h ; --watch=0s ; --watch --exit-code
    ls            | --older-than long ; --json=yes
    demo          | --workers 0 ; --workers 101 ; --workers x ; --turns 0 ; --turns 10001 ; --turns 1.5
    demo          | --hold 50 ; --hold=-1s ; --hold x ; --local a.db ; --table a
";

#[test]
fn values_that_make_no_sense_are_refused_by_the_name_of_their_flag() {
    for [command, trials] in rows(SENSELESS) {
        let rest = rows(COMMANDS).find(|[known, _]| *known == command);
        let rest = rest.map_or("", |[_, rest]| rest);
        for flags in trials.split(" ; ") {
            let flag = flags.split([' ', '=']).next().unwrap();
            let ended = run(&format!("{command} {flags} {rest}"));
            assert_misuse(&ended, &[flag]);
        }
    }
}

#[test]
fn a_value_that_makes_no_sense_is_told_what_would() {
    const TOLD: &str = "
        run --wait 0s a -- true                          | called none
        run --wait 0 a -- true                           | called none
        run --wait 0.0 a -- true                         | called none
        run --wait soon a -- true                        | none nor infinite
        run --wait soon a -- true                        | 90s
        run --wait 60 a -- true                          | 60 what? Say 60s, or 60m
        run --lease 60 a -- true                         | 60 what? Say 60s, or 60m
        run --kill-after 60 a -- true                    | 60 what? Say 60s, or 60m
        run --notify=nowhere a -- true                   | neither an address
        run --lease 0 a -- true                          | must be more than nothing
        lease acquire --id x --for 0s a                  | --for
        lease acquire --id x --for 0s a                  | at least 1s, and at most 1day
        lease acquire --id x --for 5m --permits abc a    | --permits
        lease acquire --id x --for 5m --permits abc a    | a whole number from 1 to 1000
        run --permits 3 --take 1.5 a -- true             | --take
        run --permits 3 --take 1.5 a -- true             | a whole number from 1 to 1000
        resize a many                                    | <PERMITS>
        resize a many                                    | a whole number from 1 to 1000
    ";
    for [line, words] in rows(TOLD) {
        assert_misuse(&run(line), &[words]);
    }
    for line in ["top --every 1ms", "show --watch=99ms a"] {
        let ended = run(&format!("{line} --local locks.db"));
        ended.assert_refused(MISUSE, &["too short: at least 100ms", "each read"]);
    }
}

#[test]
fn a_command_without_dashes_before_it_is_told_where_they_belong() {
    // The last of them as `flock` accepts it.
    const TIPS: &str = "
        run a true                       | fairlock run a -- true
        run --wait 5s a ls -l 'my dir'   | fairlock run --wait 5s a -- ls -l 'my dir'
        run a ./x --json                 | fairlock run a -- ./x --json
        run a -c 'echo hi'               | fairlock run a -- sh -c 'echo hi'
    ";
    for [line, tip] in rows(TIPS) {
        let put = format!("put -- before the command: {tip}\n");
        assert_misuse(&run(line), &[&put]);
    }
    // Here the dashes are present, and a flag is no command.
    for line in ["run a b -- true", "run -Z a true"] {
        let told = run(line);
        assert!(!told.err.contains("put --"), "{told:?}");
    }
}

/// `flock`'s `-n`, `-w`, `-x`, `-e` and `-s` mean the same here.
#[test]
fn flags_of_flock_are_understood() {
    let refused = |flags: &str| run(&format!("run --local no/b.db {flags} a -- true"));
    let known = "-n, --nonblock, -w 5, -w 0, --timeout 0.5, -x, -s, -e -E 3";
    for flags in known.split(", ") {
        refused(flags).assert_refused(69, &["there is no directory no"]);
    }
    for (flags, words) in [
        ("-w 5s", &["--timeout", "--wait"][..]),
        ("-w=-1", &["--timeout"]),
        ("-n -w 5", &["-n", "-w"]),
        ("--wait 5s -n", &["--wait", "-n"]),
        ("--wait 5s -w 5", &["--wait", "-w"]),
        ("-s -x", &["--shared", "--exclusive"]),
    ] {
        assert_misuse(&refused(flags), words);
    }
}

#[test]
fn flags_of_a_place_are_checked_by_every_command_that_takes_them() {
    let wrong = [
        "--endpoint-url localhost:8000",
        "--endpoint-url ftp://a",
        "--endpoint-url http://",
        "--endpoint-url ''",
        "--endpoint-url http://127.0.0.1:1 --local b.db",
        "--local ''",
        "--local",
        "--table abc --table def",
        "--namespace",
    ];
    let cells = rows(COMMANDS).flat_map(|command| wrong.map(|flags| (command, flags)));
    // Every command and every flag is in the sample.
    for ([command, rest], flags) in sampled(cells, 5) {
        let (flag, value) = flags.split_once(' ').unwrap_or((flags, ""));
        // Without a value it would take the next word for one.
        let rest = if value.is_empty() { "" } else { rest };
        assert_misuse(&run(&format!("{command} {flags} {rest}")), &[flag]);
    }
}

/// Some values only the library can judge. Read-only commands report them like any other misuse, before anything is sent.
#[test]
fn names_that_cannot_be_are_refused_before_anything_is_sent() {
    const WRONG: &str = "
        --table ''             | table
        --table ab             | table
        --table 'a b c'        | table
        --table LONG           | table
        --namespace ''         | namespace
        --namespace a/b        | namespace
        --namespace LONG       | namespace
        --partition-key ''     | partition key
        --partition-key slots  | partition key
        --sort-key ''          | sort key
        --sort-key pk          | sort key
        --ttl-attribute LONG   | TTL attribute
        --ttl-attribute sk     | too
    ";
    let nowhere = "--endpoint-url http://127.0.0.1:1";
    let cells = rows(COMMANDS).flat_map(|command| rows(WRONG).map(move |wrong| (command, wrong)));
    for ([command, rest], [flags, word]) in sampled(cells, 5) {
        let flags = flags.replace("LONG", &"x".repeat(1025));
        let line = format!("{command} {nowhere} {flags} {rest}");
        run_with(&AWS, &line).assert_refused(MISUSE, &[word]);
    }
    for lock in ["''", &"x".repeat(2049)] {
        let shown = run_with(&AWS, &format!("show {nowhere} {lock}"));
        shown.assert_refused(MISUSE, &["a lock's name"]);
    }
}

#[test]
fn the_environment_stands_in_for_flags_and_is_checked_as_they_are() {
    let listed = |environment: &[_], flags: &str| {
        run_with(environment, &format!("ls --local b.db {flags}")).out
    };
    let table = ("FAIRLOCK_TABLE", "other");
    assert!(listed(&[table], "").starts_with("no locks in table other in b.db"));
    let namespace = ("FAIRLOCK_NAMESPACE", "x");
    assert!(listed(&[namespace], "").ends_with("namespace x\n"));
    let both = listed(&[table], "--table flag");
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
        let told = run_with(&[(variable, value)], "run a -- true");
        assert_misuse(&told, &[flag, variable]);
        // If the value is given on the command line, the error names the flag only.
        let line = format!("run {flag}={value} a -- true");
        let told = run_with(&[(variable, "10s")], &line);
        assert_misuse(&told, &[flag]);
        assert!(!told.err.contains(variable), "{told:?}");
    }
}

#[test]
fn a_variable_that_a_flag_beats_may_be_of_no_use_and_an_empty_one_is_none() {
    let wait = ("FAIRLOCK_WAIT", "5");
    let url = ("FAIRLOCK_ENDPOINT_URL", "localhost:8000");
    let names = "TABLE NAMESPACE LOCAL ENDPOINT_URL WAIT LEASE OWNER NOTIFY".split(' ');
    let names: Vec<_> = names.map(|name| format!("FAIRLOCK_{name}")).collect();
    let empty: Vec<_> = names.iter().map(|name| (&**name, "")).collect();
    for (variables, flags) in [
        (&[wait][..], "-n"),
        (&[wait], "-w 3"),
        (&[wait], "--wait 3s"),
        (&[url], ""),
        (&[url, wait], "-n"),
        (&empty, ""),
    ] {
        let told = run_with(variables, &format!("run --local no/b.db {flags} a -- true"));
        told.assert_refused(69, &["there is no directory no"]);
    }
    for variables in [&[wait][..], &[url, wait]] {
        let told = run_with(variables, "run --local no/b.db a -- -n");
        assert_misuse(&told, &["FAIRLOCK_WAIT"]);
    }
    run_with(&empty, "show --local b.db a").assert_shows(&["a: free"]);
}

#[test]
fn a_flag_beats_a_variable_and_two_places_are_told_as_they_were_given() {
    let file = ("FAIRLOCK_LOCAL", "b.db");
    let url = ("FAIRLOCK_ENDPOINT_URL", "http://127.0.0.1:1");
    for [command, rest] in rows(COMMANDS) {
        let by_flag = |flags: &str| format!("{command} {flags} {rest}");
        // The region is none: the command got as far as that.
        let regionless = [file, ("AWS_REGION", "no region")];
        let told = run_with(&regionless, &by_flag("--endpoint-url http://127.0.0.1:1"));
        told.assert_refused(69, &["AWS"]);
        let told = run_with(&[file, url], &by_flag(""));
        assert_misuse(&told, &["FAIRLOCK_LOCAL", "FAIRLOCK_ENDPOINT_URL"]);
        assert!(!told.err.contains("--local"), "{told:?}");
        for variables in [&[url][..], &[file, url]] {
            let told = run_with(variables, &by_flag("--local no/b.db"));
            told.assert_refused(69, &["no/b.db"]);
        }
    }
}

fn has_colours(text: &str) -> bool {
    text.contains('\u{1b}')
}

#[test]
fn colours_are_for_terminals_and_for_who_forces_them_and_never_where_they_are_unwanted() {
    let forced = ("CLICOLOR_FORCE", "1");
    let unwanted = ("NO_COLOR", "1");
    let helped = |environment: &[_]| run_with(environment, "--help").out;
    let refused = |environment: &[_]| run_with(environment, "show").err;
    let shown = |environment: &[_]| run_with(environment, "show --local b.db a").out;
    for told in [&helped as &dyn Fn(&[_]) -> String, &refused, &shown] {
        assert!(!has_colours(&told(&[])), "in a pipe");
        assert!(has_colours(&told(&[forced])));
        assert!(!has_colours(&told(&[forced, unwanted])));
        assert!(!has_colours(&told(&[unwanted])));
    }
    assert!(shown(&[forced]).contains("\u{1b}[32mfree\u{1b}[0m"));
}
