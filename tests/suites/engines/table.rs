//! The table: created by one call, and checked.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use aws_sdk_dynamodb::types::ScalarAttributeType::{N, S};
use fairlock::{EncryptionKey, Error, Finding, TableOptions, TableSetting};

use super::rig::Rig;
use fairlock_testkit::keyed_tables::{OF_LOCKS, create_table};

pub(crate) async fn a_table_is_made_once_and_found_fit(rig: &Rig) {
    let locks = rig.host().locks;
    locks.create_table(&TableOptions::default()).await.unwrap();
    let report = locks.check_table().await.unwrap();
    assert!(report.is_usable(), "{report}");
    // The answers of some engines have no date.
    let mut findings = report.findings.iter();
    assert!(
        findings.all(|found| *found == Finding::MissingDateHeader),
        "{report}"
    );
}

pub(crate) async fn a_table_that_is_missing_or_of_other_keys_is_named(rig: &Rig) {
    let name = format!("{}-other", rig.table().name);
    let other = rig.host_with(|builder| builder.table(&name)).locks;
    let report = other.check_table().await.unwrap();
    assert_eq!(report.findings[0], Finding::NoTable, "{report}");
    let client = rig.table().client;
    create_table(&client, &name, &[("id", S), ("sk", N)]).await;
    let report = other.check_table().await.unwrap();
    let wrong = &report.findings[0];
    assert!(matches!(wrong, Finding::WrongKeys { .. }), "{report}");
    assert!(!report.is_usable());
    let created = other.create_table(&TableOptions::default()).await;
    let refused = created.unwrap_err();
    let Error::Refused { source, .. } = &refused else {
        panic!("{refused}")
    };
    assert_eq!(source.downcast_ref(), Some(wrong));
    client.delete_table().table_name(name).send().await.unwrap();
}

pub(crate) async fn a_table_without_ttl_is_warned_of_until_it_is_switched_on(rig: &Rig) {
    let name = format!("{}-no-ttl", rig.table().name);
    let client = rig.table().client;
    create_table(&client, &name, &OF_LOCKS).await;
    let locks = rig.host_with(|builder| builder.table(&name)).locks;
    let report = locks.check_table().await.unwrap();
    assert!(report.findings.contains(&Finding::NoTtl), "{report}");
    assert!(report.is_usable(), "{report}");
    locks.create_table(&TableOptions::default()).await.unwrap();
    let report = locks.check_table().await.unwrap();
    assert!(!report.findings.contains(&Finding::NoTtl), "{report}");
    client.delete_table().table_name(name).send().await.unwrap();
}

/// DynamoDB Local ignores a key, as if AWS's own were the one that it was asked for.
fn is_of_an_engine(finding: &Finding) -> bool {
    let is_of_a_key = |setting: &_| matches!(setting, TableSetting::EncryptionKey);
    match finding {
        Finding::WithoutSetting { .. } | Finding::MissingDateHeader => true,
        Finding::OtherSetting { setting, found, .. } => {
            is_of_a_key(setting) && *found == EncryptionKey::AwsOwned.to_string()
        }
        _ => false,
    }
}

pub(crate) async fn settings_are_there_after_the_creation_or_the_engine_has_none_of_the_kind(
    rig: &Rig,
) {
    let name = format!("{}-settings", rig.table().name);
    let client = rig.table().client;
    let locks = rig.host_with(|builder| builder.table(&name)).locks;
    let options = TableOptions::default()
        .tag("team", "payments")
        .deletion_protection()
        .point_in_time_recovery()
        .encryption_key(EncryptionKey::Customer("alias/locks".to_owned()));
    for _ in 0..2 {
        locks.create_table(&options).await.unwrap();
        let report = locks.check_table_with(&options).await.unwrap();
        assert!(report.is_usable(), "{report}");
        assert!(report.findings.iter().all(is_of_an_engine), "{report}");
    }
    let protection = TableSetting::DeletionProtection;
    let without = Finding::WithoutSetting {
        setting: protection,
    };
    let report = locks.check_table_with(&options).await.unwrap();
    if !report.findings.contains(&without) {
        let protected = client.delete_table().table_name(&name).send().await;
        assert!(protected.is_err());
        let request = client.update_table().table_name(&name);
        let request = request.deletion_protection_enabled(false);
        request.send().await.unwrap();
    }
    client.delete_table().table_name(name).send().await.unwrap();
}
