//! Locks, for programs: the JSON is what the documentation says.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use fairlock_testkit::real_time;
use serde_json::Value;

use super::home::{Home, hold, run, with_a_queue};
use super::schema::{assert_a_documented_lock, is, parsed};
use crate::command::fairlock;

#[test]
fn the_json_of_a_lock_is_what_the_documentation_says_and_what_the_library_sees() {
    let home = Home::with_table();
    real_time(with_a_queue(&home, async |state| {
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
        let people = [&lock["holder"], &lock["queue"][0], &lock["queue"][1]];
        let seen = state.holder.iter().chain(&state.queue);
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
    real_time(with_a_queue(&home, async |_| {
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
        assert_eq!(
            prod["queue"].as_array().unwrap().len(),
            1,
            "successors only"
        );
        assert_eq!(
            (&idle["lock"], &idle["holder"]),
            (&"idle".into(), &Value::Null)
        );
    }));
}

/// Each change is a line. The watch ends when the reader closes the pipe.
#[test]
fn who_watches_a_lock_is_told_of_its_changes_until_nobody_reads_them() {
    let home = Home::with_table();
    let line = [
        "show",
        "--json",
        "--watch=100ms",
        "a",
        "--local",
        "locks.db",
    ];
    let mut watching = fairlock(home.0.path(), &line)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut changes = BufReader::new(watching.stdout.take().unwrap()).lines();
    let mut next_holder = move || {
        let change: Value = serde_json::from_str(&changes.next().unwrap().unwrap()).unwrap();
        change["holder"]["owner"].as_str().map(str::to_owned)
    };
    assert_eq!(next_holder(), None);
    real_time(async {
        let guard = hold(&home.host("alice"), "a").await;
        // Several lines may name her: her lease gets a date later.
        while next_holder().as_deref() != Some("alice") {}
        guard.release().await.unwrap();
        while next_holder().is_some() {}
        drop(next_holder);
        hold(&home.host("bob"), "a").await.release().await.unwrap();
    });
    assert_eq!(watching.wait().unwrap().code(), Some(0));
}
