//! Many waiters in few clients: the lock is granted in the order of the tickets.

use std::mem::take;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::{Faults, Latency, When};
use fairlock::{Error, FairLock, LockGuard, RecordWait, Ticket};
use fairlock_testkit::lab::{
    Host, Lab, MS, SECOND, acquire, all_wait, away, have_turns, in_lab, in_slots, silent, waits,
};
use futures::future::join_all;
use tokio::time::Instant;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The callers that held the lock, in this order.
#[derive(Default)]
struct Visits {
    inside: AtomicUsize,
    granted: Mutex<Vec<(usize, Ticket)>>,
}

impl Visits {
    async fn visit(&self, lab: &Lab, who: usize, lock: &FairLock) {
        let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
        self.granted.lock().unwrap().push((who, guard.ticket()));
        lab.wait(10 * MS).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    }

    /// Runs the callers, and after a while releases the hold that they wait for. Returns which callers were granted, in this order, once
    /// nothing is left of the queue.
    async fn run(
        &self,
        lab: &Lab,
        visits: impl IntoIterator<Item = impl Future<Output = ()>>,
        (guard, after): (LockGuard, Duration),
    ) -> Vec<(usize, Ticket)> {
        let release = async {
            lab.wait(after).await;
            guard.release().await.unwrap();
        };
        tokio::join!(join_all(visits), release);
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        take(&mut self.granted.lock().unwrap())
    }
}

/// A client gains nothing from what the answer to its own release showed. That answer shows that a ticket must be drawn; the newcomer
/// learns the same from a refused request.
#[test]
fn whoever_has_just_had_the_lock_does_not_pass_one_who_asked_before_it() {
    in_slots(1, async |lab, hosts: [Host; 5]| {
        let constant = Latency::Constant(100 * MS);
        for host in &hosts {
            host.network.set_faults(Faults {
                round_trip: constant,
                ..Faults::default()
            });
        }
        let [last, newcomer, queue @ ..] = &hosts[..] else {
            panic!("five");
        };
        let guard = acquire(last).await;
        let waiting = all_wait(lab, queue).await;
        guard.release().await.unwrap();
        let ticket = async |host: &Host| {
            let guard = acquire(host).await;
            let ticket = guard.ticket();
            guard.release().await.unwrap();
            ticket
        };
        let again = async {
            lab.wait(10 * MS).await;
            ticket(last).await
        };
        let others = async {
            have_turns(waiting).await;
        };
        let (earlier, later, ()) = tokio::join!(ticket(newcomer), again, others);
        assert!(earlier < later, "{earlier} {later}");
    });
}

/// A process one tenth of a second away from the table.
fn far_away(lab: &Lab) -> Host {
    let host = lab.host();
    host.network.set_faults(away(100 * MS));
    host
}

/// How many entries stand in the slots.
async fn slots_taken(lab: &Lab) -> usize {
    let key = |text: &str| AttributeValue::S(text.into());
    let client = lab.engine.client();
    let get = client.get_item().table_name("locks");
    let get = get.key("pk", key("a")).key("sk", key("fairlock/#lock"));
    let item = get.send().await.unwrap().item.unwrap();
    item["slots"].as_l().unwrap().len()
}

/// Processes that start at once: each has its ticket before any answer to another one is back.
#[test]
fn thirty_three_who_come_within_one_round_trip_have_their_tickets_by_one_write_each_as_they_came() {
    in_lab(async |lab, []| {
        acquire(&lab.host()).await.release().await.unwrap();
        let hosts: Vec<_> = (0..33).map(|_| far_away(lab)).collect();
        let visits = Visits::default();
        let locks: Vec<_> = hosts.iter().map(|host| host.lock()).collect();
        let (lab, visits, locks) = (lab, &visits, &locks);
        let waiters = (0..33).map(|n| async move {
            lab.wait(n as u32 * 2 * MS).await;
            visits.visit(lab, n, &locks[n]).await;
        });
        let seen = async {
            lab.wait(120 * MS).await;
            // The first has the lock, and has sent its release.
            let waiting = hosts.iter().skip(1);
            let writes = waiting.map(|host| host.network.counts().writes());
            (slots_taken(lab).await, writes.max())
        };
        let (seen, _) = tokio::join!(seen, join_all(waiters));
        assert_eq!(seen, (33, Some(1)));
        let order = take(&mut *visits.granted.lock().unwrap());
        assert!(order.iter().map(|(who, _)| *who).eq(0..33), "{order:?}");
    });
}

