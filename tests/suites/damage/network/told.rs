//! What a script learns of a request, and what observers and counts report of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{KeysAndAttributes, PutRequest, WriteRequest};
use fairlock::embedded::{Counts, Fault, Faults, Network, Outcome, Request, When};
use tokio::time::sleep;

use super::{MINUTE, SECOND, a_transaction};
use fairlock_testkit::counter::*;
use fairlock_testkit::virtual_time;

/// What happens to the first request, the second, and so on.
fn in_turn(faults: impl Into<Vec<Option<Fault>>>) -> impl Fn(&Request) -> Option<Fault> {
    let faults = faults.into();
    move |request| faults[usize::try_from(request.number() - 1).unwrap()].clone()
}

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
        let network = Network::to(&engine).script(in_turn(faults));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&heard);
        let network = network.observe(move |exchange| {
            let (number, took) = (exchange.request().number(), exchange.took().as_secs());
            let mut heard = writer.lock().unwrap();
            heard.push((number, took, exchange.outcome().clone()));
        });
        let client = with_short_timeout(&network);
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

#[test]
fn an_observer_at_the_server_hears_of_what_no_client_hears() {
    virtual_time(async {
        let engine = engine().await;
        let faults = [
            Some(Fault::Lose(When::After)),
            Some(Fault::Lose(When::Before)),
            Some(Fault::Throttle),
            Some(Fault::Duplicate { after: 60 * SECOND }),
            None,
        ];
        let network = Network::to(&engine).script(in_turn(faults));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let writer = Arc::clone(&heard);
        let network = network.observe_server(move |exchange| {
            let is_done = matches!(exchange.outcome(), Outcome::Answered { status: 200, .. });
            let mut heard = writer.lock().unwrap();
            heard.push((exchange.request().number(), is_done));
        });
        let client = with_short_timeout(&network);
        for _ in 0..5 {
            let _any = add_one(&client).await;
        }
        sleep(61 * SECOND).await;
        let expected = [(1, true), (4, true), (5, true), (4, true)];
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

#[test]
fn counts_tell_reads_and_writes_item_by_item() {
    virtual_time(async {
        let network = Network::to(&engine().await);
        let client = once(&network);
        add_one(&client).await.unwrap();
        count_up(&client, 7).await.unwrap_err();
        write_a_batch(&client).await;
        a_transaction(&client).send().await.unwrap();
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
