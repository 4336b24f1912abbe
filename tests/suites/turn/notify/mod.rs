//! Notifications say when to poll. With them a queue polls little; without them, or with any others, it polls as it does anyway.

mod dead;
mod udp;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Fault, Faults, Network, When};
use fairlock::{LockClient, LockGuard, Notifier, RecordWait};
use fairlock_protocol::notification::Kind;
use fairlock_testkit::datagram_network::{Post, PostBox, PostFaults};
use fairlock_testkit::effort::{sampled, sized};
use fairlock_testkit::lab::{
    Host, Lab, MS, SECOND, acquire, all_wait, away, cut_off, in_lab, waits,
};
use fairlock_testkit::lying_notifier::{LIES, Liar, Lie};
use fairlock_testkit::virtual_time;
use futures::future::join_all;
use tokio::time::Instant;

use crate::turn::pace::at_most;
use crate::turn::pace::contest::{Contest, Course, RTT, distant};

/// A process that is reached by a post, one round trip away from the table.
fn notified(lab: &Lab, post: &Post) -> Host {
    notified_by(lab, post.notifier())
}

fn notified_by(lab: &Lab, notifier: impl Notifier) -> Host {
    let host = lab.host_with(|builder| builder.notifier(notifier));
    host.network.set_faults(away(RTT));
    host
}

/// Runs a test with two processes that are reached by a post.
fn two_notified(seed: u64, test: impl AsyncFnOnce(&Lab, &Post, [Host; 2])) {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(seed));
        let hosts = [(); 2].map(|()| notified(&lab, &post));
        test(&lab, &post, hosts).await;
    });
}

fn eight(turns: usize, holds: &'static [u64]) -> Contest {
    of_processes(8, turns, holds)
}

fn many(turns: usize, holds: &'static [u64]) -> Contest {
    of_processes(32, turns, holds)
}

fn of_processes(workers: usize, turns: usize, holds: &'static [u64]) -> Contest {
    Contest {
        workers,
        processes: workers,
        turns,
        holds,
    }
}

fn over(post: &Post, contest: Contest) -> Course {
    virtual_time(contest.run_on(|lab| notified(lab, post)))
}

/// A contest in which every notification arrives in time: the handoffs are fast, and a turn takes so many requests at the most.
fn in_time(contest: Contest, requests: f64) -> Course {
    let post = Post::seeded(1);
    post.set_faults(PostFaults {
        delay: MS / 2,
        ..PostFaults::default()
    });
    let course = over(&post, contest);
    let told = format!("{} workers, {:?} ms", contest.workers, contest.holds);
    let (half, sent) = (course.handoff(0.5), course.requests_a_turn());
    at_most(&format!("{told}, half of the handoffs"), half, 1.25);
    at_most(&format!("{told}, requests a turn"), sent, requests);
    at_most(&format!("{told}, unevenness"), course.unevenness(), 1.2);
    course
}

#[test]
fn a_handoff_between_hosts_that_notify_each_other_takes_one_poll() {
    for (holds, requests) in [(&[50][..], 4.0), (&[1000], 4.0), (&[0], 4.0)] {
        let course = in_time(eight(sized(80, 400), holds), requests);
        let told = format!("8 workers, {holds:?} ms, 99 of 100");
        at_most(&told, course.handoff(0.99), 1.6);
    }
}

/// A waiter behind the slots reads the table before it draws its ticket, and polls when it is told of its slot. Then it waits as a waiter
/// does that had a slot at once.
#[test]
fn a_waiter_behind_the_slots_is_notified_of_its_slot_and_polls_little_before() {
    for (holds, requests) in [(&[50][..], 7.8), (&[0], 8.0), (&[10, 90, 35, 0, 120], 8.0)] {
        in_time(many(sized(160, 640), holds), requests);
    }
}

/// The waiters count on notifications that come, and half of those are lost. A waiter whose notification is lost waits for its next poll. In
/// holds of no time, that is one of two handoffs. Which ones are lost changes the speed by a tenth, so it is a mean of several seeds.
#[test]
fn a_queue_that_loses_half_of_its_notifications_goes_on_as_fast_as_one_that_polls() {
    for (holds, most) in sampled([(&[50][..], 1.1), (&[0], 1.15)].into_iter(), 2) {
        let contest = || many(sized(96, 320), holds);
        let polling = virtual_time(contest().run());
        let (mut requests, mut slowness) = (Vec::new(), Vec::new());
        for seed in 5..sized(6, 13) {
            let post = Post::seeded(seed);
            post.set_faults(PostFaults {
                lost: 0.5,
                delay: MS / 2,
                ..PostFaults::default()
            });
            let halved = over(&post, contest());
            requests.push(halved.requests_a_turn() / polling.requests_a_turn());
            slowness.push(polling.turns_a_round_trip() / halved.turns_a_round_trip());
        }
        let told = format!("32 workers, {holds:?} ms, half are lost");
        let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len() as f64;
        let what = format!("{told}, requests against polling");
        at_most(&what, mean(&requests), 1.2);
        let what = format!("{told}, polling's speed against this");
        at_most(&what, mean(&slowness), most);
    }
}

