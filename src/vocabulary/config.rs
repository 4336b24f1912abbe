//! A client's settings, their defaults, and which combinations can work.

use std::sync::Arc;
use std::time::Duration;

use crate::runtime::clock::Clock;
use crate::runtime::random_source::RandomSource;
use crate::vocabulary::error::Invalid;
use crate::vocabulary::name;
use crate::vocabulary::reserved;
use fairlock_protocol::agent::Terms;
pub(crate) use fairlock_protocol::clearing::{ALL_SLOTS, MAX_SLOTS};
use fairlock_protocol::lease;
use fairlock_protocol::problem::OF_A_FAIR_LOCK;

/// Builder input. Unset fields are derived from the others.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) table: String,
    pub(crate) names: Names,
    pub(crate) namespace: String,
    pub(crate) owner: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) safety_margin: Duration,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) successor_slots: usize,
    pub(crate) idle_retention: Duration,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) testing: Testing,
    #[cfg(feature = "metrics")]
    pub(crate) lock_label: Option<LockLabel>,
    pub(crate) clock: Clock,
    pub(crate) fallback_date: Option<Clock>,
    pub(crate) random_source: RandomSource,
}

/// What tests change, and the command. Each has a value that suits every user.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "not for users")]
pub struct Testing {
    /// How many successors the queue fills.
    pub filled_slots: Option<usize>,
    /// How long a drawn ticket may take to join the queue.
    pub join_timeout: Option<Duration>,
    /// The shortest and the longest time between two polls.
    pub poll_interval: Option<(Duration, Duration)>,
    /// How long a call that waits goes on while nothing is answered.
    pub outage_timeout: Option<Duration>,
    /// Whether calls read the lock first, while no answer has told the time: then the first write of a process has a date. The command
    /// does so, each of whose processes asks once.
    pub reads_first: bool,
}

/// The function that makes the label `lock` of a lock's metrics.
#[cfg(feature = "metrics")]
#[derive(Clone)]
pub(crate) struct LockLabel(Arc<dyn Fn(&str) -> String + Send + Sync>);

#[cfg(feature = "metrics")]
impl LockLabel {
    pub(crate) fn new(label: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        LockLabel(Arc::new(label))
    }

    pub(crate) fn of(&self, lock: &str) -> String {
        (self.0)(lock)
    }
}

#[cfg(feature = "metrics")]
impl std::fmt::Debug for LockLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockLabel").finish_non_exhaustive()
    }
}

/// The names of the table's key and TTL attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) partition_key: String,
    pub(crate) sort_key: String,
    pub(crate) ttl: String,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            partition_key: "pk".into(),
            sort_key: "sk".into(),
            ttl: "expires_at".into(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            table: "fairlock".into(),
            names: Names::default(),
            namespace: "fairlock".into(),
            owner: None,
            lease: Duration::from_secs(30),
            safety_margin: Duration::ZERO,
            heartbeat: None,
            successor_slots: MAX_SLOTS,
            idle_retention: 7 * DAY,
            request_timeout: None,
            testing: Testing::default(),
            #[cfg(feature = "metrics")]
            lock_label: None,
            clock: Clock::system(),
            fallback_date: None,
            random_source: RandomSource::system(),
        }
    }
}

/// Settings that were checked against each other.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) table: String,
    pub(crate) names: Names,
    pub(crate) namespace: Arc<str>,
    pub(crate) owner: String,
    /// The lease in which an owner believes: the lease in the table less the safety margin.
    pub(crate) lease: Duration,
    /// By how much an owner stops believing before the lease in the table ends.
    pub(crate) safety_margin: Duration,
    pub(crate) heartbeat: Duration,
    /// How many successors the lock item has room for.
    pub(crate) successor_slots: usize,
    /// How many of these the queue fills.
    pub(crate) filled_slots: usize,
    pub(crate) join_timeout: Duration,
    pub(crate) idle_retention: Duration,
    pub(crate) min_poll_interval: Duration,
    pub(crate) max_poll_interval: Duration,
    pub(crate) request_timeout: Duration,
    /// How long a call that waits goes on without answers.
    pub(crate) outage_timeout: Option<Duration>,
    pub(crate) reads_first: bool,
    #[cfg(feature = "metrics")]
    pub(crate) lock_label: Option<LockLabel>,
    pub(crate) clock: Clock,
    /// Stands in for the `Date` that answers do not have.
    pub(crate) fallback_date: Option<Clock>,
    pub(crate) random_source: RandomSource,
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
/// A longer idle retention is beyond the numbers of seconds that readers accept everywhere.
const MAX_RETENTION: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The longest name and the longest reason in a notice, in bytes. Each notice stays on the lock item until the next.
pub(crate) const MAX_NOTICE: usize = 128;
/// A visitor whose requests may take minutes makes no lost draw of others cost minutes. Its join rarely takes as long.
const LONGEST_JOIN: Duration = Duration::from_secs(30);
/// A shorter lease cannot be kept over any network.
const MIN_LEASE: Duration = Duration::from_millis(50);
/// With so many successors a write of the lock item costs some three units.
const FILLED_SLOTS: usize = 8;
/// A DynamoDB item has 400 KB, and the queue takes its part of them.
pub(crate) const MAX_DATA: usize = 64 * 1024;
/// How many callers may share a fair lock at one time. An exclusive holder has all of these permits.
pub(crate) const SHARERS: u64 = OF_A_FAIR_LOCK;
impl TryFrom<Settings> for Config {
    type Error = Invalid;

