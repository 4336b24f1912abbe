//! Sends one request to DynamoDB, and says what became of it: a conditional write, a consistent read, or a deletion of what is settled.
//!
//! A request is a single attempt with a time-out. [`Requests`](crate::store::requests::Requests) try again, in one place for all.

#[cfg(feature = "metrics")]
mod capacity;
mod check;
mod codec;
mod date;
mod exchange;
mod failure;
mod identity_cache;
mod item_budget;
mod lock_item;
mod operation;
mod request;
pub(crate) mod requests;
mod scan;
pub(crate) mod size;
mod unreachable;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;

use crate::runtime::background::Apart;
use crate::vocabulary::config::Config;
use crate::vocabulary::error::ItemProblem;
use crate::vocabulary::name::LockName;
use fairlock_protocol::clocks::Clocks;
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::failure::{Failure, Kind};
use fairlock_protocol::judge;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stamps::{Reading, Stamps};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::told::ToldTime;

pub(crate) use codec::{Item, attributes, number, text, values};
use date::ServerClock;
pub(crate) use exchange::ask;
pub(crate) use failure::{DENIED, Refusal, answered, denies, refusal, refused};
use identity_cache::IdentityCache;
pub(crate) use item_budget::{Said, check_room, most_permits};
pub(crate) use lock_item::all_of;
pub(crate) use operation::Operation;
pub(crate) use request::deletion;
pub(crate) use scan::ScanPlace;

/// A `Date` that was carried on for so long is early by up to half a second.
const YOUNG: Duration = Duration::from_secs(25);

/// The table as one client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    client: Client,
    /// Clients with more time for each request, by how many times as much: each may have connections of its own.
    patient: Arc<Mutex<BTreeMap<u32, Client>>>,
    config: Config,
    server: ServerClock,
}

/// An answer, with when its request was sent and when it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    pub(crate) sent: Moment,
    pub(crate) arrived: Moment,
    /// What was told of the time before.
    pub(crate) told: ToldTime,
    /// What a judge of the answer reads: its `Date`, and the wall clock when it arrived.
    pub(crate) reading: Reading,
}

impl<T> Timed<T> {
    pub(crate) fn map<U>(self, read: impl FnOnce(T) -> U) -> Timed<U> {
        Timed {
            value: read(self.value),
            sent: self.sent,
            arrived: self.arrived,
            told: self.told,
            reading: self.reading,
        }
    }

    pub(crate) fn try_map<U, E>(self, read: impl FnOnce(T) -> Result<U, E>) -> Result<Timed<U>, E> {
        Ok(Timed {
            value: read(self.value)?,
            sent: self.sent,
            arrived: self.arrived,
            told: self.told,
            reading: self.reading,
        })
    }
}

impl<T> Timed<Option<T>> {
    pub(crate) fn transpose(self) -> Option<Timed<T>> {
        self.try_map(|value| value.ok_or(())).ok()
    }
}

/// What became of a conditional write: the item after it, or the item that stood in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write<T> {
    Applied(T),
    /// `None` if there is no such item.
    ConditionFailed(Option<T>),
}

impl<T> Write<T> {
    /// The item that the answer shows, whether or not the write applied.
    pub(crate) fn shown(self) -> Option<T> {
        match self {
            Write::Applied(item) => Some(item),
            Write::ConditionFailed(item) => item,
        }
    }

    pub(crate) fn is_applied(&self) -> bool {
        matches!(self, Write::Applied(_))
    }

    pub(crate) fn try_map<U>(
        self,
        read: impl Fn(T) -> Result<U, Failure>,
    ) -> Result<Write<U>, Failure> {
        Ok(match self {
            Write::Applied(item) => Write::Applied(read(item)?),
            Write::ConditionFailed(item) => Write::ConditionFailed(item.map(read).transpose()?),
        })
    }
}

