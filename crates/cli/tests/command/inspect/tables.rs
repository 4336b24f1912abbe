//! The table is created, and checked.

use aws_sdk_dynamodb::types::BillingMode;
use fairlock::embedded::Engine;
use fairlock_testkit::real_time;

use super::home::{Home, UNAVAILABLE};

#[test]
fn a_table_is_made_in_a_file_once_and_then_left_as_it_is() {
    let home = Home::new();
    let file = home.file("locks.db");
    let file = file.to_str().unwrap();
    for _ in 0..2 {
        let created = home.run_words(&["table", "create", "--local", file]);
        let ready = format!("table fairlock in {file} is ready\n");
        assert_eq!(created.assert_done(), ready);
    }
    assert_eq!(home.files(), ["locks.db"]);
    let check = home.run("table check --local locks.db");
    let well = "table fairlock in locks.db: all is well\n";
    assert_eq!(check.assert_done(), well);
}

#[test]
fn a_table_is_on_demand_and_has_the_tags_that_are_asked_for() {
    let home = Home::new();
    let table = ["table", "create", "--local", "locks.db"];
    let tags = [
        "--tag",
        "team=payments",
        "--tag",
        "formula=a=b",
        "--tag",
        "empty=",
    ];
    home.run_words(&[&table[..], &tags].concat()).assert_done();
    real_time(async {
        let dynamodb = Engine::file(home.file("locks.db")).unwrap().client();
        let answer = dynamodb
            .describe_table()
            .table_name("fairlock")
            .send()
            .await;
        let table = answer.unwrap().table.unwrap();
        let billing = table.billing_mode_summary.unwrap().billing_mode;
        assert_eq!(billing, Some(BillingMode::PayPerRequest));
        let tags = dynamodb
            .list_tags_of_resource()
            .resource_arn(table.table_arn.unwrap());
        let mut tags = tags.send().await.unwrap().tags.unwrap();
        tags.sort_by(|one, other| one.key.cmp(&other.key));
        let tags: Vec<_> = tags.iter().map(|tag| (tag.key(), tag.value())).collect();
        assert_eq!(
            tags,
            [("empty", ""), ("formula", "a=b"), ("team", "payments")]
        );
    });
    let twice = ["--tag", "team=a", "--tag", "team=b"];
    home.run_words(&[&table[..], &twice].concat())
        .assert_refused(64, &["`team` twice"]);
}

#[test]
fn a_command_that_only_reads_creates_neither_file_nor_table() {
    let home = Home::new();
    // A file that the first turn makes is as if it were there, without locks.
    let read = [
        ("table check", 0, "the first turn makes it"),
        ("show a", 0, "a: free"),
        ("show --exit-code a", 0, "a: free"),
        ("ls", 0, "no locks in table fairlock in none.db"),
        ("ls --json", 0, ""),
        ("sweep", 0, "0 locks"),
        ("doctor", 0, "the first turn makes none.db"),
        ("data get --json a", 1, "null"),
        ("lease show a", 1, "no such lease"),
    ];
    for (line, code, words) in read {
        let ended = home.run(&format!("{line} --local none.db"));
        assert_eq!(
            (ended.code, ended.err.as_str()),
            (Some(code), ""),
            "{ended:?}"
        );
        assert!(ended.out.contains(words), "{ended:?}");
        assert!(home.files().is_empty(), "{line}");
    }
    for line in ["ask a", "break --yes a"] {
        let ended = home.run(&format!("{line} --local none.db"));
        ended.assert_refused(75, &["nobody has it"]);
        assert!(home.files().is_empty(), "{line}");
    }
    for line in [
        "table check",
        "show a",
        "ls",
        "sweep",
        "run a -- true",
        "lease show a",
    ] {
        let (line, command) = line
            .split_once(" --")
            .map_or((line, ""), |(line, _)| (line, " -- true"));
        let ended = home.run(&format!("{line} --local no/none.db{command}"));
        ended.assert_refused(UNAVAILABLE, &["no/none.db", "there is no directory no"]);
    }
    std::fs::write(home.file("empty.db"), "").unwrap();
    home.run("table check --local empty.db").assert_done();
    assert!(
        home.run("show a --local empty.db")
            .assert_done()
            .starts_with("a: free")
    );
    assert_eq!(std::fs::read(home.file("empty.db")).unwrap(), b"");

    let home = Home::with_table();
    let other = "--local locks.db --table other";
    for line in ["show a", "ls", "ls --json"] {
        let ended = home.run(&format!("{line} {other}"));
        let create = "`fairlock table create --table other --local locks.db`";
        ended.assert_refused(UNAVAILABLE, &["no table other", create]);
    }
    for _ in 0..2 {
        let check = home.run(&format!("table check {other}"));
        assert_eq!(check.code, Some(1), "{check:?}");
        assert_eq!(
            check.out,
            "fatal: there is no such table: create it with \
             `fairlock table create --table other --local locks.db`\n"
        );
    }
}

#[test]
fn a_check_is_one_line_a_finding_and_fails_if_locks_do_not_work() {
    let home = Home::with_table();
    let check = home.run("table check --local locks.db --partition-key id --ttl-attribute ttl");
    assert_eq!((check.code, check.err.as_str()), (Some(1), ""), "{check:?}");
    let [keys, ttl] = check.out.lines().collect::<Vec<_>>()[..] else {
        panic!("{check:?}")
    };
    assert!(
        keys.starts_with("fatal: ") && keys.contains("`--partition-key`"),
        "{keys}"
    );
    assert!(ttl.starts_with("warning: "), "{ttl}");
    assert!(ttl.ends_with("`--ttl-attribute expires_at`"), "{ttl}");

    let check = home.run("table check --local locks.db --ttl-attribute ttl");
    assert!(check.assert_done().starts_with("warning: "), "locks work");
}

#[test]
fn a_table_of_other_keys_is_neither_taken_for_ours_nor_for_an_empty_one() {
    let home = Home::with_table();
    let other = "--local locks.db --partition-key id";
    let create = home.run(&format!("table create {other}"));
    create.assert_refused(UNAVAILABLE, &["`pk`", "`id`", "`--partition-key`"]);
    for line in ["show a", "ls", "ls --json"] {
        let ended = home.run(&format!("{line} {other}"));
        let check = "`fairlock table check --local locks.db --partition-key id`";
        ended.assert_refused(UNAVAILABLE, &[check]);
    }
    let create = home.run("table create --local locks.db --ttl-attribute ttl");
    create.assert_refused(UNAVAILABLE, &["`--ttl-attribute expires_at`"]);
}
