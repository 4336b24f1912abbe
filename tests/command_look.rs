//! The command creates and checks tables and shows locks as they are, to people and, by a documented schema, to
//! programs; and whatever is in the way, it says what to do.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

#[path = "common/command.rs"]
mod command;
mod common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use command::{Said, fairlock, said};
use common::real_time;
use fairlock::embedded::{Engine, Network};
use fairlock::{
    Clock, LockClient, LockClientBuilder, LockGuard, LockState, RecordWait, TableOptions,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

const UNAVAILABLE: i32 = 69;

/// An empty directory, and the command in it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Home(TempDir::new().unwrap())
    }

    /// With a table in `locks.db`.
    fn with_table() -> Self {
        let home = Home::new();
        home.run("table create --local locks.db").assert_done();
        home
    }

    fn run(&self, line: &str) -> Said {
        self.run_words(&line.split(' ').collect::<Vec<_>>())
    }

    fn run_words(&self, line: &[&str]) -> Said {
        said(&mut fairlock(self.0.path(), line))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    fn builder(&self) -> LockClientBuilder {
        let engine = Engine::file(self.file("locks.db")).unwrap();
        LockClient::builder(engine.client()).table("fairlock")
    }

    /// A client with one seat, so that the second who waits has none.
    fn host(&self, owner: &str) -> LockClient {
        self.builder().owner(owner).seats(1).build().unwrap()
    }

    /// Puts an item where a lock's is.
    async fn damage(&self, lock: &str) {
        let engine = Engine::file(self.file("locks.db")).unwrap();
        let put = engine.client().put_item().table_name("fairlock");
        let put = put.item("pk", AttributeValue::S(lock.into()));
        let put = put.item("sk", AttributeValue::S("fairlock/#lock".into()));
        put.send().await.unwrap();
    }
}

/// Runs the command while the locks of this test are kept up.
async fn run(home: &Home, line: &[&str]) -> Said {
    let mut command = fairlock(home.0.path(), line);
    let run = tokio::task::spawn_blocking(move || said(&mut command));
    run.await.unwrap()
}

