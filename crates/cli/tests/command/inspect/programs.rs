//! Locks, for programs: the JSON is what the documentation says.

use std::io::BufRead;

use fairlock_testkit::real_time;
use serde_json::Value;

use super::schema::{assert_a_documented_lock, is, parsed};
use crate::clients::{hold, use_once, with_a_queue};
use crate::home::Home;

#[test]
fn the_json_is_what_the_documentation_says_and_what_the_library_sees() {
    let home = Home::new();
    real_time(with_a_queue(&home, async |state| {
        let shown = parsed(&home.run_beside("show --json deploy/prod").await);
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
        // A line for each lock, with its successors only.
        use_once(&home.host("dave"), "idle").await;
        let mut locks = parsed(&home.run_beside("ls --json").await);
        locks.iter().for_each(assert_a_documented_lock);
        locks.sort_by_key(|lock| lock["lock"].to_string());
        let [prod, idle] = &locks[..] else {
            panic!("{locks:?}")
        };
        assert_eq!(prod["holder"]["owner"], "alice");
        assert_eq!(prod["waiting"], 2);
        assert_eq!(prod["queue"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            (&idle["lock"], &idle["holder"]),
            (&"idle".into(), &Value::Null)
        );
    }));
}

#[test]
fn the_json_of_a_free_lock_has_the_same_fields() {
    let home = Home::new();
    let unused = home.shown();
    assert_a_documented_lock(&unused);
    assert_eq!(
        (&unused["holder"], &unused["newest_ticket"]),
        (&Value::Null, &Value::Null)
    );
    real_time(async {
        let guard = hold(&home.host("alice"), "a").await;
        let ticket = guard.ticket().get();
        guard.release().await.unwrap();
        let idle = parsed(&home.run_beside("show --json a").await);
        assert_a_documented_lock(&idle[0]);
        assert_eq!(idle[0]["newest_ticket"], ticket);
        assert_eq!(idle[0]["held_since"], Value::Null);
    });
}

/// Each change is a line. The watch ends when the reader closes the pipe.
#[test]
fn who_watches_a_lock_is_told_of_its_changes_until_nobody_reads_them() {
    let home = Home::new();
    let mut watching = home.command("show --json --watch=100ms a");
    let mut watching = watching
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let out = std::io::BufReader::new(watching.stdout.take().unwrap());
    let mut changes = out.lines();
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
        use_once(&home.host("bob"), "a").await;
    });
    assert_eq!(watching.wait().unwrap().code(), Some(0));
}