/// A write is replicated before it is answered or seen.
#[test]
fn when_to_poll_is_learnt_where_writes_take_twice_as_long_as_reads() {
    let post = Post::seeded(2);
    let made = AtomicU64::new(0);
    let host = |lab: &Lab| {
        let seed = made.fetch_add(1, Ordering::Relaxed);
        let network = Network::to(&lab.engine).seeded(seed).script(|request| {
            let is_write = matches!(request.operation(), "UpdateItem" | "PutItem");
            is_write.then_some(Fault::Delay(When::Before, RTT))
        });
        network.set_faults(away(RTT));
        let builder = LockClient::builder(network.client())
            .table("locks")
            .clock(lab.clock.clone())
            .seeded(seed)
            .notifier(post.notifier());
        let locks = builder.build().unwrap();
        Host { locks, network }
    };
    let course = virtual_time(eight(sized(200, 400), &[50]).run_on(host));
    // The write itself takes two round trips, of which half of one is its answer's.
    at_most("half of the handoffs", course.handoff(0.5), 2.4);
    // What a notification says is learnt from, and no poll that was due comes between it and its own poll.
    at_most("99 of 100", course.handoff(0.99), 2.5);
    at_most("requests a turn", course.requests_a_turn(), 4.5);
}

#[test]
fn with_every_notification_lost_or_forged_a_queue_polls_little_more() {
    for holds in sampled([&[50][..], &[1000]].into_iter(), 2) {
        let contest = || eight(sized(40, 200), holds);
        let polling = virtual_time(contest().run()).requests_a_turn();
        let faults = |lost, forged, deafens_odd| PostFaults {
            lost,
            forged,
            deafens_odd,
            ..PostFaults::default()
        };
        for (what, faults) in [
            ("lost", faults(1.0, 0.0, false)),
            ("forged", faults(1.0, 1.0, false)),
            ("one way", faults(0.0, 0.0, true)),
        ] {
            let post = Post::seeded(3);
            post.set_faults(faults);
            let requests = over(&post, contest()).requests_a_turn();
            at_most(&format!("{holds:?} ms, {what}"), requests / polling, 1.2);
        }
    }
}

#[test]
fn a_lost_notification_delays_a_handoff_by_a_poll_and_not_by_a_heartbeat() {
    let handed_off = |faults: PostFaults, notifies: bool| {
        virtual_time(async {
            let (lab, post) = (Lab::new().await, Post::seeded(4));
            let host = || match notifies {
                true => notified(&lab, &post),
                false => distant(&lab),
            };
            let (holder, successor) = (host(), host());
            let guard = acquire(&holder).await;
            let waiting = waits(&lab, &successor).await;
            lab.wait(20 * SECOND).await;
            // From now on, in the middle of the hold.
            post.set_faults(faults);
            lab.wait(2 * SECOND).await;
            let released = Instant::now();
            guard.release().await.unwrap();
            drop(waiting.await.unwrap());
            released.elapsed()
        })
    };
    let lost = PostFaults {
        lost: 1.0,
        ..PostFaults::default()
    };
    let polled = handed_off(PostFaults::default(), false);
    let told = handed_off(PostFaults::default(), true);
    let untold = handed_off(lost, true);
    println!("polled {polled:?}, told {told:?}, lost {untold:?}");
    assert!(told < RTT * 13 / 10, "{told:?}");
    assert!(
        untold < 1100 * MS,
        "{untold:?}: polls are a second apart at most"
    );
}

/// How many requests a waiter sends in the first minute of a hold. `each` happens ten times a second.
async fn requests_of_a_minute(
    lab: &Lab,
    [holder, successor]: [&Host; 2],
    mut each: impl FnMut(),
) -> u64 {
    let guard = acquire(holder).await;
    let waiting = waits(lab, successor).await;
    let before = successor.network.counts().requests();
    for _ in 0..600 {
        each();
        lab.wait(100 * MS).await;
    }
    let requests = successor.network.counts().requests() - before;
    assert!(guard.is_held() && !waiting.is_finished());
    guard.release().await.unwrap();
    drop(waiting.await.unwrap());
    requests
}

