//! Locks that are deleted by hand.

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{DeleteOutcome, RecordWait};
use fairlock_testkit::lab::{
    Host, SECOND, acquire, all_wait, cut_all, have_turns, in_lab, in_slots, waits,
};

async fn delete(host: &Host) -> DeleteOutcome {
    host.locks.delete_lock("a").await.unwrap()
}

/// The lock that is in use, and whether it has a holder.
fn in_use(outcome: DeleteOutcome) -> (bool, u64) {
    let DeleteOutcome::InUse { state } = outcome else {
        panic!("not in use: {outcome:?}");
    };
    (state.holder.is_some(), state.waiting)
}

#[test]
fn an_idle_lock_goes_with_its_data_and_its_rows_and_comes_back_with_larger_tickets() {
    in_slots(1, async |lab, hosts: [Host; 4]| {
        let ops = lab.host();
        let first = acquire(&hosts[0]).await;
        first.set_data(b"old").await.unwrap();
        let waiting = all_wait(lab, &hosts[1..]).await;
        let before = first.ticket();
        first.release().await.unwrap();
        have_turns(waiting).await;
        lab.wait(60 * SECOND).await;
        assert_eq!(delete(&ops).await, DeleteOutcome::Deleted);
        assert_eq!(lab.items("a").await, [""; 0]);
        assert_eq!(delete(&ops).await, DeleteOutcome::NotThere);
        let guard = acquire(&hosts[0]).await;
        assert!(guard.ticket().get() > before.get() + 3);
        assert!(guard.data().is_none());
        guard.release().await.unwrap();
    });
}

#[test]
fn a_lock_that_is_used_stays_and_nobody_loses_anything() {
    in_slots(1, async |lab, hosts: [Host; 3]| {
        let ops = lab.host();
        let guard = acquire(&hosts[0]).await;
        lab.wait(100 * SECOND).await;
        assert_eq!(in_use(delete(&ops).await), (true, 0));
        let (one, two) = (waits(lab, &hosts[1]).await, waits(lab, &hosts[2]).await);
        assert_eq!(in_use(delete(&ops).await), (true, 2));
        guard.release().await.unwrap();
        assert_eq!(in_use(delete(&ops).await), (true, 1));
        one.await.unwrap().release().await.unwrap();
        two.await.unwrap().release().await.unwrap();
        let reading = hosts[0]
            .lock()
            .acquire_shared(RecordWait::Infinite)
            .await
            .unwrap();
        assert_eq!(in_use(delete(&ops).await), (true, 0));
        reading.release().await.unwrap();
        assert_eq!(delete(&ops).await, DeleteOutcome::Deleted);
    });
}

#[test]
fn a_lock_whose_owners_have_crashed_goes_once_their_leases_have_expired() {
    in_slots(1, async |lab, hosts: [Host; 3]| {
        let ops = lab.host();
        let _guard = acquire(&hosts[0]).await;
        let _one = waits(lab, &hosts[1]).await;
        let _two = waits(lab, &hosts[2]).await;
        lab.wait(60 * SECOND).await;
        cut_all(&hosts);
        assert_eq!(in_use(delete(&ops).await), (true, 2));
        lab.wait(60 * SECOND).await;
        assert_eq!(delete(&ops).await, DeleteOutcome::Deleted);
        assert_eq!(lab.items("a").await, [""; 0]);
    });
}

/// New tickets begin at the time, to a second.
#[test]
fn a_lock_that_was_first_used_a_moment_ago_stays_for_a_minute() {
    in_lab(async |lab, [one, ops]| {
        acquire(&one).await.release().await.unwrap();
        assert_eq!(delete(&ops).await, DeleteOutcome::TooNew);
        lab.wait(65 * SECOND).await;
        assert_eq!(delete(&ops).await, DeleteOutcome::Deleted);
    });
}

#[test]
fn a_caller_that_comes_between_the_read_and_the_deletion_keeps_its_lock() {
    in_lab(async |lab, [one, ops]| {
        acquire(&one).await.release().await.unwrap();
        lab.wait(65 * SECOND).await;
        ops.next_meets("DeleteItem", Fault::Delay(When::Before, SECOND));
        let (outcome, guard) = tokio::join!(delete(&ops), async {
            lab.wait(SECOND / 2).await;
            acquire(&one).await
        });
        assert_eq!(in_use(outcome), (true, 0));
        lab.wait(60 * SECOND).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_deletion_whose_answer_is_lost_is_a_deletion() {
    in_lab(async |lab, [one, ops]| {
        acquire(&one).await.release().await.unwrap();
        lab.wait(65 * SECOND).await;
        ops.next_meets("DeleteItem", Fault::Lose(When::After));
        assert_eq!(delete(&ops).await, DeleteOutcome::Deleted);
        ops.network.set_faults(Faults::default());
        assert_eq!(lab.items("a").await, [""; 0]);
    });
}
