//! Options for the creation of a table.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Invalid;

/// DynamoDB's limits of tags. Lengths are in characters, not in bytes.
const TAGS: usize = 50;
const KEY_LENGTH: usize = 128;
const VALUE_LENGTH: usize = 256;
/// Tags whose keys begin with this, in small or capital letters, are AWS's own.
const RESERVED: &str = "aws:";
/// The name of a key of KMS may be as long as this.
const KMS_KEY_LENGTH: usize = 2048;
/// The name of the key that AWS manages for DynamoDB. As a name of a customer's key, DynamoDB refuses it.
const AWS_MANAGED: &str = "alias/aws/dynamodb";

/// Options for the table that [`create_table`](crate::LockClient::create_table) makes. Its name and the names of its keys are the
/// client's.
///
/// Tags, deletion protection and the encryption key are a part of the request that makes the table. So the table has them from the
/// beginning or is not made. Point-in-time recovery is a request of its own behind it.
///
/// # Examples
///
/// ```
/// use fairlock::TableOptions;
///
/// let on_demand = TableOptions::default();
/// // Five reads and ten writes a second, paid for by the hour.
/// let provisioned = TableOptions::provisioned(5, 10);
/// assert_ne!(on_demand, provisioned);
///
/// let for_production = TableOptions::default()
///     .tag("team", "payments")
///     .tag("environment", "production")
///     .deletion_protection()
///     .point_in_time_recovery();
/// assert!(for_production.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    pub(super) billing: Billing,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) is_protected: bool,
    pub(super) has_recovery: bool,
    pub(super) key: EncryptionKey,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Billing {
    /// By the request.
    #[default]
    OnDemand,
    /// By the hour, in capacity units: about one strong read of 4 KB, or one write of 1 KB, a second.
    Provisioned { read: u32, write: u32 },
}

/// The key by which DynamoDB encrypts a table at rest. It encrypts every table.
///
/// # Examples
///
/// ```
/// use fairlock::{EncryptionKey, TableOptions};
///
/// let key = EncryptionKey::Customer("alias/locks".into());
/// let options = TableOptions::default().encryption_key(key);
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncryptionKey {
    /// A key that AWS owns, which costs nothing and needs no permissions.
    #[default]
    AwsOwned,
    /// The key `alias/aws/dynamodb` of the account, which AWS manages. KMS charges for its use.
    AwsManaged,
    /// A key of the account's own: its id, its ARN, the name of an alias that begins with `alias/`, or an alias's ARN. KMS charges for its
    /// use. Each caller that uses the table needs permission for the key.
    Customer(String),
}

impl fmt::Display for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncryptionKey::AwsOwned => f.write_str("a key that AWS owns"),
            EncryptionKey::AwsManaged => write!(f, "`{AWS_MANAGED}`"),
            EncryptionKey::Customer(key) => write!(f, "`{}`", key.escape_debug()),
        }
    }
}

impl TableOptions {
    /// Sets provisioned throughput, in read and write capacity units (both at least 1), in place of billing by the request.
    ///
    /// An uncontended turn writes twice. A successor polls the lock up to fifty times a second. DynamoDB throttles requests
    /// beyond the capacity, which makes waiting slower, not unsafe. A lease that cannot be renewed is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// let options = fairlock::TableOptions::provisioned(25, 25);
    /// ```
    pub fn provisioned(read: u32, write: u32) -> Self {
        TableOptions {
            billing: Billing::Provisioned { read, write },
            ..TableOptions::default()
        }
    }