#[test]
fn a_storm_of_forged_notifications_costs_no_more_than_polling_and_nobody_its_turn() {
    in_lab(async |lab, []| {
        let polling = [&distant(lab), &distant(lab)];
        let polling = requests_of_a_minute(lab, polling, || ()).await;
        for seed in 7..12 {
            let post = Post::seeded(seed);
            let (holder, successor) = (notified(lab, &post), notified(lab, &post));
            let storm = || post.storm(20);
            let stormed = requests_of_a_minute(lab, [&holder, &successor], storm).await;
            assert!(
                stormed <= polling,
                "seed {seed}: {stormed}, and {polling} by polling"
            );
            let [_, _, dropped] = successor.locks.notification_counts().unwrap();
            assert!(dropped > 1000, "{dropped}");
        }
    });
}

/// A holder and a waiter behind it, far from the table: 160 ms to and fro.
async fn two_far_away(lab: &Lab, post: &Post) -> [Host; 2] {
    let hosts = [notified(lab, post), notified(lab, post)];
    for host in &hosts {
        host.network.set_faults(away(FAR));
    }
    hosts
}

/// Sixteen times as far as the others, so that the clock of a test, which counts milliseconds, sees a sixteenth of it.
const FAR: Duration = Duration::from_millis(160);

/// The second one comes while the poll for the first is under way, and is to be polled for when that poll is answered, or just after.
#[test]
fn a_release_that_is_told_again_at_any_moment_of_its_poll_keeps_no_processor_busy() {
    for after in (140..=200).step_by(3).map(Duration::from_millis) {
        virtual_time(async {
            let (lab, post) = (Lab::new().await, Post::seeded(13));
            let [holder, successor] = two_far_away(&lab, &post).await;
            let guard = acquire(&holder).await;
            let waiting = waits(&lab, &successor).await;
            lab.wait(4 * SECOND).await;
            let before = successor.network.counts().requests();
            post.forges(&Kind::Releasing);
            lab.wait(after).await;
            post.forges(&Kind::Releasing);
            lab.wait(SECOND).await;
            let polls = successor.network.counts().requests() - before;
            assert!((2..=6).contains(&polls), "{polls} after {after:?}");
            guard.release().await.unwrap();
            drop(waiting.await.unwrap());
        });
    }
}

#[test]
fn a_forged_release_in_the_middle_of_each_hold_teaches_nothing_of_the_true_ones() {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(14));
        let [mut holder, mut successor] = two_far_away(&lab, &post).await;
        let mut guard = acquire(&holder).await;
        for turn in 0..24 {
            let waiting = waits(&lab, &successor).await;
            lab.wait(4 * SECOND).await;
            post.forges(&Kind::Releasing);
            lab.wait(4 * SECOND).await;
            let released = Instant::now();
            let release = async { guard.release().await.unwrap() };
            let (next, ()) = tokio::join!(waiting, release);
            let handoff = released.elapsed().div_duration_f64(FAR);
            assert!(handoff <= 1.3, "turn {turn}: {handoff:.2} round trips");
            guard = next.unwrap();
            std::mem::swap(&mut holder, &mut successor);
        }
    });
}

#[test]
fn an_address_of_any_shape_stands_in_nobodys_way() {
    let text = |text: &str| AttributeValue::S(text.into());
    for address in [
        text(""),
        text("nowhere"),
        text("999.0.0.1:1"),
        text(&"a".repeat(129)),
        text("a\u{0}b"),
        AttributeValue::N("7".into()),
        AttributeValue::Null(true),
        AttributeValue::L(vec![text("a")]),
    ] {
        two_notified(8, async |lab, _, [holder, successor]| {
            let guard = acquire(&holder).await;
            write_address(lab, address.clone()).await;
            let waiting = waits(lab, &successor).await;
            lab.wait(25 * SECOND).await;
            assert!(guard.is_held(), "{address:?}");
            guard.release().await.unwrap();
            waiting.await.unwrap().release().await.unwrap();
        });
    }
}

/// Overwrites the address of the entry in the first slot.
async fn write_address(lab: &Lab, address: AttributeValue) {
    let update = lab.engine.client().update_item().table_name("locks");
    let update = update
        .key("pk", AttributeValue::S("a".into()))
        .key("sk", AttributeValue::S("fairlock/#lock".into()));
    let update = update
        .update_expression("SET #slots[0].address = :address")
        .expression_attribute_names("#slots", "slots")
        .expression_attribute_values(":address", address);
    update.send().await.unwrap();
}

