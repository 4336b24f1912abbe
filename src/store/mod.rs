//! The only place that builds requests: one verb per protocol step, each one conditional write or consistent read.
//!
//! A verb is a single attempt with a time-out. Trying again is [`Store::persist`], in one place for all. The SDK's own
//! futures are boxed where they are sent: they are so deep that the compiler gives up on what is built on them.

mod attempt;
mod check;
mod codec;
mod data;
mod date;
mod failure;
mod forms;
mod lock_item;
mod patience;
mod probe;
mod request;
mod rows;
mod scan;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::config::Config;
use crate::entry::{Entry, Nonce, ServerTime};
use crate::error::{Problem, Source};
use crate::moment::Moment;
use crate::name::LockName;
use crate::ticket::Ticket;
use crate::wait::Brake;

pub(crate) use attempt::Attempt;
use codec::{Item, number, text};
use date::ServerClock;
pub(crate) use failure::{Failure, Kind, Refusal, answered, refusal};
pub(crate) use lock_item::Held;
pub(crate) use patience::{Limit, Patience, Refusals};
pub(crate) use probe::Operation;
pub(crate) use rows::{Cursor, Page};
pub(crate) use scan::Place as ScanPlace;

/// Dates of one client go back by no more: a `Date` has whole seconds.
const STAMPS_DIFFER: Duration = Duration::from_secs(2);

/// The table as one client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    client: Client,
    config: Config,
    server: ServerClock,
    brake: Arc<Mutex<Brake>>,
}

/// An answer, with when its request was sent and when it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    pub(crate) sent: Moment,
    pub(crate) arrived: Moment,
}

impl<T> Timed<T> {
    pub(crate) fn map<U>(self, read: impl FnOnce(T) -> U) -> Timed<U> {
        Timed {
            value: read(self.value),
            sent: self.sent,
            arrived: self.arrived,
        }
    }
}

impl<T> Timed<Option<T>> {
    pub(crate) fn transpose(self) -> Option<Timed<T>> {
        let Timed {
            value,
            sent,
            arrived,
        } = self;
        value.map(|value| Timed {
            value,
            sent,
            arrived,
        })
    }
}

/// What became of a conditional write: the item after it, or the item that stood in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write<T> {
    Applied(T),
    /// None: there is no such item.
    Refused(Option<T>),
}

impl<T> Write<T> {
    /// The item that the answer shows, whether or not the write applied.
    pub(crate) fn shown(self) -> Option<T> {
        match self {
            Write::Applied(item) => Some(item),
            Write::Refused(item) => item,
        }
    }

    pub(crate) fn is_applied(&self) -> bool {
        matches!(self, Write::Applied(_))
    }

    fn try_map<U>(self, read: impl Fn(T) -> Result<U, Failure>) -> Result<Write<U>, Failure> {
        Ok(match self {
            Write::Applied(item) => Write::Applied(read(item)?),
            Write::Refused(item) => Write::Refused(item.map(read).transpose()?),
        })
    }
}

impl Store {
    /// Derives a client whose requests are single attempts with a time-out, whatever the caller's does.
    pub(crate) fn new(client: &Client, config: Config) -> Self {
        let server = ServerClock::new(config.clock.clone());
        let conf = client
            .config()
            .to_builder()
            .retry_config(RetryConfig::disabled());
        let conf = conf
            .timeout_config(timeouts(config.request_timeout))
            .interceptor(server.clone());
        Store {
            client: Client::from_conf(conf.build()),
            config,
            server,
            brake: Arc::default(),
        }
    }