async fn hold(locks: &LockClient, lock: &str) -> LockGuard {
    let lock = locks.fair_lock(lock).unwrap();
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

/// Waits for its turn from when this returns, with `before` in line before it.
#[expect(
    clippy::disallowed_methods,
    reason = "a caller's task, and polls of what it does"
)]
async fn wait_behind(before: usize, locks: &LockClient, lock: &str) -> JoinHandle<LockGuard> {
    let lock = locks.fair_lock(lock).unwrap();
    let onlooker = lock.clone();
    let waiting = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.unwrap() });
    for _ in 0..3000 {
        if onlooker.inspect().await.unwrap().line.len() > before {
            return waiting;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came into the line");
}

/// Lock `deploy/prod` held by alice, with bob and carol in line, and the library's own view of it.
async fn with_a_line(home: &Home, look: impl AsyncFnOnce(LockState)) {
    let hosts @ [alice, bob, carol] = &["alice", "bob", "carol"].map(|owner| home.host(owner));
    for host in hosts {
        // DynamoDB's time is known from the first answer on, and so is what is written down by it.
        let lock = host.fair_lock("deploy/prod").unwrap();
        lock.inspect().await.unwrap();
    }
    let _guard = hold(alice, "deploy/prod").await;
    let waiting = [
        wait_behind(0, bob, "deploy/prod").await,
        wait_behind(1, carol, "deploy/prod").await,
    ];
    let lock = alice.fair_lock("deploy/prod").unwrap();
    look(lock.inspect().await.unwrap()).await;
    waiting.iter().for_each(JoinHandle::abort);
}

// ---------------------------------------------------------------------------------------------------------------
// The table

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
fn whoever_only_looks_creates_neither_file_nor_table() {
    let home = Home::new();
    for line in ["table check", "show a", "ls", "ls --json"] {
        let ended = home.run(&format!("{line} --local none.db"));
        let create = "`fairlock table create --local none.db`";
        ended.assert_refused(UNAVAILABLE, &["no such file", create]);
        assert!(home.files().is_empty(), "{line}");
    }
    std::fs::write(home.file("empty.db"), "").unwrap();
    home.run("table check --local empty.db")
        .assert_refused(UNAVAILABLE, &["it is empty", "table create"]);
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

// ---------------------------------------------------------------------------------------------------------------
// Locks, for people

#[test]
fn a_lock_that_nobody_has_is_free() {
    let home = Home::with_table();
    assert_eq!(
        home.run("show a --local locks.db").assert_done(),
        "a: free\n"
    );
    let none = "no locks in table fairlock in locks.db, namespace fairlock\n";
    assert_eq!(home.run("ls --local locks.db").assert_done(), none);
    assert_eq!(home.run("ls --json --local locks.db").assert_done(), "");
}

#[test]
fn the_holder_and_the_line_behind_it_are_shown_in_order() {
    let home = Home::with_table();
    real_time(with_a_line(&home, async |state| {
        let shown = run(&home, &["show", "deploy/prod", "--local", "locks.db"]).await;
        let lines: Vec<_> = shown.assert_done().lines().collect();
        let [name, since, lease, "", head, bob, carol] = lines[..] else {
            panic!("{shown:?}")
        };
        let ticket = state.holder.unwrap().ticket;
        let held = format!("deploy/prod: held by alice with ticket {ticket}");
        assert_eq!(name, held);
        assert!(
            since.contains(" UTC (") && since.ends_with("s ago)"),
            "{since}"
        );
        assert!(
            lease.starts_with("  lease 30s, ") && lease.ends_with("s left"),
            "{lease}"
        );
        assert!(head.starts_with("PLACE  TICKET"), "{head}");
        let words = |line: &str| {
            let words = line.split_whitespace().take(4).map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        let tickets: Vec<_> = state
            .line
            .iter()
            .map(|who| who.ticket.to_string())
            .collect();
        assert_eq!(words(bob), ["1st", &tickets[0], "bob", "heir"]);
        assert_eq!(words(carol), ["2nd", &tickets[1], "carol", "waiting"]);
    }));
}

/// A holder whose first request took the lock has not heard DynamoDB's time before its first renewal.
#[test]
fn times_that_nobody_has_written_down_yet_are_unknown() {
    let home = Home::with_table();
    real_time(async {
        let guard = hold(&home.host("alice"), "a").await;
        let shown = run(&home, &["show", "a", "--local", "locks.db"]).await;
        let ticket = guard.ticket();
        let told = format!(
            "a: held by alice with ticket {ticket}\n  since unknown\n  lease 30s, what is left of it is unknown\n"
        );
        assert_eq!(shown.assert_done(), told);
        let line = ["show", "--json", "a", "--local", "locks.db"];
        let lock = &parsed(&run(&home, &line).await)[0];
        assert_a_documented_lock(lock);
        for unknown in [&lock["held_since"], &lock["holder"]["lease_left_ms"]] {
            assert_eq!(unknown, &Value::Null, "{lock}");
        }
    });
}

#[test]
fn a_holder_whose_lease_is_over_looks_dead() {
    let home = Home::with_table();
    real_time(async {
        let long_ago = Clock::of_tokio(Duration::from_secs(1_700_000_000));
        let engine = Engine::file(home.file("locks.db")).unwrap();
        let network = Network::to(&engine.with_clock(long_ago));
        let host = LockClient::builder(network.client()).table("fairlock");
        let host = host.owner("alice").build().unwrap();
        host.fair_lock("a").unwrap().inspect().await.unwrap();
        let _guard = hold(&host, "a").await;
        let shown = run(&home, &["show", "a", "--local", "locks.db"]).await;
        let told = shown.assert_done();
        assert!(told.contains("\n  since 2023-11-14 22:13:"), "{told}");
        let dead = "\n  lease 30s, over: it looks dead, and is passed once that is sure\n";
        assert!(told.contains(dead), "{told}");
        let listed = run(&home, &["ls", "--local", "locks.db"]).await;
        assert!(listed.assert_done().contains(" over "), "{listed:?}");
        let line = ["show", "--json", "a", "--local", "locks.db"];
        let lock = &parsed(&run(&home, &line).await)[0];
        assert_a_documented_lock(lock);
        assert_eq!(lock["holder"]["lease_left_ms"], 0);
    });
}

#[test]
fn the_locks_are_listed_by_name_in_columns() {
    let home = Home::with_table();
    real_time(async {
        let host = home.host("alice");
        for idle in ["zebra", "bee"] {
            hold(&host, idle).await.release().await.unwrap();
        }
        let _guard = hold(&host, "a much longer name").await;
        let listed = run(&home, &["ls", "--local", "locks.db"]).await;
        let lines: Vec<_> = listed.assert_done().lines().collect();
        let column = lines[0].find("HOLDER").unwrap();
        let holders: Vec<_> = lines.iter().map(|line| &line[..column + 6]).collect();
        let expected = [
            "LOCK                HOLDER",
            "a much longer name  alice ",
            "bee                 free  ",
            "zebra               free  ",
        ];
        assert_eq!(holders, expected);
        assert!(lines[0].ends_with("WAITING") && lines[2].ends_with("0"));
    });
}

#[test]
fn other_namespaces_are_not_listed() {
    let home = Home::with_table();
    real_time(async {
        let host = home.builder().namespace("theirs").build().unwrap();
        let _guard = hold(&host, "a").await;
        let ours = run(&home, &["ls", "--local", "locks.db", "--json"]).await;
        assert_eq!(ours.assert_done(), "");
        let theirs = [
            "ls",
            "--local",
            "locks.db",
            "--json",
            "--namespace",
            "theirs",
        ];
        assert_eq!(run(&home, &theirs).await.assert_done().lines().count(), 1);
    });
}

#[test]
fn names_from_the_table_cannot_move_the_cursor() {
    let home = Home::with_table();
    real_time(async {
        let hostile = "a\u{1b}[2J\nfree\u{9b}1m\u{202e}";
        let host = home.host("eve\u{1b}]0;root\u{7}\nx");
        let _guard = hold(&host, hostile).await;
        home.damage("z\u{1b}c\nfairlock: all is well").await;
        for line in [
            &["ls", "--local", "locks.db"][..],
            &["ls", "--json", "--local", "locks.db"],
            &["show", "--local", "locks.db", hostile],
            &["show", "--json", "--local", "locks.db", hostile],
            &[
                "show",
                "--local",
                "locks.db",
                "z\u{1b}c\nfairlock: all is well",
            ],
        ] {
            let Said { out, err, .. } = run(&home, line).await;
            let said = format!("{out}{err}");
            let controls = said.chars().filter(|c| c.is_control() && *c != '\n');
            assert_eq!(controls.count(), 0, "{said:?}");
            assert!(
                !said.contains("\nfree") && !said.contains("\nfairlock: all"),
                "{said:?}"
            );
        }
    });
}

#[test]
fn colours_are_not_in_what_a_pipe_gets_unless_they_are_forced() {
    let home = Home::with_table();
    let shown = |environment: &[(&str, &str)]| {
        let mut command = fairlock(home.0.path(), &["show", "a", "--local", "locks.db"]);
        said(command.envs(environment.iter().copied())).out
    };
    assert_eq!(shown(&[]), "a: free\n");
    let forced = ("CLICOLOR_FORCE", "1");
    assert!(shown(&[forced]).contains("\u{1b}[32mfree\u{1b}[0m"));
    assert_eq!(shown(&[forced, ("NO_COLOR", "1")]), "a: free\n");
}

// ---------------------------------------------------------------------------------------------------------------
// Locks, for programs

/// The tables of fields under "The command's JSON": of a lock, and of a participant.
fn schema() -> [BTreeMap<String, String>; 2] {
    let docs = include_str!("../docs/operations.md");
    let (_, section) = docs.split_once("### The command's JSON").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let tables = section.split("|---|---|---|\n").skip(1);
    let tables: Vec<_> = tables.map(fields).collect();
    tables.try_into().unwrap()
}

fn fields(table: &str) -> BTreeMap<String, String> {
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells
        .map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2].to_owned()))
        .collect()
}

