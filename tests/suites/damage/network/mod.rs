//! The network in front of an engine does what real networks do, and nothing happens by accident.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod told;

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::transact_write_items::builders::TransactWriteItemsFluentBuilder;
use aws_sdk_dynamodb::types::{TransactWriteItem, Update};
use aws_smithy_async::time::TimeSource;
use fairlock::embedded::{Fault, Faults, Gate, Latency, Network, When};
use futures::FutureExt;
use tokio::time::{Instant, sleep};

use fairlock_testkit::counter::*;
use fairlock_testkit::virtual_time;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

// ---------------------------------------------------------------------------------------------------------------
// Faults, each before and after the request is applied

/// A fault happens to one request that adds one. Returns why the request was refused, and how many were added.
async fn refused_by(fault: Fault) -> (Refused, u64) {
    let engine = engine().await;
    let client = once(&first(&engine, fault));
    let refused = add_one(&client).await.unwrap_err();
    (refused, counted(&engine).await)
}

#[test]
fn a_request_lost_on_its_way_has_not_been_applied_and_an_answer_lost_after_it_has() {
    virtual_time(async {
        for (when, applied) in [(When::Before, 0), (When::After, 1)] {
            let (refused, counted) = refused_by(Fault::Lose(when)).await;
            assert!(is_broken(&refused), "{when:?}: {refused:?}");
            assert_eq!(counted, applied, "{when:?}");
        }
    });
}