/// Their first requests are refused: one that shares finds no permit left, and one that bounds the queue has not seen it.
#[test]
fn callers_whose_first_requests_ask_for_less_than_a_slot_take_one_of_many_too() {
    in_lab(async |lab, []| {
        let guard = acquire(&lab.host()).await;
        let mut waiting = Vec::new();
        for _ in 0..12 {
            waiting.push(waits(lab, &lab.host()).await);
        }
        let hosts = [lab.host(), lab.host()];
        let [reader, bounded] = hosts.each_ref().map(|host| host.lock());
        let reads = async {
            let guard = reader.acquire_shared(RecordWait::Infinite).await;
            guard.unwrap().release().await.unwrap();
        };
        let bounded = bounded.max_waiters(20);
        let writes = async {
            let guard = bounded.acquire(RecordWait::Infinite).await;
            guard.unwrap().release().await.unwrap();
        };
        let seen = async {
            lab.settle().await;
            let items = lab.items("a").await;
            assert_eq!((items.len(), slots_taken(lab).await), (1, 15));
            guard.release().await.unwrap();
            have_turns(waiting).await;
        };
        tokio::join!(reads, writes, seen);
    });
}

/// Whoever asks again has seen how many there are, and goes into the queue.
#[test]
fn a_queue_that_lasts_keeps_its_lock_item_small() {
    in_lab(async |lab, []| {
        let hosts: Vec<_> = (0..24).map(|_| lab.host()).collect();
        let (lab, most) = (lab, &AtomicUsize::new(0));
        let work = hosts.iter().map(|host| async move {
            for turn in 0..4 {
                let guard = acquire(host).await;
                if turn > 0 {
                    most.fetch_max(slots_taken(lab).await, Ordering::Relaxed);
                }
                lab.wait(10 * MS).await;
                guard.release().await.unwrap();
            }
        });
        let burst = async {
            lab.wait(5 * MS).await;
            slots_taken(lab).await
        };
        let (burst, _) = tokio::join!(burst, join_all(work));
        assert_eq!((burst, most.load(Ordering::Relaxed)), (24, 9));
    });
}

#[test]
fn six_hundred_who_ask_one_client_at_once_wait_in_the_queue_together_and_are_granted_in_this_order()
{
    in_lab(async |lab, []| {
        let (host, visits) = (lab.host(), Visits::default());
        let guard = acquire(&host).await;
        let lock = host.lock();
        let waiters = (0..600).map(|n| visits.visit(lab, n, &lock));
        let granted = visits.run(lab, waiters, (guard, SECOND)).await;
        assert_eq!(granted.len(), 600);
        assert!(granted.is_sorted(), "{granted:?}");
        // One place for the first call, and one for all others, plus renewals in the six seconds of their turns.
        let requests = host.network.counts().requests();
        assert!(requests < 20, "{:?}", host.network.counts());
    });
}

#[test]
fn two_hundred_who_ask_a_client_that_is_cut_off_learn_of_it_hardly_later_than_one() {
    in_lab(async |lab, []| {
        let lone = refused(lab, 1).await;
        let many = refused(lab, 200).await;
        assert!(
            many < 2 * lone + REQUEST_TIMEOUT,
            "{many:?}, alone {lone:?}"
        );
    });
}

/// How long it takes until `callers` callers are told that DynamoDB does not answer.
async fn refused(lab: &Lab, callers: usize) -> Duration {
    let host = lab.host_with(|builder| {
        let builder = builder.request_timeout(REQUEST_TIMEOUT);
        builder.testing(|it| it.outage_timeout = Some(4 * REQUEST_TIMEOUT))
    });
    host.network.set_faults(silent());
    let (lock, asked) = (host.lock(), Instant::now());
    let refused = (0..callers).map(|_| lock.acquire(RecordWait::Infinite));
    for refused in join_all(refused).await {
        assert!(matches!(refused, Err(Error::Unavailable { .. })));
    }
    asked.elapsed()
}

#[test]
fn who_comes_to_those_who_have_just_given_up_waits_on_all_the_same() {
    in_lab(async |lab, [host]| {
        let gate = host.held("enter", 1, When::Before);
        let lock = host.lock();
        let turn = async |after: Duration| {
            lab.wait(after).await;
            let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
            guard.release().await.unwrap();
        };
        // The first call is in the doorway. A call that waited behind it has already given up when another comes.
        let brief = async {
            let refused = lock.acquire(RecordWait::Timeout(100 * MS)).await;
            // No answer has shown yet that another client holds the lock.
            assert!(
                matches!(refused, Err(Error::Unavailable { .. })),
                "{refused:?}"
            );
        };
        let open = async {
            lab.wait(200 * MS).await;
            gate.open();
        };
        tokio::join!(turn(Duration::ZERO), brief, turn(150 * MS), open);
    });
}
