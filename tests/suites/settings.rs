//! What a table has beside its keys and TTL: asked for when it is made, compared when it is checked, and never taken from a table that is
//! there.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{
    PointInTimeRecoverySpecification, PointInTimeRecoveryStatus, SseType, TableDescription,
};
use fairlock::embedded::{Engine, Fault, Network, When};
use fairlock::{
    Clock, EncryptionKey, Error, Finding, Invalid, LockClient, RandomSource, Severity,
    TableOptions, TableSetting,
};
use fairlock_testkit::captured_log::said;
use fairlock_testkit::{real_time, virtual_time};
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);
const KEY: &str = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";

// ---------------------------------------------------------------------------------------------------------------
// Clients, options, and what a table has

fn engine() -> Engine {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    Engine::memory().unwrap().with_clock(clock)
}

fn over(network: &Network) -> LockClient {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    let locks = LockClient::builder(network.client()).table("locks");
    let locks = locks.clock(clock).random_source(RandomSource::seeded(1));
    locks.build().unwrap()
}

fn locks(engine: &Engine) -> LockClient {
    over(&Network::to(engine))
}

/// A client whose requests of some operations meet a fault.
fn troubled(engine: &Engine, operations: &'static [&'static str], fault: Fault) -> LockClient {
    let meets = move |operation: &str| operations.contains(&operation);
    let network = Network::to(engine)
        .script(move |request| meets(request.operation()).then(|| fault.clone()));
    over(&network)
}

/// Options that ask for everything. With seven-and-twenty tags, some are on a second and a third page.
fn all() -> TableOptions {
    let tags = (0..27).map(|tag| (format!("tag {tag}"), format!("value {tag}")));
    let options = tags.fold(TableOptions::default(), |options, (key, value)| {
        options.tag(key, value)
    });
    let key = EncryptionKey::Customer(KEY.to_owned());
    let options = options.deletion_protection().encryption_key(key);
    options.point_in_time_recovery()
}

async fn create(locks: &LockClient, options: &TableOptions) {
    locks.create_table(options).await.unwrap();
}

async fn findings(locks: &LockClient, options: &TableOptions) -> Vec<Finding> {
    locks.check_table_with(options).await.unwrap().findings
}

async fn description(client: &Client) -> TableDescription {
    let request = client.describe_table().table_name("locks");
    request.send().await.unwrap().table.unwrap()
}

async fn has_recovery(client: &Client) -> bool {
    let request = client.describe_continuous_backups().table_name("locks");
    let backups = request.send().await.unwrap().continuous_backups_description;
    let recovery = backups.unwrap().point_in_time_recovery_description.unwrap();
    recovery.point_in_time_recovery_status() == Some(&PointInTimeRecoveryStatus::Enabled)
}

async fn unprotect(client: &Client) {
    let request = client.update_table().table_name("locks");
    let request = request.deletion_protection_enabled(false);
    request.send().await.unwrap();
}

fn off(setting: TableSetting) -> Finding {
    Finding::OtherSetting {
        setting,
        found: "off".into(),
        needed: "on".into(),
    }
}

// ---------------------------------------------------------------------------------------------------------------
// A new table

#[test]
fn a_table_is_made_with_all_that_is_asked_for_and_a_check_finds_it_there() {
    virtual_time(async {
        let engine = engine();
        create(&locks(&engine), &all()).await;
        let client = engine.client();
        let table = description(&client).await;
        assert_eq!(table.deletion_protection_enabled(), Some(true));
        let sse = table.sse_description().unwrap();
        assert_eq!(sse.sse_type(), Some(&SseType::Kms));
        assert_eq!(sse.kms_master_key_arn(), Some(KEY));
        assert!(has_recovery(&client).await);
        let report = locks(&engine).check_table_with(&all()).await.unwrap();
        assert_eq!(report.findings, [], "{report}");
        for tried in ["ListTagsOfResource", "DescribeContinuousBackups"] {
            assert!(report.tried.contains(&tried), "{:?}", report.tried);
        }
        let refused = client.delete_table().table_name("locks").send().await;
        let message = refused.unwrap_err().into_service_error();
        assert!(message.to_string().contains("Validation"), "{message}");
        unprotect(&client).await;
        let deleted = client.delete_table().table_name("locks").send().await;
        deleted.unwrap();
    });
}

