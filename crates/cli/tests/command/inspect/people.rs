//! Locks, shown for people.

use std::time::Duration;

use fairlock::embedded::Network;
use fairlock::{Clock, FairLock, LockClient, RecordWait, UdpNotifier};
use fairlock_testkit::real_time;
use serde_json::Value;

use super::schema::{assert_a_documented_lock, parsed};
use crate::clients::{hold, use_once, wait_behind, with_a_queue};
use crate::command::Said;
use crate::home::Home;

#[test]
fn a_lock_that_nobody_has_is_free() {
    let home = Home::new();
    // The name may be a typing error.
    let unknown = "a: free: no such lock is known in table fairlock in locks.db, where nobody has used it lately\n";
    assert_eq!(home.run("show a").assert_done(), unknown);
    let none = "no locks in table fairlock in locks.db, namespace fairlock\n";
    assert_eq!(home.run("ls").assert_done(), none);
    assert_eq!(home.run("ls --json").assert_done(), "");
}

/// The JSON of a lock, as documented.
async fn json(home: &Home, lock: &str) -> Value {
    let shown = home.run_beside(&format!("show --json {lock}")).await;
    let lock = parsed(&shown).remove(0);
    assert_a_documented_lock(&lock);
    lock
}

fn first_words(line: &str, count: usize) -> Vec<String> {
    let words = line.split_whitespace().take(count);
    words.map(str::to_owned).collect()
}

#[test]
fn the_holder_and_the_queue_behind_it_are_shown_in_order() {
    let home = Home::new();
    real_time(with_a_queue(&home, async |state| {
        let shown = home.run_beside("show deploy/prod").await;
        let lines: Vec<_> = shown.assert_done().lines().collect();
        let [name, since, lease, "", head, bob, carol] = lines[..] else {
            panic!("{shown:?}")
        };
        let ticket = state.holder.unwrap().ticket;
        assert_eq!(
            name,
            format!("deploy/prod: held by alice with ticket {ticket}")
        );
        assert!(
            since.contains(" UTC (") && since.ends_with("s ago)"),
            "{since}"
        );
        let is_of_lease = lease.starts_with("  lease 30s, ") && lease.ends_with("s left");
        assert!(
            is_of_lease && head.starts_with("PLACE  TICKET"),
            "{shown:?}"
        );
        let tickets = state.queue.iter().map(|who| who.ticket.to_string());
        let tickets: Vec<_> = tickets.collect();
        assert_eq!(
            first_words(bob, 4),
            ["1st", &tickets[0], "bob", "successor"]
        );
        assert_eq!(
            first_words(carol, 4),
            ["2nd", &tickets[1], "carol", "waiting"]
        );
    }));
}

#[test]
fn whose_client_can_be_notified_is_shown_and_a_check_notes_where_only_some_can() {
    let home = Home::new();
    real_time(async {
        let notified = |owner: &str| {
            let notifier = UdpNotifier::bind("127.0.0.1:0").unwrap();
            let builder = home.builder().owner(owner).notifier(notifier);
            builder.build().unwrap()
        };
        let (alice, carol) = (notified("alice"), notified("carol"));
        let guard = hold(&alice, "a").await;
        let bob = wait_behind(0, &home.host("bob"), "a").await;
        let carol = wait_behind(1, &carol, "a").await;
        let shown = home.run_beside("show a").await;
        let shown: Vec<_> = shown.assert_done().lines().collect();
        let holder = format!(
            "a: held by alice with ticket {}, notifiable",
            guard.ticket()
        );
        assert_eq!(shown[0], holder);
        let can_be = |line: usize| shown[line].contains(", notif");
        assert_eq!(
            (0..7).filter(|line| can_be(*line)).collect::<Vec<_>>(),
            [0, 6]
        );
        assert_eq!(shown.len(), 7, "{shown:?}");
        let lock = json(&home, "a").await;
        let can_be = [&lock["holder"], &lock["queue"][0], &lock["queue"][1]];
        let can_be = can_be.map(|who| who["is_notifiable"].as_bool());
        assert_eq!(can_be, [Some(true), Some(false), Some(true)]);
        let check = home.run_beside("table check").await;
        assert_eq!(
            check.assert_done(),
            "note: 1 of 3 places at `a` cannot be notified: the waiter behind each polls: run their commands with \
             `--notify` too\n"
        );
        bob.abort();
        carol.abort();
    });
}

