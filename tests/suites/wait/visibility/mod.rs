//! Waiters and observers see the whole queue as it changes. They also see how long a turn takes, as soon as one turn has been observed to
//! end.

mod denials;
mod outages;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::embedded::Faults;
use fairlock::{Error, HeldLocks, LockGuard, LockState, RecordWait, Ticket};
use fairlock_testkit::assert_is;
use fairlock_testkit::effort::sized;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, MS, SECOND, acquire, cut_off, in_lab, waits};
use futures::{Stream, StreamExt};
use tokio::task::JoinHandle;

fn is_about(span: Duration, expected: Duration) -> bool {
    span.abs_diff(expected) <= expected / 10
}

/// The positions that a waiting call is told, each with its expected wait.
type Told = Arc<Mutex<Vec<(usize, Option<Duration>)>>>;

/// Calls of one host. The first goes ahead of the others.
async fn observed(lab: &Lab, host: &Host, calls: usize) -> (Vec<JoinHandle<LockGuard>>, Told) {
    let told = Told::default();
    let call = |_| {
        let tell = Arc::clone(&told);
        let lock = host.lock().observed(move |waiting| {
            let news = (waiting.position.unwrap(), waiting.expected_wait);
            tell.lock().unwrap().push(news);
        });
        tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await.unwrap() })
    };
    let calls = (0..calls).map(call).collect();
    lab.settle().await;
    (calls, told)
}

/// Each caller holds the lock for ten seconds, one after the other.
async fn turns(lab: &Lab, holders: impl IntoIterator<Item = JoinHandle<LockGuard>>) {
    for holder in holders {
        let guard = holder.await.unwrap();
        lab.wait(10 * SECOND).await;
        guard.release().await.unwrap();
    }
}

#[test]
fn the_expected_wait_is_unknown_until_a_turn_was_seen_to_end_and_then_a_mean_turn_for_each_before()
{
    in_lab(async |lab, hosts: [Host; 5]| {
        let first = acquire(&hosts[0]).await;
        let mut queue = vec![waits(lab, &hosts[1]).await, waits(lab, &hosts[2]).await];
        let (calls, told) = observed(lab, &hosts[3], 1).await;
        queue.extend(calls);
        lab.wait(9 * SECOND).await;
        first.release().await.unwrap();
        turns(lab, queue).await;
        let told = told.lock().unwrap().clone();
        let [(3, None), (2, Some(two)), (1, Some(one)), (0, Some(none))] = told[..] else {
            panic!("{told:?}")
        };
        assert!(is_about(two, 20 * SECOND), "{told:?}");
        assert!(is_about(one, 10 * SECOND), "{told:?}");
        assert_eq!(none, Duration::ZERO);
    });
}

#[test]
fn a_client_remembers_how_long_turns_were_and_one_that_never_waited_knows_nothing() {
    in_lab(async |lab, hosts: [Host; 3]| {
        let first = acquire(&hosts[0]).await;
        let successor = waits(lab, &hosts[1]).await;
        lab.wait(9 * SECOND).await;
        first.release().await.unwrap();
        turns(lab, [successor]).await;
        lab.wait(3_600 * SECOND).await;

        let holder = acquire(&hosts[0]).await;
        let (calls, told) = observed(lab, &hosts[1], 1).await;
        let (place, wait) = told.lock().unwrap()[0];
        assert!(place == 1 && is_about(wait.unwrap(), 10 * SECOND));
        let known = hosts[1].inspect().await;
        assert!(is_about(known.mean_turn.unwrap(), 10 * SECOND));
        assert!(is_about(known.expected_wait().unwrap(), 20 * SECOND));
        let unknown = hosts[2].inspect().await;
        assert_eq!((unknown.mean_turn, unknown.expected_wait()), (None, None));
        drop((holder, calls));
    });
}

#[test]
fn the_place_of_every_ticket_is_shown_also_of_those_who_wait_together() {
    in_lab(async |lab, []| {
        let [a, b, c, onlooker] =
            [(); 4].map(|()| lab.host_with(|builder| builder.successor_slots(1)));
        let guard = acquire(&a).await;
        // The first goes ahead, and the others share a place.
        let (together, _) = observed(lab, &b, 4).await;
        let last = waits(lab, &c).await;
        let state = onlooker.inspect().await;
        let ticket = |number: u64| Ticket::new(guard.ticket().get() + number);
        let places: Vec<_> = (0..6)
            .map(|number| state.position_of(ticket(number)))
            .collect();
        let expected = [0, 1, 2, 3, 4, 5].map(Some);
        assert_eq!(places, expected);
        assert_eq!(state.position_of(ticket(6)), None);
        let mut known = state;
        known.mean_turn = Some(SECOND);
        assert_eq!(known.expected_wait(), Some(6 * SECOND));
        drop((guard, together, last));
    });
}

/// The holder, and the number of waiters.
fn brief(state: Result<LockState, Error>) -> (Option<String>, u64) {
    let state = state.unwrap();
    (state.holder.map(|holder| holder.owner), state.waiting)
}

fn held(by: &str, waiting: u64) -> (Option<String>, u64) {
    (Some(by.to_owned()), waiting)
}

