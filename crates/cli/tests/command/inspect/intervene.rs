//! An operator asks a holder to give way, and breaks a lock.

use std::time::Duration;

use fairlock::LossReason;
use fairlock_testkit::real_time;

use super::home::{Home, hold, run, with_a_queue};

const MISUSE: i32 = 64;
const NOT_GRANTED: i32 = 75;

#[test]
fn a_lock_is_broken_and_its_holder_learns_by_whom_and_why() {
    let home = Home::with_table();
    real_time(async {
        let locks = home
            .builder()
            .owner("alice")
            .lease_duration(Duration::from_secs(3));
        let guard = hold(&locks.build().unwrap(), "a").await;
        let line = [
            "break", "a", "--yes", "--reason", "it hangs", "--local", "locks.db",
        ];
        let said = run(&home, &line).await;
        assert_eq!((said.code, &*said.out), (Some(0), ""), "{said:?}");
        let ticket = guard.ticket();
        let told = format!("fairlock: lock `a`: broke ticket {ticket} of alice: it is free\n");
        assert_eq!(said.err, told);
        let LossReason::Broken { by, reason } = guard.lost().await.reason else {
            panic!("it was broken");
        };
        assert!(by.contains('@') && reason == "it hangs", "{by}: {reason}");
        let said = run(&home, &line).await;
        said.assert_refused(NOT_GRANTED, &["lock `a`", "nobody has it"]);
    });
}

#[test]
fn a_waiter_is_broken_by_its_ticket_and_no_other() {
    let home = Home::with_table();
    real_time(with_a_queue(&home, async |state| {
        let holder = state.holder.unwrap();
        let ticket = state.queue[0].ticket.to_string();
        let place = ["--local", "locks.db"];
        let line = ["break", "deploy/prod", "--yes", "--ticket"];
        let none = [&line[..], &["7"], &place].concat();
        let said = run(&home, &none).await;
        said.assert_refused(NOT_GRANTED, &["nobody has ticket 7 here"]);
        let said = run(&home, &[&line[..], &[&*ticket], &place].concat()).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        let words = [
            format!("broke ticket {ticket} of bob"),
            format!("{} has it", holder.owner),
        ];
        assert!(words.iter().all(|word| said.err.contains(word)), "{said:?}");
    }));
}

#[test]
fn without_a_terminal_a_lock_is_broken_only_with_yes() {
    let home = Home::with_table();
    real_time(async {
        let guard = hold(&home.host("alice"), "a").await;
        let said = run(&home, &["break", "a", "--local", "locks.db"]).await;
        said.assert_refused(MISUSE, &["--yes"]);
        assert!(guard.is_held());
        guard.release().await.unwrap();
    });
}

#[test]
fn a_holder_is_asked_and_a_free_lock_is_told() {
    let home = Home::with_table();
    real_time(async {
        let ask = ["ask", "a", "--reason", "tea", "--local", "locks.db"];
        let said = run(&home, &ask).await;
        said.assert_refused(NOT_GRANTED, &["lock `a`", "nobody has it"]);
        let locks = home.builder().lease_duration(Duration::from_secs(3));
        let guard = hold(&locks.build().unwrap(), "a").await;
        let said = run(&home, &ask).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(guard.asked_to_yield().await.reason, "tea");
        assert!(guard.is_held());
        let long = "r".repeat(129);
        let said = run(
            &home,
            &["ask", "a", "--reason", &long, "--local", "locks.db"],
        )
        .await;
        said.assert_refused(MISUSE, &["128 bytes"]);
        guard.release().await.unwrap();
    });
}

#[test]
fn an_idle_lock_is_deleted_and_one_that_is_used_is_not() {
    let home = Home::with_table();
    real_time(async {
        let delete = ["delete", "a", "--local", "locks.db"];
        let said = run(&home, &delete).await;
        assert_eq!((said.code, &*said.out), (Some(0), ""), "{said:?}");
        assert_eq!(said.err, "fairlock: lock `a`: the table has no such lock\n");
        let locks = home.builder().owner("alice").build().unwrap();
        let guard = hold(&locks, "a").await;
        let said = run(&home, &delete).await;
        said.assert_refused(NOT_GRANTED, &["alice has it", "nothing was deleted"]);
        assert!(guard.is_held());
        guard.release().await.unwrap();
        let said = run(&home, &delete).await;
        said.assert_refused(NOT_GRANTED, &["less than a minute ago"]);
    });
}
