//! Locks, shown for people.

use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::embedded::Network;
use fairlock::{Clock, LockClient, RecordWait, UdpNotifier};
use fairlock_testkit::real_time;
use serde_json::Value;

use super::home::{Home, hold, run, wait_behind, with_a_queue};
use super::schema::{assert_a_documented_lock, parsed};
use crate::command::{Said, fairlock, said};

const UNKNOWN: &str = "a: free: no such lock is known in table fairlock in locks.db, where nobody has used it lately\n";

#[test]
fn a_lock_that_nobody_has_is_free() {
    let home = Home::with_table();
    // The name may be a typing error.
    assert_eq!(home.run("show a --local locks.db").assert_done(), UNKNOWN);
    let none = "no locks in table fairlock in locks.db, namespace fairlock\n";
    assert_eq!(home.run("ls --local locks.db").assert_done(), none);
    assert_eq!(home.run("ls --json --local locks.db").assert_done(), "");
}

#[test]
fn the_holder_and_the_queue_behind_it_are_shown_in_order() {
    let home = Home::with_table();
    real_time(with_a_queue(&home, async |state| {
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
            .queue
            .iter()
            .map(|who| who.ticket.to_string())
            .collect();
        assert_eq!(words(bob), ["1st", &tickets[0], "bob", "successor"]);
        assert_eq!(words(carol), ["2nd", &tickets[1], "carol", "waiting"]);
    }));
}

#[test]
fn whose_client_can_be_notified_is_shown_and_a_check_notes_where_only_some_can() {
    let home = Home::with_table();
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
        let shown = run(&home, &["show", "a", "--local", "locks.db"]).await;
        let shown: Vec<_> = shown.assert_done().lines().collect();
        let holder = format!(
            "a: held by alice with ticket {}, notifiable",
            guard.ticket()
        );
        assert_eq!(shown[0], holder);
        let are_notifiable: Vec<_> = shown.iter().map(|line| line.contains(", notif")).collect();
        assert_eq!(
            are_notifiable,
            [true, false, false, false, false, false, true],
            "{shown:?}"
        );
        let line = ["show", "--json", "a", "--local", "locks.db"];
        let lock = &parsed(&run(&home, &line).await)[0];
        assert_a_documented_lock(lock);
        let are_notifiable = [&lock["holder"], &lock["queue"][0], &lock["queue"][1]];
        let are_notifiable = are_notifiable.map(|who| who["is_notifiable"].as_bool());
        assert_eq!(are_notifiable, [Some(true), Some(false), Some(true)]);
        let check = run(&home, &["table", "check", "--local", "locks.db"]).await;
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
    let home = Home::with_table();
    real_time(async {
        let lock = home.host("alice").lease_lock("a").unwrap();
        let minute = Duration::from_secs(60);
        let lease = lock.acquire("import\n7", minute).await.unwrap();
        let shown = run(&home, &["show", "a", "--local", "locks.db"]).await;
        let ticket = lease.ticket();
        let told = format!("a: held by alice as import\\n7 with ticket {ticket}\n");
        assert!(shown.assert_done().starts_with(&told), "{shown:?}");
        let line = ["show", "--json", "a", "--local", "locks.db"];
        let locks = parsed(&run(&home, &line).await);
        assert_a_documented_lock(&locks[0]);
        assert_eq!(locks[0]["holder"]["lease_id"], "import\n7");
    });
}

#[test]
fn who_has_a_part_of_a_lock_is_shown_with_it_and_with_the_others() {
    let home = Home::with_table();
    real_time(async {
        let (alice, bob) = (home.host("alice"), home.host("bob"));
        let [one, other] = [&alice, &bob].map(|host| host.semaphore("s", 5).unwrap());
        let three = one.try_acquire_many(3).await.unwrap().unwrap();
        let last = other.try_acquire().await.unwrap().unwrap();
        let shown = run(&home, &["show", "s", "--local", "locks.db"]).await;
        let shown = shown.assert_done();
        let (three, last) = (three.ticket(), last.ticket());
        let told = format!("s: held by alice with ticket {three}, 3 of 5 permits\n");
        assert!(shown.starts_with(&told), "{shown}");
        let told = format!("\n  and by bob with ticket {last}, 1 of 5 permits, lease left ");
        assert!(shown.contains(&told), "{shown}");
        let listed = run(&home, &["ls", "--local", "locks.db"]).await;
        assert!(
            listed.assert_done().contains("alice and 1 more"),
            "{listed:?}"
        );
    });
}