#[test]
fn a_table_has_nothing_that_is_not_asked_for_and_nothing_is_asked_about_it() {
    virtual_time(async {
        let engine = engine();
        let network = Network::to(&engine);
        create(&over(&network), &TableOptions::default()).await;
        let table = description(&engine.client()).await;
        assert_eq!(table.deletion_protection_enabled(), Some(false));
        assert!(table.sse_description().is_none());
        assert!(!has_recovery(&engine.client()).await);
        let checked = over(&network).check_table().await.unwrap();
        assert_eq!(checked.findings, []);
        for operation in [
            "ListTagsOfResource",
            "DescribeContinuousBackups",
            "UpdateContinuousBackups",
        ] {
            assert_eq!(network.counts().of(operation), 0, "{operation}");
            assert!(!checked.tried.contains(&operation));
        }
    });
}

#[test]
fn a_key_that_aws_manages_is_one_of_the_account() {
    virtual_time(async {
        let engine = engine();
        let options = TableOptions::default().encryption_key(EncryptionKey::AwsManaged);
        create(&locks(&engine), &options).await;
        let table = description(&engine.client()).await;
        let sse = table.sse_description().unwrap();
        assert_eq!(sse.sse_type(), Some(&SseType::Kms));
        assert_eq!(findings(&locks(&engine), &options).await, []);
        // A key of another name is another key.
        let other = TableOptions::default().encryption_key(EncryptionKey::Customer(KEY.into()));
        let findings = findings(&locks(&engine), &other).await;
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert!(finding.to_string().contains(KEY), "{finding}");
    });
}

#[test]
fn recovery_is_switched_on_behind_the_table_and_its_ttl() {
    virtual_time(async {
        let engine = engine();
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&order);
        let network = Network::to(&engine).observe(move |exchange| {
            let operation = exchange.request().operation();
            if !operation.starts_with("Describe") {
                seen.lock().unwrap().push(operation.to_owned());
            }
        });
        create(&over(&network), &all()).await;
        let expected = ["CreateTable", "UpdateTimeToLive", "UpdateContinuousBackups"];
        assert_eq!(*order.lock().unwrap(), expected);
    });
}

