//! Holders that are dead, or that stand still, confirm nothing, whoever speaks for them.

use super::*;

/// How long after the death of a holder the waiter behind it has the lock. The waiter comes after the first time and hears a lie. The holder
/// dies after the second.
fn passes_the_dead([comes, dies]: [Duration; 2], lie: Option<Lie>) -> Duration {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(13));
        let own = post.notifier();
        let holder = notified_by(&lab, own.clone());
        let told = Arc::<AtomicU64>::default();
        let successor = match lie {
            Some(lie) => notified_by(&lab, Liar::new(post.notifier(), lie, told.clone())),
            None => distant(&lab),
        };
        let guard = acquire(&holder).await;
        lab.wait(comes).await;
        let waiting = waits(&lab, &successor).await;
        lab.wait(dies).await;
        holder.network.set_faults(cut_off());
        own.dies();
        let (died, lies) = (Instant::now(), told.load(Ordering::Relaxed));
        let next = tokio::select! {
            biased;
            next = waiting => Some(next.unwrap()),
            () = lab.wait(300 * SECOND) => None,
        };
        assert!(next.is_some(), "{lie:?}: nobody passes the dead");
        let took = died.elapsed();
        drop((guard, next));
        assert!(lie.is_none() || told.load(Ordering::Relaxed) > lies);
        took
    })
}

/// Whoever the waiter asks, it is told that the dead holder is still there. It believes that until its next heartbeat.
#[test]
fn a_lie_about_a_dead_holder_delays_the_next_by_a_heartbeat_at_most() {
    // Both heartbeats are ten seconds apart.
    let moments = || {
        let each = || (0..10).step_by(sized(5, 1)).map(|moment| SECOND * moment);
        each().flat_map(move |comes| each().map(move |dies| [comes, SECOND * 30 + dies]))
    };
    let longest = |lie| {
        let took = moments().map(|after| passes_the_dead(after, lie));
        took.max().unwrap()
    };
    let polling = longest(None);
    println!("polling: {polling:?} at the most");
    for lie in LIES {
        let told = longest(Some(lie));
        println!("{lie:?}: {told:?} at the most");
        assert!(
            told <= polling + 11 * SECOND,
            "{lie:?}: {told:?} after {polling:?}"
        );
    }
}

#[test]
fn a_holder_that_stands_still_confirms_nothing_until_it_goes_on() {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(14));
        let own = post.notifier();
        let (holder, successor) = (notified_by(&lab, own.clone()), notified(&lab, &post));
        let guard = acquire(&holder).await;
        let waiting = waits(&lab, &successor).await;
        lab.wait(20 * SECOND).await;
        let requests = || successor.network.counts().requests();
        let in_ten_seconds = async || {
            let before = requests();
            lab.wait(10 * SECOND).await;
            requests() - before
        };
        let asking = in_ten_seconds().await;
        own.stands_still();
        let polling = in_ten_seconds().await;
        assert!(own.goes_on() > 0, "nobody asked meanwhile");
        lab.settle().await;
        let again = in_ten_seconds().await;
        println!("{asking} requests, {polling} while it stands still, {again} after that");
        assert!(asking <= 2 && again <= 2, "{asking}, {again}");
        assert!((8..=12).contains(&polling), "{polling}");
        guard.release().await.unwrap();
        drop(waiting.await.unwrap());
    });
}

/// What was for the dead comes to a client that knows nothing of it.
#[test]
fn a_client_at_the_address_of_a_dead_one_confirms_nothing_for_it() {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(15));
        let own = post.notifier();
        let (holder, successor) = (notified_by(&lab, own.clone()), notified(&lab, &post));
        let guard = acquire(&holder).await;
        let waiting = waits(&lab, &successor).await;
        lab.wait(20 * SECOND).await;
        holder.network.set_faults(cut_off());
        own.dies();
        let died = Instant::now();
        let mut boxes = std::iter::repeat_with(|| post.notifier());
        let taken_over = boxes.find(PostBox::is_taken_over).unwrap();
        assert_eq!(taken_over.address(), own.address());
        let other = notified_by(&lab, taken_over);
        // It listens because it has a place of its own.
        let elsewhere = other.locks.fair_lock("b").unwrap();
        let elsewhere = elsewhere.acquire(RecordWait::Infinite).await.unwrap();
        drop(waiting.await.unwrap());
        assert!(died.elapsed() < 45 * SECOND, "{:?}", died.elapsed());
        let [sent, received, dropped] = other.locks.notification_counts().unwrap();
        assert!(
            received > 0 && dropped == received,
            "{received} received, {dropped} dropped"
        );
        assert_eq!(sent, 0);
        drop((guard, elsewhere));
    });
}

/// The holder's host still answers, though its requests do not arrive any more: it cannot renew, and gives up when its lease ends.
#[test]
fn a_holder_that_cannot_renew_any_more_confirms_nothing_after_its_lease() {
    two_notified(6, async |lab, _, [holder, successor]| {
        let guard = acquire(&holder).await;
        let waiting = waits(lab, &successor).await;
        lab.wait(60 * SECOND).await;
        holder.network.set_faults(cut_off());
        let died = Instant::now();
        let next = waiting.await.unwrap();
        assert!(died.elapsed() < 45 * SECOND, "{:?}", died.elapsed());
        assert!(!guard.is_held() && next.is_held());
    });
}
