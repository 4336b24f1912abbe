//! The network in front of an engine does what real networks do, and nothing happens by accident.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod common;
#[path = "common/counter.rs"]
mod counter;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    KeysAndAttributes, PutRequest, TransactWriteItem, Update, WriteRequest,
};
use aws_smithy_async::time::TimeSource;
use fairlock::embedded::{Counts, Fault, Faults, Gate, Latency, Network, Outcome, Request, When};
use futures::FutureExt;
use tokio::time::{Instant, sleep};

use common::virtual_time;
use counter::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

// ---------------------------------------------------------------------------------------------------------------
// Faults, each before and after the request is applied

#[test]
fn a_request_lost_on_its_way_has_not_been_applied() {
    virtual_time(async {
        let engine = engine().await;
        let client = once(&first(&engine, Fault::Lose(When::Before)));
        assert!(is_broken(&add_one(&client).await.unwrap_err()));
        assert_eq!(counted(&engine).await, 0);
    });
}

#[test]
fn an_answer_lost_after_applying_has_been_applied() {
    virtual_time(async {
        let engine = engine().await;
        let client = once(&first(&engine, Fault::Lose(When::After)));
        assert!(is_broken(&add_one(&client).await.unwrap_err()));
        assert_eq!(counted(&engine).await, 1);
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
        let engine = engine().await;
        let client = once(&first(&engine, Fault::ServerError(When::Before)));
        let refused = add_one(&client).await.unwrap_err();
        assert_eq!(status(&refused), 500);
        assert_eq!(counted(&engine).await, 0);
    });
}

#[test]
fn a_server_error_after_applying_has_been_applied() {
    virtual_time(async {
        let engine = engine().await;
        let client = once(&first(&engine, Fault::ServerError(When::After)));
        let refused = add_one(&client).await.unwrap_err();
        let error = refused.as_service_error().unwrap();
        assert!(error.is_internal_server_error(), "{error:?}");
        assert_eq!(counted(&engine).await, 1);
    });
}

#[test]
fn a_throttled_request_is_refused_and_not_applied() {
    virtual_time(async {
        let engine = engine().await;
        let client = once(&first(&engine, Fault::Throttle));
        let refused = add_one(&client).await.unwrap_err();
        let error = refused.as_service_error().unwrap();
        assert!(error.is_provisioned_throughput_exceeded_exception());
        assert_eq!((status(&refused), counted(&engine).await), (400, 0));
    });
}

#[test]
fn a_request_in_conflict_is_refused_and_not_applied() {
    virtual_time(async {
        let engine = engine().await;
        let client = once(&first(&engine, Fault::Conflict));
        let refused = add_one(&client).await.unwrap_err();
        let error = refused.as_service_error().unwrap();
        assert!(error.is_transaction_conflict_exception());
        assert_eq!((status(&refused), counted(&engine).await), (400, 0));
    });
}

#[test]
fn a_request_that_hangs_before_applying_times_out_on_virtual_time() {
    virtual_time(async {
        let engine = engine().await;
        let client = impatient(&first(&engine, Fault::Hang(When::Before)));
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
        let client = impatient(&first(&engine, Fault::Hang(When::After)));
        assert!(is_timed_out(&add_one(&client).await.unwrap_err()));
        assert_eq!(counted(&engine).await, 1);
    });
}

/// Tokio's clock, for what the SDK measures rather than waits for.
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
        let client = impatient(&first(&engine, late));
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

/// How each of 100 requests ended and when, and what came of them all.
async fn weathered(seed: u64) -> (Vec<String>, u64) {
    let engine = engine().await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let (line, started) = (Arc::clone(&log), Instant::now());
    let network = Network::to(&engine).seeded(seed).faults(storm());
    let network = network.observe(move |exchange| {
        let ended = format!("{:?} {:?}", started.elapsed(), exchange.outcome());
        line.lock().unwrap().push(ended);
    });
    let client = impatient(&network);
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
    let ended = |part: &str| log.iter().filter(|line| line.contains(part)).count();
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

// ---------------------------------------------------------------------------------------------------------------
// Scripts, observers, counts

#[test]
fn a_script_can_tell_requests_apart() {
    virtual_time(async {
        let engine = engine().await;
        let marked = |request: &Request| {
            let ours = request.table() == Some("things") && request.operation() == "UpdateItem";
            let keyed = request.key("pk") == Some("counter") && request.key("sk") == Some("-");
            (ours && keyed && request.mentions("ADD n :one")).then_some(Fault::Throttle)
        };
        let client = once(&Network::to(&engine).script(marked));
        count_up(&client, 0).await.unwrap();
        assert_eq!(status(&add_one(&client).await.unwrap_err()), 400);
        put_expiring(&client, "counter", 1).await;
    });
}

#[test]
fn what_a_script_decides_happens_in_place_of_chance() {
    virtual_time(async {
        let engine = engine().await;
        let none = Fault::Delay(When::Before, Duration::ZERO);
        let faults = Faults {
            lost_requests: 1.0,
            ..Faults::default()
        };
        let client = once(&first(&engine, none).faults(faults));
        add_one(&client).await.unwrap();
        add_one(&client).await.unwrap_err();
    });
}

#[test]
fn an_observer_hears_of_each_request_once() {
    virtual_time(async {
        let engine = engine().await;
        let faults = [
            Some(Fault::Lose(When::After)),
            Some(Fault::Hang(When::After)),
            None,
        ];
        let index = |request: &Request| usize::try_from(request.number() - 1).unwrap();
        let network = Network::to(&engine).script(move |request| faults[index(request)].clone());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&heard);
        let network = network.observe(move |exchange| {
            let (number, took) = (exchange.request().number(), exchange.took().as_secs());
            let mut heard = writer.lock().unwrap();
            heard.push((number, took, exchange.outcome().clone()));
        });
        let client = impatient(&network);
        for _ in 0..3 {
            let _any = add_one(&client).await;
        }
        let answered = Outcome::Answered {
            status: 200,
            body: serde_json::json!({}),
        };
        let expected = [
            (1, 0, Outcome::Broken),
            (2, 2, Outcome::Abandoned),
            (3, 0, answered),
        ];
        assert_eq!(*heard.lock().unwrap(), expected);
    });
}