/// Permits are of no interest if the holder holds all of them, and so they are not shown.
#[test]
fn permits_are_told_where_somebody_has_a_part_of_them() {
    let home = Home::with_table();
    real_time(async {
        let alice = home.host("alice");
        let guard = hold(&alice, "a").await;
        let three = alice.semaphore("s", 5).unwrap().try_acquire_many(3).await;
        let shared = alice.fair_lock("r").unwrap();
        let shared = shared.acquire_shared(RecordWait::NoWait).await.unwrap();
        let shown = async |lock| {
            let shown = run(&home, &["show", "--json", lock, "--local", "locks.db"]).await;
            let shown = parsed(&shown).remove(0);
            assert_a_documented_lock(&shown);
            (
                shown["permits"].as_u64(),
                shown["holder"]["permits"].as_u64(),
            )
        };
        assert_eq!(shown("a").await, (None, None));
        assert_eq!(shown("s").await, (Some(5), Some(3)));
        assert_eq!(shown("r").await, (Some(64), Some(1)));
        drop((guard, three, shared));
    });
}

/// A holder whose first request took the lock does not know DynamoDB's time before its first renewal.
#[test]
fn times_that_nobody_has_written_down_yet_are_unknown() {
    let home = Home::with_table();
    real_time(async {
        hold(&home.host("bob"), "a").await.release().await.unwrap();
        let guard = hold(&home.host("alice"), "a").await;
        let shown = run(&home, &["show", "a", "--local", "locks.db"]).await;
        let ticket = guard.ticket();
        let told = format!(
            "a: held by alice with ticket {ticket}\n  since unknown\n  lease 30s, what is left of it is unknown: it has no date yet, and whoever has it may be dead\n"
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
        // This host's wall clock is years ahead of the engine's, so nothing is dated before two answers agree.
        for _ in 0..2 {
            host.fair_lock("a").unwrap().inspect().await.unwrap();
        }
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
    assert_eq!(shown(&[]), UNKNOWN);
    let forced = ("CLICOLOR_FORCE", "1");
    assert!(shown(&[forced]).contains("\u{1b}[32mfree\u{1b}[0m"));
    assert_eq!(shown(&[forced, ("NO_COLOR", "1")]), UNKNOWN);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "callers' tasks, and polls of what they do"
)]
fn those_who_wait_together_are_one_line_with_all_their_tickets_and_count_one_by_one() {
    let home = Home::with_table();
    real_time(async {
        let [alice, bob] = ["alice", "bob"].map(|owner| home.host(owner));
        let _guard = hold(&alice, "a").await;
        let lock = bob.fair_lock("a").unwrap();
        let call =
            |lock: fairlock::FairLock| async move { lock.acquire(RecordWait::Infinite).await };
        // The first call goes ahead, and the others share a place.
        let calls: Vec<_> = (0..4).map(|_| tokio::spawn(call(lock.clone()))).collect();
        while lock.inspect().await.unwrap().waiting < 4 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let carol = wait_behind(2, &home.host("carol"), "a").await;
        let newest = lock.inspect().await.unwrap().newest_ticket.unwrap().get();
        let shown = run(&home, &["show", "a", "--local", "locks.db"]).await;
        let lines = shown.assert_done().lines().skip(5);
        let words = |line: &str| {
            let words = line.split_whitespace().take(3).map(str::to_owned);
            words.collect::<Vec<_>>()
        };
        let told: Vec<_> = lines.map(words).collect();
        let together = format!("{}-{}", newest - 3, newest - 1);
        let expected = [
            ["1st", &(newest - 4).to_string(), "bob"],
            ["2nd", &together, "bob"],
            ["5th", &newest.to_string(), "carol"],
        ];
        assert_eq!(told, expected);
        let line = ["show", "--json", "a", "--local", "locks.db"];
        let lock = &parsed(&run(&home, &line).await)[0];
        assert_a_documented_lock(lock);
        assert_eq!(lock["queue"][1]["tickets"], 3);
        calls.iter().for_each(|call| call.abort());
        carol.abort();
    });
}

#[test]
fn the_locks_that_are_asked_for_are_listed() {
    let home = Home::with_table();
    real_time(async {
        let (alice, bob) = (home.host("alice"), home.host("bob"));
        let idle = hold(&alice, "deploy/idle").await;
        idle.release().await.unwrap();
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
            let line = |json: &str| format!("ls {json} {flags} --local locks.db");
            let words = line("--json");
            let shown = run(&home, &words.split_whitespace().collect::<Vec<_>>()).await;
            let mut names: Vec<_> = parsed(&shown)
                .iter()
                .map(|lock| lock["lock"].as_str().unwrap().to_owned())
                .collect();
            names.sort();
            assert_eq!(names, locks, "{flags}");
            let words = line("");
            let shown = run(&home, &words.split_whitespace().collect::<Vec<_>>()).await;
            let said = shown.assert_done();
            assert_eq!(said.starts_with("no such locks in table"), locks.is_empty());
            assert!(
                locks.iter().all(|lock| said.contains(lock)),
                "{flags}: {said}"
            );
        }
    });
}

#[test]
fn an_alarm_goes_by_the_exit_code_of_show() {
    let home = Home::with_table();
    let code = |flags: &str| {
        let line = format!("show --exit-code {flags} a --local locks.db");
        async {
            run(&home, &{ line }.split_whitespace().collect::<Vec<_>>())
                .await
                .code
        }
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
