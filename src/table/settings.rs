//! What the options ask of a table beside its keys, compared with what the table has.

use std::collections::BTreeMap;
use std::fmt;

use aws_sdk_dynamodb::types::{SseDescription, SseStatus, TableDescription};

use super::finding::Finding;
use super::options::{Billing, EncryptionKey, TableOptions};

/// A setting of a table that locks do not depend on, and that [`TableOptions`] can ask for.
///
/// # Examples
///
/// ```
/// use fairlock::TableSetting;
///
/// assert_eq!(TableSetting::DeletionProtection.to_string(), "deletion protection");
/// assert_eq!(TableSetting::Tag("team".into()).to_string(), "tag `team`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableSetting {
    /// Provisioned throughput.
    Throughput,
    /// The tag with this key.
    Tag(String),
    /// [`TableOptions::deletion_protection`].
    DeletionProtection,
    /// [`TableOptions::point_in_time_recovery`].
    PointInTimeRecovery,
    /// [`TableOptions::encryption_key`].
    EncryptionKey,
}

impl fmt::Display for TableSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableSetting::Throughput => f.write_str("throughput"),
            TableSetting::Tag(key) => write!(f, "tag `{}`", key.escape_debug()),
            TableSetting::DeletionProtection => f.write_str("deletion protection"),
            TableSetting::PointInTimeRecovery => f.write_str("point-in-time recovery"),
            TableSetting::EncryptionKey => f.write_str("encryption key"),
        }
    }
}

/// Compares what DescribeTable says with what the options ask for. What they do not ask for is as it may be.
pub(super) fn of_description(table: &TableDescription, options: &TableOptions) -> Vec<Finding> {
    let findings = [
        throughput(table, &options.billing),
        protection(table, options.is_protected),
        encryption(table.sse_description(), &options.key),
    ];
    findings.into_iter().flatten().collect()
}

fn throughput(table: &TableDescription, asked: &Billing) -> Option<Finding> {
    let Billing::Provisioned { read, write } = *asked else {
        return None;
    };
    let has = table.provisioned_throughput();
    let of = |units: Option<i64>| units.and_then(|units| u32::try_from(units).ok());
    let units = |(read, write)| format!("{read} read and {write} write units");
    let found = (
        of(has.and_then(|has| has.read_capacity_units())).unwrap_or(0),
        of(has.and_then(|has| has.write_capacity_units())).unwrap_or(0),
    );
    let told = match found {
        // DynamoDB shows no units for a table that is paid for by the request.
        (0, 0) => "on demand".to_owned(),
        found => units(found),
    };
    let needed = (read, write);
    (found != needed).then(|| other(TableSetting::Throughput, told, units(needed)))
}

fn protection(table: &TableDescription, asked: bool) -> Option<Finding> {
    let setting = TableSetting::DeletionProtection;
    match table.deletion_protection_enabled() {
        _ if !asked => None,
        Some(true) => None,
        Some(false) => Some(switched_off(setting)),
        // DynamoDB itself always says whether it is on.
        None => Some(Finding::WithoutSetting { setting }),
    }
}

/// A key that AWS manages cannot be told from the account's own, and an alias not from another, without a request to KMS.
fn encryption(found: Option<&SseDescription>, asked: &EncryptionKey) -> Option<Finding> {
    let is_by_kms = |found: &&SseDescription| {
        let status = found.status();
        !matches!(status, Some(SseStatus::Disabled | SseStatus::Disabling))
    };
    let found = found.filter(is_by_kms);
    let is_as_asked = match (asked, found) {
        (EncryptionKey::AwsOwned, _) => true,
        (_, None) => false,
        (EncryptionKey::AwsManaged, Some(_)) => true,
        (EncryptionKey::Customer(key), Some(found)) => found
            .kms_master_key_arn()
            .is_none_or(|arn| may_be(arn, key)),
    };
    let arn = || Some(format!("`{}`", found?.kms_master_key_arn()?.escape_debug()));
    let told = || arn().unwrap_or_else(|| EncryptionKey::AwsOwned.to_string());
    (!is_as_asked).then(|| other(TableSetting::EncryptionKey, told(), asked.to_string()))
}

/// Whether the key with this ARN may be the key of this name.
fn may_be(arn: &str, name: &str) -> bool {
    let is_of_an_alias = name.starts_with("alias/") || name.contains(":alias/");
    is_of_an_alias || arn == name || arn.ends_with(&format!(":key/{name}"))
}

/// Compares the table's tags with those of the options. The table may have others besides.
pub(super) fn of_tags(found: &BTreeMap<String, String>, options: &TableOptions) -> Vec<Finding> {
    let quoted = |value: &String| format!("`{}`", value.escape_debug());
    let differing = options.tags.iter().filter_map(|(key, needed)| {
        let has = found.get(key);
        (has != Some(needed)).then(|| {
            let told = has.map_or_else(|| "missing".to_owned(), quoted);
            other(TableSetting::Tag(key.clone()), told, quoted(needed))
        })
    });
    differing.collect()
}

/// The finding that a setting which is asked for is off.
pub(super) fn switched_off(setting: TableSetting) -> Finding {
    other(setting, "off".to_owned(), "on".to_owned())
}

fn other(setting: TableSetting, found: String, needed: String) -> Finding {
    Finding::OtherSetting {
        setting,
        found,
        needed,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::{ProvisionedThroughputDescription, SseType};

    use super::*;

    const ARN: &str = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd";

    fn by_kms(status: SseStatus) -> TableDescription {
        let found = SseDescription::builder()
            .status(status)
            .sse_type(SseType::Kms);
        let found = found.kms_master_key_arn(ARN).build();
        TableDescription::builder().sse_description(found).build()
    }

    fn customer(key: &str) -> TableOptions {
        let key = EncryptionKey::Customer(key.to_owned());
        TableOptions::default().encryption_key(key)
    }

    #[test]
    fn a_key_differs_only_if_it_is_certain_to_be_another() {
        let managed = TableOptions::default().encryption_key(EncryptionKey::AwsManaged);
        let (on, off) = (by_kms(SseStatus::Enabled), by_kms(SseStatus::Disabled));
        for same in [
            &managed,
            &customer(ARN),
            &customer("1234abcd"),
            &customer("alias/a"),
        ] {
            assert_eq!(of_description(&on, same), [], "{same:?}");
            for without in [&off, &TableDescription::builder().build()] {
                let findings = of_description(without, same);
                assert_eq!(findings.len(), 1, "{same:?}");
            }
        }
        let other = of_description(&on, &customer("5678efgh"));
        let told = other[0].to_string();
        assert!(told.contains(ARN) && told.contains("5678efgh"), "{told}");
        // A key that nobody asked for is no finding.
        assert_eq!(of_description(&on, &TableOptions::default()), []);
    }

    #[test]
    fn throughput_differs_by_units_and_from_billing_by_the_request() {
        let with = |read, write| {
            let has = ProvisionedThroughputDescription::builder()
                .read_capacity_units(read)
                .write_capacity_units(write);
            let table = TableDescription::builder();
            table.provisioned_throughput(has.build()).build()
        };
        let asked = TableOptions::provisioned(5, 10);
        assert_eq!(of_description(&with(5, 10), &asked), []);
        for (table, found) in [
            (with(5, 11), "5 read and 11 write"),
            (with(0, 0), "on demand"),
        ] {
            let findings = of_description(&table, &asked);
            let told = findings.first().unwrap().to_string();
            assert!(told.contains(found), "{told}");
        }
        assert_eq!(of_description(&with(5, 11), &TableOptions::default()), []);
    }
}
