//! The table is created as locks need it, and only by the call that is meant for it. A check finds whatever is wrong.

use std::time::Duration;

use aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;
use aws_sdk_dynamodb::types::{
    BillingMode, ScalarAttributeType, TableDescription, TimeToLiveSpecification,
};
use fairlock::embedded::{Engine, Fault, Network, When};
use fairlock::{
    Clock, Error, Finding, HeldLocks, LockClient, LockClientBuilder, RecordWait, Severity,
};
use fairlock_testkit::assert_is;
use fairlock_testkit::datagram_network::Post;
use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::lab::{Lab, SECOND, acquire, waits};
use fairlock_testkit::virtual_time;

fn engine() -> Engine {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    Engine::memory().unwrap().with_clock(clock)
}

fn builder(network: &Network) -> LockClientBuilder {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    let locks = LockClient::builder(network.client()).table("locks");
    locks.clock(clock).seeded(1)
}

fn locks(engine: &Engine) -> LockClient {
    builder(&Network::to(engine)).build().unwrap()
}

/// A client whose requests of one operation meet a fault.
fn troubled(engine: &Engine, operation: &'static str, fault: Fault) -> LockClient {
    let network = Network::to(engine)
        .script(move |request| (request.operation() == operation).then(|| fault.clone()));
    builder(&network).build().unwrap()
}

fn denied(engine: &Engine, operation: &'static str) -> LockClient {
    troubled(engine, operation, Fault::Refuse("AccessDeniedException"))
}

async fn create(locks: &LockClient) {
    locks.create_table().await.unwrap();
}

/// Runs a test on an engine whose table a client has created.
fn on_a_table(test: impl AsyncFnOnce(&Engine)) {
    virtual_time(async {
        let engine = engine();
        create(&locks(&engine)).await;
        test(&engine).await;
    });
}

async fn findings(locks: &LockClient) -> Vec<Finding> {
    locks.check_table().await.unwrap().findings
}

async fn description(engine: &Engine) -> TableDescription {
    let request = engine.client().describe_table().table_name("locks");
    request.send().await.unwrap().table.unwrap()
}

async fn ttl_attribute(engine: &Engine) -> Option<String> {
    let request = engine.client().describe_time_to_live().table_name("locks");
    let ttl = request.send().await.unwrap().time_to_live_description;
    ttl.unwrap().attribute_name
}

async fn set_ttl(engine: &Engine, attribute: &str, enabled: bool) {
    let ttl = TimeToLiveSpecification::builder().attribute_name(attribute);
    let request = engine.client().update_time_to_live().table_name("locks");
    let request = request.time_to_live_specification(ttl.enabled(enabled).build().unwrap());
    request.send().await.unwrap();
}

/// Why the existing table cannot be used.
fn reason(error: &Error) -> &Finding {
    match error {
        Error::Refused { source, .. } => source.downcast_ref().expect("a finding"),
        other => panic!("not a refusal: {other}"),
    }
}

async fn items(engine: &Engine) -> usize {
    let scan = engine.client().scan().table_name("locks").send().await;
    scan.unwrap().items().len()
}

#[test]
fn keys_and_ttl_are_called_as_the_client_says() {
    virtual_time(async {
        let engine = engine();
        let renamed = builder(&Network::to(&engine)).key_names("lock", "place", "ttl");
        let locks = renamed.build().unwrap();
        create(&locks).await;
        let table = description(&engine).await;
        let keys: Vec<_> = table
            .key_schema()
            .iter()
            .map(|key| key.attribute_name())
            .collect();
        assert_eq!(keys, ["lock", "place"]);
        assert_eq!(ttl_attribute(&engine).await.as_deref(), Some("ttl"));
        assert_eq!(findings(&locks).await, []);
    });
}

#[test]
fn creating_twice_is_creating_once_and_keeps_what_is_there() {
    virtual_time(async {
        let engine = engine();
        let locks = locks(&engine);
        create(&locks).await;
        let lock = locks.fair_lock("a").unwrap();
        let guard = lock.try_acquire().await.unwrap().unwrap();
        let protected =
            |request: CreateTableFluentBuilder| request.deletion_protection_enabled(true);
        locks.create_table_with(protected).await.unwrap();
        guard.release().await.unwrap();
        let table = description(&engine).await;
        let billing = table.billing_mode_summary().unwrap().billing_mode();
        assert_eq!(billing, Some(&BillingMode::PayPerRequest));
        assert_eq!(table.deletion_protection_enabled(), Some(false));
    });
}