/// What the stream yields within a time.
async fn within<T>(lab: &Lab, span: Duration, stream: impl Stream<Item = T>) -> Vec<T> {
    let mut stream = pin!(stream);
    let (mut over, mut found) = (pin!(lab.wait(span)), Vec::new());
    loop {
        tokio::select! {
            biased;
            next = stream.next() => match next {
                Some(next) => found.push(next),
                None => return found,
            },
            () = &mut over => return found,
        }
    }
}

#[test]
fn a_watch_tells_what_changes_and_renewals_are_no_news() {
    in_lab(async |lab, [a, b, onlooker]| {
        // All have seen a `Date`.
        for host in [&a, &b] {
            host.inspect().await;
        }
        let lock = onlooker.lock();
        let mut states = pin!(lock.watch(SECOND));
        assert_eq!(brief(states.next().await.unwrap()), (None, 0));
        let guard = acquire(&a).await;
        assert_eq!(brief(states.next().await.unwrap()), held("host-0", 0));
        let successor = waits(lab, &b).await;
        assert_eq!(brief(states.next().await.unwrap()), held("host-0", 1));
        assert_eq!(within(lab, 300 * SECOND, states.as_mut()).await.len(), 0);
        guard.release().await.unwrap();
        assert_eq!(brief(states.next().await.unwrap()), held("host-1", 0));
        drop(successor.await.unwrap());
        assert_eq!(brief(states.next().await.unwrap()), (None, 0));
    });
}

#[test]
fn a_watch_tells_each_change_of_data_with_the_hold_that_made_it() {
    in_lab(async |lab, [leader, follower]| {
        let lock = follower.lock();
        let mut states = pin!(lock.watch(SECOND));
        let guard = acquire(&leader).await;
        assert_eq!(states.next().await.unwrap().unwrap().data, None);
        for address in ["10.0.0.1:7001", "10.0.0.2:7001", ""] {
            guard.set_data(address.as_bytes()).await.unwrap();
            let data = states.next().await.unwrap().unwrap().data.unwrap();
            assert_eq!(
                (&*data.bytes, data.ticket),
                (address.as_bytes(), guard.ticket())
            );
            assert_eq!(within(lab, 60 * SECOND, states.as_mut()).await.len(), 0);
        }
        // The same bytes by the next leader are news, for the ticket is another.
        let ticket = guard.ticket();
        guard.release().await.unwrap();
        let guard = acquire(&leader).await;
        lab.wait(5 * SECOND).await;
        guard.set_data(b"").await.unwrap();
        lab.wait(5 * SECOND).await;
        guard.clear_data().await.unwrap();
        lab.wait(5 * SECOND).await;
        let told = within(lab, 5 * SECOND, states.as_mut()).await;
        assert!(told.last().unwrap().as_ref().unwrap().data.is_none());
        assert!(guard.ticket() > ticket);
    });
}

#[test]
fn those_who_share_have_no_place_and_their_renewals_are_no_news() {
    in_lab(async |lab, hosts: [Host; 4]| {
        for host in &hosts {
            host.inspect().await;
        }
        let share = |host: &Host| host.lock();
        let mut guards = Vec::new();
        for host in &hosts[..3] {
            let lock = share(host);
            guards.push(lock.acquire_shared(RecordWait::NoWait).await.unwrap());
        }
        let state = hosts[3].inspect().await;
        for guard in &guards {
            assert_eq!(state.position_of(guard.ticket()), Some(0));
        }
        let lock = share(&hosts[3]);
        let mut states = pin!(lock.watch(SECOND));
        let first = states.next().await.unwrap().unwrap();
        assert_eq!(first.sharers.len(), 2);
        assert_eq!(within(lab, 300 * SECOND, states.as_mut()).await.len(), 0);
        // A waiter that needs all permits waits for one turn only.
        let (writer, told) = observed(lab, &hosts[3], 1).await;
        assert_eq!(told.lock().unwrap()[0].0, 1);
        let state = hosts[0].inspect().await;
        assert_eq!(state.position_of(state.queue[0].ticket), Some(1));
        drop(guards);
        turns(lab, writer).await;
    });
}

#[test]
fn a_watch_reads_at_most_so_often_and_only_while_it_is_polled() {
    in_lab(async |lab, [a, onlooker]| {
        let lock = onlooker.lock();
        let mut states = pin!(lock.watch(5 * SECOND));
        within(lab, 101 * SECOND, states.as_mut()).await;
        assert_eq!(onlooker.network.counts().requests(), 21);
        let guard = acquire(&a).await;
        lab.wait(100 * SECOND).await;
        assert_eq!(onlooker.network.counts().requests(), 21);
        assert_eq!(brief(states.next().await.unwrap()), held("host-0", 0));
        assert_eq!(onlooker.network.counts().requests(), 22);
        drop(guard);
    });
}

