//! What keeps a waiting call besides the callers before it: told in time, waited out, or given up with the true reason.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{Error, FairLock, LockClient, LockGuard, Outage, OutageKind, RecordWait};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use fairlock_testkit::assert_is;
use fairlock_testkit::effort::{sampled, sized};
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, cut_all, holder_told, in_lab, waits};
use fairlock_testkit::{real_time, virtual_time};

/// What a waiting call is told: its position, and the outage.
pub(super) type Told = Arc<Mutex<Vec<(Option<usize>, Option<Outage>)>>>;

/// A lock whose calls report, and their reports.
pub(super) fn told_by(host: &Host) -> (FairLock, Told) {
    let told = Told::default();
    let tell = Arc::clone(&told);
    let lock = host.lock();
    let lock = lock.observed(move |waiting| {
        let news = (waiting.position, waiting.outage.clone());
        tell.lock().unwrap().push(news);
    });
    (lock, told)
}

pub(super) fn asks(lock: FairLock, wait: RecordWait) -> JoinHandle<Result<LockGuard, Error>> {
    tokio::spawn(async move { lock.acquire(wait).await })
}

/// The reports, without words and times.
fn brief(told: &Told) -> Vec<(Option<usize>, bool)> {
    let told = told.lock().unwrap();
    let brief = told
        .iter()
        .map(|(place, outage)| (*place, outage.is_some()));
    brief.collect()
}