#[test]
fn what_dynamodb_refuses_of_a_request_is_told() {
    virtual_time(async {
        let locks = locks(&engine());
        let wrong =
            |request: CreateTableFluentBuilder| request.billing_mode(BillingMode::Provisioned);
        let refused = locks.create_table_with(wrong).await.unwrap_err();
        assert_is!(refused, Error::Refused { .. });
    });
}

#[test]
fn many_may_create_the_table_at_once() {
    virtual_time(async {
        let engine = engine();
        // All clients see that there is no table before one of them creates it.
        let late = |request: &fairlock::embedded::Request| {
            let creates = request.operation() == "CreateTable";
            creates.then_some(Fault::Delay(When::Before, SECOND))
        };
        let clients: Vec<_> = (0..8)
            .map(|_| builder(&Network::to(&engine).script(late)).build().unwrap())
            .collect();
        let created = clients.iter().map(|locks| locks.create_table());
        for created in futures::future::join_all(created).await {
            created.unwrap();
        }
        assert_eq!(findings(&clients[0]).await, []);
    });
}

/// How often a client polls a lock that another client holds for a tenth of a second.
async fn polls_at_a_held_lock(network: &Network, locks: &LockClient, engine: &Engine) -> u64 {
    // The same random source would draw the same nonce.
    let holder = builder(&Network::to(engine)).seeded(2);
    let holder = holder.build().unwrap();
    let held = holder.fair_lock("a").unwrap().try_acquire().await.unwrap();
    let before = network.counts().requests();
    let lock = locks.fair_lock("a").unwrap();
    let (waited, released) = tokio::join!(lock.acquire(RecordWait::Infinite), async {
        tokio::time::sleep(SECOND / 10).await;
        held.unwrap().release().await
    });
    released.unwrap();
    let polls = network.counts().requests() - before;
    waited.unwrap().release().await.unwrap();
    polls
}

#[test]
fn a_client_that_waited_for_the_table_polls_as_often_as_any_other() {
    virtual_time(async {
        let engine = engine();
        let networks = [Network::to(&engine), Network::to(&engine)];
        let [maker, other] = [0, 1].map(|index| {
            let builder = builder(&networks[index]).seeded(3 + index as u64);
            builder.build().unwrap()
        });
        create(&maker).await;
        let polls = [
            polls_at_a_held_lock(&networks[0], &maker, &engine).await,
            polls_at_a_held_lock(&networks[1], &other, &engine).await,
        ];
        assert!(polls[1] > 20 && polls[0] * 10 > polls[1] * 9, "{polls:?}");
    });
}

#[test]
fn a_creation_whose_answer_is_lost_is_a_creation() {
    virtual_time(async {
        for operation in ["CreateTable", "UpdateTimeToLive"] {
            for fault in [Fault::Lose(When::After), Fault::Hang(When::After)] {
                let engine = engine();
                create(&troubled(&engine, operation, fault)).await;
                assert_eq!(findings(&locks(&engine)).await, []);
            }
        }
    });
}

/// A silent endpoint has two seconds for each of four attempts, with pauses between them.
#[test]
fn too_much_at_once_is_waited_for_and_not_for_ever_and_a_silent_endpoint_for_four_time_outs() {
    let busy = Fault::Refuse("LimitExceededException");
    for (operation, fault, least, most) in [
        ("CreateTable", busy, 300, 320),
        ("DescribeTable", Fault::Hang(When::Before), 8, 9),
    ] {
        virtual_time(async {
            let locks = troubled(&engine(), operation, fault);
            let started = tokio::time::Instant::now();
            let created = locks.create_table().await;
            assert!(matches!(created, Err(Error::Unavailable { .. })));
            let took = started.elapsed();
            assert!(
                least * SECOND <= took && took < most * SECOND,
                "{operation}: {took:?}"
            );
        });
    }
}