/// The process of the lease may be gone, so the lease's name tells which client holds the lock.
#[test]
fn the_name_of_a_lease_is_shown_beside_its_owner() {
    let home = Home::new();
    real_time(async {
        let lock = home.host("alice").lease_lock("a").unwrap();
        let minute = Duration::from_secs(60);
        let lease = lock.acquire("import\n7", minute).await.unwrap();
        let shown = home.run_beside("show a").await;
        let ticket = lease.ticket();
        let told = format!("a: held by alice as import\\n7 with ticket {ticket}\n");
        assert!(shown.assert_done().starts_with(&told), "{shown:?}");
        assert_eq!(json(&home, "a").await["holder"]["lease_id"], "import\n7");
    });
}

/// Permits are of no interest if the holder holds all of them, and so they are not shown.
#[test]
fn who_has_a_part_of_a_lock_is_shown_with_it_and_with_the_others() {
    let home = Home::new();
    real_time(async {
        let (alice, bob) = (home.host("alice"), home.host("bob"));
        let [one, other] = [&alice, &bob].map(|host| host.semaphore("s", 5).unwrap());
        let three = one.try_acquire_many(3).await.unwrap().unwrap();
        let last = other.try_acquire().await.unwrap().unwrap();
        let shown = home.run_beside("show s").await;
        let shown = shown.assert_done();
        let (of_three, of_last) = (three.ticket(), last.ticket());
        let told = format!("s: held by alice with ticket {of_three}, 3 of 5 permits\n");
        assert!(shown.starts_with(&told), "{shown}");
        let told = format!("\n  and by bob with ticket {of_last}, 1 of 5 permits, lease left ");
        assert!(shown.contains(&told), "{shown}");
        home.run_beside("ls")
            .await
            .assert_shows(&["alice and 1 more"]);
        let guard = hold(&alice, "a").await;
        let shared = alice.fair_lock("r").unwrap();
        let shared = shared.acquire_shared(RecordWait::NoWait).await.unwrap();
        for (lock, permits) in [
            ("a", (None, None)),
            ("s", (Some(5), Some(3))),
            ("r", (Some(64), Some(1))),
        ] {
            let shown = json(&home, lock).await;
            let has = shown["holder"]["permits"].as_u64();
            assert_eq!((shown["permits"].as_u64(), has), permits, "{shown}");
        }
        drop((guard, three, last, shared));
    });
}

/// A holder whose first request took the lock does not know DynamoDB's time before its first renewal.
#[test]
fn times_that_nobody_has_written_down_yet_are_unknown() {
    let home = Home::new();
    real_time(async {
        use_once(&home.host("bob"), "a").await;
        let guard = hold(&home.host("alice"), "a").await;
        let shown = home.run_beside("show a").await;
        let ticket = guard.ticket();
        let told = format!(
            "a: held by alice with ticket {ticket}\n  since unknown\n  lease 30s, what is left of it is unknown: it has no date yet, and whoever has it may be dead\n"
        );
        assert_eq!(shown.assert_done(), told);
        let lock = json(&home, "a").await;
        for unknown in [&lock["held_since"], &lock["holder"]["lease_left_ms"]] {
            assert_eq!(unknown, &Value::Null, "{lock}");
        }
    });
}

#[test]
fn a_holder_whose_lease_is_over_looks_dead() {
    let home = Home::new();
    real_time(async {
        let long_ago = Clock::of_tokio(Duration::from_secs(1_700_000_000));
        let network = Network::to(&home.engine().with_clock(long_ago));
        let host = LockClient::builder(network.client()).table("fairlock");
        let host = host.owner("alice").build().unwrap();
        // This host's wall clock is years ahead of the engine's, so nothing is dated before two answers agree.
        for _ in 0..2 {
            host.fair_lock("a").unwrap().inspect().await.unwrap();
        }
        let _guard = hold(&host, "a").await;
        home.run_beside("show a").await.assert_shows(&[
            "\n  since 2023-11-14 22:13:",
            "\n  lease 30s, over: it looks dead, and is passed once that is sure\n",
        ]);
        home.run_beside("ls").await.assert_shows(&[" over "]);
        assert_eq!(json(&home, "a").await["holder"]["lease_left_ms"], 0);
    });
}

#[test]
fn the_locks_of_the_namespace_are_listed_by_name_in_columns() {
    let home = Home::new();
    real_time(async {
        let host = home.host("alice");
        use_once(&host, "zebra").await;
        use_once(&host, "bee").await;
        let _guard = hold(&host, "a much longer name").await;
        let theirs = home.builder().namespace("theirs").build().unwrap();
        let _theirs = hold(&theirs, "a").await;
        let listed = home.run_beside("ls").await;
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
        let theirs = home.run_beside("ls --json --namespace theirs").await;
        assert_eq!(theirs.assert_done().lines().count(), 1);
    });
}