/// Ways in which DynamoDB does not answer, or refuses before it looks at any item.
fn outages() -> [(Fault, &'static str); 8] {
    [
        (Fault::Lose(When::Before), "connection reset"),
        (Fault::Close(When::Before), "connection closed"),
        (Fault::Close(When::After), "connection closed"),
        (Fault::Hang(When::Before), "timeout"),
        (Fault::ServerError(When::Before), "InternalServerError"),
        (
            Fault::Refuse("ExpiredTokenException"),
            "no valid credentials",
        ),
        (
            Fault::Refuse("UnrecognizedClientException"),
            "no valid credentials",
        ),
        (
            Fault::Refuse("InvalidSignatureException"),
            "this host's clock and the secret key",
        ),
    ]
}

#[test]
fn an_outage_before_a_place_is_had_is_told_at_once_and_waited_out() {
    for (fault, words) in outages() {
        in_lab(async |lab, [host]| {
            host.script(move |_| Some(fault.clone()));
            let (lock, told) = told_by(&host);
            let asked = asks(lock, RecordWait::Infinite);
            lab.wait(3 * SECOND).await;
            assert_eq!(brief(&told), [(None, true)], "{words}");
            let cause = told.lock().unwrap()[0].1.clone().unwrap().cause;
            assert!(cause.contains(words), "{cause}");
            lab.wait(sized(150, 3_600) * SECOND).await;
            assert!(!asked.is_finished());
            host.script(|_| None);
            asked.await.unwrap().unwrap().release().await.unwrap();
            assert_eq!(brief(&told)[..2], [(None, true), (None, false)], "{words}");
            lab.settle().await;
            assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        });
    }
}

#[test]
fn an_outage_in_queue_is_told_at_once_and_costs_nobody_its_place() {
    for (fault, words) in outages() {
        in_lab(async |lab, []| {
            let single = || lab.host_with(|builder| builder.successor_slots(1));
            let (holder, successor, row) = (single(), single(), single());
            let guard = acquire(&holder).await;
            let (mut tickets, mut told, mut asked) = (vec![guard.ticket()], vec![], vec![]);
            for host in [&successor, &row] {
                let (lock, tells) = told_by(host);
                asked.push(asks(lock, RecordWait::Infinite));
                told.push(tells);
                lab.settle().await;
            }
            for host in [&successor, &row] {
                let fault = fault.clone();
                host.script(move |_| Some(fault.clone()));
            }
            // Several leases.
            lab.wait(sized(120, 600) * SECOND).await;
            // The order matters: otherwise the second would find the first dead, which has not been renewed for longer than its lease.
            for host in [&successor, &row] {
                host.script(|_| None);
                lab.wait(30 * SECOND).await;
            }
            assert_eq!(
                brief(&told[0]),
                [(Some(1), false), (Some(1), true), (Some(1), false)]
            );
            assert_eq!(
                brief(&told[1]),
                [(Some(2), false), (Some(2), true), (Some(2), false)]
            );
            guard.release().await.unwrap();
            for asked in asked {
                let guard = asked.await.unwrap().unwrap();
                tickets.push(guard.ticket());
                guard.release().await.unwrap();
            }
            let first = tickets[0].get();
            let tickets: Vec<_> = tickets.iter().map(|ticket| ticket.get()).collect();
            assert_eq!(tickets, [first, first + 1, first + 2], "{words}");
        });
    }
}

#[test]
fn who_does_not_wait_is_told_what_the_outage_is_of_after_a_few_attempts() {
    for (fault, words) in outages() {
        in_lab(async |_, [host]| {
            host.script(move |_| Some(fault.clone()));
            let lock = host.lock();
            let started = Instant::now();
            let refused = lock.acquire(RecordWait::NoWait).await.unwrap_err();
            assert_is!(refused, Error::Unavailable { .. });
            assert!(refused.to_string().contains(words), "{refused}");
            assert!(started.elapsed() <= 10 * SECOND);
            assert_eq!(host.network.counts().of("UpdateItem"), 4);
        });
    }
}

#[test]
fn an_outage_time_out_ends_a_call_before_and_after_it_has_a_place() {
    in_lab(async |lab, []| {
        let host = || {
            lab.host_with(|builder| {
                builder
                    .successor_slots(1)
                    .testing(|it| it.outage_timeout = Some(30 * SECOND))
            })
        };
        let (holder, successor, row, late) = (lab.host(), host(), host(), host());
        let guard = acquire(&holder).await;
        let mut asked = Vec::new();
        for host in [&successor, &row] {
            asked.push(asks(told_by(host).0, RecordWait::Infinite));
            lab.settle().await;
        }
        cut_all([&successor, &row, &late]);
        asked.push(asks(told_by(&late).0, RecordWait::Infinite));
        lab.wait(28 * SECOND).await;
        assert!(asked.iter().all(|asked| !asked.is_finished()));
        // A poll, the outage time-out and a request time-out.
        lab.wait(15 * SECOND).await;
        for asked in asked {
            assert!(asked.is_finished());
            let refused = asked.await.unwrap().unwrap_err();
            assert_is!(refused, Error::Unavailable { .. });
        }
        for host in [&successor, &row, &late] {
            host.network.set_faults(Faults::default());
        }
        guard.release().await.unwrap();
        lab.wait(60 * SECOND).await;
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn an_outage_time_out_is_kept_within_one_request_time_out_though_nothing_is_answered() {
    for quarters in sampled(4..=32, 3) {
        virtual_time(async {
            let most = SECOND / 4 * quarters;
            let lab = Lab::new().await;
            let host = || {
                lab.host_with(|builder| {
                    builder
                        .successor_slots(1)
                        .testing(|it| it.outage_timeout = Some(most))
                })
            };
            let (successor, row, late) = (host(), host(), host());
            let guard = acquire(&lab.host()).await;
            let mut asked = vec![ends(&successor)];
            lab.settle().await;
            asked.push(ends(&row));
            lab.settle().await;
            let silences = [&successor, &row, &late].map(silence);
            asked.push(ends(&late));
            for (ended, silence) in asked.into_iter().zip(silences) {
                let (refused, at) = ended.await.unwrap();
                assert!(matches!(refused, Err(Error::Unavailable { .. })));
                let since = silence.get().unwrap();
                let late = at.duration_since(*since).checked_sub(most);
                let tick = SECOND / 100;
                assert!(late.unwrap() <= 2 * SECOND + tick, "{most:?}: {late:?}");
            }
            drop(guard);
        });
    }
}

/// When and how a call without a time limit has ended.
fn ends(host: &Host) -> JoinHandle<(Result<LockGuard, Error>, Instant)> {
    let asked = asks(told_by(host).0, RecordWait::Infinite);
    tokio::spawn(async move { (asked.await.unwrap(), Instant::now()) })
}

/// From now on nothing is answered. Returns when the first unanswered request was sent.
fn silence(host: &Host) -> Arc<OnceLock<Instant>> {
    let since = Arc::new(OnceLock::new());
    let first = Arc::clone(&since);
    host.script(move |_| {
        first.get_or_init(Instant::now);
        Some(Fault::Hang(When::Before))
    });
    since
}

/// What keeps a call though DynamoDB answers.
const ANSWERED: [(Fault, OutageKind, &str); 2] = [
    (Fault::Throttle, OutageKind::Throttled, "Throughput"),
    (Fault::Conflict, OutageKind::Conflict, "TransactionConflict"),
];

pub(super) fn kinds(told: &Told) -> Vec<Option<OutageKind>> {
    let told = told.lock().unwrap();
    let kinds = told.iter().map(|(_, outage)| Some(outage.as_ref()?.kind));
    kinds.collect()
}

#[test]
fn an_answer_that_keeps_a_call_is_told_once_after_some_seconds_and_ends_no_call() {
    for (fault, kind, words) in ANSWERED {
        in_lab(async |lab, []| {
            let host =
                lab.host_with(|builder| builder.testing(|it| it.outage_timeout = Some(SECOND)));
            host.script(move |_| Some(fault.clone()));
            let (lock, told) = told_by(&host);
            let asked = asks(lock, RecordWait::Infinite);
            lab.wait(4 * SECOND).await;
            assert_eq!(kinds(&told), []);
            lab.wait(2 * SECOND).await;
            assert_eq!(kinds(&told), [Some(kind)]);
            let cause = told.lock().unwrap()[0].1.clone().unwrap().cause;
            assert!(cause.contains(words), "{cause}");
            lab.wait(600 * SECOND).await;
            assert!(!asked.is_finished());
            host.script(|_| None);
            asked.await.unwrap().unwrap().release().await.unwrap();
            assert_eq!(kinds(&told)[..2], [Some(kind), None]);
        });
    }
}

#[test]
fn an_answer_that_keeps_a_waiter_in_the_queue_is_told_once_though_the_other_half_is_served() {
    for only in ["GetItem", "Query", "UpdateItem"] {
        for slots in [1, 8] {
            in_lab(async |lab, []| {
                let host = || lab.host_with(|builder| builder.successor_slots(slots));
                let (holder, before, waiter) = (host(), host(), host());
                let guard = acquire(&holder).await;
                let next = waits(lab, &before).await;
                let (lock, told) = told_by(&waiter);
                let asked = asks(lock, RecordWait::Infinite);
                lab.settle().await;
                waiter.script(move |request| {
                    (request.operation() == only).then_some(Fault::Throttle)
                });
                lab.wait(18 * SECOND).await;
                waiter.script(|_| None);
                lab.wait(30 * SECOND).await;
                let told = kinds(&told);
                let began = told.iter().filter(|it| it.is_some()).count();
                assert!(began <= 1, "{only} {slots}: {told:?}");
                assert!(told.last().unwrap().is_none(), "{only} {slots}: {told:?}");
                guard.release().await.unwrap();
                next.await.unwrap().release().await.unwrap();
                asked.await.unwrap().unwrap().release().await.unwrap();
            });
        }
    }
}

#[test]
fn what_keeps_a_call_is_told_when_it_changes() {
    in_lab(async |lab, [host]| {
        let (lock, told) = told_by(&host);
        host.script(|_| Some(Fault::Throttle));
        let asked = asks(lock, RecordWait::Infinite);
        lab.wait(10 * SECOND).await;
        let lost = Fault::Lose(When::Before);
        host.script(move |_| Some(lost.clone()));
        lab.wait(30 * SECOND).await;
        let expired = Fault::Refuse("ExpiredTokenException");
        host.script(move |_| Some(expired.clone()));
        lab.wait(30 * SECOND).await;
        let unsigned = Fault::Refuse("InvalidSignatureException");
        host.script(move |_| Some(unsigned.clone()));
        lab.wait(30 * SECOND).await;
        host.script(|_| None);
        asked.await.unwrap().unwrap().release().await.unwrap();
        let told = kinds(&told);
        assert_eq!(
            told[..5],
            [
                Some(OutageKind::Throttled),
                Some(OutageKind::Unreachable),
                Some(OutageKind::NoCredentials),
                Some(OutageKind::Signature),
                None
            ]
        );
    });
}

#[test]
fn who_waits_at_the_door_for_an_unanswered_request_of_another_call_is_told_that_in_its_own_time() {
    in_lab(async |lab, [one, two]| {
        let guard = acquire(&one).await;
        two.script(|_| Some(Fault::Hang(When::Before)));
        let first = asks(told_by(&two).0, RecordWait::Infinite);
        lab.wait(Duration::from_millis(1)).await;
        let spans = [1_500, 5_000, 20_000].map(Duration::from_millis);
        let started = Instant::now();
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        for span in spans {
            let (lock, tells) = told_by(&two);
            asked.push(asks(lock, RecordWait::Timeout(span)));
            told.push(tells);
        }
        for (asked, span) in asked.into_iter().zip(spans) {
            let refused = asked.await.unwrap().unwrap_err();
            let took = started.elapsed();
            assert_is!(refused, Error::Unavailable { .. });
            assert!(
                took >= span && took <= span + 2 * SECOND + SECOND / 10,
                "{took:?}"
            );
        }
        // It is told before the time-out of the first call's request that there is no answer yet.
        assert_eq!(brief(&told[1]), [(None, true)]);
        assert_eq!(brief(&told[2]), [(None, true)]);
        two.script(|_| None);
        guard.release().await.unwrap();
        first.await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn who_waits_at_the_door_while_the_lock_is_held_is_told_its_holder() {
    in_lab(async |lab, [one, two]| {
        let guard = acquire(&one).await;
        let waiting = waits(lab, &two).await;
        let lock = two.lock();
        let span = RecordWait::Timeout(SECOND);
        let (first, second) = tokio::join!(lock.acquire(span), lock.acquire(span));
        for refused in [first, second] {
            let holder = holder_told(refused);
            assert_eq!(holder.ticket, guard.ticket());
        }
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_client_whose_runtime_does_not_run_says_so_in_the_time_of_each_call() {
    let mut own = tokio::runtime::Builder::new_current_thread();
    let own = own.enable_all().build().unwrap();
    let locks = own.block_on(async {
        let lab = Lab::new().await;
        let builder = LockClient::builder(lab.engine.client()).table("locks");
        // Short, because this test takes real time.
        builder.request_timeout(SECOND / 20).build().unwrap()
    });
    real_time(async {
        let lock = locks.fair_lock("a").unwrap();
        let span = RecordWait::Timeout(SECOND / 20);
        // A call that does not wait reports it within five request time-outs, and keeps trying until then.
        for (wait, least) in [(RecordWait::NoWait, 245), (span, 100)] {
            let started = Instant::now();
            // The second waits behind the first in the doorway.
            let (one, other) = tokio::join!(lock.acquire(wait), lock.acquire(wait));
            assert!(started.elapsed() >= Duration::from_millis(least));
            for refused in [one.unwrap_err(), other.unwrap_err()] {
                assert_is!(refused, Error::Unavailable { .. });
                let told = refused.to_string();
                assert!(told.contains("does not run"), "{told}");
            }
        }
    });
    // When its runtime is driven again, its work goes on, if there is any.
    own.block_on(async {
        let lock = locks.fair_lock("a").unwrap();
        let guard = lock
            .acquire(RecordWait::Timeout(20 * SECOND))
            .await
            .unwrap();
        guard.release().await.unwrap();
    });
}
