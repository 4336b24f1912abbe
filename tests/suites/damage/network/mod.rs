//! The network in front of an engine does what real networks do, and nothing happens by accident.

mod told;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::transact_write_items::builders::TransactWriteItemsFluentBuilder;
use aws_sdk_dynamodb::types::{TransactWriteItem, Update};
use aws_smithy_async::time::TimeSource;
use fairlock::embedded::{Fault, Faults, Gate, Latency, Network, When};
use fairlock_testkit::lab::SECOND;
use futures::FutureExt;
use tokio::time::{Instant, sleep};

use fairlock_testkit::counter::*;
use fairlock_testkit::virtual_time;

const MINUTE: Duration = Duration::from_secs(60);

// ---------------------------------------------------------------------------------------------------------------
// Faults, each before and after the request is applied

/// How a request ends, as its sender sees it.
type Ending = fn(&Refused) -> bool;

fn is_internal(refused: &Refused) -> bool {
    let error = refused.as_service_error();
    status(refused) == 500 && error.is_some_and(|error| error.is_internal_server_error())
}

fn is_throttled(refused: &Refused) -> bool {
    let error = refused.as_service_error();
    let is_it = error.is_some_and(|error| error.is_provisioned_throughput_exceeded_exception());
    is_it && status(refused) == 400
}

fn is_in_conflict(refused: &Refused) -> bool {
    let error = refused.as_service_error();
    let is_it = error.is_some_and(|error| error.is_transaction_conflict_exception());
    is_it && status(refused) == 400
}

/// A fault, how a request that adds one ends by it, and how many were then added.
const ENDINGS: [(Fault, Ending, u64); 10] = [
    (Fault::Lose(When::Before), is_broken, 0),
    (Fault::Lose(When::After), is_broken, 1),
    (Fault::Close(When::Before), is_closed, 0),
    (Fault::Close(When::After), is_closed, 1),
    (Fault::ServerError(When::Before), is_internal, 0),
    (Fault::ServerError(When::After), is_internal, 1),
    (Fault::Throttle, is_throttled, 0),
    (Fault::Conflict, is_in_conflict, 0),
    (Fault::Hang(When::Before), is_timed_out, 0),
    (Fault::Hang(When::After), is_timed_out, 1),
];

#[test]
fn each_fault_ends_a_request_in_its_own_way_before_or_after_it_is_applied() {
    virtual_time(async {
        for (fault, is_ended, applied) in ENDINGS {
            let engine = engine().await;
            let client = with_short_timeout(&first(&engine, fault.clone()));
            let sent = Instant::now();
            let refused = add_one(&client).await.unwrap_err();
            assert!(is_ended(&refused), "{fault:?}: {refused:?}");
            let took = if matches!(fault, Fault::Hang(_)) {
                2
            } else {
                0
            };
            assert_eq!(sent.elapsed().as_secs(), took, "{fault:?}");
            assert_eq!(counted(&engine).await, applied, "{fault:?}");
        }
    });
}

#[test]
fn the_sdk_repeats_a_lost_answers_write_and_applies_it_twice() {
    virtual_time(async {
        let engine = engine().await;
        let client = first(&engine, Fault::Lose(When::After)).client();
        add_one(&client).await.unwrap();
        assert_eq!(counted(&engine).await, 2);
    });
}

/// A transaction on two items.
fn a_transaction(client: &Client) -> TransactWriteItemsFluentBuilder {
    let update = |name: &str| {
        let update = Update::builder()
            .table_name("things")
            .update_expression("ADD n :one");
        let update = update.key("pk", text(name)).key("sk", text("-"));
        let update = update.expression_attribute_values(":one", number(1));
        TransactWriteItem::builder()
            .update(update.build().unwrap())
            .build()
    };
    let request = client.transact_write_items();
    request
        .transact_items(update("a"))
        .transact_items(update("b"))
}

#[test]
fn a_transaction_in_conflict_is_cancelled_as_a_whole_and_says_which_item_it_was_for() {
    virtual_time(async {
        let engine = engine().await;
        let client = once(&first(&engine, Fault::Conflict));
        let refused = a_transaction(&client).send().await.unwrap_err();
        let status = refused.raw_response().unwrap().status().as_u16();
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            refused.as_service_error()
        else {
            panic!("{refused:?}")
        };
        let reasons = cancelled.cancellation_reasons().iter();
        let reasons: Vec<_> = reasons
            .map(|reason| (reason.code(), reason.message(), reason.item()))
            .collect();
        let ongoing = "Transaction is ongoing for the item";
        assert_eq!(
            reasons,
            [
                (Some("None"), None, None),
                (Some("TransactionConflict"), Some(ongoing), None)
            ]
        );
        let told = cancelled.message().unwrap_or_default();
        assert!(told.ends_with("[None, TransactionConflict]"), "{told}");
        assert_eq!((status, names(&engine.client()).await.len()), (400, 0));
        a_transaction(&client).send().await.unwrap();
    });
}

