//! The table is created, and checked.

use aws_sdk_dynamodb::types::BillingMode;
use fairlock_testkit::real_time;

use crate::command::{rows, said};
use crate::home::Home;

#[test]
fn a_table_is_made_in_a_file_once_and_then_left_as_it_is() {
    let home = Home::empty();
    let file = home.file("locks.db");
    let file = file.to_str().unwrap();
    for _ in 0..2 {
        let created = said(&mut home.bare(&format!("table create --local {file}")));
        let ready = format!("table fairlock in {file} is ready\n");
        assert_eq!(created.assert_done(), ready);
    }
    assert_eq!(home.files(), ["locks.db"]);
    let well = "table fairlock in locks.db: all is well\n";
    assert_eq!(home.run("table check").assert_done(), well);
}

#[test]
fn a_table_is_on_demand_and_has_the_tags_that_are_asked_for() {
    let home = Home::empty();
    let made = home.run("table create --tag team=payments --tag formula=a=b --tag empty=");
    made.assert_done();
    real_time(async {
        let dynamodb = home.engine().client();
        let table = dynamodb.describe_table().table_name("fairlock").send();
        let table = table.await.unwrap().table.unwrap();
        let billing = table.billing_mode_summary.unwrap().billing_mode;
        assert_eq!(billing, Some(BillingMode::PayPerRequest));
        let tags = dynamodb.list_tags_of_resource();
        let tags = tags.resource_arn(table.table_arn.unwrap());
        let mut tags = tags.send().await.unwrap().tags.unwrap();
        tags.sort_by(|one, other| one.key.cmp(&other.key));
        let tags: Vec<_> = tags.iter().map(|tag| (tag.key(), tag.value())).collect();
        let expected = [("empty", ""), ("formula", "a=b"), ("team", "payments")];
        assert_eq!(tags, expected);
    });
    let twice = home.run("table create --tag team=a --tag b=1 --tag team=b");
    twice.assert_refused(64, &["--tag names `team` twice"]);
}

#[test]
fn a_command_that_only_reads_creates_neither_file_nor_table() {
    // A file that the first turn makes is as if it were there, without locks.
    const READ: &str = "
        table check         | 0 | the first turn makes it
        show a              | 0 | a: free
        show --exit-code a  | 0 | a: free
        ls                  | 0 | no locks in table fairlock in locks.db
        ls --json           | 0 |
        sweep               | 0 | 0 locks
        doctor              | 0 | the first turn makes locks.db
        data get --json a   | 1 | null
        lease show a        | 1 | no such lease
    ";
    let home = Home::empty();
    for [line, code, words] in rows(READ) {
        let ended = home.run(line);
        assert_eq!(
            (ended.code, &*ended.err),
            (code.parse().ok(), ""),
            "{ended:?}"
        );
        assert!(ended.out.contains(words), "{ended:?}");
        assert!(home.files().is_empty(), "{line}");
    }
    for line in ["ask a", "break --yes a"] {
        home.run(line).assert_refused(75, &["nobody has it"]);
        assert!(home.files().is_empty(), "{line}");
    }
    for line in [
        "table check",
        "show a",
        "ls",
        "sweep",
        "lease show a",
        "run a -- true",
    ] {
        let (line, command) = line.split_once(" --").unwrap_or((line, ""));
        let dashes = if command.is_empty() { "" } else { "--" };
        let ended = format!("{line} --local no/none.db {dashes}{command}");
        let ended = said(&mut home.bare(&ended));
        ended.assert_refused(69, &["no/none.db", "there is no directory no"]);
    }
    home.write("locks.db", "");
    home.run("table check").assert_done();
    home.run("show a").assert_shows(&["a: free"]);
    assert_eq!(home.read("locks.db"), "");

    let home = Home::new();
    for line in ["show a", "ls", "ls --json"] {
        let ended = home.run(&format!("{line} --table other"));
        let create = "`fairlock table create --table other --local locks.db`";
        ended.assert_refused(69, &["no table other", create]);
    }
    for _ in 0..2 {
        let check = home.run("table check --table other");
        check.assert_said(
            1,
            "fatal: there is no such table: create it with `fairlock table create --table other --local locks.db`\n",
        );
    }
}

#[test]
fn a_check_is_one_line_a_finding_and_fails_if_locks_do_not_work() {
    let home = Home::new();
    let check = home.run("table check --partition-key id --ttl-attribute ttl");
    assert_eq!((check.code, &*check.err), (Some(1), ""), "{check:?}");
    let [keys, ttl] = check.out.lines().collect::<Vec<_>>()[..] else {
        panic!("{check:?}")
    };
    assert!(
        keys.starts_with("fatal: ") && keys.contains("`--partition-key`"),
        "{keys}"
    );
    assert!(ttl.starts_with("warning: "), "{ttl}");
    assert!(ttl.ends_with("`--ttl-attribute expires_at`"), "{ttl}");

    let check = home.run("table check --ttl-attribute ttl");
    assert!(check.assert_done().starts_with("warning: "), "locks work");
}

#[test]
fn a_table_of_other_keys_is_neither_taken_for_ours_nor_for_an_empty_one() {
    let home = Home::new();
    let create = home.run("table create --partition-key id");
    create.assert_refused(69, &["`pk`", "`id`", "`--partition-key`"]);
    for line in ["show a", "ls", "ls --json"] {
        let ended = home.run(&format!("{line} --partition-key id"));
        let check = "`fairlock table check --local locks.db --partition-key id`";
        ended.assert_refused(69, &[check]);
    }
    let create = home.run("table create --ttl-attribute ttl");
    create.assert_refused(69, &["`--ttl-attribute expires_at`"]);
}