#[test]
fn a_place_that_leaves_notifies_the_place_behind_it() {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(9));
        let hosts: Vec<_> = (0..3).map(|_| notified(&lab, &post)).collect();
        let guard = acquire(&hosts[0]).await;
        let leaver = hosts[1].lock();
        let leaves = leaver.acquire(RecordWait::Timeout(5 * SECOND));
        let (left, waiting) = tokio::join!(leaves, waits(&lab, &hosts[2]));
        assert!(left.is_err());
        lab.settle().await;
        // It subscribed to the holder when its neighbour had gone.
        let released = Instant::now();
        guard.release().await.unwrap();
        drop(waiting.await.unwrap());
        assert!(
            released.elapsed() < RTT * 13 / 10,
            "{:?}",
            released.elapsed()
        );
    });
}

/// The answer of the release is lost, and so is every notification. The host still hears, and confirms nothing of a hold that it gives up.
#[test]
fn a_release_without_an_answer_keeps_nobody_waiting_for_a_heartbeat() {
    two_notified(11, async |lab, _, [holder, successor]| {
        let guard = acquire(&holder).await;
        let waiting = waits(lab, &successor).await;
        lab.wait(12 * SECOND).await;
        holder.network.set_faults(Faults {
            lost_answers: 1.0,
            ..Faults::default()
        });
        let released = Instant::now();
        // The release goes on without its guard.
        drop(guard);
        assert!(waiting.await.unwrap().is_held());
        assert!(released.elapsed() < 4 * SECOND, "{:?}", released.elapsed());
    });
}

/// A writer, three readers and a writer, in turn: the readers hold together, though each could be told that the one before is still there.
/// They do soon, if nobody hears of the release; and at once, if all do.
#[test]
fn readers_behind_a_writer_come_in_together() {
    for (lost, most) in [(1.0, 3 * SECOND), (0.0, 3 * RTT)] {
        virtual_time(async {
            let (lab, post) = (Lab::new().await, Post::seeded(12));
            let hosts: Vec<_> = (0..5).map(|_| notified(&lab, &post)).collect();
            let guard = acquire(&hosts[0]).await;
            let readers = join_all(hosts[1..4].iter().map(async |host| {
                let lock = host.lock();
                lock.acquire_shared(RecordWait::Infinite).await.unwrap()
            }));
            let writer = async {
                // The readers have their places by then.
                lab.settle().await;
                waits(&lab, &hosts[4]).await.await.unwrap()
            };
            let releases = async {
                lab.wait(20 * SECOND).await;
                let faults = PostFaults::default();
                post.set_faults(PostFaults { lost, ..faults });
                guard.release().await.unwrap();
                Instant::now()
            };
            let readers = async {
                let readers = readers.await;
                assert!(readers.iter().all(LockGuard::is_held));
                let together = Instant::now();
                join_all(readers.into_iter().map(LockGuard::release)).await;
                together
            };
            let (together, writer, released) = tokio::join!(readers, writer, releases);
            let took = together - released;
            assert!(took < most, "{took:?}, {lost} lost");
            drop(writer);
        });
    }
}

#[test]
fn a_client_without_a_notifier_takes_part_in_the_same_queue() {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(10));
        let hosts = [notified(&lab, &post), distant(&lab), notified(&lab, &post)];
        let mut guard = acquire(&hosts[0]).await;
        let waiting = all_wait(&lab, &hosts[1..]).await;
        for next in waiting {
            lab.wait(3 * SECOND).await;
            let ticket = guard.ticket();
            guard.release().await.unwrap();
            guard = next.await.unwrap();
            assert!(guard.ticket() > ticket);
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn a_notifier_that_panics_costs_nobody_a_lock() {
    #[derive(Debug)]
    struct Panics;
    impl Notifier for Panics {
        fn address(&self) -> String {
            "anywhere".into()
        }
        fn send(&self, _: &str, _: &[u8]) {
            panic!("planted");
        }
        fn receive(&self) -> std::pin::Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
            Box::pin(async { panic!("planted") })
        }
    }
    in_lab(async |lab, []| {
        let host = || lab.host_with(|builder| builder.notifier(Panics));
        let (holder, successor) = (host(), host());
        let guard = acquire(&holder).await;
        let waiting = waits(lab, &successor).await;
        lab.wait(60 * SECOND).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_notifier_with_an_address_that_nobody_could_use_is_refused() {
    #[derive(Debug)]
    struct Bad(String);
    impl Notifier for Bad {
        fn address(&self) -> String {
            self.0.clone()
        }
        fn send(&self, _: &str, _: &[u8]) {}
        fn receive(&self) -> std::pin::Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
            Box::pin(std::future::pending())
        }
    }
    in_lab(async |lab, []| {
        for address in [String::new(), "a".repeat(129), "a\nb".into()] {
            let network = Network::to(&lab.engine);
            let builder = LockClient::builder(network.client());
            let refused = builder.notifier(Bad(address)).build();
            let said = refused.err().unwrap().to_string();
            assert!(said.contains("address of the notifier"), "{said}");
        }
    });
}
