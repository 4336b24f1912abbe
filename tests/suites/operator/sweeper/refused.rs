//! If another client was faster with a removal, a round of the sweep ends, and not the sweep.

use fairlock_testkit::sweep_fixture::*;
use tokio::time::sleep;

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
        let touch = || async {
            let request = world.engine.client().delete_item().table_name("fairlock");
            let request = request.key("pk", text("a")).key("sk", text(&row(settled)));
            request.send().await.unwrap();
        };
        let swept = swept_despite(world, deletes, touch).await;
        assert_eq!((swept.waiters, swept.has_more), (1, false));
        guard.release().await.unwrap();
    });
}