    fn try_from(said: Settings) -> Result<Self, Invalid> {
        at_most("lease", said.lease, "one day", DAY)?;
        let lease = said.lease.saturating_sub(said.safety_margin);
        let request_timeout = said.request_timeout.unwrap_or((lease / 6).min(2 * SECOND));
        let heartbeat = said
            .heartbeat
            .unwrap_or((lease / 3).min(lease::MAX_HEARTBEAT));
        let longest_join = (request_timeout.saturating_mul(5) / 2).clamp(5 * SECOND, LONGEST_JOIN);
        let filled_slots = FILLED_SLOTS.min(said.successor_slots);
        let usual = Terms::usual_polls(heartbeat);
        let (min_poll_interval, max_poll_interval) = said.testing.poll_interval.unwrap_or(usual);
        let config = Config {
            table: said.table,
            names: said.names,
            namespace: said.namespace.into(),
            owner: said.owner.unwrap_or_else(owner::default),
            lease,
            safety_margin: said.safety_margin,
            heartbeat,
            successor_slots: said.successor_slots,
            filled_slots: said.testing.filled_slots.unwrap_or(filled_slots),
            // The longest of all who stood in a queue that never empties counts in it for ever.
            join_timeout: said
                .testing
                .join_timeout
                .unwrap_or(longest_join)
                .min(longest_join),
            idle_retention: said.idle_retention,
            min_poll_interval,
            max_poll_interval,
            request_timeout,
            outage_timeout: said.testing.outage_timeout,
            reads_first: said.testing.reads_first,
            #[cfg(feature = "metrics")]
            lock_label: said.lock_label,
            clock: said.clock,
            fallback_date: said.fallback_date,
            random_source: said.random_source,
        };
        config.check()?;
        Ok(config)
    }
}

impl Config {
    fn check(&self) -> Result<(), Invalid> {
        self.check_texts()?;
        self.check_lease()?;
        slots("successor_slots", self.successor_slots, MAX_SLOTS)
    }

    fn check_texts(&self) -> Result<(), Invalid> {
        name::check_namespace(&self.namespace)?;
        check_table(&self.table)?;
        text("owner", &self.owner, 512, "must have 1 to 512 bytes")?;
        let Names {
            partition_key,
            sort_key,
            ttl,
        } = &self.names;
        for (setting, value) in [
            ("partition key", partition_key),
            ("sort key", sort_key),
            ("TTL attribute", ttl),
        ] {
            text(
                setting,
                value,
                255,
                "must be an attribute name of 1 to 255 bytes",
            )?;
            if reserved::is_reserved(value) {
                let rule = "is an attribute that fairlock itself uses";
                return Err(Invalid::text(setting, value, rule));
            }
        }
        let different = [
            (
                "sort key",
                sort_key,
                partition_key,
                "must not be the partition key too",
            ),
            (
                "TTL attribute",
                ttl,
                partition_key,
                "must not be the partition key too",
            ),
            (
                "TTL attribute",
                ttl,
                sort_key,
                "must not be the sort key too",
            ),
        ];
        let same = different
            .into_iter()
            .find(|(_, value, other, _)| value == other);
        same.map_or(Ok(()), |(setting, value, _, rule)| {
            Err(Invalid::text(setting, value, rule))
        })
    }

    /// Checks that a renewal may time out once and be sent again, and still arrive before its owner stops trusting the lease.
    fn check_lease(&self) -> Result<(), Invalid> {
        let setting = match self.safety_margin.is_zero() {
            true => "lease",
            false => "lease less its safety margin",
        };
        at_least(
            setting,
            self.lease,
            "the shortest that can be kept",
            MIN_LEASE,
        )?;
        let bound = "a date is not carried on for longer";
        at_most("heartbeat", self.heartbeat, bound, lease::MAX_HEARTBEAT)?;
        check_span("request time-out", self.request_timeout)?;
        check_span("heartbeat", self.heartbeat)?;
        let believed = lease::believed(self.lease);
        let needed = self
            .heartbeat
            .saturating_add(self.request_timeout.saturating_mul(2));
        if believed < needed {
            let (setting, value) = ("lease less its 2 % margin", believed);
            let bound = "a heartbeat and two request time-outs";
            return Err(Invalid::too_short(setting, value, bound, needed));
        }
        at_most(
            "idle retention",
            self.idle_retention,
            "ten years",
            MAX_RETENTION,
        )?;
        at_least(
            "idle retention",
            self.idle_retention,
            "hosts' clocks may differ by that",
            DAY,
        )?;
        // An item stays for half of the retention at the least, whenever a lease begins on it.
        let in_table = self.lease + self.safety_margin;
        let (bound, least) = ("twice the lease", in_table.saturating_mul(2));
        at_least("idle retention", self.idle_retention, bound, least)
    }
}