/// Tokio's clock, for times that the SDK measures rather than waits for.
#[derive(Debug)]
struct TokioTime(Instant);

impl TimeSource for TokioTime {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.0.elapsed()
    }
}

#[test]
fn a_request_that_hangs_is_waited_for_by_the_sdk_without_end() {
    virtual_time(async {
        let engine = engine().await;
        let config = once(&first(&engine, Fault::Hang(When::Before)));
        let config = config.config().to_builder();
        let config = config.time_source(TokioTime(Instant::now()));
        let client = Client::from_conf(config.build());
        tokio::select! {
            biased;
            ended = add_one(&client) => panic!("no time-out was set: {ended:?}"),
            () = sleep(60 * MINUTE) => {}
        }
    });
}

/// When a request that adds one ends, in seconds, and by what if it is refused.
type End = (u64, Option<Ending>);
/// How many were added, at some seconds.
type Counts = [(u64, u64); 2];

#[test]
fn requests_and_answers_are_late_or_come_twice() {
    let (again, late) = (|after| Fault::Duplicate { after }, Fault::Delay);
    let (before, after) = (When::Before, When::After);
    let cells: [(Fault, End, Counts); 5] = [
        (late(before, MINUTE), (60, None), [(59, 0), (61, 1)]),
        (late(after, MINUTE), (60, None), [(1, 1), (61, 1)]),
        (again(MINUTE), (0, None), [(59, 1), (61, 2)]),
        (
            Fault::Lose(before).and(again(MINUTE)),
            (0, Some(is_broken)),
            [(59, 0), (61, 1)],
        ),
        (
            late(before, 3 * SECOND).and(Fault::Lose(after)),
            (3, Some(is_broken)),
            [(2, 0), (4, 1)],
        ),
    ];
    for (fault, (ends, is_refused), counts) in cells {
        virtual_time(async {
            let engine = engine().await;
            let (client, sent) = (once(&first(&engine, fault.clone())), Instant::now());
            let adds = async {
                let added = add_one(&client).await;
                assert_eq!(sent.elapsed().as_secs(), ends, "{fault:?}");
                let is_so = is_refused.map_or(added.is_ok(), |is| is(&added.unwrap_err()));
                assert!(is_so, "{fault:?}");
            };
            let looks = async {
                for (at, count) in counts {
                    sleep(Duration::from_secs(at) - sent.elapsed()).await;
                    assert_eq!(counted(&engine).await, count, "{fault:?} at {at}");
                }
            };
            tokio::join!(adds, looks);
        });
    }
}

#[test]
fn a_request_is_held_before_the_engine_or_behind_it_until_the_gate_opens() {
    virtual_time(async {
        for (when, applied) in [(When::Before, 0), (When::After, 1)] {
            let (engine, gate) = (engine().await, Gate::closed());
            let client = once(&first(&engine, Fault::Hold(when, gate.clone())));
            let (added, ()) = tokio::join!(add_one(&client), async {
                gate.reached(1).await;
                assert_eq!(counted(&engine).await, applied);
                gate.open();
            });
            added.unwrap();
            assert_eq!(counted(&engine).await, 1);
        }
    });
}

#[test]
fn a_request_whose_future_is_dropped_on_its_way_is_applied_all_the_same() {
    virtual_time(async {
        let engine = engine().await;
        let client = once(&first(&engine, Fault::Delay(When::Before, 5 * SECOND)));
        tokio::select! {
            biased;
            _ = add_one(&client) => unreachable!("it takes five seconds"),
            () = sleep(SECOND) => {}
        }
        sleep(3 * SECOND).await;
        assert_eq!(counted(&engine).await, 0);
        sleep(2 * SECOND).await;
        assert_eq!(counted(&engine).await, 1);
    });
}

#[test]
fn a_request_whose_future_is_dropped_at_once_is_applied_all_the_same() {
    virtual_time(async {
        let engine = engine().await;
        let unanswered = add_one(&once(&Network::to(&engine))).now_or_never();
        assert!(unanswered.is_none(), "no answer comes within one poll");
        assert_eq!(counted(&engine).await, 1);
    });
}

// ---------------------------------------------------------------------------------------------------------------
// Chance