#[test]
fn a_creation_that_is_denied_says_so_at_once() {
    virtual_time(async {
        for operation in ["CreateTable", "DescribeTable", "UpdateTimeToLive"] {
            let created = denied(&engine(), operation)
                .create_table()
                .await
                .unwrap_err();
            assert_is!(created, Error::Refused { .. });
            assert!(created.to_string().contains("AccessDenied"), "{created}");
        }
    });
}

#[test]
fn an_engine_without_ttl_gets_its_table_all_the_same() {
    virtual_time(async {
        let engine = engine();
        let unknown = Fault::Refuse("UnknownOperationException");
        let locks = troubled(&engine, "DescribeTimeToLive", unknown);
        create(&locks).await;
        assert_eq!(findings(&locks).await, [Finding::WithoutTtl]);
    });
}

#[test]
fn another_table_is_refused_with_what_it_is_and_what_it_must_be() {
    virtual_time(async {
        use ScalarAttributeType::{N, S};
        let others: [&[_]; 4] = [
            &[("pk", S)],
            &[("pk", S), ("sk", N)],
            &[("id", S), ("sk", S)],
            &[("sk", S), ("pk", S)],
        ];
        for keys in others {
            let engine = engine();
            create_table(&engine.client(), "locks", keys).await;
            let created = locks(&engine).create_table().await;
            let refused = created.unwrap_err();
            let Finding::WrongKeys { found, needed } = reason(&refused) else {
                panic!("{refused}")
            };
            assert!(found.contains(keys[0].0), "{found}");
            assert_eq!(needed, "partition key `pk` (S), sort key `sk` (S)");
            let report = locks(&engine).check_table().await.unwrap();
            assert_eq!(report.findings[0], reason(&refused).clone());
            assert!(!report.is_usable());
        }
    });
}

#[test]
fn ttl_by_another_attribute_is_not_taken_away() {
    on_a_table(async |engine| {
        set_ttl(engine, "expires_at", false).await;
        set_ttl(engine, "other", true).await;
        let created = locks(engine).create_table().await;
        let (found, needed) = ("other".to_owned(), "expires_at".to_owned());
        let other = Finding::OtherTtl { found, needed };
        assert_eq!(*reason(&created.unwrap_err()), other);
        assert_eq!(findings(&locks(engine)).await, [other]);
    });
}

#[test]
fn nothing_but_create_table_creates_the_table() {
    virtual_time(async {
        let engine = engine();
        let locks = locks(&engine);
        let acquired = locks.fair_lock("a").unwrap().try_acquire().await;
        assert!(matches!(acquired, Err(Error::Refused { .. })));
        let lock = locks.fair_lock("a").unwrap();
        assert!(matches!(lock.sweep().await, Err(Error::Refused { .. })));
        assert_eq!(findings(&locks).await, [Finding::NoTable]);
        let tables = engine.client().list_tables().send().await.unwrap();
        assert!(tables.table_names().is_empty());
    });
}

#[test]
fn a_client_that_was_shut_down_neither_creates_nor_checks() {
    virtual_time(async {
        let locks = locks(&engine());
        locks.shutdown(HeldLocks::Keep, SECOND).await;
        let created = locks.create_table().await;
        assert!(matches!(created, Err(Error::ShutDown(_))));
        assert!(matches!(locks.check_table().await, Err(Error::ShutDown(_))));
    });
}

#[test]
fn a_missing_table_is_the_one_finding_and_names_the_call_that_makes_it() {
    virtual_time(async {
        let engine = engine();
        for locks in [locks(&engine), denied(&engine, "DescribeTimeToLive")] {
            let report = locks.check_table().await.unwrap();
            assert_eq!(report.findings, [Finding::NoTable]);
            assert_eq!(report.tried, ["DescribeTable"]);
            assert!(!report.is_usable());
            assert!(report.to_string().contains("create_table"));
        }
        let report = findings(&denied(&engine, "DescribeTable")).await;
        assert!(report.contains(&Finding::NoTable), "{report:?}");
    });
}

