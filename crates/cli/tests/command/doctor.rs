//! `fairlock doctor`: what may be wrong between this process and its locks.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use serde_json::Value;

use crate::command::{Said, fairlock, said, without_rights};
use crate::inspect::cloud::refusing;
use crate::inspect::home::Home;
use crate::inspect::schema::documented;

/// What each check said, by its name.
fn checks(ended: &Said) -> BTreeMap<String, (String, String)> {
    let lines = documented("A check,", &ended.out);
    let word = |line: &Value, field| line[field].as_str().unwrap().to_owned();
    let checks = lines.iter().map(|line| {
        (
            word(line, "check"),
            (word(line, "state"), word(line, "text")),
        )
    });
    checks.collect()
}

#[track_caller]
fn assert_found(ended: &Said, code: i32, expected: &[(&str, &str, &str)]) {
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (Some(code), ""),
        "{ended:?}"
    );
    let found = checks(ended);
    for (check, state, words) in expected {
        let (is, text) = &found[*check];
        assert_eq!(is, state, "{check}: {ended:?}");
        assert!(text.contains(words), "{check}: no {words}: {ended:?}");
    }
}

const AWS: [(&str, &str); 3] = [
    ("AWS_REGION", "eu-west-1"),
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
];

fn in_the_cloud(home: &Home, url: &str, flags: &[&str]) -> Command {
    let line = [&["doctor", "--json", "--endpoint-url", url], flags].concat();
    let mut command = fairlock(home.0.path(), &line);
    command.envs(AWS);
    command
}

#[test]
fn a_file_that_is_well_is_called_so_line_by_line_and_left_as_it_is() {
    let home = Home::with_table();
    let before = std::fs::read(home.file("locks.db")).unwrap();
    let ended = home.run("doctor --local locks.db");
    for line in ended.assert_done().lines() {
        assert!(line.starts_with("ok       "), "{line}");
    }
    let ended = home.run("doctor --json --local locks.db");
    let permitted = [
        "GetItem",
        "Query",
        "PutItem",
        "UpdateItem",
        "DeleteItem",
        "BatchWriteItem",
        "Scan",
    ];
    let permitted = permitted.map(|operation| (operation, "ok", "permitted"));
    assert_found(&ended, 0, &permitted);
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
    assert_eq!(
        home.run("ls --local locks.db").out,
        "no locks in table fairlock in locks.db, namespace fairlock\n"
    );
}

#[test]
fn what_is_wrong_with_a_table_comes_with_the_way_out() {
    let home = Home::with_table();
    let ended = home.run("doctor --json --local locks.db --table other");
    let create = "`fairlock table create --table other --local locks.db`";
    assert_found(&ended, 1, &[("table", "problem", create)]);
    let ended = home.run("doctor --json --local locks.db --partition-key id");
    assert_found(&ended, 1, &[("table", "problem", "`--partition-key`")]);
    let ended = home.run("doctor --json --local locks.db --ttl-attribute ttl");
    assert_found(
        &ended,
        0,
        &[
            ("ttl", "warning", "`--ttl-attribute expires_at`"),
            ("Scan", "ok", "permitted"),
        ],
    );
    std::fs::write(home.file("text"), "dear diary").unwrap();
    let ended = home.run("doctor --json --local text");
    assert_found(&ended, 1, &[("file", "problem", "it is no database")]);
    let ended = home.run("doctor --json --local no/locks.db");
    assert_found(
        &ended,
        1,
        &[("file", "problem", "there is no directory no")],
    );
    // Flags that can mean no table are a wrong command line.
    home.run("doctor --local locks.db --table ab")
        .assert_refused(64, &["table"]);
}

fn as_a_user(home: &Home, line: &str) -> Said {
    without_rights(home.0.path(), &line.split(' ').collect::<Vec<_>>())
}