/// Exactly the documented fields, of the documented types.
#[track_caller]
fn assert_documented(object: &Value, fields: &BTreeMap<String, String>) {
    let found: Vec<_> = object.as_object().unwrap().keys().collect();
    let documented: Vec<_> = fields.keys().collect();
    assert_eq!(found, documented, "{object}");
    for (field, kind) in fields {
        let (value, kinds) = (&object[field], kind.split(" or "));
        let fits = kinds.clone().any(|kind| is(value, kind));
        assert!(fits, "{field} is no {kind}: {object}");
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "number" => value.is_u64(),
        "time" => value.as_str().is_some_and(is_time),
        "participant" => value.is_object(),
        "array of participants" => value.is_array(),
        _ => panic!("the schema knows no {kind}"),
    }
}

fn is_time(text: &str) -> bool {
    let form = |c: char| if c.is_ascii_digit() { '0' } else { c };
    text.chars()
        .map(form)
        .eq("0000-00-00T00:00:00.000Z".chars())
}

#[track_caller]
fn assert_a_documented_lock(lock: &Value) {
    let [of_lock, of_participant] = schema();
    assert_documented(lock, &of_lock);
    let line = lock["line"].as_array().unwrap();
    let people = line.iter().chain(Some(&lock["holder"]));
    for person in people.filter(|person| !person.is_null()) {
        assert_documented(person, &of_participant);
    }
}

