//! `fairlock doctor`: what may be wrong between this process and its locks.

use std::collections::BTreeMap;
use std::process::Command;

use fairlock_testkit::real_time;
use serde_json::Value;

use crate::command::{Said, rows, said, without_rights};
use crate::home::Home;
use crate::inspect::cloud::refusing;
use crate::inspect::schema::documented;
use crate::served::{AWS, Cloud, nobody};

/// What each check said, by its name.
fn checks(ended: &Said) -> BTreeMap<String, (String, String)> {
    let lines = documented("A check,", &ended.out);
    let word = |line: &Value, field| line[field].as_str().unwrap().to_owned();
    let checks = lines.iter().map(|line| {
        let found = (word(line, "state"), word(line, "text"));
        (word(line, "check"), found)
    });
    checks.collect()
}

#[track_caller]
fn assert_found(ended: &Said, code: i32, expected: &[(&str, &str, &str)]) {
    assert_eq!((ended.code, &*ended.err), (Some(code), ""), "{ended:?}");
    let found = checks(ended);
    for (check, state, words) in expected {
        let (is, text) = &found[*check];
        assert_eq!(is, state, "{check}: {ended:?}");
        assert!(text.contains(words), "{check}: no {words}: {ended:?}");
    }
}

#[test]
fn a_file_that_is_well_is_called_so_line_by_line_and_left_as_it_is() {
    let home = Home::new();
    let before = std::fs::read(home.file("locks.db")).unwrap();
    for line in home.run("doctor").assert_done().lines() {
        assert!(line.starts_with("ok       "), "{line}");
    }
    let ended = home.run("doctor --json");
    let permitted = "GetItem Query PutItem UpdateItem DeleteItem BatchWriteItem Scan";
    for operation in permitted.split(' ') {
        assert_found(&ended, 0, &[(operation, "ok", "permitted")]);
    }
    let well = [
        ("processes", "ok", "can end"),
        ("file", "ok", "locks.db"),
        ("table", "ok", "table fairlock"),
        ("ttl", "ok", "`expires_at`"),
        ("clock", "ok", "agree"),
        ("latency", "ok", "median"),
    ];
    assert_found(&ended, 0, &well);
    assert_eq!(std::fs::read(home.file("locks.db")).unwrap(), before);
    let none = "no locks in table fairlock in locks.db, namespace fairlock\n";
    assert_eq!(home.run("ls").out, none);
}

#[test]
fn what_is_wrong_comes_with_the_way_out() {
    const WRONG: &str = "
        --local locks.db --table other        | 1 | table | problem | `fairlock table create --table other --local locks.db`
        --local locks.db --partition-key id   | 1 | table | problem | `--partition-key`
        --local locks.db --ttl-attribute ttl  | 0 | ttl   | warning | `--ttl-attribute expires_at`
        --local locks.db --ttl-attribute ttl  | 0 | Scan  | ok      | permitted
        --local text                          | 1 | file  | problem | it is no database
        --local no/locks.db                   | 1 | file  | problem | there is no directory no
                                              | 1 | region      | problem | set AWS_REGION
                                              | 1 | credentials | problem | AWS_ACCESS_KEY_ID
    ";
    let home = Home::new();
    home.write("text", "dear diary");
    for [flags, code, check, state, words] in rows(WRONG) {
        let ended = said(&mut home.bare(&format!("doctor --json {flags}")));
        assert_found(&ended, code.parse().unwrap(), &[(check, state, words)]);
    }
    // Flags that can mean no table are a wrong command line.
    home.run("doctor --table ab").assert_refused(64, &["table"]);
    let with = |environment: &[(&str, &str)]| {
        said(home.bare("doctor --json").envs(environment.iter().copied()))
    };
    let found = [
        ("region", "problem", "set AWS_REGION"),
        ("credentials", "ok", "found"),
    ];
    assert_found(&with(&AWS[1..]), 1, &found);
    let empty = [&AWS[..], &[("AWS_ENDPOINT_URL", "")]].concat();
    let found = [("endpoint", "problem", "AWS_ENDPOINT_URL is empty")];
    assert_found(&with(&empty), 1, &found);
}

/// A single finding says what is in the way, and no other repeats it.
#[test]
fn a_file_that_this_user_may_not_write_is_one_problem() {
    let home = Home::new();
    home.make_dir("ro");
    home.set_mode("ro", 0o555);
    home.set_mode("locks.db", 0o444);
    for (file, words) in [
        (
            "ro/locks.db",
            [
                "no turn can make ro/locks.db",
                "its directory belongs to",
                "mode 555",
            ],
        ),
        (
            "locks.db",
            ["cannot take locks in locks.db", "it belongs to", "mode 444"],
        ),
    ] {
        let ended = without_rights(home.path(), &format!("doctor --json --local {file}"));
        let mut found = checks(&ended);
        found.retain(|_, (state, _)| state != "ok");
        assert_eq!((ended.code, found.len()), (Some(1), 1), "{ended:?}");
        for word in words {
            assert!(found["file"].1.contains(word), "no {word}: {ended:?}");
        }
    }
    let check = without_rights(home.path(), "table check --local ro/locks.db");
    check.assert_refused(1, &["no turn can make it", "its directory belongs to"]);
    home.set_mode("ro", 0o755);
}

fn at(home: &Home, url: &str) -> Command {
    let mut command = home.bare(&format!("doctor --json --endpoint-url {url}"));
    command.envs(AWS);
    command
}

#[test]
fn an_endpoint_that_does_not_answer_is_a_problem() {
    let url = format!("http://{}", nobody());
    let ended = said(&mut at(&Home::empty(), &url));
    let way = format!("whether {url} is right");
    let found = [
        ("region", "ok", "eu-west-1, given by AWS_REGION"),
        ("credentials", "ok", "do not expire"),
        ("table", "problem", &*way),
    ];
    assert_found(&ended, 1, &found);
}

/// What only whole tables need is a warning, and what locks need is a problem.
#[test]
fn each_permission_that_is_denied_is_named() {
    let ended = said(&mut at(&Home::empty(), &refusing("AccessDeniedException")));
    for (operations, state) in [
        ("GetItem Query PutItem UpdateItem DeleteItem", "problem"),
        (
            "BatchWriteItem Scan DescribeTable ConditionCheckItem",
            "warning",
        ),
    ] {
        for operation in operations.split(' ') {
            let denied = (operation, state, "AccessDeniedException: because");
            assert_found(&ended, 1, &[denied]);
        }
    }
    let found = checks(&ended);
    let permit = "permit `dynamodb:Query` on the table";
    assert!(found["Query"].1.contains(permit), "{ended:?}");
    assert!(
        !found.contains_key("table"),
        "nothing is known of it: {ended:?}"
    );
}

#[test]
fn a_clock_that_is_wrong_is_told_with_by_how_much() {
    let behind = "behind that of the answers: set it by NTP";
    for (ahead, code, state, words) in [
        (0, 0, "ok", "agree"),
        (-100, 0, "warning", "1m "),
        (100, 0, "warning", behind),
        (1000, 1, "problem", behind),
    ] {
        real_time(async {
            let cloud = Cloud::new().await;
            // Each front end is.
            cloud.place.server.next_are_ahead(&[ahead; 100]);
            let ended = cloud.run("doctor --json").await;
            let checked = ("ConditionCheckItem", "ok", "permitted");
            assert_found(&ended, code, &[("clock", state, words), checked]);
        });
    }
}
