//! What errors say about configurations and texts that cannot work: what is wrong and what to do, in one line. They contain nothing that
//! was sent or answered.

use aws_sdk_dynamodb::config::{self, BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::ScalarAttributeType;
use aws_sdk_dynamodb::{Client, Config};
use fairlock::embedded::{Engine, Fault, Network, When};
use fairlock::{Error, LockClient, RecordWait};

use super::{WAITS, refusal};
use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::lab::{Host, in_lab};
use fairlock_testkit::virtual_time;

/// A client whose configuration has these parts only. Other required parts are missing.
fn configured(network: &Network, parts: impl FnOnce(config::Builder) -> config::Builder) -> Host {
    let config = Config::builder().behavior_version(BehaviorVersion::latest());
    let config = parts(config.http_client(network.http_client()));
    let locks = LockClient::builder(Client::from_conf(config.build()));
    Host {
        locks: locks.build().unwrap(),
        network: network.clone(),
    }
}

#[test]
fn what_the_configuration_of_the_dynamodb_client_lacks_is_said_in_one_line_without_the_request() {
    virtual_time(async {
        let network = Network::to(&Engine::memory().unwrap());
        let credentials = || Credentials::new("id", "secret", None, None, "static");
        let region = || Region::from_static("eu-west-1");
        let local = "http://localhost:8000";
        for (host, words) in [
            (
                configured(&network, |it| it.region(region())),
                ["no credentials provider", "aws_config"],
            ),
            (
                configured(&network, |it| it.region(region()).endpoint_url(local)),
                ["no credentials provider", "aws_config"],
            ),
            (
                configured(&network, |it| it.credentials_provider(credentials())),
                ["no region", "AWS_REGION"],
            ),
            (
                configured(&network, |it| {
                    let it = it.credentials_provider(credentials());
                    it.endpoint_url(local)
                }),
                ["no region", "AWS_REGION"],
            ),
            (
                configured(&network, |it| {
                    let it = it.credentials_provider(credentials()).region(region());
                    it.endpoint_url("localhost:8000")
                }),
                ["endpoint `localhost:8000`", "scheme"],
            ),
        ] {
            let lock = host.lock();
            for wait in WAITS {
                let refused = lock.acquire(wait).await.unwrap_err();
                assert!(matches!(refused, Error::Refused { .. }), "{refused}");
                for told in [refused.to_string(), format!("{refused:?}")] {
                    assert!(words.iter().all(|it| told.contains(it)), "{told}");
                    assert!(told.len() < 250 && !told.contains("TableName"), "{told}");
                }
            }
        }
        assert_eq!(network.counts().requests(), 0);
    });
}

#[test]
fn a_denied_action_and_a_table_of_other_keys_are_said_with_what_finds_the_cause() {
    in_lab(async |lab, [denied]| {
        let _ = denied
            .network
            .clone()
            .script(|_| Some(Fault::Refuse("AccessDeniedException")));
        create_table(
            &lab.engine.client(),
            "fairlock",
            &[("id", ScalarAttributeType::S)],
        )
        .await;
        let other_keys = configured(&Network::to(&lab.engine), |it| {
            let it = it.region(Region::from_static("eu-west-1"));
            it.credentials_provider(Credentials::new("id", "secret", None, None, "static"))
        });
        for (host, words) in [
            (denied, &["a policy denies it", "check_table"][..]),
            (other_keys, &["other keys", "check_table", "key_names"]),
        ] {
            let lock = host.lock();
            for error in [
                lock.acquire(RecordWait::Infinite).await.unwrap_err(),
                lock.inspect().await.unwrap_err(),
            ] {
                let told = error.to_string();
                assert!(words.iter().all(|it| told.contains(it)), "{told}");
            }
        }
    });
}

#[test]
fn an_error_that_main_returns_prints_no_headers_and_no_bodies() {
    in_lab(async |lab, []| {
        for fault in [
            Fault::Refuse("AccessDeniedException"),
            Fault::ServerError(When::Before),
            Fault::Throttle,
            Fault::Lose(When::After),
        ] {
            let host = lab.host();
            let _ = host.network.clone().script(move |_| Some(fault.clone()));
            let lock = host.lock();
            let error = lock.acquire(RecordWait::NoWait).await.unwrap_err();
            let line = error.to_string();
            // As `fn main() -> Result<(), Box<dyn std::error::Error>>` does.
            let error: Box<dyn std::error::Error> = error.into();
            let told = format!("{error:?}");
            assert!(told.contains(&line) && told.len() < 500, "{told}");
            for raw in ["Headers", "SdkBody", "x-amz", "__type"] {
                assert!(!told.contains(raw), "{raw}: {told}");
            }
        }
    });
}

/// No known way to ask a runtime for its timers avoids a panic if it has none.
#[test]
fn a_wait_in_a_runtime_without_timers_ends_with_an_error_that_names_them() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let engine = Engine::memory().unwrap();
    let ended = runtime.block_on(async {
        let locks = LockClient::builder(engine.client()).build().unwrap();
        let lock = locks.fair_lock("a").unwrap();
        lock.acquire(RecordWait::Infinite).await.unwrap_err()
    });
    assert!(
        matches!(ended, Error::Refused { .. } | Error::ShutDown(_)),
        "{ended}"
    );
    assert!(ended.to_string().contains("enable_time"), "{ended}");
}

#[test]
fn a_text_that_is_too_long_is_refused_in_a_short_line() {
    virtual_time(async {
        let long = "ä".repeat(5000);
        for refused in [
            refusal(|it| it.owner(&long)),
            refusal(|it| it.namespace(&long)),
            refusal(|it| it.table(&long)),
        ] {
            let told = refused.to_string();
            assert!(told.contains("10000 bytes"), "{told}");
            assert!(told.contains("ääää") && told.len() < 400, "{told}");
        }
    });
}