impl Store {
    /// Derives a client whose requests are single attempts with a time-out, whatever the caller's does. Identities are loaded
    /// `apart`.
    pub(crate) fn new(client: &Client, config: Config, apart: Apart) -> Self {
        let identities = IdentityCache::new(config.clock.clone(), config.request_timeout, apart);
        let server = ServerClock::new(config.clock.clone(), config.fallback_date.clone());
        let conf = client
            .config()
            .to_builder()
            .retry_config(RetryConfig::disabled());
        let conf = conf
            .timeout_config(timeouts(config.request_timeout))
            .identity_cache(identities)
            .interceptor(server.clone());
        #[cfg(feature = "metrics")]
        let conf = conf.interceptor(capacity::Meter::new(config.clock.clone()));
        Store {
            client: Client::from_conf(conf.build()),
            patient: Arc::default(),
            config,
            server,
        }
    }

    /// The same store with `factor` times the time-out, for a caller whose requests turned out to be too slow.
    pub(crate) fn with_more_time(&self, factor: u32) -> Self {
        let mut patient = self.patient.lock().unwrap_or_else(PoisonError::into_inner);
        let client = patient.entry(factor).or_insert_with(|| {
            let timeout = self.config.request_timeout.saturating_mul(factor);
            let conf = self.client.config().to_builder();
            Client::from_conf(conf.timeout_config(timeouts(timeout)).build())
        });
        Store {
            client: client.clone(),
            ..self.clone()
        }
    }

    /// For requests about the table itself; single attempts with a time-out too.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn now(&self) -> Moment {
        self.config.clock.now()
    }

    /// What is known of the time now.
    pub(crate) fn clocks(&self) -> Clocks {
        self.server.clocks()
    }

    /// What a judge goes by now, with what the answer told that it judges.
    pub(crate) fn judges(&self, reading: Reading) -> judge::Now {
        let join_timeout = self.config.join_timeout;
        self.clocks().judges(reading, join_timeout)
    }

    /// Whether an entry written now could be judged by both clocks.
    pub(crate) fn knows_the_date(&self) -> bool {
        self.server.time().is_known()
    }

    /// Whether a lease that begins now lasts for as long as was asked for, but for half a second.
    pub(crate) fn knows_the_date_well(&self) -> bool {
        self.server.time().is_younger(self.now(), YOUNG)
    }

    /// What was told of the time.
    pub(crate) fn told(&self) -> ToldTime {
        self.server.time()
    }

    /// The time by both clocks, for what is written now.
    pub(crate) fn stamps(&self) -> Stamps {
        self.clocks().stamps()
    }

    /// A time that has passed by both clocks, for a lease whose owner counts from it. Returns `None` if no answer has told the time.
    pub(crate) fn past(&self) -> Option<Stamps> {
        self.clocks().past()
    }

    /// Whether answers come, and none has told the time.
    pub(crate) fn is_told_no_time(&self) -> bool {
        self.server.time().is_silent()
    }

    /// Whether the times that are known come from a clock of this host, because answers tell none.
    pub(crate) fn goes_by_fallback_date(&self) -> bool {
        self.server.goes_by_fallback()
    }

    /// Whether `then` is still to come, as far as is known.
    pub(crate) fn is_before(&self, then: ServerTime) -> bool {
        self.stamps().server.is_some_and(|now| now < then)
    }

    /// When the only machine whose processes use the table was started, if answers say so.
    pub(crate) fn boot_began(&self) -> Option<ServerTime> {
        self.server.boot_began()
    }

    /// Whether an item that may be deleted at `expires_at` stays for as long as any participant that is on it now relies on it.
    /// That is half of the idle retention, and every lease is shorter. A client that finds its item not kept renews its place
    /// before it relies on it.
    pub(crate) fn is_kept(&self, expires_at: u64) -> bool {
        self.clocks()
            .is_kept(expires_at, self.config.idle_retention)
    }

    /// Until when a renewal has an item with this expiry stay. Returns `None` if not even an eighth of the idle retention has passed.
    pub(crate) fn keeps_for_longer(&self, expires_at: u64) -> Option<u64> {
        let retention = self.config.idle_retention;
        self.clocks().keeps_for_longer(expires_at, retention)
    }

    /// Whether what is written now has a date, or never will because answers tell no time.
    pub(crate) fn knows_the_time(&self) -> bool {
        self.server.time().is_settled()
    }

    /// When DynamoDB may delete what is written now. Returns `None` before an answer has told the time.
    pub(crate) fn expiry(&self) -> Option<u64> {
        self.clocks().expiry(self.config.idle_retention)
    }

    /// When DynamoDB may delete a row that is written now. A client that writes a row has had the answer to a draw, so this host's clock
    /// counts only where answers do not tell the time.
    pub(crate) fn row_expiry(&self) -> u64 {
        self.clocks().row_expiry(self.config.idle_retention)
    }

    pub(crate) fn sort_key<'a>(&self, item: &'a Item) -> Option<&'a String> {
        item.get(&self.config.names.sort_key)?.as_s().ok()
    }

    fn lock_key(&self, name: &LockName) -> Item {
        self.key(name, name.lock_key())
    }

    pub(crate) fn row_key(&self, name: &LockName, ticket: Ticket) -> Item {
        self.key(name, name.row_key(ticket))
    }

    pub(crate) fn key(&self, name: &LockName, sort_key: String) -> Item {
        let names = &self.config.names;
        HashMap::from([
            (names.partition_key.clone(), text(name.lock())),
            (names.sort_key.clone(), text(sort_key)),
        ])
    }

    /// What the `#names` of an expression stand for: themselves, except the configured ones. Only names that occur, because
    /// DynamoDB refuses an unused one.
    pub(crate) fn names(&self, expressions: &[&str]) -> HashMap<String, String> {
        let starts = expressions
            .iter()
            .flat_map(|expression| expression.split('#').skip(1));
        let words = starts.map(|rest| {
            rest.split(|c: char| c != '_' && !c.is_ascii_alphanumeric())
                .next()
                .unwrap_or("")
        });
        // There are few names, and two lists of them in every turn.
        let mut once = Vec::with_capacity(16);
        words.for_each(|word| {
            if !once.contains(&word) {
                once.push(word);
            }
        });
        let named = |word| (["#", word].concat(), self.attribute(word).to_owned());
        once.into_iter().map(named).collect()
    }

    fn attribute<'a>(&'a self, word: &'a str) -> &'a str {
        match word {
            "pk" => &self.config.names.partition_key,
            "sk" => &self.config.names.sort_key,
            "expires_at" => &self.config.names.ttl,
            own => own,
        }
    }

    pub(crate) fn unreadable(
        &self,
        verb: &'static str,
        name: &LockName,
        sort_key: &str,
        problem: ItemProblem,
    ) -> Failure {
        let Config { names, .. } = &self.config;
        let (pk, sk) = (&names.partition_key, &names.sort_key);
        let item = format!("{pk} = {}, {sk} = {sort_key}", name.lock());
        Failure {
            verb,
            kind: Kind::Invalid {
                item: item.into(),
                problem,
            },
        }
    }
}

