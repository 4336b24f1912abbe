//! What a client remembers of its own rows gives no slot to a waiter of its own that leaves.

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::When;
use tokio::time::Instant;

use super::{LEASE, make_void, waiting_row};
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, all_wait, cut_all, in_lab, waits};

/// The tickets of the successors of lock `a`.
async fn successors(lab: &Lab) -> Vec<AttributeValue> {
    let get = lab.engine.client().get_item().table_name("locks");
    let get = get.key("pk", AttributeValue::S("a".into()));
    let get = get.key("sk", AttributeValue::S("fairlock/#lock".into()));
    let item = get.send().await.unwrap().item.unwrap();
    let successors = item["slots"].as_l().unwrap().iter().skip(1);
    successors
        .map(|successor| successor.as_m().unwrap()["ticket"].clone())
        .collect()
}

/// A holder, successors that have died, and two waiters of one client behind them.
#[test]
fn a_waiter_that_leaves_is_given_no_slot_by_another_of_its_client_that_remembers_its_row() {
    in_lab(async |lab, []| {
        let [holder, client]: [Host; 2] = lab.hosts_with_slots(2, 2).try_into().ok().unwrap();
        let dead = lab.hosts_with_slots(2, 2);
        let guard = acquire(&holder).await;
        let _successors_of_it = all_wait(lab, &dead).await;
        let leaves = waits(lab, &client).await;
        let stays = waits(lab, &client).await;
        cut_all(&dead);
        let row = waiting_row(lab).await;
        make_void(lab, &row).await;
        // The waiter has left, and none of its requests is answered.
        let gate = client.held("leave", usize::MAX, When::After);
        gate.reached(1).await;
        lab.wait(LEASE + 2 * SECOND).await;
        let ticket = &row["entry"].as_m().unwrap()["ticket"];
        let watermark = successors(lab).await;
        assert!(
            !watermark.is_empty(),
            "the other has a slot when the dead are gone"
        );
        assert!(
            !watermark.contains(ticket),
            "a slot for a waiter that has left"
        );
        gate.open();
        lab.settle().await;
        let started = Instant::now();
        guard.release().await.unwrap();
        stays.await.unwrap().release().await.unwrap();
        leaves.await.unwrap().release().await.unwrap();
        assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    });
}