fn storm() -> Faults {
    Faults {
        round_trip: Latency::HeavyTailed {
            median: Duration::from_millis(5),
            p99: Duration::from_millis(100),
        },
        lost_requests: 0.1,
        lost_answers: 0.1,
        closes_before: 0.05,
        closes_after: 0.05,
        errors_before: 0.05,
        errors_after: 0.05,
        hangs_before: 0.02,
        hangs_after: 0.02,
        throttles: 0.1,
        conflicts: 0.1,
        duplicates: 0.1,
        duplicate_within: MINUTE,
    }
}

/// How and when each of 100 requests ended, and how many were added in total.
async fn weathered(seed: u64) -> (Vec<String>, u64) {
    let engine = engine().await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let (queue, started) = (Arc::clone(&log), Instant::now());
    let network = Network::to(&engine).seeded(seed).faults(storm());
    let network = network.observe(move |exchange| {
        let ended = format!("{:?} {:?}", started.elapsed(), exchange.outcome());
        queue.lock().unwrap().push(ended);
    });
    let client = with_short_timeout(&network);
    for _ in 0..100 {
        let _any = add_one(&client).await;
    }
    sleep(2 * MINUTE).await;
    let log = log.lock().unwrap().clone();
    (log, counted(&engine).await)
}

#[test]
fn the_same_seed_brings_the_same_fates() {
    let run = |seed| virtual_time(weathered(seed));
    let (one, again, other) = (run(1), run(1), run(2));
    assert_eq!(one, again);
    assert_ne!(one.0, other.0);
    assert_eq!(one.0.len(), 100, "each request ends once");
}

#[test]
fn a_storm_brings_every_kind_of_ending() {
    let (log, _) = virtual_time(weathered(3));
    let ended = |part: &str| log.iter().filter(|queue| queue.contains(part)).count();
    for part in [
        "status: 200",
        "Broken",
        "Abandoned",
        "Throughput",
        "Conflict",
        "Internal",
    ] {
        assert!(ended(part) > 0, "{part} in {log:#?}");
    }
}

#[test]
fn reads_are_never_in_conflict() {
    virtual_time(async {
        let faults = Faults {
            conflicts: 1.0,
            ..Faults::default()
        };
        let client = once(&Network::to(&engine().await).faults(faults));
        assert!(add_one(&client).await.is_err());
        client.scan().table_name("things").send().await.unwrap();
    });
}

#[test]
fn a_gate_that_was_opened_lets_through_who_stood_there_though_it_is_closed_again_at_once() {
    virtual_time(async {
        let (gate, engine) = (Gate::closed(), engine().await);
        let at_gate = Fault::Hold(When::Before, gate.clone());
        let network = Network::to(&engine).script(move |_| Some(at_gate.clone()));
        let (first, second) = (once(&network), once(&network));
        let opens = async {
            gate.reached(1).await;
            gate.open();
            gate.close();
        };
        let (passed, ()) = tokio::join!(add_one(&first), opens);
        passed.unwrap();
        // A request that comes now is held again.
        tokio::select! {
            biased;
            _ = add_one(&second) => panic!("passed a closed gate"),
            () = gate.reached(2) => {}
        }
        assert_eq!(counted(&engine).await, 1);
    });
}

#[test]
fn the_clock_of_a_front_end_may_be_made_up_by_what_the_network_counted() {
    virtual_time(async {
        let network = Network::to(&engine().await);
        let same = network.clone();
        let network = network.front_ends(move |_| i64::from(same.counts().requests() > 3));
        add_one(&once(&network)).await.unwrap();
    });
}

#[test]
fn no_fault_is_too_long_to_be_computed() {
    virtual_time(async {
        let engine = engine().await;
        let ages = Duration::MAX;
        for fault in [
            Fault::Skew(i64::MAX).and(Fault::Skew(1)),
            Fault::Skew(i64::MIN).and(Fault::Skew(-1)),
        ] {
            add_one(&once(&first(&engine, fault))).await.unwrap();
        }
        let delay = Fault::Delay(When::Before, ages).and(Fault::Delay(When::Before, ages));
        assert!(is_timed_out(
            &add_one(&with_short_timeout(&first(&engine, delay)))
                .await
                .unwrap_err()
        ));
        let network = Network::to(&engine).faults(Faults {
            round_trip: Latency::HeavyTailed {
                median: ages,
                p99: ages,
            },
            ..Faults::default()
        });
        assert!(is_timed_out(
            &add_one(&with_short_timeout(&network)).await.unwrap_err()
        ));
    });
}
