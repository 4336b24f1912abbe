//! The table: created by one call, and checked.

use aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;
use aws_sdk_dynamodb::types::ScalarAttributeType::{N, S};
use aws_sdk_dynamodb::types::{BillingMode, ProvisionedThroughput};
use fairlock::{Error, Finding};

use super::rig::Rig;
use fairlock_testkit::keyed_tables::{OF_LOCKS, create_table};

pub(crate) async fn a_table_is_made_once_and_found_fit(rig: &Rig) {
    let locks = rig.host().locks;
    locks.create_table().await.unwrap();
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
    let created = other.create_table().await;
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
    locks.create_table().await.unwrap();
    let report = locks.check_table().await.unwrap();
    assert!(!report.findings.contains(&Finding::NoTtl), "{report}");
    client.delete_table().table_name(name).send().await.unwrap();
}

pub(crate) async fn what_is_added_to_the_request_is_there_and_nothing_else_is_compared(rig: &Rig) {
    let name = format!("{}-more", rig.table().name);
    let client = rig.table().client;
    let locks = rig.host_with(|builder| builder.table(&name)).locks;
    let units = ProvisionedThroughput::builder()
        .read_capacity_units(7)
        .write_capacity_units(9);
    let units = units.build().unwrap();
    for _ in 0..2 {
        let provisioned = |request: CreateTableFluentBuilder| {
            let request = request.billing_mode(BillingMode::Provisioned);
            request
                .table_name("another")
                .provisioned_throughput(units.clone())
        };
        locks.create_table_with(provisioned).await.unwrap();
        assert!(locks.check_table().await.unwrap().is_usable());
    }
    let described = client.describe_table().table_name(&name).send().await;
    let units = described.unwrap().table.unwrap().provisioned_throughput;
    let units = units.unwrap();
    assert_eq!(
        (units.read_capacity_units, units.write_capacity_units),
        (Some(7), Some(9))
    );
    client.delete_table().table_name(name).send().await.unwrap();
}
