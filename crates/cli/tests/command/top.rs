//! `fairlock top` without a terminal: the list as text and as JSON, and what the reads cost. [`crate::terminal`] has it at a terminal.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::command::{Said, fairlock, said};
use crate::inspect::home::{Home, hold, run, with_a_queue};
use crate::inspect::schema::documented;

const WORDS: &str = "A line of `fairlock top --json`:";
const HEAD: [&str; 10] = [
    "LOCK",
    "HOLDER",
    "HELD",
    "FOR",
    "LEASE",
    "ENDS",
    "IN",
    "WAITING",
    "TURNS/MIN",
    "TURN",
];

#[test]
fn one_read_tells_where_each_lock_stands_and_what_the_read_cost() {
    let home = Home::with_table();
    real_time(with_a_queue(&home, async |_| {
        hold(&home.host("dave"), "idle")
            .await
            .release()
            .await
            .unwrap();
        let listed = run(&home, &["top", "--once", "--local", "locks.db"]).await;
        let lines: Vec<_> = listed.assert_done().lines().collect();
        let [head, prod, idle, cost] = &lines[..] else {
            unreachable!("{lines:#?}");
        };
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(head), HEAD);
        let prod = words(prod);
        assert_eq!(prod[..2], ["deploy/prod", "alice"]);
        // Turns are seen between reads only.
        assert_eq!(prod[prod.len() - 4..], ["-", "2", "-", "-"]);
        assert_eq!(words(idle), ["idle", "free", "-", "-", "-", "0", "-", "-"]);
        assert!(
            cost.starts_with("one read, of ") && cost.ends_with(" read units"),
            "{cost}"
        );
        assert!(!cost.contains(" 0 "), "{cost}");
    }));
}

#[test]
fn two_reads_tell_the_turns_between_them() {
    let home = Home::with_table();
    real_time(async {
        let busy = home.host("busy");
        // The first read finds the lock there already.
        hold(&busy, "busy").await.release().await.unwrap();
        let turns = async {
            // The read that ends with the command ends this too.
            loop {
                hold(&busy, "busy").await.release().await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let line = ["top", "--json", "--every", "1s", "--local", "locks.db"];
        let listed = tokio::select! {
            listed = run(&home, &line) => listed,
            () = turns => unreachable!("it has no end"),
        };
        let listed = documented(WORDS, listed.assert_done());
        assert!(listed[0]["turns_an_hour"].as_u64() > Some(0), "{listed:?}");
        assert_eq!(listed[0]["lock"], "busy");
    });
}

#[test]
fn the_json_is_what_the_documentation_says() {
    let home = Home::with_table();
    real_time(with_a_queue(&home, async |state| {
        let guard = hold(&home.host("dave"), "a\u{1b}[2J").await;
        let line = ["top", "--json", "--local", "locks.db"];
        let listed = run(&home, &line).await;
        let listed = documented(WORDS, listed.assert_done());
        // Without turns, the longest queue is first.
        let [prod, hostile] = &listed[..] else {
            unreachable!("{listed:?}");
        };
        assert_eq!(
            (&hostile["lock"], &hostile["holder"]),
            (&"a\u{1b}[2J".into(), &"dave".into())
        );
        assert_eq!(
            (&prod["lock"], &prod["holder"]),
            (&state.lock.as_str().into(), &"alice".into())
        );
        assert_eq!((&prod["waiting"], &prod["holders"]), (&2.into(), &1.into()));
        assert_eq!(
            (&prod["turns_an_hour"], &prod["turn_ms"]),
            (&Value::Null, &Value::Null)
        );
        assert!(
            prod["held_for_ms"].is_u64() && prod["lease_left_ms"].as_u64() > Some(0),
            "{prod}"
        );
        guard.release().await.unwrap();
    }));
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let home = Home::with_table();
    home.run("top --local locks.db")
        .assert_refused(64, &["no terminal", "--once", "--json"]);
}

#[test]
fn an_empty_table_and_one_that_is_to_come_have_no_locks() {
    let home = Home::with_table();
    for file in ["locks.db", "to-come.db"] {
        let listed = home.run(&format!("top --once --local {file}"));
        assert!(
            listed
                .assert_done()
                .starts_with("no locks in table fairlock"),
            "{listed:?}"
        );
        assert_eq!(
            home.run(&format!("top --json --local {file}"))
                .assert_done(),
            ""
        );
    }
    assert!(!home.file("to-come.db").exists());
    home.run("top --once --table none --local locks.db")
        .assert_refused(69, &["none"]);
}

#[test]
fn an_item_that_cannot_be_read_is_told_and_the_others_are_listed() {
    let home = Home::with_table();
    real_time(async {
        hold(&home.host("dave"), "idle")
            .await
            .release()
            .await
            .unwrap();
        home.damage("bad").await;
        let listed = run(&home, &["top", "--once", "--local", "locks.db"]).await;
        assert_eq!(listed.code, Some(69), "{listed:?}");
        assert!(
            listed.out.contains("idle") && listed.err.contains("pk = bad"),
            "{listed:?}"
        );
    });
}

/// The table, behind a server that counts.
struct Counted {
    place: ServedEngine,
    url: String,
    home: TempDir,
}

impl Counted {
    async fn new() -> Counted {
        let place = ServedEngine::new(Wire::Tcp).await;
        let url = place.url().await;
        let home = TempDir::new().unwrap();
        Counted { place, url, home }
    }

    /// How many requests a command sends.
    async fn requests(&self, flags: &'static [&'static str]) -> (usize, Said) {
        let before = self.place.server.requests();
        let at = ["--table", "locks", "--endpoint-url", &self.url];
        let mut command = fairlock(self.home.path(), &[&["top"], flags, &at].concat());
        let names = ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        command.envs(names.map(|name| (name, "test")));
        let ended = spawn_blocking(move || said(&mut command)).await.unwrap();
        (self.place.server.requests() - before, ended)
    }
}

#[test]
fn a_list_costs_one_request_and_one_that_tells_turns_two() {
    real_time(async {
        let counted = Counted::new().await;
        for (flags, requests) in [
            (&["--once"][..], 1),
            (&["--json"], 1),
            (&["--once", "--every", "100ms"], 2),
        ] {
            let (sent, ended) = counted.requests(flags).await;
            ended.assert_done();
            assert_eq!(sent, requests, "{flags:?}");
        }
    });
}