/// A single finding says what is in the way, and no other repeats it.
#[test]
fn a_file_that_this_user_may_not_write_is_one_problem() {
    let home = Home::with_table();
    let set = |name: &str, mode| {
        std::fs::set_permissions(home.file(name), Permissions::from_mode(mode)).unwrap();
    };
    std::fs::create_dir(home.file("ro")).unwrap();
    set("ro", 0o555);
    set("locks.db", 0o444);
    for (line, words) in [
        (
            "doctor --json --local ro/locks.db",
            &[
                "no turn can make ro/locks.db",
                "its directory belongs to",
                "mode 555",
            ],
        ),
        (
            "doctor --json --local locks.db",
            &["cannot take locks in locks.db", "it belongs to", "mode 444"],
        ),
    ] {
        let ended = as_a_user(&home, line);
        let mut found = checks(&ended);
        found.retain(|_, (state, _)| state != "ok");
        assert_eq!((ended.code, found.len()), (Some(1), 1), "{ended:?}");
        for word in words {
            assert!(found["file"].1.contains(word), "no {word}: {ended:?}");
        }
    }
    as_a_user(&home, "table check --local ro/locks.db")
        .assert_refused(1, &["no turn can make it", "its directory belongs to"]);
    set("ro", 0o755);
}

#[test]
fn a_missing_region_and_missing_credentials_are_both_told() {
    let home = Home::new();
    let ended = home.run("doctor --json");
    assert_found(
        &ended,
        1,
        &[
            ("region", "problem", "set AWS_REGION"),
            ("credentials", "problem", "AWS_ACCESS_KEY_ID"),
        ],
    );
    let mut command = fairlock(home.0.path(), &["doctor", "--json"]);
    let ended = said(command.envs(AWS[1..].iter().copied()));
    assert_found(
        &ended,
        1,
        &[
            ("region", "problem", "set AWS_REGION"),
            ("credentials", "ok", "found"),
        ],
    );
    let mut command = fairlock(home.0.path(), &["doctor", "--json"]);
    let ended = said(command.envs(AWS).env("AWS_ENDPOINT_URL", ""));
    assert_found(
        &ended,
        1,
        &[("endpoint", "problem", "AWS_ENDPOINT_URL is empty")],
    );
}

#[test]
fn an_endpoint_that_does_not_answer_is_a_problem() {
    let home = Home::new();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let ended = said(&mut in_the_cloud(&home, &url, &[]));
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
    let home = Home::new();
    let ended = said(&mut in_the_cloud(
        &home,
        &refusing("AccessDeniedException"),
        &[],
    ));
    let denied = |operation, state| (operation, state, "AccessDeniedException: because");
    let found = [
        denied("GetItem", "problem"),
        denied("Query", "problem"),
        denied("PutItem", "problem"),
        denied("UpdateItem", "problem"),
        denied("DeleteItem", "problem"),
        denied("BatchWriteItem", "warning"),
        denied("Scan", "warning"),
        denied("DescribeTable", "warning"),
        denied("ConditionCheckItem", "warning"),
    ];
    assert_found(&ended, 1, &found);
    assert!(
        checks(&ended)["Query"]
            .1
            .contains("permit `dynamodb:Query` on the table"),
        "{ended:?}"
    );
    assert!(
        !checks(&ended).contains_key("table"),
        "nothing is known of it: {ended:?}"
    );
}

#[test]
fn a_clock_that_is_wrong_is_told_with_by_how_much() {
    let home = Home::new();
    for (ahead, code, state, words) in [
        (0, 0, "ok", "agree"),
        (-100, 0, "warning", "1m "),
        (
            100,
            0,
            "warning",
            "behind that of the answers: set it by NTP",
        ),
        (
            1000,
            1,
            "problem",
            "behind that of the answers: set it by NTP",
        ),
    ] {
        real_time(async {
            let place = ServedEngine::new(Wire::Tcp).await;
            let url = place.url().await;
            // Each front end is.
            place.server.next_are_ahead(&[ahead; 100]);
            let mut command = in_the_cloud(&home, &url, &["--table", "locks"]);
            let ended = tokio::task::spawn_blocking(move || said(&mut command))
                .await
                .unwrap();
            assert_found(
                &ended,
                code,
                &[
                    ("clock", state, words),
                    ("ConditionCheckItem", "ok", "permitted"),
                ],
            );
        });
    }
}