#[test]
fn each_permission_that_is_missing_is_found_and_is_the_only_finding() {
    on_a_table(async |engine| {
        let operations = [
            ("GetItem", Severity::Fatal),
            ("Query", Severity::Fatal),
            ("PutItem", Severity::Fatal),
            ("UpdateItem", Severity::Fatal),
            ("DeleteItem", Severity::Fatal),
            ("BatchWriteItem", Severity::Warning),
            ("Scan", Severity::Note),
            ("DescribeTable", Severity::Note),
            ("DescribeTimeToLive", Severity::Note),
        ];
        for (name, severity) in operations {
            let report = denied(engine, name).check_table().await.unwrap();
            let [finding] = &report.findings[..] else {
                panic!("{name}: {report}")
            };
            assert_is!(finding, Finding::Denied { operation, .. } if *operation == name);
            assert_eq!(finding.severity(), severity, "{finding}");
            assert_eq!(report.is_usable(), severity < Severity::Fatal);
            let tried = operations.map(|(tried, _)| tried);
            assert!(tried.iter().all(|tried| report.tried.contains(tried)));
            assert_eq!(report.tried.len(), tried.len());
            assert!(finding.remedy().contains(name) && !report.to_string().contains('\n'));
        }
    });
}

#[test]
fn findings_are_told_the_gravest_first_and_one_a_line() {
    on_a_table(async |engine| {
        let network = Network::to(engine).script(|request| {
            let denied = ["Scan", "BatchWriteItem", "UpdateItem", "DescribeTable"];
            let denied = denied.contains(&request.operation());
            denied.then_some(Fault::Refuse("AccessDeniedException"))
        });
        let locks = builder(&network).build().unwrap();
        let report = locks.check_table().await.unwrap();
        let severities = report.findings.iter().map(Finding::severity);
        let severities: Vec<_> = severities.collect();
        assert!(severities.is_sorted_by(|a, b| a >= b), "{severities:?}");
        assert_eq!(report.to_string().lines().count(), 4);
        assert!(report.to_string().starts_with("fatal: UpdateItem"));
    });
}

#[test]
fn a_check_changes_nothing_whatever_is_in_the_table() {
    virtual_time(async {
        let engine = engine();
        let locks = locks(&engine);
        create(&locks).await;
        let lock = locks.fair_lock("#fairlock-check").unwrap();
        let guard = lock.try_acquire().await.unwrap().unwrap();
        assert_eq!(findings(&locks).await, []);
        assert_eq!(items(&engine).await, 1);
        guard.release().await.unwrap();
    });
}

#[test]
fn a_lock_of_which_only_some_places_can_be_notified_is_a_note() {
    virtual_time(async {
        let (lab, post) = (Lab::new().await, Post::seeded(1));
        lab.switch_ttl_on().await;
        let onlooker = lab.host();
        let found = async || onlooker.locks.check_table().await.unwrap();
        let notified = || lab.host_with(|builder| builder.notifier(post.notifier()));
        let (first, second, silent) = (notified(), notified(), lab.host());
        let guard = acquire(&first).await;
        let waiting = waits(&lab, &second).await;
        assert_eq!(found().await.findings, [], "all are notified");
        let polling = waits(&lab, &silent).await;
        let report = found().await;
        let partly = Finding::PartlyNotified {
            lock: "a".into(),
            places: 3,
            unreachable: 1,
        };
        assert_eq!(report.findings, [partly]);
        assert!(report.is_usable());
        let told = "note: 1 of 3 places at `a` cannot be notified: the waiter behind each polls: ";
        assert!(report.to_string().starts_with(told), "{report}");
        drop((guard, waiting, polling));
    });
}

#[test]
fn a_check_that_gets_no_answer_or_has_no_credentials_is_an_error() {
    on_a_table(async |engine| {
        let cut_off = troubled(engine, "Query", Fault::Lose(When::Before));
        let checked = cut_off.check_table().await;
        assert!(matches!(checked, Err(Error::Unavailable { .. })));
        let unknown = Fault::Refuse("UnrecognizedClientException");
        let stranger = troubled(engine, "DescribeTable", unknown);
        let checked = stranger.check_table().await.unwrap_err();
        assert!(matches!(checked, Error::Unavailable { .. }));
        assert!(checked.to_string().contains("no valid credentials"));
    });
}