fn timeouts(attempt: Duration) -> TimeoutConfig {
    // Every time-out is set here: the caller's client would supply any that is not.
    TimeoutConfig::builder()
        .operation_attempt_timeout(attempt)
        .connect_timeout(attempt)
        .disable_read_timeout()
        .disable_operation_timeout()
        .build()
}

/// The failure for a lease that nobody renews: it ends by DynamoDB's clock, which the answers do not tell.
pub(crate) fn dateless(verb: &'static str) -> Failure {
    refused(verb, "its answers have no `Date`, and leases end by it")
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::config::BehaviorVersion;

    use super::*;
    use crate::vocabulary::config::Settings;

    /// By the SDK's default a client has connections of its own, and loads credentials of its own.
    #[test]
    fn requests_with_more_time_go_through_one_client() {
        fairlock_testkit::virtual_time(async {
            let dynamodb = aws_sdk_dynamodb::Config::builder();
            let dynamodb = dynamodb.behavior_version(BehaviorVersion::latest());
            let config = Config::try_from(Settings::default()).unwrap();
            let store = Store::new(&Client::from_conf(dynamodb.build()), config, Apart(None));
            let of = |store: &Store| std::ptr::from_ref(store.client.config());
            let (slow, again) = (store.with_more_time(2), store.with_more_time(2));
            assert_eq!(of(&slow), of(&again));
            assert_ne!(of(&slow), of(&store.with_more_time(4)));
            assert_ne!(of(&slow), of(&store));
        });
    }
}
