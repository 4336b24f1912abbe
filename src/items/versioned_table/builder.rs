//! The settings of a versioned table.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;

use crate::runtime::background::Apart;
use crate::runtime::clock::Clock;
use crate::runtime::random_source::RandomSource;
use crate::store::Store;
use crate::store::requests::Requests;
use crate::vocabulary::config::{self, Config, Settings};
use crate::vocabulary::error::{Error, Invalid};

use super::revision::Attributes;
use super::{Inner, VersionedTable};

/// A longer time-out for one request is a mistake of units.
const MAX_REQUEST: Duration = Duration::from_secs(3600);
const MILLISECOND: Duration = Duration::from_millis(1);
/// DynamoDB's limit for names of attributes that indexes may have, with room for what the attribute of the newest writes is called besides.
const MAX_NAME: usize = 255 - "_writes".len();

/// Settings of a [`VersionedTable`]. [`build`](Self::build) checks them and sends nothing.
///
/// # Examples
///
/// ```
/// # fn build(dynamodb: aws_sdk_dynamodb::Client) -> Result<(), fairlock::Error> {
/// use fairlock::VersionedTable;
///
/// let accounts = VersionedTable::builder(dynamodb, "accounts").version_attribute("Version").build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct VersionedTableBuilder {
    dynamodb: Client,
    table: String,
    version: String,
    attempts: usize,
    within: Duration,
    request_timeout: Duration,
    clock: Clock,
    random_source: RandomSource,
}

impl VersionedTableBuilder {
    pub(super) fn new(dynamodb: Client, table: String) -> Self {
        VersionedTableBuilder {
            dynamodb,
            table,
            version: "version".into(),
            attempts: 16,
            within: Duration::from_secs(30),
            request_timeout: Duration::from_secs(2),
            clock: Clock::system(),
            random_source: RandomSource::system(),
        }
    }

    /// Sets the attribute that holds an item's version, a number. Default: `version`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::VersionedTableBuilder) -> fairlock::VersionedTableBuilder {
    /// builder.version_attribute("rev")
    /// # }
    /// ```
    pub fn version_attribute(mut self, name: impl Into<String>) -> Self {
        self.version = name.into();
        self
    }

    /// Limits how often an update reads the item and decides on its change, before it fails because others won each time.
    /// Default: 16.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::VersionedTableBuilder) -> fairlock::VersionedTableBuilder {
    /// builder.max_attempts(3)
    /// # }
    /// ```
    pub fn max_attempts(mut self, attempts: usize) -> Self {
        self.attempts = attempts;
        self
    }

    /// Limits the time of an update in all; the call may take one request time-out more. Default: 30 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::VersionedTableBuilder) -> fairlock::VersionedTableBuilder {
    /// builder.timeout(std::time::Duration::from_secs(5))
    /// # }
    /// ```
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Sets how long one request may take before it is sent again. Default: 2 s.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::VersionedTableBuilder) -> fairlock::VersionedTableBuilder {
    /// builder.request_timeout(std::time::Duration::from_millis(500))
    /// # }
    /// ```
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets where the time comes from; for tests.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::VersionedTableBuilder, clock: fairlock::Clock) -> fairlock::VersionedTableBuilder {
    /// builder.clock(clock)
    /// # }
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Takes all randomness from a seed, as [`LockClientBuilder::seeded`](crate::LockClientBuilder::seeded) does. For tests only.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::VersionedTableBuilder) -> fairlock::VersionedTableBuilder {
    /// builder.seeded(42)
    /// # }
    /// ```
    pub fn seeded(mut self, seed: u64) -> Self {
        self.random_source = RandomSource::seeded(seed);
        self
    }

    /// Checks the settings and builds the table.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for an unusable name of the table or an attribute, the same name twice, no attempt at all, or a
    /// time-out below a millisecond or above an hour.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn build(builder: fairlock::VersionedTableBuilder) -> Result<fairlock::VersionedTable, fairlock::Error> {
    /// builder.build()
    /// # }
    /// ```
    pub fn build(self) -> Result<VersionedTable, Error> {
        let attributes = self.attributes()?;
        self.check()?;
        let defaults = Settings::default();
        let config = Config::try_from(Settings {
            table: self.table,
            // Nothing is leased here: the lease only bounds time-outs and the pauses between requests.
            lease: defaults.lease.max(self.request_timeout.saturating_mul(6)),
            request_timeout: Some(self.request_timeout),
            clock: self.clock,
            random_source: self.random_source,
            ..defaults
        })?;
        let inner = Inner {
            requests: Requests::new(Store::new(&self.dynamodb, config, Apart(None))),
            attributes,
            attempts: self.attempts,
            within: self.within,
        };
        Ok(VersionedTable {
            inner: Arc::new(inner),
            fence: None,
        })
    }

    fn attributes(&self) -> Result<Attributes, Invalid> {
        let version = self.version.clone();
        let writes = format!("{version}_writes");
        let rule = "must be an attribute name of 1 to 248 bytes";
        config::text("version attribute", &version, MAX_NAME, rule)?;
        Ok(Attributes { version, writes })
    }

    fn check(&self) -> Result<(), Invalid> {
        if self.attempts == 0 {
            return Err(Invalid::new("max_attempts is 0 and must be at least 1"));
        }
        let (setting, timeout) = ("request time-out", self.request_timeout);
        config::at_least(setting, timeout, "the timer's grain", MILLISECOND)?;
        config::at_most(setting, timeout, "one hour", MAX_REQUEST)
    }
}
