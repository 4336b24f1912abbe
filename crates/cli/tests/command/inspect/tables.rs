//! The table is created, and checked.

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
fn a_table_is_on_demand_unless_its_throughput_is_given() {
    let home = Home::with_table();
    let provisioned = "--table locks --read-capacity 5 --write-capacity 10";
    let line = format!("table create --local locks.db {provisioned}");
    home.run(&line).assert_done();
    real_time(async {
        let dynamodb = Engine::file(home.file("locks.db")).unwrap().client();
        let mut units = Vec::new();
        for table in ["fairlock", "locks"] {
            let answer = dynamodb.describe_table().table_name(table).send().await;
            let throughput = answer.unwrap().table.unwrap().provisioned_throughput;
            let read = throughput.as_ref().and_then(|it| it.read_capacity_units);
            let write = throughput.and_then(|it| it.write_capacity_units);
            units.push((read.unwrap_or(0), write.unwrap_or(0)));
        }
        assert_eq!(units, [(0, 0), (5, 10)]);
    });
}

#[test]
fn a_table_has_the_settings_that_its_flags_ask_for_and_keeps_those_that_it_has() {
    let home = Home::new();
    let run = |what: &str, flags: &[&str]| {
        let table = ["table", what, "--local", "locks.db"];
        home.run_words(&[&table, flags].concat())
    };
    let ready = "table fairlock in locks.db is ready\n";
    let asked = [
        "--tag",
        "team=payments",
        "--tag",
        "formula=a=b",
        "--tag",
        "empty=",
        "--deletion-protection",
        "--point-in-time-recovery",
        "--kms-key",
        "alias/locks",
    ];
    assert_eq!(run("create", &asked).assert_done(), ready);
    let well = "table fairlock in locks.db: all is well\n";
    assert_eq!(run("check", &asked).assert_done(), well);
    assert_eq!(run("check", &[]).assert_done(), well);
    // Again with other settings: what differs is told, and nothing is changed.
    let other = [
        "--tag",
        "team=search",
        "--read-capacity",
        "5",
        "--write-capacity",
        "10",
        "--kms-key",
        "alias/aws/dynamodb",
    ];
    let notes = "\
note: throughput is on demand, not 5 read and 10 write units as asked for: change it by a request `UpdateTable`, or ask for what the \
table has
note: tag `team` is `payments`, not `search` as asked for: change it by a request `TagResource`, or ask for what the table has
";
    let created = run("create", &other);
    assert_eq!(created.assert_done(), format!("{ready}{notes}"));
    assert_eq!(run("check", &other).assert_done(), notes);
    assert_eq!(run("check", &asked).assert_done(), well);
}

#[test]
fn recovery_that_is_missing_is_switched_on_by_the_command_that_the_check_names() {
    let home = Home::with_table();
    let check = "table check --local locks.db --point-in-time-recovery";
    let way = "fairlock table create --local locks.db --point-in-time-recovery";
    let found = format!(
        "note: point-in-time recovery is off, not on as asked for: switch it on with `{way}`\n"
    );
    assert_eq!(home.run(check).assert_done(), found);
    home.run(way.strip_prefix("fairlock ").unwrap())
        .assert_done();
    assert!(home.run(check).assert_done().contains("all is well"));
}

#[test]
fn settings_that_no_table_can_have_are_refused_and_make_no_file() {
    let home = Home::new();
    let long = "k".repeat(129);
    for (flags, word) in [
        (["--tag", "=payments"], "1 to 128 characters"),
        (["--tag", &format!("{long}=x")], "1 to 128 characters"),
        (["--tag", "aws:team=payments"], "`aws:`"),
        (["--tag", "team=pay;ments"], "letters, digits"),
        (["--kms-key", "not a key"], "id or the ARN"),
        (["--kms-key", ""], "1 to 2048"),
    ] {
        for command in ["create", "check"] {
            let line = ["table", command, "--local", "locks.db", flags[0], flags[1]];
            home.run_words(&line).assert_refused(64, &[word]);
        }
    }
    assert!(home.files().is_empty());
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