    /// Sets a tag of the table: at most 50 tags, in any order. A second value for a key replaces the first.
    ///
    /// A key has 1 to 128 characters and does not begin with `aws:`. A value has at most 256, or none. Both consist of letters, digits,
    /// white space and `+ - = . _ : / @`. Needs permission for `TagResource`.
    ///
    /// # Examples
    ///
    /// ```
    /// let options = fairlock::TableOptions::default().tag("team", "payments");
    /// ```
    #[must_use = "the tag is one of the returned options"]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.insert(key.into(), value.into());
        self
    }

    /// Sets deletion protection: `DeleteTable` fails until the protection is switched off. It is off by default.
    ///
    /// # Examples
    ///
    /// ```
    /// let options = fairlock::TableOptions::default().deletion_protection();
    /// ```
    #[must_use = "the protection is one of the returned options"]
    pub fn deletion_protection(mut self) -> Self {
        self.is_protected = true;
        self
    }

    /// Sets point-in-time recovery, which can restore the table, into another one, as it was at any second of the last 35 days. It is off
    /// by default, and DynamoDB charges for it. Needs permission for `UpdateContinuousBackups` and `DescribeContinuousBackups`.
    ///
    /// A restored table grants old tickets again, unless the items of its locks are deleted first.
    ///
    /// # Examples
    ///
    /// ```
    /// let options = fairlock::TableOptions::default().point_in_time_recovery();
    /// ```
    #[must_use = "the recovery is one of the returned options"]
    pub fn point_in_time_recovery(mut self) -> Self {
        self.has_recovery = true;
        self
    }

    /// Sets the key by which DynamoDB encrypts the table. The default is [`EncryptionKey::AwsOwned`].
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{EncryptionKey, TableOptions};
    ///
    /// let options = TableOptions::default().encryption_key(EncryptionKey::AwsManaged);
    /// ```
    #[must_use = "the key is one of the returned options"]
    pub fn encryption_key(mut self, key: EncryptionKey) -> Self {
        self.key = key;
        self
    }

    /// Checks the options by DynamoDB's rules, as far as these are documented, without a request.
    /// [`create_table`](crate::LockClient::create_table) begins with the same check, so that wrong options fail also where the table
    /// exists already.
    ///
    /// # Errors
    ///
    /// [`Invalid`] names the first option that DynamoDB would refuse, and the rule.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::TableOptions;
    ///
    /// let refused = TableOptions::default().tag("aws:team", "payments").check().unwrap_err();
    /// assert!(refused.to_string().contains("must not begin with `aws:`"));
    /// ```
    pub fn check(&self) -> Result<(), Invalid> {
        self.capacity()?;
        if self.tags.len() > TAGS {
            return Err(Invalid::Range {
                setting: "number of tags",
                value: self.tags.len(),
                least: 0,
                most: TAGS,
            });
        }
        for (key, value) in &self.tags {
            check_tag(key, value)?;
        }
        match &self.key {
            EncryptionKey::Customer(key) => check_key(key),
            EncryptionKey::AwsOwned | EncryptionKey::AwsManaged => Ok(()),
        }
    }

    fn capacity(&self) -> Result<(), Invalid> {
        let Billing::Provisioned { read, write } = self.billing else {
            return Ok(());
        };
        let units = [("read capacity", read), ("write capacity", write)];
        let none = units.into_iter().find(|(_, units)| *units == 0);
        none.map_or(Ok(()), |(setting, _)| {
            Err(Invalid::Range {
                setting,
                value: 0,
                least: 1,
                most: usize::try_from(u32::MAX).unwrap_or(usize::MAX),
            })
        })
    }
}

fn check_tag(key: &str, value: &str) -> Result<(), Invalid> {
    let rule = match key {
        _ if !(1..=KEY_LENGTH).contains(&key.chars().count()) => "must have 1 to 128 characters",
        _ if is_reserved(key) => "must not begin with `aws:`, which is for AWS's own tags",
        _ if !key.chars().all(may_be_in_a_tag) => ALLOWED,
        _ => return check_value(value),
    };
    Err(wrong("tag key", key, rule))
}

const ALLOWED: &str =
    "must consist of letters, digits, white space and the characters `+ - = . _ : / @`";

fn check_value(value: &str) -> Result<(), Invalid> {
    let rule = match value {
        _ if value.chars().count() > VALUE_LENGTH => "must have at most 256 characters",
        _ if !value.chars().all(may_be_in_a_tag) => ALLOWED,
        _ => return Ok(()),
    };
    Err(wrong("tag value", value, rule))
}

fn is_reserved(key: &str) -> bool {
    let start = key.get(..RESERVED.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(RESERVED))
}

/// DynamoDB's own page leaves out `@`, which AWS's rules for all services allow. Addresses of mail are common values.
fn may_be_in_a_tag(letter: char) -> bool {
    let is_space = letter.is_whitespace() && !letter.is_control();
    letter.is_alphanumeric() || is_space || "+-=._:/@".contains(letter)
}