#[test]
fn a_connection_is_closed_before_the_request_applied_or_after() {
    virtual_time(async {
        for (when, applied) in [(When::Before, 0), (When::After, 1)] {
            let (refused, counted) = refused_by(Fault::Close(when)).await;
            assert!(is_closed(&refused), "{when:?}: {refused:?}");
            assert_eq!(counted, applied, "{when:?}");
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

#[test]
fn a_server_error_before_applying_has_not_been_applied() {
    virtual_time(async {
        let (refused, counted) = refused_by(Fault::ServerError(When::Before)).await;
        assert_eq!((status(&refused), counted), (500, 0));
    });
}

#[test]
fn a_server_error_after_applying_has_been_applied() {
    virtual_time(async {
        let (refused, counted) = refused_by(Fault::ServerError(When::After)).await;
        let error = refused.as_service_error().unwrap();
        assert!(error.is_internal_server_error(), "{error:?}");
        assert_eq!(counted, 1);
    });
}

#[test]
fn a_throttled_request_is_refused_and_not_applied() {
    virtual_time(async {
        let (refused, counted) = refused_by(Fault::Throttle).await;
        let error = refused.as_service_error().unwrap();
        assert!(error.is_provisioned_throughput_exceeded_exception());
        assert_eq!((status(&refused), counted), (400, 0));
    });
}

#[test]
fn a_request_in_conflict_is_refused_and_not_applied() {
    virtual_time(async {
        let (refused, counted) = refused_by(Fault::Conflict).await;
        let error = refused.as_service_error().unwrap();
        assert!(error.is_transaction_conflict_exception());
        assert_eq!((status(&refused), counted), (400, 0));
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

#[test]
fn a_request_that_hangs_before_applying_times_out_on_virtual_time() {
    virtual_time(async {
        let engine = engine().await;
        let client = with_short_timeout(&first(&engine, Fault::Hang(When::Before)));
        let sent = Instant::now();
        assert!(is_timed_out(&add_one(&client).await.unwrap_err()));
        assert_eq!(sent.elapsed().as_secs(), 2);
        assert_eq!(counted(&engine).await, 0);
    });
}

#[test]
fn a_request_that_hangs_after_applying_times_out_having_been_applied() {
    virtual_time(async {
        let engine = engine().await;
        let client = with_short_timeout(&first(&engine, Fault::Hang(When::After)));
        assert!(is_timed_out(&add_one(&client).await.unwrap_err()));
        assert_eq!(counted(&engine).await, 1);
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

#[test]
fn a_request_late_on_its_way_is_applied_when_it_arrives() {
    virtual_time(async {
        let engine = engine().await;
        let late = Fault::Delay(When::Before, MINUTE);
        let client = with_short_timeout(&first(&engine, late));
        assert!(is_timed_out(&add_one(&client).await.unwrap_err()));
        sleep(57 * SECOND).await;
        assert_eq!(counted(&engine).await, 0);
        sleep(2 * SECOND).await;
        assert_eq!(counted(&engine).await, 1);
    });
}

#[test]
fn an_answer_late_on_its_way_back_comes_after_the_request_was_applied() {
    virtual_time(async {
        let engine = engine().await;
        let late = Fault::Delay(When::After, MINUTE);
        let client = once(&first(&engine, late));
        let (sent, adding) = (Instant::now(), add_one(&client));
        let watching = async {
            sleep(SECOND).await;
            counted(&engine).await
        };
        let (added, seen) = tokio::join!(adding, watching);
        added.unwrap();
        assert_eq!((seen, sent.elapsed().as_secs()), (1, 60));
    });
}

#[test]
fn a_duplicate_is_applied_again_later() {
    virtual_time(async {
        let engine = engine().await;
        let again = Fault::Duplicate { after: 2 * MINUTE };
        let client = once(&first(&engine, again));
        add_one(&client).await.unwrap();
        sleep(119 * SECOND).await;
        assert_eq!(counted(&engine).await, 1);
        sleep(2 * SECOND).await;
        assert_eq!(counted(&engine).await, 2);
    });
}

#[test]
fn a_duplicate_of_a_lost_request_is_applied_once_and_late() {
    virtual_time(async {
        let engine = engine().await;
        let again = Fault::Duplicate { after: MINUTE };
        let client = once(&first(&engine, Fault::Lose(When::Before).and(again)));
        assert!(is_broken(&add_one(&client).await.unwrap_err()));
        assert_eq!(counted(&engine).await, 0);
        sleep(MINUTE + SECOND).await;
        assert_eq!(counted(&engine).await, 1);
    });
}

#[test]
fn a_request_may_be_late_and_then_lost() {
    virtual_time(async {
        let engine = engine().await;
        let late = Fault::Delay(When::Before, 3 * SECOND);
        let client = once(&first(&engine, late.and(Fault::Lose(When::After))));
        let sent = Instant::now();
        assert!(is_broken(&add_one(&client).await.unwrap_err()));
        assert_eq!((sent.elapsed().as_secs(), counted(&engine).await), (3, 1));
    });
}

#[test]
fn a_request_held_before_the_engine_is_applied_when_the_gate_opens() {
    virtual_time(async {
        let (engine, gate) = (engine().await, Gate::closed());
        let client = once(&first(&engine, Fault::Hold(When::Before, gate.clone())));
        let (added, ()) = tokio::join!(add_one(&client), async {
            gate.reached(1).await;
            assert_eq!(counted(&engine).await, 0);
            gate.open();
        });
        added.unwrap();
        assert_eq!(counted(&engine).await, 1);
    });
}

#[test]
fn a_request_held_behind_the_engine_is_applied_before_the_gate_opens() {
    virtual_time(async {
        let (engine, gate) = (engine().await, Gate::closed());
        let client = once(&first(&engine, Fault::Hold(When::After, gate.clone())));
        let (added, ()) = tokio::join!(add_one(&client), async {
            gate.reached(1).await;
            assert_eq!(counted(&engine).await, 1);
            gate.open();
        });
        added.unwrap();
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
fn faults_begin_and_end_while_clients_run() {
    virtual_time(async {
        let engine = engine().await;
        let network = Network::to(&engine);
        let client = once(&network);
        add_one(&client).await.unwrap();
        network.set_faults(Faults {
            lost_requests: 1.0,
            ..Faults::default()
        });
        assert!(is_broken(&add_one(&client).await.unwrap_err()));
        network.set_faults(Faults::default());
        add_one(&client).await.unwrap();
    });
}

#[test]
fn a_constant_round_trip_takes_that_long() {
    virtual_time(async {
        let round_trip = Latency::Constant(Duration::from_millis(20));
        let faults = Faults {
            round_trip,
            ..Faults::default()
        };
        let client = once(&Network::to(&engine().await).faults(faults));
        let sent = Instant::now();
        add_one(&client).await.unwrap();
        assert_eq!(sent.elapsed().as_millis(), 20);
    });
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