    /// The same with `factor` times the time-out, for one whose requests turned out to be too slow.
    pub(crate) fn with_more_time(&self, factor: u32) -> Self {
        let timeout = self.config.request_timeout.saturating_mul(factor);
        let conf = self
            .client
            .config()
            .to_builder()
            .timeout_config(timeouts(timeout));
        Store {
            client: Client::from_conf(conf.build()),
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

    /// Whether an entry written now could be judged by DynamoDB's clock.
    pub(crate) fn knows_the_date(&self) -> bool {
        self.server.stamp().is_some()
    }

    /// Whether that is still to come, as far as is known.
    pub(crate) fn is_before(&self, then: ServerTime) -> bool {
        self.server.stamp().is_some_and(|now| now < then)
    }

    /// The time to judge entries by, after an answer that showed them.
    pub(crate) fn judge(&self) -> Option<ServerTime> {
        self.server.judge()
    }

    /// Slows looks down if a failure says that DynamoDB is too busy.
    pub(crate) fn heed(&self, failure: &Failure) {
        if failure.is_busy() {
            self.brake().press(self.now());
        }
    }

    /// By how much looks are slowed down, because DynamoDB is too busy for us.
    pub(crate) fn braked(&self) -> u32 {
        self.brake().factor(self.now())
    }

    fn brake(&self) -> MutexGuard<'_, Brake> {
        self.brake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one request and notes when.
    async fn timed<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Timed<T>, Failure> {
        let sent = self.now();
        let value = request.await?;
        Ok(Timed {
            value,
            sent,
            arrived: self.now(),
        })
    }

    /// An entry for an attempt that starts now.
    pub(crate) fn new_entry(&self, attempt: &Attempt, ticket: Ticket) -> Entry {
        let lasting = attempt.lasting.as_ref();
        let stamp = match lasting {
            Some(_) => self.server.past(),
            None => self.server.stamp(),
        };
        Entry {
            nonce: attempt.nonce,
            attributes: attempt.attributes.clone(),
            id: lasting.map(|(id, _)| id.clone()),
            owner: self.config.owner.clone(),
            ticket,
            tickets: attempt.tickets,
            permits: attempt.permits,
            beat: 0,
            lease: lasting.map_or(self.config.lease, |(_, lease)| *lease),
            renewed_at: stamp,
            since: stamp,
        }
    }

    /// Renews what `entry` finds in the item. Refused because of a later renewal of the same attempt, or because this one came
    /// twice: it is renewed all the same.
    async fn renewed<T, Fut>(
        &self,
        attempt: &Attempt,
        write: impl Fn(Option<ServerTime>) -> Fut + Send,
        entry: impl Fn(&T) -> Option<&Entry> + Send + Sync,
    ) -> Result<Timed<Write<T>>, Failure>
    where
        T: Send + Sync,
        Fut: Future<Output = Result<Timed<Write<T>>, Failure>> + Send,
    {
        let ours = |item: &T| {
            entry(item)
                .filter(|it| it.nonce == attempt.nonce)
                .map(|it| it.beat)
        };
        let is_late = |item: &T| ours(item).is_some_and(|beat| beat < attempt.renewals());
        let answer = self.with_date(write, is_late).await?;
        Ok(answer.map(|write| match write {
            Write::Refused(Some(item)) if ours(&item).is_some() => Write::Applied(item),
            write => write,
        }))
    }

    /// Writes with a date where one is known; without, if a later one stands in the way, which is only so when DynamoDB's
    /// clock was set back. `only_date` says of the item in the way that nothing but its date is.
    async fn with_date<T, Fut>(
        &self,
        write: impl Fn(Option<ServerTime>) -> Fut + Send,
        only_date: impl FnOnce(&T) -> bool + Send,
    ) -> Result<Timed<Write<T>>, Failure>
    where
        T: Send + Sync,
        Fut: Future<Output = Result<Timed<Write<T>>, Failure>> + Send,
    {
        let stamp = self.server.stamp();
        let answer = write(stamp).await?;
        match &answer.value {
            Write::Refused(Some(item)) if stamp.is_some() && only_date(item) => write(None).await,
            _ => Ok(answer),
        }
    }

    /// When DynamoDB may delete what is written now.
    fn expiry(&self) -> AttributeValue {
        number((self.config.clock.unix() + self.config.idle_retention).as_secs())
    }

    fn lock_key(&self, name: &LockName) -> Item {
        self.key(name, name.lock_key())
    }

    fn row_key(&self, name: &LockName, ticket: Ticket) -> Item {
        self.key(name, name.row_key(ticket))
    }

    fn key(&self, name: &LockName, sort_key: String) -> Item {
        let names = &self.config.names;
        HashMap::from([
            (names.partition_key.clone(), text(name.lock())),
            (names.sort_key.clone(), text(sort_key)),
        ])
    }

    /// What the `#names` of an expression stand for: themselves, but for the configured ones. Exactly those that
    /// occur, because DynamoDB refuses an unused one.
    fn names(&self, expressions: &[&str]) -> HashMap<String, String> {
        let starts = expressions
            .iter()
            .flat_map(|expression| expression.split('#').skip(1));
        let words = starts.map(|rest| {
            rest.split(|c: char| c != '_' && !c.is_ascii_alphanumeric())
                .next()
                .unwrap_or("")
        });
        // They are few, and there are two lists of them in every turn.
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

    fn unreadable(
        &self,
        verb: &'static str,
        name: &LockName,
        sort_key: &str,
        problem: Problem,
    ) -> Failure {
        let Config { names, .. } = &self.config;
        let (pk, sk) = (&names.partition_key, &names.sort_key);
        let item = format!("{pk} = {}, {sk} = {sort_key}", name.lock());
        Failure {
            verb,
            kind: Kind::Unreadable { item, problem },
        }
    }
}

fn timeouts(attempt: Duration) -> TimeoutConfig {
    // Said one by one: what is left unsaid is taken from the caller's client.
    TimeoutConfig::builder()
        .operation_attempt_timeout(attempt)
        .connect_timeout(attempt)
        .disable_read_timeout()
        .disable_operation_timeout()
        .build()
}

/// An answer that a working DynamoDB does not give.
fn broken_answer(verb: &'static str, what: &'static str) -> Failure {
    Failure {
        verb,
        kind: Kind::Refused(Source::from(what)),
    }
}

/// A lease that nobody renews ends by DynamoDB's clock, which its answers do not tell.
pub(crate) fn dateless(verb: &'static str) -> Failure {
    broken_answer(verb, "its answers have no `Date`, and leases end by it")
}

/// What a renewal takes.
fn renewal(nonce: Nonce, lease: Duration, at: Option<ServerTime>) -> request::Values {
    let mut values = vec![
        (":lease", codec::millis(lease)),
        (":nonce", text(nonce.to_string())),
    ];
    values.extend(at.into_iter().flat_map(|at| dated(":renewed_at", at)));
    values
}

/// A date, and the newest that may stand there before it.
fn dated(name: &'static str, at: ServerTime) -> request::Values {
    vec![
        (name, codec::millis(at.0)),
        (":newest", codec::millis(at.0 + STAMPS_DIFFER)),
    ]
}
