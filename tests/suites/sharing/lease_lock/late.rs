//! A request for a lease that arrives after its call was told that it did not get the lock.

use fairlock::Lease;
use fairlock::embedded::{Fault, When};
use futures::future::join;

use super::{ALLOWED, MINUTE, in_processes, is_refused, named, process};
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, holder_told, in_lab};
use fairlock_testkit::sweeps::sweep_table;

/// A client whose call under the name `job` was refused. Its request took the lock afterwards.
async fn refused_and_taken(lab: &Lab) -> Host {
    let (client, other) = (process(lab).await, process(lab).await);
    let holder = acquire(&other).await;
    let gate = client.held("enter", 1, When::Before);
    assert!(is_refused(&named(&client).acquire("job", MINUTE).await));
    holder.release().await.unwrap();
    gate.open();
    lab.settle().await;
    client
}

/// Shows the client the lease in each way in which it may meet the lock.
async fn meets_the_lock(client: &Host) {
    let lock = client.lock();
    assert!(lock.try_acquire().await.unwrap().is_none());
    lock.sweep().await.unwrap();
    sweep_table(&client.locks).await.unwrap();
    assert!(is_refused(&named(client).acquire("else", MINUTE).await));
}

/// The lease is still there, and its owner goes on with it.
async fn lasts(lab: &Lab, owner: &Host, lease: Lease) {
    lab.settle().await;
    let found = named(owner).find("job").await.unwrap();
    assert_eq!(found.as_ref(), Some(&lease));
    assert!(lab.host().try_acquire().await.is_none());
    let lease = named(owner).extend(&lease, 2 * MINUTE).await.unwrap();
    named(owner).release(&lease).await.unwrap();
    assert!(lab.is_free("a").await);
}

#[test]
fn a_lease_of_another_process_is_not_given_up_by_a_client_whose_late_request_took_the_lock() {
    in_lab(async |lab, []| {
        let client = refused_and_taken(lab).await;
        let owner = process(lab).await;
        let lease = named(&owner).acquire("job", MINUTE).await.unwrap();
        meets_the_lock(&client).await;
        lasts(lab, &owner, lease).await;
    });
}

#[test]
fn a_lease_that_a_client_was_told_of_is_not_given_up_by_it_for_an_earlier_request_of_its_own() {
    in_lab(async |lab, []| {
        let client = refused_and_taken(lab).await;
        let lease = named(&client).acquire("job", MINUTE).await.unwrap();
        meets_the_lock(&client).await;
        lasts(lab, &client, lease).await;
    });
}

/// The name's lease has ended, and is extended again. Before that request arrives, another client gets the lock.
#[test]
fn a_lease_that_another_takes_over_before_it_is_prolonged_is_not_granted() {
    in_processes(async |lab, [a, b]| {
        let old = named(&a).acquire("one", MINUTE).await.unwrap();
        lab.wait(MINUTE + ALLOWED - SECOND * 3 / 2).await;
        a.meets("extend", 1, Fault::Delay(When::Before, SECOND * 9 / 5));
        let again = named(&a);
        let (asked, new) = join(again.acquire("one", MINUTE), async {
            lab.wait(SECOND * 3 / 2).await;
            named(&b).acquire("other", MINUTE).await.unwrap()
        })
        .await;
        let holder = holder_told(asked);
        assert_eq!(holder.ticket, new.ticket());
        assert!(old.ticket() < new.ticket());
    });
}

/// The lock was idle for so long that DynamoDB may delete its item at any moment, and deletes it at this one.
#[test]
fn a_lease_whose_item_is_deleted_before_it_is_prolonged_is_taken_anew() {
    in_lab(async |lab, []| {
        lab.switch_ttl_on().await;
        let old = named(&process(lab).await)
            .acquire("one", MINUTE)
            .await
            .unwrap();
        lab.wait(31 * 24 * 60 * MINUTE).await;
        let host = lab.host();
        host.meets("extend", 1, Fault::Delay(When::Before, SECOND * 9 / 5));
        let lock = named(&host);
        let (lease, deleted) = join(lock.acquire("one", MINUTE), async {
            lab.settle().await;
            lab.engine.expire().await.unwrap()
        })
        .await;
        assert_eq!(deleted, 1, "the lock item");
        let lease = lease.unwrap();
        assert!(old.ticket() < lease.ticket());
        lock.release(&lease).await.unwrap();
    });
}