fn parsed(said: &Said) -> Vec<Value> {
    let lines = said.assert_done().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_json_of_a_lock_is_what_the_documentation_says_and_what_the_library_sees() {
    let home = Home::with_table();
    real_time(with_a_line(&home, async |state| {
        let line = ["show", "--json", "deploy/prod", "--local", "locks.db"];
        let shown = parsed(&run(&home, &line).await);
        let [lock] = &shown[..] else {
            panic!("{shown:?}")
        };
        assert_a_documented_lock(lock);
        assert_eq!(lock["lock"], "deploy/prod");
        assert_eq!(lock["waiting"], 2);
        let newest = state.newest_ticket.unwrap().get();
        assert_eq!(lock["newest_ticket"], newest);
        let people = [&lock["holder"], &lock["line"][0], &lock["line"][1]];
        let seen = state.holder.iter().chain(&state.line);
        for (person, who) in people.iter().zip(seen) {
            assert_eq!(person["ticket"], who.ticket.get());
            assert_eq!(person["owner"], who.owner);
            assert_eq!(person["stage"], who.stage.to_string());
            assert_eq!(person["lease_ms"], 30_000);
            let left = person["lease_left_ms"].as_u64().unwrap();
            assert!((1..=32_000).contains(&left), "{person}");
            assert!(is(&person["since"], "time"), "{person}");
        }
        assert!(is(&lock["held_since"], "time"), "{lock}");
    }));
}

#[test]
fn the_json_of_a_free_lock_has_the_same_fields() {
    let home = Home::with_table();
    let unused = parsed(&home.run("show --json a --local locks.db"));
    assert_a_documented_lock(&unused[0]);
    assert_eq!(
        (&unused[0]["holder"], &unused[0]["newest_ticket"]),
        (&Value::Null, &Value::Null)
    );
    real_time(async {
        let guard = hold(&home.host("alice"), "a").await;
        let ticket = guard.ticket().get();
        guard.release().await.unwrap();
        let line = ["show", "--json", "a", "--local", "locks.db"];
        let idle = parsed(&run(&home, &line).await);
        assert_a_documented_lock(&idle[0]);
        assert_eq!(idle[0]["newest_ticket"], ticket);
        assert_eq!(idle[0]["held_since"], Value::Null);
    });
}

#[test]
fn the_json_of_a_table_is_a_line_for_each_lock() {
    let home = Home::with_table();
    real_time(with_a_line(&home, async |_| {
        let host = home.host("dave");
        hold(&host, "idle").await.release().await.unwrap();
        let line = ["ls", "--json", "--local", "locks.db"];
        let mut locks = parsed(&run(&home, &line).await);
        locks.iter().for_each(|lock| assert_a_documented_lock(lock));
        locks.sort_by_key(|lock| lock["lock"].to_string());
        let [prod, idle] = &locks[..] else {
            panic!("{locks:?}")
        };
        assert_eq!(prod["holder"]["owner"], "alice");
        assert_eq!(prod["waiting"], 2);
        assert_eq!(prod["line"].as_array().unwrap().len(), 1, "heirs only");
        assert_eq!(
            (&idle["lock"], &idle["holder"]),
            (&"idle".into(), &Value::Null)
        );
    }));
}

// ---------------------------------------------------------------------------------------------------------------
// What is in the way

#[test]
fn a_damaged_lock_is_told_of_and_the_others_are_listed() {
    let home = Home::with_table();
    real_time(async {
        let host = home.host("alice");
        hold(&host, "good").await.release().await.unwrap();
        home.damage("bad").await;
        for line in [
            &["ls", "--local", "locks.db"][..],
            &["ls", "--json", "--local", "locks.db"],
        ] {
            let listed = run(&home, line).await;
            assert_eq!(listed.code, Some(UNAVAILABLE));
            assert!(listed.out.contains("good") && !listed.out.contains("bad"));
            assert_eq!(listed.err.lines().count(), 1, "{listed:?}");
            assert!(listed.err.contains("bad") && listed.err.contains("Repairing"));
        }
        let alone = Home::with_table();
        alone.damage("bad").await;
        let listed = run(&alone, &["ls", "--local", "locks.db"]).await;
        listed.assert_refused(UNAVAILABLE, &["bad"]);
        let shown = run(&home, &["show", "bad", "--local", "locks.db"]).await;
        shown.assert_refused(UNAVAILABLE, &["bad", "Repairing a lock"]);
    });
}

/// What there is to do at a table, and what each of them is refused with.
const ALL: [&str; 5] = ["table create", "table check", "show a", "ls", "ls --json"];

#[test]
fn what_is_no_file_of_locks_is_left_as_it_is_and_named() {
    let home = Home::new();
    std::fs::write(home.file("text"), "dear diary").unwrap();
    std::fs::create_dir(home.file("folder")).unwrap();
    let foreign = rusqlite::Connection::open(home.file("foreign.db")).unwrap();
    foreign
        .execute_batch("CREATE TABLE notes (body TEXT)")
        .unwrap();
    drop(foreign);
    // Another program is at it, and its table is in the log beside the file only.
    let open = rusqlite::Connection::open(home.file("open.db")).unwrap();
    open.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE notes (body TEXT)")
        .unwrap();
    let small = rusqlite::Connection::open(home.file("small.db")).unwrap();
    small
        .execute_batch("PRAGMA page_size = 1024; CREATE TABLE notes (body TEXT)")
        .unwrap();
    drop(small);
    let as_it_was = std::fs::read(home.file("foreign.db")).unwrap();
    for (file, word) in [
        ("text", "it is no database"),
        ("foreign.db", "database of another program"),
        ("open.db", "database of another program"),
        ("small.db", "database of another program"),
        ("folder", "it is a directory"),
        ("/dev/null", "it is no file"),
        ("text/a.db", "Not a directory"),
    ] {
        for line in ALL {
            let ended = home.run(&format!("{line} --local {file}"));
            ended.assert_refused(UNAVAILABLE, &[file, word]);
        }
    }
    assert_eq!(std::fs::read(home.file("foreign.db")).unwrap(), as_it_was);
    let ended = home.run("table create --local no/such.db");
    ended.assert_refused(UNAVAILABLE, &["there is no directory no"]);
    assert_eq!(
        std::fs::read_to_string(home.file("text")).unwrap(),
        "dear diary"
    );
}

#[test]
fn a_file_that_others_have_just_begun_is_taken_for_what_it_is() {
    let home = Home::new();
    real_time(async {
        // Open until the end, so that its tables are in SQLite's log beside the file.
        let host = home.host("alice");
        let begun = ["show", "a", "--local", "locks.db"];
        let words = ["no table fairlock", "table create"];
        run(&home, &begun).await.assert_refused(UNAVAILABLE, &words);
        host.create_table(&TableOptions::default()).await.unwrap();
        assert_eq!(run(&home, &begun).await.assert_done(), "a: free\n");
    });
}

/// Runs everything in the cloud, with some environment, and nothing of it works.
fn assert_all_refused(environment: &[(&str, &str)], flags: &[&str], words: &[&str]) {
    let home = Home::new();
    for line in ALL {
        let line: Vec<_> = line.split(' ').chain(flags.iter().copied()).collect();
        let mut command = fairlock(home.0.path(), &line);
        let ended = said(command.envs(environment.iter().copied()));
        ended.assert_refused(UNAVAILABLE, words);
    }
}

const REGION: (&str, &str) = ("AWS_REGION", "eu-west-1");
const KEY: (&str, &str) = ("AWS_ACCESS_KEY_ID", "test");
const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "test");

