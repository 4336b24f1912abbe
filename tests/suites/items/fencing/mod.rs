//! Fenced writes of the callers' own: a stale write is refused, whatever its writer believes.

mod checks;
mod conflicts;
mod expressions;
mod history;
mod items;
mod overtaken;
mod recipes;

use fairlock::Ticket;
use fairlock_testkit::child_process::example;
use fairlock_testkit::effort::sized;
use fairlock_testkit::virtual_time;
use history::{Writes, counted};
use items::*;
use overtaken::Overtaken;

#[test]
fn a_stale_put_update_or_deletion_is_refused_though_its_writer_believes_to_hold_the_lock() {
    virtual_time(async {
        let overtaken = Overtaken::new().await;
        let things = &overtaken.things;
        let [stale, fresh] = [&overtaken.stale, &overtaken.fresh].map(|it| it.fence("fence"));
        assert!(applied(fresh.on(put(things, 1)).send().await));
        assert!(!applied(stale.on(put(things, 7)).send().await));
        assert!(!applied(stale.on(set(things, 7)).send().await));
        assert!(!applied(stale.on(delete(things)).send().await));
        assert_eq!(number(things, "value").await, Some(1));
        let remembered = number(things, "fence").await.unwrap();
        assert_eq!(Ticket::new(remembered), fresh.ticket());
        // The same token again, in as many writes as the holder likes.
        assert!(applied(fresh.on(set(things, 2)).send().await));
        assert!(applied(fresh.on(put(things, 3)).send().await));
        assert!(applied(fresh.on(delete(things)).send().await));
        assert_eq!(item(things).await, None);
    });
}

#[test]
fn no_update_is_lost_while_holders_lose_the_lock_and_go_on_unless_they_write_unfenced() {
    let of = |writes, seed| virtual_time(counted(writes, seed));
    let (mut known, mut lost) = (0, 0);
    let seeds = sized(2, 4);
    for seed in 0..seeds {
        let (count, found) = of(Writes::Fenced, seed);
        assert_eq!(count, found, "seed {seed}");
        known += count;
        let (count, found) = of(Writes::Unfenced, seed);
        lost += count - found;
    }
    // Of twelve turns for each seed.
    assert!(known > sized(6, 20) && known < 12 * seeds, "{known}");
    assert!(
        lost > sized(0, 4),
        "unfenced writes lost {lost} updates only"
    );
}

#[test]
fn a_raised_fence_refuses_the_stale_before_the_new_holder_has_written() {
    virtual_time(async {
        let overtaken = Overtaken::new().await;
        let things = &overtaken.things;
        let [stale, fresh] = [&overtaken.stale, &overtaken.fresh].map(|it| it.fence("fence"));
        // The item does not contain the newer token yet.
        assert!(applied(stale.on(set(things, 1)).send().await));
        assert!(applied(fresh.on(raise(things)).send().await));
        assert!(!applied(stale.on(set(things, 2)).send().await));
        assert_eq!(number(things, "value").await, Some(1));
    });
}

#[test]
fn the_example_tells_its_story() {
    let ran = example("fencing").output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}");
    for line in [
        "A writes under token",
        "A is stopped",
        "B has the lock",
        "A goes on, and its fenced write is refused",
        "A goes on without a fence, and what B wrote is lost",
        "A's transaction is refused",
    ] {
        assert!(said.contains(line), "no `{line}` in {said}");
    }
}
