//! `fairlock top` without a terminal: the list as text and as JSON, and what the reads cost. [`crate::terminal`] has it at a terminal.

use fairlock_testkit::real_time;
use serde_json::Value;

use crate::clients::{hold, use_once, with_a_queue};
use crate::command::said;
use crate::home::Home;
use crate::inspect::schema::documented;
use crate::served::Cloud;

const WORDS: &str = "A line of `fairlock top --json`:";

#[test]
fn one_read_tells_where_each_lock_stands_and_what_the_read_cost() {
    let home = Home::new();
    real_time(with_a_queue(&home, async |_| {
        use_once(&home.host("dave"), "idle").await;
        let listed = home.run_beside("top --once").await;
        let lines: Vec<_> = listed.assert_done().lines().collect();
        let [head, prod, idle, cost] = &lines[..] else {
            panic!("{lines:#?}");
        };
        let words = |line: &str| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.join(" ")
        };
        let columns = "LOCK HOLDER HELD FOR LEASE ENDS IN WAITING TURNS/MIN TURN";
        assert_eq!(words(head), columns);
        // Turns are seen between reads only.
        let prod = words(prod);
        assert!(
            prod.starts_with("deploy/prod alice ") && prod.ends_with(" - 2 - -"),
            "{prod}"
        );
        assert_eq!(words(idle), "idle free - - - 0 - -");
        let is_cost = cost.starts_with("one read, of ") && cost.ends_with(" read units");
        assert!(is_cost && !cost.contains(" 0 "), "{cost}");
    }));
}

#[test]
fn two_reads_tell_the_turns_between_them() {
    let home = Home::new();
    real_time(async {
        let busy = home.host("busy");
        // The first read finds the lock there already.
        use_once(&busy, "busy").await;
        let turns = async {
            // The read that ends with the command ends this too.
            loop {
                use_once(&busy, "busy").await;
                tokio::task::yield_now().await;
            }
        };
        let listed = tokio::select! {
            listed = home.run_beside("top --json --every 1s") => listed,
            () = turns => unreachable!("it has no end"),
        };
        let listed = documented(WORDS, listed.assert_done());
        assert!(listed[0]["turns_an_hour"].as_u64() > Some(0), "{listed:?}");
        assert_eq!(listed[0]["lock"], "busy");
    });
}

#[test]
fn the_json_is_what_the_documentation_says() {
    let home = Home::new();
    real_time(with_a_queue(&home, async |state| {
        let hostile = "a\u{1b}[2J";
        let guard = hold(&home.host("dave"), hostile).await;
        let listed = home.run_beside("top --json").await;
        let listed = documented(WORDS, listed.assert_done());
        assert_eq!(listed.len(), 2, "{listed:?}");
        for (line, name, holder) in [(0, state.lock.as_str(), "alice"), (1, hostile, "dave")] {
            assert_eq!(listed[line]["lock"], name);
            assert_eq!(listed[line]["holder"], holder);
        }
        // Without turns, the longest queue is first.
        let prod = &listed[0];
        assert_eq!((&prod["waiting"], &prod["holders"]), (&2.into(), &1.into()));
        assert_eq!(
            (&prod["turns_an_hour"], &prod["turn_ms"]),
            (&Value::Null, &Value::Null)
        );
        assert!(prod["held_for_ms"].is_u64(), "{prod}");
        assert!(prod["lease_left_ms"].as_u64() > Some(0), "{prod}");
        guard.release().await.unwrap();
    }));
}

#[test]
fn an_empty_table_and_one_that_is_to_come_have_no_locks() {
    let home = Home::new();
    // Without a terminal it says what to do.
    home.run("top")
        .assert_refused(64, &["no terminal", "--once", "--json"]);
    for file in ["locks.db", "to-come.db"] {
        let listed = said(&mut home.bare(&format!("top --once --local {file}")));
        listed.assert_shows(&["no locks in table fairlock"]);
        let listed = said(&mut home.bare(&format!("top --json --local {file}")));
        assert_eq!(listed.assert_done(), "");
    }
    assert!(!home.has("to-come.db"));
    home.run("top --once --table none")
        .assert_refused(69, &["none"]);
}

#[test]
fn an_item_that_cannot_be_read_is_told_and_the_others_are_listed() {
    let home = Home::new();
    real_time(async {
        use_once(&home.host("dave"), "idle").await;
        home.damage("bad").await;
        let listed = home.run_beside("top --once").await;
        listed.assert_ended(69, &["pk = bad"]);
        assert!(listed.out.contains("idle"), "{listed:?}");
    });
}

#[test]
fn a_list_costs_one_request_and_one_that_tells_turns_two() {
    real_time(async {
        let cloud = Cloud::new().await;
        for (flags, requests) in [("--once", 1), ("--json", 1), ("--once --every 100ms", 2)] {
            let before = cloud.place.server.requests();
            cloud.run(&format!("top {flags}")).await.assert_done();
            assert_eq!(cloud.place.server.requests() - before, requests, "{flags}");
        }
    });
}
