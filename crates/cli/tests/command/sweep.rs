//! `fairlock sweep`: what crashed clients left.

use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::LockClient;
use fairlock_testkit::real_time;
use rustix::process::Signal;
use tokio::task::spawn_blocking;

use crate::clients::{hold, key, use_once};
use crate::command::{signalled, words};
use crate::home::Home;
use crate::inspect::schema::documented;
use crate::running::Running;
use crate::served::{AWS, Cloud};

fn number(number: u128) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn ago(span: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().saturating_sub(span)
}

fn update(home: &Home, lock: &str) -> UpdateItemFluentBuilder {
    let [(pk, lock), (sk, item)] = key(lock);
    let update = home.engine().client().update_item();
    update.table_name("fairlock").key(pk, lock).key(sk, item)
}

/// Holders of these locks renewed them an hour ago for the last time. This process keeps what is left of them.
async fn dead_holders(home: &Home, locks: &[&str]) -> LockClient {
    let client = home.host("the dead");
    for lock in locks {
        std::mem::forget(hold(&client, lock).await);
        let long_ago = number(ago(Duration::from_secs(3600)).as_millis());
        let both = "SET slots[0].renewed_at = :then, slots[0].renewed_on_host = :then";
        let update = update(home, lock).update_expression(both);
        let update = update.expression_attribute_values(":then", long_ago);
        update.send().await.unwrap();
    }
    client
}

#[track_caller]
fn assert_swept(home: &Home, line: &str, told: &str) {
    assert_eq!(home.run(line).assert_done(), format!("{told}\n"));
}

#[test]
fn a_dead_holder_is_removed_and_one_that_is_alive_is_left_alone() {
    let home = Home::new();
    real_time(async {
        let alive = home.host("alive");
        let guard = hold(&alive, "alive").await;
        let _dead = dead_holders(&home, &["dead/1", "dead/2", "dead/3"]).await;
        // Blocks this test's runtime, so that the dead renew nothing.
        let one = "1 locks, 0 failed: removed 1 dead holders";
        assert_swept(&home, "sweep dead/3", one);
        let rest = home.run("sweep --json");
        let rest = &documented("A sweep,", rest.assert_done())[0];
        assert_eq!((&rest["locks"], &rest["holders"]), (&4.into(), &2.into()));
        assert_swept(&home, "sweep", "4 locks, 0 failed: nothing to remove");
        assert!(guard.is_held());
        guard.release().await.unwrap();
    });
}

#[test]
fn a_lock_that_cannot_be_swept_fails_the_sweep_and_not_that_of_the_others() {
    let home = Home::new();
    real_time(async {
        home.damage("bad").await;
        let _dead = dead_holders(&home, &["good", "better"]).await;
        let swept = home.run_beside("sweep").await;
        swept.assert_said(69, "3 locks, 1 failed: removed 2 dead holders\n");
        swept.assert_ended(69, &["RUST_LOG=fairlock=warn", "Repairing"]);
        let alone = home.run_beside("sweep bad").await;
        alone.assert_refused(69, &["bad", "Repairing a lock"]);
    });
}

#[test]
fn the_item_of_a_lock_goes_that_nobody_has_used_for_the_idle_retention() {
    let home = Home::new();
    real_time(async {
        use_once(&home.host("alice"), "idle").await;
        // Its last turn was a month ago, and DynamoDB might have deleted its item since.
        let then = ago(Duration::from_secs(30 * 24 * 3600));
        let update = update(&home, "idle")
            .update_expression("SET expires_at = :seconds, #last = :ticket, watermark = :ticket")
            .expression_attribute_names("#last", "last")
            .expression_attribute_values(":seconds", number(then.as_secs().into()))
            .expression_attribute_values(":ticket", number(then.as_micros()));
        update.send().await.unwrap();
    });
    assert_swept(&home, "sweep", "1 locks, 0 failed: removed 1 idle locks");
    home.run("ls").assert_shows(&["no locks"]);
}

#[test]
fn it_sweeps_again_and_again_until_a_signal() {
    let home = Home::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut sweeps = home.start("sweep --json --every 1s");
        for _ in 0..2 {
            documented("A sweep,", &sweeps.line());
        }
        sweeps.signal(signal);
        sweeps.end().assert_done();
    }
    let too_often = home.run("sweep --every 10ms");
    too_often.assert_refused(64, &["at least 1s"]);
}

/// What cannot be swept now is swept later. Nothing listens at first, and then an engine does.
#[test]
fn a_sweep_that_fails_is_told_and_the_next_one_comes() {
    real_time(async {
        let cloud = Cloud::new().await;
        cloud.place.server.shuts();
        let home = &cloud.home;
        let sweeps = signalled(home.path(), &words("sweep --every 1s"));
        let mut sweeps = cloud.placed(sweeps);
        let mut sweeps = Running::spawn(sweeps.envs(AWS), home.path());
        let sweeps = spawn_blocking(move || {
            let told = sweeps.told();
            assert!(told.contains("goes on trying"), "{told}");
            sweeps
        });
        let mut sweeps = sweeps.await.unwrap();
        cloud.place.server.opens();
        let ended = spawn_blocking(move || {
            // The first sweep that is told has succeeded.
            let told = sweeps.line();
            assert!(told.contains("0 locks, 0 failed"), "{told}");
            sweeps.signal(Signal::TERM);
            sweeps.end()
        });
        ended.await.unwrap().assert_ended(0, &[]);
    });
}