#[test]
fn whoever_stops_waiting_for_the_next_state_gets_it_by_waiting_again() {
    in_lab(async |lab, [a, onlooker]| {
        let slow = Faults {
            round_trip: fairlock::embedded::Latency::Constant(100 * MS),
            ..Faults::default()
        };
        onlooker.network.set_faults(slow);
        let lock = onlooker.lock();
        let mut states = pin!(lock.watch(SECOND));
        let mut found = Vec::new();
        for step in 0..300 {
            if step == 100 {
                std::mem::forget(acquire(&a).await);
            }
            // Shorter than an answer takes.
            found.extend(within(lab, 10 * MS, states.as_mut()).await);
        }
        let found: Vec<_> = found.into_iter().map(brief).collect();
        assert_eq!(found[..2], [(None, 0), held("host-0", 0)]);
        assert!(onlooker.network.counts().requests() <= 4);
    });
}

#[test]
fn a_watch_ends_with_its_client() {
    in_lab(async |lab, [onlooker]| {
        let lock = onlooker.lock();
        let mut states = pin!(lock.watch(3_600 * SECOND));
        assert!(states.next().await.unwrap().is_ok());
        let shutdown = async {
            lab.wait(SECOND).await;
            onlooker.locks.shutdown(HeldLocks::Keep, SECOND).await
        };
        let (ended, _) = tokio::join!(states.next(), shutdown);
        assert!(ended.is_none());
        assert_eq!(lock.watch(SECOND).count().await, 0);
    });
}

#[test]
fn a_watch_tells_that_it_cannot_read_and_goes_on_when_it_can() {
    in_lab(async |_, [a, onlooker]| {
        let guard = acquire(&a).await;
        let lock = onlooker.lock();
        let mut states = pin!(lock.watch(SECOND));
        assert_eq!(brief(states.next().await.unwrap()), held("host-0", 0));
        onlooker.network.set_faults(cut_off());
        let unread = states.next().await.unwrap();
        assert!(matches!(unread, Err(Error::Unavailable { .. })));
        onlooker.network.set_faults(Faults::default());
        assert_eq!(brief(states.next().await.unwrap()), held("host-0", 0));
        drop(guard);
    });
}

#[test]
fn a_watch_that_cannot_be_ends_with_one_error() {
    in_lab(async |lab, [host]| {
        let told: Vec<_> = host.lock().watch(Duration::ZERO).collect().await;
        let too_short = |error: &Error| is_invalid(error, "must be at least");
        assert_is!(told[..], [Err(error)] if too_short(error));
        let lost = lab.host_with(|builder| builder.table("lost"));
        let told: Vec<_> = lost.lock().watch(SECOND).collect().await;
        assert_is!(told[..], [Err(Error::Refused { .. })]);
    });
}

#[test]
fn that_somebody_looks_dead_is_news() {
    in_lab(async |_, [a, onlooker]| {
        a.inspect().await;
        let guard = acquire(&a).await;
        let lock = onlooker.lock();
        let mut states = pin!(lock.watch(SECOND));
        states.next().await.unwrap().unwrap();
        a.network.set_faults(cut_off());
        let dead = states.next().await.unwrap().unwrap();
        assert_eq!(dead.holder.unwrap().lease_left, Some(Duration::ZERO));
        drop(guard);
    });
}

#[test]
fn the_time_between_two_who_did_not_stand_in_one_queue_is_no_turn() {
    in_lab(async |lab, [a, onlooker]| {
        let lock = onlooker.lock();
        let work = async {
            for _ in 0..10 {
                let guard = acquire(&a).await;
                lab.wait(50 * SECOND).await;
                guard.release().await.unwrap();
                lab.wait(10 * SECOND).await;
            }
        };
        // The lock is free between any two polls, which do not show it.
        let states = async {
            lab.wait(SECOND).await;
            within(lab, 550 * SECOND, lock.watch(60 * SECOND)).await
        };
        let (states, ()) = tokio::join!(states, work);
        assert_eq!(states.len(), 10);
        for state in states {
            assert_eq!(state.unwrap().mean_turn, None);
        }
    });
}

#[test]
fn a_watch_learns_how_long_turns_take_and_time_without_anybody_is_no_turn() {
    in_lab(async |lab, [a, b, c, onlooker]| {
        let lock = onlooker.lock();
        let states = lock.watch(SECOND / 2);
        // Many times as long as a turn.
        let quiet = sized(300, 1_000) * SECOND;
        let work = async {
            for _ in 0..3 {
                let guard = acquire(&a).await;
                let queue = vec![waits(lab, &b).await, waits(lab, &c).await];
                lab.wait(8 * SECOND).await;
                guard.release().await.unwrap();
                turns(lab, queue).await;
                lab.wait(quiet).await;
            }
        };
        let all = 3 * quiet + 90 * SECOND;
        let (states, ()) = tokio::join!(within(lab, all, states), work);
        let means: Vec<_> = states
            .into_iter()
            .map(|state| state.unwrap().mean_turn)
            .collect();
        let known = means.iter().position(Option::is_some).unwrap();
        assert!(means[..known].len() >= 3, "{means:?}");
        let is_right = |mean: &Option<Duration>| is_about(mean.unwrap(), 10 * SECOND);
        assert!(means[known..].iter().all(is_right), "{means:?}");
    });
}