/// Whether it can be the name of a key at all. KMS knows whether there is such a key.
fn check_key(key: &str) -> Result<(), Invalid> {
    let is_in_a_name = |letter: char| letter.is_ascii_alphanumeric() || "-_/:.".contains(letter);
    let rule = match key {
        _ if !(1..=KMS_KEY_LENGTH).contains(&key.len()) => "must have 1 to 2048 characters",
        _ if !key.chars().all(is_in_a_name) => "must be the id or the ARN of a key or of an alias",
        _ if key.ends_with(AWS_MANAGED) => {
            "is the key that AWS manages: say `EncryptionKey::AwsManaged`"
        }
        _ => return Ok(()),
    };
    Err(wrong("encryption key", key, rule))
}

fn wrong(setting: &'static str, value: &str, rule: &'static str) -> Invalid {
    Invalid::Text {
        setting,
        value: value.to_owned(),
        rule,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(key: &str, value: &str) -> Result<(), Invalid> {
        TableOptions::default().tag(key, value).check()
    }

    fn customer(key: &str) -> Result<(), Invalid> {
        let key = EncryptionKey::Customer(key.to_owned());
        TableOptions::default().encryption_key(key).check()
    }

    #[test]
    fn a_tag_is_what_dynamodb_documents() {
        let longest = ["k".repeat(128), "v".repeat(256)];
        for (key, value) in [
            ("team", "payments"),
            ("cost:centre/1.2_a-b+c=d", ""),
            ("équipe 漢", "ab\u{a0}c"),
            ("awsome", "aws: is a fine value"),
            ("owner", "team@example.com"),
            (&longest[0], &longest[1]),
            // Characters are counted, not bytes.
            (&"漢".repeat(128), &"漢".repeat(256)),
        ] {
            assert_eq!(tagged(key, value), Ok(()), "{key:?}: {value:?}");
        }
        for (key, value, rule) in [
            ("", "x", "1 to 128"),
            (&*"k".repeat(129), "x", "1 to 128"),
            ("aws:team", "x", "`aws:`"),
            ("AwS:team", "x", "`aws:`"),
            ("team!", "x", "letters, digits"),
            ("te\nam", "x", "letters, digits"),
            ("team", &*"v".repeat(257), "at most 256"),
            ("team", "a#b", "letters, digits"),
            ("team", "a\tb", "letters, digits"),
        ] {
            let refused = tagged(key, value).unwrap_err().to_string();
            assert!(
                refused.contains(rule) && !refused.contains('\n'),
                "{refused}"
            );
        }
    }

    #[test]
    fn fifty_tags_are_taken_and_one_more_is_refused() {
        let with = |tags: usize| {
            let each = 0..tags;
            each.fold(TableOptions::default(), |options, tag| {
                options.tag(format!("tag {tag}"), "x")
            })
        };
        assert_eq!(with(50).check(), Ok(()));
        assert!(matches!(
            with(51).check(),
            Err(Invalid::Range {
                value: 51,
                most: 50,
                ..
            })
        ));
        assert_eq!(with(50).tag("tag 7", "another value").check(), Ok(()));
    }

    #[test]
    fn a_key_is_named_as_kms_names_keys() {
        for key in [
            "1234abcd-12ab-34cd-56ef-1234567890ab",
            "mrk-1234abcd12ab34cd56ef1234567890ab",
            "alias/locks",
            "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            "arn:aws-us-gov:kms:us-gov-west-1:111122223333:alias/team/locks",
        ] {
            assert_eq!(customer(key), Ok(()), "{key}");
        }
        for (key, rule) in [
            ("", "1 to 2048"),
            (&*"k".repeat(2049), "1 to 2048"),
            ("alias/my locks", "id or the ARN"),
            ("alias/locks\n", "id or the ARN"),
            ("alias/aws/dynamodb", "AwsManaged"),
            (
                "arn:aws:kms:eu-west-1:111122223333:alias/aws/dynamodb",
                "AwsManaged",
            ),
        ] {
            let refused = customer(key).unwrap_err().to_string();
            assert!(refused.contains(rule), "{refused}");
        }
    }
}
