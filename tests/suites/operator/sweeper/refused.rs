//! If another client was faster with a removal, a round of the sweep ends. The sweep ends when that happened six times in a row.

use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::embedded::{Fault, Gate, Network, When};
use fairlock_testkit::sweep_fixture::*;
use tokio::time::sleep;

/// Deletes the row of a ticket.
async fn delete(world: &World, ticket: u64) {
    let request = world.engine.client().delete_item().table_name("fairlock");
    let request = request.key("pk", text("a")).key("sk", text(&row(ticket)));
    request.send().await.unwrap();
}

/// The settled row is gone when the sweep comes to delete it. The expired waiter behind it is made void in the same pass all the same.
#[test]
fn a_settled_row_that_another_client_deletes_first_does_not_end_the_sweep() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        let mut clients = Vec::new();
        for _ in 0..3 {
            let client = world.crashable().await;
            let taking = client.take("a").await;
            clients.push((client, taking));
        }
        let (waiter, _) = &clients[2];
        waiter.crash();
        sleep(DEATH).await;
        let settled = guard.ticket().get();
        world.put_void("a", settled).await;
        let swept = swept_despite(world, deletes, || delete(world, settled)).await;
        assert_eq!((swept.waiters, swept.has_more), (1, false));
        guard.release().await.unwrap();
    });
}

/// Each settled row is gone when the sweep comes to delete it, and another one is there.
#[test]
fn a_sweep_whose_removals_are_refused_six_times_in_a_row_ends_and_says_that_there_is_more() {
    in_world(async |world| {
        let holder = world.client().await.fair_lock("a").unwrap();
        let guard = holder.try_acquire().await.unwrap().unwrap();
        let gates: Vec<_> = (0..6).map(|_| Gate::closed()).collect();
        let (at_gates, begun) = (gates.clone(), AtomicUsize::new(0));
        let network = Network::to(&world.engine).script(move |request| {
            let number = deletes(request).then(|| begun.fetch_add(1, Ordering::Relaxed));
            let gate = at_gates.get(number?)?;
            Some(Fault::Hold(When::Before, gate.clone()))
        });
        let lock = world.client_on(&network).await.fair_lock("a").unwrap();
        let mut settled = guard.ticket().get();
        world.put_void("a", settled).await;
        let sweeping = spawn(async move { lock.sweep().await });
        for gate in gates {
            gate.reached(1).await;
            delete(world, settled).await;
            settled -= 1;
            world.put_void("a", settled).await;
            gate.open();
        }
        let swept = sweeping.await.unwrap().unwrap();
        assert_eq!((swept.rows, swept.has_more), (0, true));
        assert_eq!(network.counts().of("DeleteItem"), 6);
        assert_eq!(world.sweep("a").await.rows, 1);
        guard.release().await.unwrap();
    });
}
