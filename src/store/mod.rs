//! The only place that builds requests: one verb per protocol step, each one conditional write or consistent read.
//!
//! A verb is a single attempt with a time-out. Trying again is [`Store::persist`], in one place for all. The SDK's own
//! futures are boxed where they are sent: they are so deep that the compiler gives up on what is built on them.

mod check;
mod codec;
mod data;
mod date;
mod failure;
mod forms;
mod lock_item;
mod probe;
mod request;
mod rows;
mod scan;

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use backon::{ExponentialBuilder, Retryable};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::entry::{Attributes, Entry, Nonce, ServerTime};
use crate::error::{Problem, Source};
use crate::moment::Moment;
use crate::name::LockName;
use crate::ticket::Ticket;
use crate::wait::Brake;

use codec::{Item, number, text};
use date::ServerClock;
pub(crate) use failure::{Failure, Kind, Refusal, answered, refusal};
pub(crate) use lock_item::Held;
pub(crate) use probe::Operation;
pub(crate) use rows::{Cursor, Page};
pub(crate) use scan::Place as ScanPlace;

/// The first pause before a request is sent again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

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

/// One attempt to get a place, over all the retries of its requests.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) nonce: Nonce,
    /// How many tickets it asks for.
    pub(crate) tickets: u64,
    /// How many of the lock's permits each of them takes.
    pub(crate) permits: u64,
    attributes: Attributes,
    /// For how long it takes its place, if not for the client's own lease, and what the caller calls it.
    lasting: Option<(String, Duration)>,
    /// A request of this attempt got no answer, so its nonce may turn up in the table at any later time.
    in_doubt: AtomicBool,
    /// How many renewals were sent, for all who have its place.
    renewals: Arc<AtomicU64>,
}

impl Attempt {
    pub(crate) fn new(nonce: Nonce, tickets: u64, permits: u64) -> Self {
        Attempt {
            nonce,
            tickets,
            permits,
            attributes: Attributes::default(),
            lasting: None,
            in_doubt: AtomicBool::new(false),
            renewals: Arc::default(),
        }
    }

    /// The attempt to get a lease that lasts for so long by itself, and that the caller calls so.
    pub(crate) fn lasting(self, id: String, lease: Duration) -> Self {
        Attempt {
            lasting: Some((id, lease)),
            ..self
        }
    }

    /// The attempt of a caller that says this of itself.
    pub(crate) fn described(self, attributes: &Attributes) -> Self {
        Attempt {
            attributes: attributes.clone(),
            ..self
        }
    }

    /// The attempt that an entry is of, or another that is known by nothing else either.
    pub(crate) fn of(entry: &Entry) -> Self {
        Attempt::new(entry.nonce, entry.tickets, entry.permits)
    }

    /// The same attempt, for the next who has its place.
    pub(crate) fn again(&self) -> Self {
        Attempt {
            nonce: self.nonce,
            tickets: self.tickets,
            permits: self.permits,
            attributes: self.attributes.clone(),
            lasting: self.lasting.clone(),
            in_doubt: AtomicBool::new(self.is_in_doubt()),
            renewals: Arc::clone(&self.renewals),
        }
    }

    /// The beat of the next renewal, which no other one of this attempt has, answered or not: so a beat in the table tells
    /// which renewal made it.
    fn next_beat(&self) -> AttributeValue {
        number(self.renewals.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Relaxed)
    }

    fn note<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        if answer.as_ref().is_err_and(Failure::is_ambiguous) {
            self.in_doubt.store(true, Ordering::Relaxed);
        }
        answer
    }
}

/// How many attempts there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    None,
    Attempts(usize),
    /// So many that the table does not answer for us; that it is too busy is an answer, and shows that it is there.
    Unanswered(usize),
}

/// What to make of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// It is for good.
    Final,
    /// A policy, say, which may be mended in time: what stands in the table is in the way of others until then.
    Passing,
}

/// How long to go on trying.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    pub(crate) until: Option<Moment>,
    pub(crate) limit: Limit,
    pub(crate) refusals: Refusals,
    /// Ends the pauses between attempts; an attempt under way runs to its end.
    pub(crate) stop: CancellationToken,
}

impl Limit {
    fn counts(self, failure: &Failure) -> bool {
        match self {
            Limit::None => false,
            Limit::Attempts(_) => true,
            Limit::Unanswered(_) => !failure.is_not_now(),
        }
    }

    fn allows(self, failed: usize) -> bool {
        match self {
            Limit::None => true,
            Limit::Attempts(most) | Limit::Unanswered(most) => failed < most,
        }
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

    /// The time to judge entries by, after an answer that showed them.
    pub(crate) fn judge(&self) -> Option<ServerTime> {
        self.server.judge()
    }

    /// Repeats an attempt for as long as that may help and `patience` lasts, with growing, jittered pauses.
    pub(crate) async fn persist<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        patience: &Patience,
        attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = LONGEST_PAUSE.min(self.config.heartbeat / 2);
        self.repeat(longest, patience, attempt).await
    }

    /// The same for renewals. They are few, and a lease depends on each: however busy DynamoDB is, their pauses stay short.
    pub(crate) async fn insist<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        patience: &Patience,
        renewal: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let longest = LONGEST_PAUSE.min(self.config.heartbeat / 20);
        self.repeat(longest, patience, renewal).await
    }

    async fn repeat<T, Fut: Future<Output = Result<T, Failure>>>(
        &self,
        longest: Duration,
        patience: &Patience,
        attempt: impl FnMut() -> Fut,
    ) -> Result<T, Failure> {
        let (clock, stop, until) = (
            self.config.clock.clone(),
            patience.stop.clone(),
            patience.until,
        );
        let pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE.min(longest).min(self.config.request_timeout))
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(self.config.chance.seed());
        let pause = move |span: Duration| {
            let (clock, stop) = (clock.clone(), stop.clone());
            let span = until.map_or(span, |until| span.min(until.since(clock.now())));
            async move {
                tokio::select! { biased; () = stop.cancelled() => {}, () = clock.sleep(span) => {} }
            }
        };
        attempt
            .retry(pauses)
            .sleep(pause)
            .when(self.worth_another(patience))
            .await
    }

    /// Whether to try again after a failure; it counts them.
    fn worth_another(&self, patience: &Patience) -> impl FnMut(&Failure) -> bool {
        let mut counted = 0;
        move |failure| {
            self.heed(failure);
            counted += usize::from(patience.limit.counts(failure));
            let may_help = match patience.refusals {
                Refusals::Passing if failure.is_refused() => true,
                Refusals::Passing | Refusals::Final => failure.is_transient(),
            };
            may_help && patience.limit.allows(counted) && self.has_patience(patience)
        }
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

    pub(crate) fn has_patience(&self, patience: &Patience) -> bool {
        !patience.stop.is_cancelled() && patience.until.is_none_or(|until| self.now() < until)
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
        let stamp = self.server.stamp();
        let lasting = attempt.lasting.as_ref();
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
        let once: BTreeSet<_> = words.collect();
        once.into_iter()
            .map(|word| (format!("#{word}"), self.attribute(word).to_owned()))
            .collect()
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