/// Refuses a span below the timer's grain: nothing shorter can be waited for.
pub(crate) fn check_span(setting: &'static str, span: Duration) -> Result<(), Invalid> {
    at_least(setting, span, "the timer's grain", MILLISECOND)
}

/// Checks a table's name by DynamoDB's own rule. What an ARN names is left to DynamoDB.
fn check_table(table: &str) -> Result<(), Invalid> {
    let rule = "must be a table's ARN, or its name: 3 to 255 of a-z, A-Z, 0-9, `_`, `-` and `.`";
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = (3..=255).contains(&table.len()) && table.chars().all(fits);
    let is_arn = table.starts_with("arn:") && table.len() <= 1024;
    if is_name || is_arn {
        Ok(())
    } else {
        Err(Invalid::text("table", table, rule))
    }
}

fn slots(setting: &'static str, value: usize, most: usize) -> Result<(), Invalid> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new(format!(
        "{setting} is {value} and must be 1 to {most}"
    )))
}

pub(crate) fn text(
    setting: &'static str,
    value: &str,
    limit: usize,
    rule: &'static str,
) -> Result<(), Invalid> {
    if value.is_empty() || value.len() > limit {
        Err(Invalid::text(setting, value, rule))
    } else {
        Ok(())
    }
}

pub(crate) fn at_least(
    setting: &'static str,
    value: Duration,
    bound: &'static str,
    least: Duration,
) -> Result<(), Invalid> {
    if value < least {
        Err(Invalid::too_short(setting, value, bound, least))
    } else {
        Ok(())
    }
}

pub(crate) fn at_most(
    setting: &'static str,
    value: Duration,
    bound: &'static str,
    most: Duration,
) -> Result<(), Invalid> {
    if value > most {
        Err(Invalid::too_long(setting, value, bound, most))
    } else {
        Ok(())
    }
}

/// The default owner, which an entry shows as the holder.
mod owner {
    /// `user@host:pid`.
    pub(super) fn default() -> String {
        format!("{}@{}:{}", user(), host(), std::process::id())
    }

    /// The user as the environment has it, which is empty in many containers and units. Otherwise the user as the system knows it.
    fn user() -> String {
        let named = ["USER", "LOGNAME", "USERNAME"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok());
        let is_usable = |user: &String| !user.is_empty() && user.len() <= 64;
        let uid = rustix::process::getuid().as_raw();
        let known = || {
            let users = std::fs::read_to_string("/etc/passwd").ok()?;
            named_in(&users, uid).filter(is_usable)
        };
        let named = named.filter(is_usable).or_else(known);
        named.unwrap_or_else(|| uid.to_string())
    }

    /// Finds a user by number. `users` has a line for each user: name, password, number, and fields that are of no use here.
    pub(super) fn named_in(users: &str, uid: u32) -> Option<String> {
        let uid = uid.to_string();
        let name_if_found = |line: &str| {
            let mut fields = line.split(':');
            let (name, number) = (fields.next()?, fields.nth(1)?);
            (number == uid).then(|| name.to_owned())
        };
        users.lines().find_map(name_if_found)
    }

    fn host() -> String {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(say: impl FnOnce(&mut Settings)) -> Result<Config, Invalid> {
        let mut said = Settings::default();
        say(&mut said);
        Config::try_from(said)
    }

    #[test]
    fn a_user_without_an_environment_is_known_by_the_name_of_its_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\n\nci:x:1001:1001::/:\nno:0\n";
        assert_eq!(owner::named_in(users, 0).as_deref(), Some("root"));
        assert_eq!(owner::named_in(users, 1001).as_deref(), Some("ci"));
        assert_eq!(owner::named_in(users, 100), None);
    }

    #[test]
    fn the_defaults_work_together_and_follow_the_lease() {
        let default = config(|_| {}).unwrap();
        assert_eq!(
            (default.lease, default.heartbeat),
            (30 * SECOND, 10 * SECOND)
        );
        assert_eq!(
            (default.request_timeout, default.join_timeout),
            (2 * SECOND, 5 * SECOND)
        );
        let patient = config(|said| said.testing.join_timeout = Some(600 * SECOND)).unwrap();
        assert_eq!(patient.join_timeout, default.join_timeout);
        assert!(config(|said| said.owner = Some(String::new())).is_err());
        for table in ["", "ab", "a/b", "a table", &"x".repeat(256)] {
            assert!(config(|said| said.table = table.into()).is_err(), "{table}");
        }
        for table in [
            "abc",
            "Locks_1.2-3",
            "arn:aws:dynamodb:us-east-1:123456789012:table/locks",
        ] {
            assert!(config(|said| said.table = table.into()).is_ok(), "{table}");
        }
        assert!(config(|said| said.namespace = "a/b".into()).is_err());
        for name in ["slots", "tickets"] {
            assert!(config(|said| said.names.ttl = name.into()).is_err());
            assert!(config(|said| said.names.partition_key = name.into()).is_err());
            assert!(config(|said| said.names.sort_key = name.into()).is_err());
        }
        assert!(config(|said| said.names.sort_key = "pk".into()).is_err());
    }
}