async fn write_a_batch(client: &Client) {
    let put = |name: &str| {
        let put = PutRequest::builder()
            .item("pk", text(name))
            .item("sk", text("-"));
        WriteRequest::builder()
            .put_request(put.build().unwrap())
            .build()
    };
    let puts = ["a", "b", "c"].map(put).to_vec();
    let request = client.batch_write_item().request_items("things", puts);
    request.send().await.unwrap();
}

async fn read_a_batch(client: &Client) {
    let key = |name: &str| HashMap::from([("pk".into(), text(name)), ("sk".into(), text("-"))]);
    let keys = KeysAndAttributes::builder().keys(key("a")).keys(key("b"));
    let request = client
        .batch_get_item()
        .request_items("things", keys.build().unwrap());
    request.send().await.unwrap();
}

async fn write_a_transaction(client: &Client) {
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
    let request = request
        .transact_items(update("a"))
        .transact_items(update("b"));
    request.send().await.unwrap();
}

#[test]
fn counts_tell_reads_and_writes_item_by_item() {
    virtual_time(async {
        let network = Network::to(&engine().await);
        let client = once(&network);
        add_one(&client).await.unwrap();
        count_up(&client, 7).await.unwrap_err();
        write_a_batch(&client).await;
        write_a_transaction(&client).await;
        let written = network.counts();
        assert_eq!(
            (written.requests(), written.reads(), written.writes()),
            (4, 0, 7)
        );
        assert_eq!(written.of("UpdateItem"), 2);
        read_a_batch(&client).await;
        client.scan().table_name("things").send().await.unwrap();
        let read = network.counts() - written;
        assert_eq!((read.requests(), read.reads(), read.writes()), (2, 3, 0));
        let by_operation: Vec<_> = read.by_operation().collect();
        assert_eq!(by_operation, [("BatchGetItem", 1), ("Scan", 1)]);
    });
}

#[test]
fn every_attempt_of_the_sdk_counts() {
    virtual_time(async {
        let engine = engine().await;
        let network = first(&engine, Fault::Throttle);
        add_one(&network.client()).await.unwrap();
        assert_eq!(network.counts().of("UpdateItem"), 2);
        assert_ne!(network.counts(), Counts::default());
    });
}

#[test]
fn the_same_faults_and_counts_work_around_any_other_transport() {
    virtual_time(async {
        let engine = engine().await;
        let inner = Network::to(&engine);
        let lost = |request: &Request| (request.number() == 1).then_some(Fault::Lose(When::After));
        let again = Faults {
            duplicates: 1.0,
            duplicate_within: MINUTE,
            ..Faults::default()
        };
        let outer = Network::over(inner.http_client())
            .script(lost)
            .faults(again);
        let client = once(&outer);
        assert!(is_broken(&add_one(&client).await.unwrap_err()));
        add_one(&client).await.unwrap();
        sleep(MINUTE).await;
        assert_eq!(counted(&engine).await, 3);
        assert_eq!((outer.counts().writes(), inner.counts().writes()), (2, 3));
    });
}

#[test]
fn a_rewritten_request_is_what_the_script_and_the_engine_see() {
    virtual_time(async {
        let engine = engine().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let network = Network::to(&engine)
            .rewrite(|body| {
                body["UpdateExpression"] = "ADD n :one, m :one".into();
            })
            .script(move |request| {
                let update = request.body()["UpdateExpression"].clone();
                noted.lock().unwrap().push(update);
                None
            });
        add_one(&once(&network)).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), ["ADD n :one, m :one"]);
        assert_eq!(counted(&engine).await, 1);
    });
}