#[test]
fn a_missing_region_is_told_in_one_line() {
    assert_all_refused(&[KEY, SECRET], &[], &["no AWS region", "set AWS_REGION"]);
    let profile = ("AWS_PROFILE", "none");
    assert_all_refused(&[profile], &[], &["no AWS region"]);
}

#[test]
fn missing_credentials_are_told_in_one_line() {
    let words = ["no AWS credentials", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"];
    assert_all_refused(&[REGION], &[], &words);
    assert_all_refused(&[REGION, KEY], &[], &words);
}

#[test]
fn an_endpoint_that_does_not_answer_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let words = ["Connection refused", &format!("whether {url} is right")];
    assert_all_refused(&[REGION, KEY, SECRET], &["--endpoint-url", &url], &words);
}

/// An endpoint that refuses every request with one code, for as long as the test runs.
fn refusing(code: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            // One read takes in the small requests of this command; each has a connection of its own.
            let _ = connection.read(&mut [0; 65536]);
            let body = format!(r#"{{"__type":"com.amazon#{code}","message":"because"}}"#);
            let head = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0";
            let _ = write!(
                connection,
                "{head}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

#[test]
fn denied_access_is_named_with_where_to_read_what_is_missing() {
    let url = refusing("AccessDeniedException");
    let home = Home::new();
    for line in ["table create", "show a", "ls", "ls --json"] {
        let ended = in_the_cloud(&home, line, &url);
        let check = format!("`fairlock table check --endpoint-url {url}`");
        ended.assert_refused(UNAVAILABLE, &["AccessDeniedException: because", &check]);
    }
    let check = in_the_cloud(&home, "table check", &url);
    assert_eq!(check.code, Some(1), "{check:?}");
    let permit = "permit `dynamodb:Query` on the table";
    assert!(check.out.contains(permit), "{check:?}");
    assert!(check.out.contains("listed with `fairlock ls`"), "{check:?}");
}

fn in_the_cloud(home: &Home, line: &str, url: &str) -> Said {
    let line = format!("{line} --endpoint-url {url}");
    let mut command = fairlock(home.0.path(), &line.split(' ').collect::<Vec<_>>());
    said(command.envs([REGION, KEY, SECRET]))
}

#[test]
fn credentials_that_nobody_knows_are_told_apart_from_missing_permission() {
    let url = refusing("UnrecognizedClientException");
    let words = [
        "UnrecognizedClientException: because",
        "see whether the AWS credentials",
    ];
    assert_all_refused(&[REGION, KEY, SECRET], &["--endpoint-url", &url], &words);
}

#[test]
fn a_table_that_is_too_busy_is_told_apart_from_one_that_is_not_there() {
    for (code, word) in [
        ("ThrottlingException", "try again later"),
        ("ExpiredTokenException", "see whether the AWS credentials"),
    ] {
        let (url, said) = (refusing(code), format!("{code}: because"));
        assert_all_refused(
            &[REGION, KEY, SECRET],
            &["--endpoint-url", &url],
            &[&said, word],
        );
    }
}

#[test]
fn nobody_need_be_left_to_read_what_is_told() {
    let home = Home::with_table();
    for line in [
        "table create",
        "table check",
        "show a",
        "show --json a",
        "ls",
    ] {
        let line = format!("{line} --local locks.db");
        let mut command = fairlock(home.0.path(), &line.split(' ').collect::<Vec<_>>());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = said(command.stdout(Stdio::from(writer)));
        ended.assert_done();
    }
}

#[test]
fn a_listing_that_nobody_reads_to_the_end_ends_quietly() {
    let home = Home::with_table();
    real_time(async {
        let host = home.host("alice");
        for lock in ["a", "b", "c"] {
            hold(&host, lock).await.release().await.unwrap();
        }
    });
    let line = ["ls", "--json", "--local", "locks.db"];
    let mut command = fairlock(home.0.path(), &line);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    said(command.stdout(Stdio::from(writer))).assert_done();
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let home = Home::with_table();
    for line in [
        "table create",
        "table check",
        "show a",
        "show --json a",
        "ls",
    ] {
        let line = format!("{line} --local locks.db");
        let mut command = fairlock(home.0.path(), &line.split(' ').collect::<Vec<_>>());
        let full = std::fs::File::options().write(true).open("/dev/full");
        let ended = said(command.stdout(full.unwrap()));
        ended.assert_refused(74, &["cannot write the output", "No space left"]);
    }
}
