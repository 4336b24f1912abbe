//! An operator asks a holder to give way, breaks a lock, and deletes it.

use std::time::Duration;

use fairlock::LossReason;
use fairlock_testkit::real_time;

use crate::clients::{hold, with_a_queue};
use crate::home::Home;

#[test]
fn a_lock_is_broken_and_its_holder_learns_by_whom_and_why() {
    let home = Home::new();
    real_time(async {
        let locks = home.builder().owner("alice");
        let locks = locks
            .lease_duration(Duration::from_secs(3))
            .build()
            .unwrap();
        let guard = hold(&locks, "a").await;
        // Nobody can be asked without a terminal.
        let said = home.run_beside("break a").await;
        said.assert_refused(64, &["--yes"]);
        assert!(guard.is_held());
        let line = "break a --yes --reason 'it hangs'";
        let said = home.run_beside(line).await;
        said.assert_said(0, "");
        let ticket = guard.ticket();
        let told = format!("fairlock: lock `a`: broke ticket {ticket} of alice: it is free\n");
        assert_eq!(said.err, told);
        let LossReason::Broken { by, reason } = guard.lost().await.reason else {
            panic!("it was broken");
        };
        assert!(by.contains('@') && reason == "it hangs", "{by}: {reason}");
        let said = home.run_beside(line).await;
        said.assert_refused(75, &["lock `a`", "nobody has it"]);
    });
}

#[test]
fn a_waiter_is_broken_by_its_ticket_and_no_other() {
    let home = Home::new();
    real_time(with_a_queue(&home, async |state| {
        let ticket = state.queue[0].ticket;
        let said = home.run_beside("break deploy/prod --yes --ticket 7").await;
        said.assert_refused(75, &["nobody has ticket 7 here"]);
        let line = format!("break deploy/prod --yes --ticket {ticket}");
        let said = home.run_beside(&line).await;
        let broke = format!("broke ticket {ticket} of bob");
        said.assert_ended(
            0,
            &[&broke, &format!("{} has it", state.holder.unwrap().owner)],
        );
    }));
}

#[test]
fn a_holder_is_asked_and_a_free_lock_is_told() {
    let home = Home::new();
    real_time(async {
        let ask = async |reason: &str| home.run_beside(&format!("ask a --reason {reason}")).await;
        let said = ask("tea").await;
        said.assert_refused(75, &["lock `a`", "nobody has it"]);
        let locks = home.builder().lease_duration(Duration::from_secs(3));
        let guard = hold(&locks.build().unwrap(), "a").await;
        let said = ask("tea").await;
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(guard.asked_to_yield().await.reason, "tea");
        assert!(guard.is_held());
        let said = ask(&"r".repeat(129)).await;
        said.assert_refused(64, &["128 bytes"]);
        guard.release().await.unwrap();
    });
}

#[test]
fn an_idle_lock_is_deleted_and_one_that_is_used_is_not() {
    let home = Home::new();
    real_time(async {
        let said = home.run_beside("delete a").await;
        said.assert_said(0, "");
        assert_eq!(said.err, "fairlock: lock `a`: the table has no such lock\n");
        let locks = home.builder().owner("alice").build().unwrap();
        let guard = hold(&locks, "a").await;
        let said = home.run_beside("delete a").await;
        said.assert_refused(75, &["alice has it", "nothing was deleted"]);
        assert!(guard.is_held());
        guard.release().await.unwrap();
        let said = home.run_beside("delete a").await;
        said.assert_refused(75, &["less than a minute ago"]);
    });
}
