//! `fairlock sweep`: what crashed clients left.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::LockClient;
use fairlock::embedded::Engine;
use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use rustix::process::{Pid, Signal, kill_process};

use crate::inspect::home::{Home, UNAVAILABLE, hold, run};
use crate::inspect::schema::documented;

/// Holders of these locks renewed them an hour ago for the last time. This process keeps what is left of them.
async fn dead_holders(home: &Home, locks: &[&str]) -> LockClient {
    let client = home.host("the dead");
    let engine = Engine::file(home.file("locks.db")).unwrap().client();
    for lock in locks {
        std::mem::forget(hold(&client, lock).await);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let long_ago = now.unwrap().saturating_sub(Duration::from_secs(3600));
        let update = engine.update_item().table_name("fairlock");
        let update = update
            .key("pk", AttributeValue::S((*lock).into()))
            .key("sk", AttributeValue::S("fairlock/#lock".into()))
            .update_expression("SET slots[0].renewed_at = :then")
            .expression_attribute_values(
                ":then",
                AttributeValue::N(long_ago.as_millis().to_string()),
            );
        update.send().await.unwrap();
    }
    client
}

#[test]
fn a_dead_holder_is_removed_and_one_that_is_alive_is_left_alone() {
    let home = Home::with_table();
    real_time(async {
        let alive = home.host("alive");
        let guard = hold(&alive, "alive").await;
        let _dead = dead_holders(&home, &["dead/1", "dead/2"]).await;
        // Blocks this test's runtime, so that the dead renew nothing.
        let swept = home.run("sweep --local locks.db");
        assert_eq!(
            swept.assert_done(),
            "3 locks, 0 failed: removed 2 dead holders\n"
        );
        let again = home.run("sweep --local locks.db");
        assert_eq!(
            again.assert_done(),
            "3 locks, 0 failed: nothing to remove\n"
        );
        assert!(guard.is_held());
        guard.release().await.unwrap();
    });
}

#[test]
fn one_lock_is_swept_by_its_name() {
    let home = Home::with_table();
    real_time(async {
        let _dead = dead_holders(&home, &["one", "other"]).await;
        let swept = home.run("sweep --local locks.db one");
        assert_eq!(
            swept.assert_done(),
            "1 locks, 0 failed: removed 1 dead holders\n"
        );
        let rest = home.run("sweep --json --local locks.db");
        let [rest] = &documented("A sweep,", rest.assert_done())[..] else {
            panic!("{rest:?}")
        };
        assert_eq!((&rest["locks"], &rest["holders"]), (&2.into(), &1.into()));
    });
}

#[test]
fn a_lock_that_cannot_be_swept_fails_the_sweep_and_not_that_of_the_others() {
    let home = Home::with_table();
    real_time(async {
        home.damage("bad").await;
        let _dead = dead_holders(&home, &["good"]).await;
        let swept = run(&home, &["sweep", "--local", "locks.db"]).await;
        assert_eq!(swept.code, Some(UNAVAILABLE), "{swept:?}");
        assert_eq!(swept.out, "2 locks, 1 failed: removed 1 dead holders\n");
        assert!(
            swept.err.contains("RUST_LOG=fairlock=warn") && swept.err.contains("Repairing"),
            "{swept:?}"
        );
        let alone = run(&home, &["sweep", "--local", "locks.db", "bad"]).await;
        alone.assert_refused(UNAVAILABLE, &["bad", "Repairing a lock"]);
    });
}

#[test]
fn the_item_of_a_lock_goes_that_nobody_has_used_for_the_idle_retention() {
    let home = Home::with_table();
    real_time(async {
        hold(&home.host("alice"), "idle")
            .await
            .release()
            .await
            .unwrap();
        // Its last turn was a month ago, and DynamoDB might have deleted its item since.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let then = now
            .unwrap()
            .saturating_sub(Duration::from_secs(30 * 24 * 3600));
        let number = |number: u128| AttributeValue::N(number.to_string());
        let engine = Engine::file(home.file("locks.db")).unwrap().client();
        let update = engine.update_item().table_name("fairlock");
        let update = update
            .key("pk", AttributeValue::S("idle".into()))
            .key("sk", AttributeValue::S("fairlock/#lock".into()))
            .update_expression("SET expires_at = :seconds, #last = :ticket, watermark = :ticket")
            .expression_attribute_names("#last", "last")
            .expression_attribute_values(":seconds", number(then.as_secs().into()))
            .expression_attribute_values(":ticket", number(then.as_micros()));
        update.send().await.unwrap();
    });
    let removed = home.run("sweep --local locks.db");
    assert_eq!(
        removed.assert_done(),
        "1 locks, 0 failed: removed 1 idle locks\n"
    );
    assert!(
        home.run("ls --local locks.db")
            .assert_done()
            .starts_with("no locks")
    );
}

#[test]
fn it_sweeps_again_and_again_until_a_signal() {
    let home = Home::with_table();
    for signal in [Signal::INT, Signal::TERM] {
        let mut sweeps = Command::new("env");
        sweeps.args([
            "--default-signal",
            env!("CARGO_BIN_EXE_fairlock"),
            "sweep",
            "--json",
        ]);
        sweeps
            .args(["--every", "1s", "--local", "locks.db"])
            .current_dir(home.0.path());
        let mut sweeps = sweeps
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(sweeps.stdout.take().unwrap()).lines();
        for _ in 0..2 {
            documented("A sweep,", &lines.next().unwrap().unwrap());
        }
        kill_process(Pid::from_child(&sweeps), signal).unwrap();
        let status = sweeps.wait().unwrap();
        let mut err = String::new();
        sweeps
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        assert_eq!((status.code(), err.as_str()), (Some(0), ""));
    }
}

/// What cannot be swept now is swept later. Nothing listens at first, and then an engine does.
#[test]
fn a_sweep_that_fails_is_told_and_the_next_one_comes() {
    let home = Home::new();
    real_time(async {
        let place = ServedEngine::new(Wire::Tcp).await;
        let url = place.url().await;
        place.server.shuts();
        let mut sweeps = Command::new("env");
        sweeps.args(["--default-signal", env!("CARGO_BIN_EXE_fairlock"), "sweep"]);
        sweeps.args(["--every", "1s", "--table", "locks", "--endpoint-url", &url]);
        let names = ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        sweeps
            .envs(names.map(|name| (name, "test")))
            .current_dir(home.0.path());
        let file = |name| std::fs::File::create(home.file(name)).unwrap();
        let mut sweeps = sweeps
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        let has = |name, words: &str| {
            std::fs::read_to_string(home.file(name))
                .unwrap()
                .contains(words)
        };
        until_async(|| has("err", "goes on trying")).await;
        assert!(!has("out", "locks"));
        place.server.opens();
        until_async(|| has("out", "0 locks, 0 failed")).await;
        kill_process(Pid::from_child(&sweeps), Signal::TERM).unwrap();
        assert_eq!(
            tokio::task::spawn_blocking(move || sweeps.wait())
                .await
                .unwrap()
                .unwrap()
                .code(),
            Some(0)
        );
    });
}

/// Waits while the server of this test answers. The test's own bound ends a wait in vain.
async fn until_async(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn times_that_are_too_short_are_refused() {
    let home = Home::with_table();
    home.run("sweep --every 10ms --local locks.db")
        .assert_refused(64, &["at least 1s"]);
}