#[test]
fn what_dynamodb_would_refuse_is_refused_whether_or_not_the_table_is_there_and_nothing_is_sent() {
    virtual_time(async {
        let engine = engine();
        let tag = |key: &str, value: &str| TableOptions::default().tag(key, value);
        let key = |name: &str| {
            let key = EncryptionKey::Customer(name.to_owned());
            TableOptions::default().encryption_key(key)
        };
        let many = (0..51).map(|tag| format!("tag {tag}"));
        let wrong = [
            tag("", "x"),
            tag("aws:team", "x"),
            tag(&"k".repeat(129), "x"),
            tag("team", &"v".repeat(257)),
            tag("team", "a\nb"),
            tag("te;am", "x"),
            many.fold(all(), |options, tag| options.tag(tag, "")),
            key(""),
            key("not a key"),
            key("alias/aws/dynamodb"),
        ];
        for is_there in [false, true] {
            if is_there {
                create(&locks(&engine), &TableOptions::default()).await;
            }
            let network = Network::to(&engine);
            for options in &wrong {
                let created = over(&network).create_table(options).await.unwrap_err();
                let checked = over(&network).check_table_with(options).await.unwrap_err();
                for refused in [created, checked] {
                    assert!(
                        matches!(
                            refused,
                            Error::Invalid(Invalid::Text { .. } | Invalid::Range { .. })
                        ),
                        "{refused}"
                    );
                }
            }
            assert_eq!(network.counts().requests(), 0);
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------
// A table that is there, or half made

#[test]
fn a_table_that_is_there_gets_recovery_and_keeps_all_else_and_a_check_tells_what_differs() {
    virtual_time(async {
        let engine = engine();
        let provisioned = TableOptions::provisioned(5, 10);
        create(&locks(&engine), &provisioned.clone().tag("tag 0", "other")).await;
        let asked = TableOptions::provisioned(7, 10)
            .tag("tag 0", "value 0")
            .tag("tag 1", "value 1");
        let key = EncryptionKey::Customer("alias/locks".to_owned());
        let asked = asked.deletion_protection().encryption_key(key);
        let asked = asked.point_in_time_recovery();
        let before = findings(&locks(&engine), &asked).await;
        assert!(before.contains(&off(TableSetting::PointInTimeRecovery)));
        create(&locks(&engine), &asked).await;
        let report = locks(&engine).check_table_with(&asked).await.unwrap();
        let told = report.to_string();
        let expected = "\
note: throughput is 5 read and 10 write units, not 7 read and 10 write units as asked for: change it by a request `UpdateTable`, or \
ask for what the table has
note: deletion protection is off, not on as asked for: change it by a request `UpdateTable`, or \
ask for what the table has
note: encryption key is a key that AWS owns, not `alias/locks` as asked for: change it by a request `UpdateTable`, or \
ask for what the table has
note: tag `tag 0` is `other`, not `value 0` as asked for: change it by a request `TagResource`, or \
ask for what the table has
note: tag `tag 1` is missing, not `value 1` as asked for: change it by a request `TagResource`, or \
ask for what the table has";
        assert_eq!(told, expected);
        assert!(report.is_usable());
        // The table is as before, but for recovery, which no later call switches off.
        create(&locks(&engine), &provisioned).await;
        assert!(has_recovery(&engine.client()).await);
        let kept = provisioned.tag("tag 0", "other").point_in_time_recovery();
        assert_eq!(findings(&locks(&engine), &kept).await, []);
        let table = description(&engine.client()).await;
        assert_eq!(table.deletion_protection_enabled(), Some(false));
    });
}

#[test]
fn a_table_that_differs_is_logged_at_its_creation() {
    let lines = said(Level::WARN, async || {
        let engine = engine();
        create(&locks(&engine), &TableOptions::default()).await;
        create(
            &locks(&engine),
            &TableOptions::default().deletion_protection(),
        )
        .await;
    });
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    for word in [
        "not as its options ask",
        "deletion protection is off",
        "locks",
    ] {
        assert!(line.contains(word), "no {word}: {line}");
    }
}

#[test]
fn what_a_call_that_failed_left_undone_is_done_by_the_next() {
    virtual_time(async {
        let steps: [&'static [&'static str]; 4] = [
            &["CreateTable"],
            &["UpdateTimeToLive"],
            &["DescribeContinuousBackups"],
            &["UpdateContinuousBackups"],
        ];
        for denied in steps {
            let engine = engine();
            let fault = Fault::Refuse("AccessDeniedException");
            let refused = troubled(&engine, denied, fault).create_table(&all()).await;
            let refused = refused.unwrap_err();
            assert!(matches!(refused, Error::Refused { .. }), "{refused}");
            create(&locks(&engine), &all()).await;
            assert_eq!(findings(&locks(&engine), &all()).await, [], "{denied:?}");
        }
    });
}

#[test]
fn a_request_for_recovery_whose_answer_is_lost_is_made_again_or_found_done() {
    virtual_time(async {
        for operation in [&["UpdateContinuousBackups"], &["DescribeContinuousBackups"]] {
            for when in [When::Before, When::After] {
                let engine = engine();
                let (lost, counted) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
                let seen = Arc::clone(&lost);
                // The first two answers are lost.
                let network = Network::to(&engine).script(move |request| {
                    let is_meant = operation.contains(&request.operation());
                    let is_lost = is_meant && counted.fetch_add(1, Ordering::SeqCst) < 2;
                    is_lost.then(|| {
                        seen.fetch_add(1, Ordering::SeqCst);
                        Fault::Lose(when)
                    })
                });
                create(&over(&network), &all()).await;
                assert!(lost.load(Ordering::SeqCst) > 0);
                assert_eq!(findings(&locks(&engine), &all()).await, []);
            }
        }
    });
}

#[test]
fn backups_that_are_not_ready_yet_are_waited_for_and_not_for_ever() {
    virtual_time(async {
        let unready = Fault::Refuse("ContinuousBackupsUnavailableException");
        let engine = engine();
        let network = Network::to(&engine);
        let ready = tokio::time::Instant::now() + 20 * SECOND;
        let for_a_time = network.clone().script({
            let unready = unready.clone();
            move |request| {
                let is_meant = request.operation() == "UpdateContinuousBackups";
                let is_early = tokio::time::Instant::now() < ready;
                (is_meant && is_early).then(|| unready.clone())
            }
        });
        create(&over(&for_a_time), &all()).await;
        assert!(tokio::time::Instant::now() >= ready);
        assert_eq!(findings(&locks(&engine), &all()).await, []);

        let never = troubled(&self::engine(), &["DescribeContinuousBackups"], unready);
        let created = never.create_table(&all()).await;
        assert!(
            matches!(created, Err(Error::Unavailable { .. })),
            "{created:?}"
        );
    });
}

#[test]
fn many_may_make_the_table_at_once_and_it_has_everything() {
    virtual_time(async {
        let engine = engine();
        let late = |request: &fairlock::embedded::Request| {
            let creates = request.operation() == "CreateTable";
            creates.then_some(Fault::Delay(When::Before, SECOND))
        };
        let clients: Vec<_> = (0..8)
            .map(|_| over(&Network::to(&engine).script(late)))
            .collect();
        let options = all();
        let created = clients.iter().map(|locks| locks.create_table(&options));
        for created in futures::future::join_all(created).await {
            created.unwrap();
        }
        assert_eq!(findings(&clients[0], &options).await, []);
    });
}

// ---------------------------------------------------------------------------------------------------------------
// Engines and policies that do not take part

#[test]
fn an_engine_that_does_not_know_a_setting_gets_its_table_and_a_check_says_so() {
    virtual_time(async {
        let engine = engine();
        let unknown = Fault::Refuse("UnknownOperationException");
        let operations = &["DescribeContinuousBackups", "ListTagsOfResource"];
        let locks = troubled(&engine, operations, unknown);
        let options = all().tag("tag 0", "value 0");
        create(&locks, &options).await;
        let report = locks.check_table_with(&options).await.unwrap();
        assert_eq!(report.findings.len(), 28, "each tag, and recovery");
        let of_an_engine = |found: &Finding| matches!(found, Finding::WithoutSetting { .. });
        assert!(report.findings.iter().all(of_an_engine), "{report}");
        assert!(report.is_usable());
        let told = "note: this engine has no point-in-time recovery: locks do without it";
        assert!(report.to_string().contains(told), "{report}");
    });
}

#[test]
fn a_permission_that_is_missing_is_a_note_and_hides_no_other_finding() {
    virtual_time(async {
        for operation in ["ListTagsOfResource", "DescribeContinuousBackups"] {
            let engine = engine();
            create(&locks(&engine), &all()).await;
            unprotect(&engine.client()).await;
            let fault = Fault::Refuse("AccessDeniedException");
            let meets = move |request: &fairlock::embedded::Request| {
                (request.operation() == operation).then(|| fault.clone())
            };
            let denied = over(&Network::to(&engine).script(meets));
            let report = denied.check_table_with(&all()).await.unwrap();
            let [protection, denied] = &report.findings[..] else {
                panic!("{report}")
            };
            assert_eq!(*protection, off(TableSetting::DeletionProtection));
            assert!(
                matches!(denied, Finding::Denied { operation: told, .. } if *told == operation),
                "{report}"
            );
            assert_eq!(denied.severity(), Severity::Note);
            assert!(denied.remedy().contains(operation), "{denied}");
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------
// The embedded engine

async fn recover(client: &Client, enabled: bool, days: Option<i32>) -> Result<(), String> {
    let recovery = PointInTimeRecoverySpecification::builder()
        .point_in_time_recovery_enabled(enabled)
        .set_recovery_period_in_days(days);
    let request = client.update_continuous_backups().table_name("locks");
    let request = request.point_in_time_recovery_specification(recovery.build().unwrap());
    let answer = request.send().await.map(drop);
    answer.map_err(|error| error.code().unwrap_or_default().to_owned())
}

async fn tables(client: &Client) -> Vec<String> {
    let listed = client.list_tables().send().await.unwrap();
    listed.table_names().to_vec()
}

fn file(path: &Path) -> Engine {
    Engine::file(path).unwrap()
}

#[test]
fn a_file_remembers_the_settings_of_a_table_until_the_table_is_deleted() {
    real_time(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("locks.db");
        create(&locks(&file(&path)), &all()).await;
        let other = file(&path);
        assert_eq!(findings(&locks(&other), &all()).await, []);
        let read_only = Engine::read_only(&path).unwrap();
        let found = findings(&locks(&read_only), &all()).await;
        let is_of_writing = |found: &Finding| matches!(found, Finding::Denied { .. });
        assert!(found.iter().all(is_of_writing), "{found:?}");
        assert_eq!(tables(&read_only.client()).await, ["locks"]);
        let client = other.client();
        let deletion = || client.delete_table().table_name("locks").send();
        assert!(deletion().await.is_err(), "it is protected");
        unprotect(&client).await;
        deletion().await.unwrap();
        // Another table of the name has nothing of the first.
        create(&locks(&file(&path)), &TableOptions::default()).await;
        assert!(!has_recovery(&file(&path).client()).await);
    });
}

#[test]
fn recovery_is_switched_on_and_off_for_one_to_35_days_and_of_no_missing_table() {
    virtual_time(async {
        let engine = engine();
        let client = engine.client();
        let missing = recover(&client, true, None).await;
        assert_eq!(missing, Err("TableNotFoundException".to_owned()));
        create(&locks(&engine), &TableOptions::default()).await;
        for (days, done) in [(0, false), (1, true), (35, true), (36, false)] {
            let refused = Err("ValidationException".to_owned());
            let expected = if done { Ok(()) } else { refused };
            assert_eq!(recover(&client, true, Some(days)).await, expected, "{days}");
        }
        assert!(has_recovery(&client).await);
        recover(&client, false, None).await.unwrap();
        assert!(!has_recovery(&client).await);
        assert_eq!(tables(&client).await, ["locks"]);
    });
}