#[test]
fn names_from_the_table_cannot_move_the_cursor() {
    let home = Home::new();
    real_time(async {
        let hostile = "a\u{1b}[2J\nfree\u{9b}1m\u{202e}";
        let damaged = "z\u{1b}c\nfairlock: all is well";
        let host = home.host("eve\u{1b}]0;root\u{7}\nx");
        let _guard = hold(&host, hostile).await;
        home.damage(damaged).await;
        for line in [
            "ls",
            "ls --json",
            &format!("show '{hostile}'"),
            &format!("show --json '{hostile}'"),
            &format!("show '{damaged}'"),
        ] {
            let Said { out, err, .. } = home.run_beside(line).await;
            let said = format!("{out}{err}");
            let controls = said.chars().filter(|c| c.is_control() && *c != '\n');
            assert_eq!(controls.count(), 0, "{said:?}");
            for begin in ["\nfree", "\nfairlock: all"] {
                assert!(!said.contains(begin), "{said:?}");
            }
        }
    });
}

#[test]
fn those_who_wait_together_are_one_line_with_all_their_tickets_and_count_one_by_one() {
    let home = Home::new();
    real_time(async {
        let [alice, bob] = ["alice", "bob"].map(|owner| home.host(owner));
        let _guard = hold(&alice, "a").await;
        let lock = bob.fair_lock("a").unwrap();
        let call = |lock: FairLock| async move { lock.acquire(RecordWait::Infinite).await };
        // The first call goes ahead, and the others share a place.
        let calls: Vec<_> = (0..4).map(|_| tokio::spawn(call(lock.clone()))).collect();
        while lock.inspect().await.unwrap().waiting < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let carol = wait_behind(2, &home.host("carol"), "a").await;
        let newest = lock.inspect().await.unwrap().newest_ticket.unwrap().get();
        let shown = home.run_beside("show a").await;
        let lines = shown.assert_done().lines().skip(5);
        let told: Vec<_> = lines.map(|line| first_words(line, 3)).collect();
        let together = format!("{}-{}", newest - 3, newest - 1);
        let expected = [
            ["1st", &(newest - 4).to_string(), "bob"],
            ["2nd", &together, "bob"],
            ["5th", &newest.to_string(), "carol"],
        ];
        assert_eq!(told, expected);
        assert_eq!(json(&home, "a").await["queue"][1]["tickets"], 3);
        calls.iter().for_each(|call| call.abort());
        carol.abort();
    });
}

#[test]
fn the_locks_that_are_asked_for_are_listed() {
    let home = Home::new();
    real_time(async {
        let (alice, bob) = (home.host("alice"), home.host("bob"));
        use_once(&alice, "deploy/idle").await;
        let _held = hold(&alice, "deploy/held").await;
        let _wanted = hold(&alice, "nightly").await;
        let _waiting = wait_behind(0, &bob, "nightly").await;
        for (flags, locks) in [
            ("", &["deploy/held", "deploy/idle", "nightly"][..]),
            ("deploy/", &["deploy/held", "deploy/idle"]),
            ("--held", &["deploy/held", "nightly"]),
            ("--held deploy", &["deploy/held"]),
            ("--waiting", &["nightly"]),
            ("--older-than 1ms", &["deploy/held", "nightly"]),
            ("--older-than 1h", &[]),
            ("--waiting deploy/", &[]),
        ] {
            let shown = home.run_beside(&format!("ls --json {flags}")).await;
            let shown = parsed(&shown);
            let names = shown.iter().map(|lock| lock["lock"].as_str().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort();
            assert_eq!(names, locks, "{flags}");
            let shown = home.run_beside(&format!("ls {flags}")).await;
            shown.assert_shows(locks);
            let has_none = shown.out.starts_with("no such locks in table");
            assert_eq!(has_none, locks.is_empty(), "{flags}");
        }
    });
}

#[test]
fn an_alarm_goes_by_the_exit_code_of_show() {
    let home = Home::new();
    let code = async |flags| {
        home.run_beside(&format!("show --exit-code {flags} a"))
            .await
            .code
    };
    real_time(async {
        assert_eq!(code("").await, Some(0));
        let guard = hold(&home.host("alice"), "a").await;
        assert_eq!(code("").await, Some(1));
        assert_eq!(code("--older-than 1ms").await, Some(1));
        assert_eq!(code("--older-than 1h").await, Some(0));
        guard.release().await.unwrap();
        assert_eq!(code("").await, Some(0));
    });
}
