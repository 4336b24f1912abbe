//! Opens a lock client at a `Place`.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use fairlock::{Clock, LockClient, LockClientBuilder, RecordWait};
use tokio::time::sleep;

use crate::cloud;
use crate::failure::{Failure, say};
use crate::ipc::now;
use crate::local_file::{self, Purpose};
use crate::location::Location;
use crate::request_meter::Meter;

/// For a process that asks once. If it dies in its first moments, its first entry must carry a date, so that other clients can tell for how
/// long it has been dead. So its calls read first.
pub(crate) fn asks_once(builder: LockClientBuilder) -> LockClientBuilder {
    builder.testing(|it| it.reads_first = true)
}

impl Location {
    /// Returns a client with these flags and the library's defaults.
    pub(crate) async fn locks(&self) -> Result<LockClient, Failure> {
        self.client(Purpose::Inspect, |builder| builder).await
    }

    /// Returns a client with these flags, after `set` has added more settings.
    pub(crate) async fn client(
        &self,
        purpose: Purpose,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> Result<LockClient, Failure> {
        self.client_over(purpose, |dynamodb| dynamodb, set).await
    }

    /// Returns a client as [`client`](Self::client) does, whose requests go over what `through` makes of the SDK's client.
    pub(crate) async fn client_over(
        &self,
        purpose: Purpose,
        through: impl FnOnce(Client) -> Client,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> Result<LockClient, Failure> {
        let is_to_come = purpose == Purpose::Inspect && self.is_to_come();
        let dynamodb = match is_to_come {
            true => local_file::nothing_yet()?,
            false => self.opened(purpose).await?,
        };
        let makes_a_table = match self.local {
            Some(_) if is_to_come => true,
            Some(_) if purpose == Purpose::Turn => has_no_tables(&dynamodb).await,
            _ => false,
        };
        let told = |error| Failure::of(&error, self);
        let client = set(self.builder(through(dynamodb))).build().map_err(told)?;
        if makes_a_table {
            let created = client.create_table().await;
            created.map_err(told)?;
        }
        Ok(client)
    }

    /// Returns a client as [`client`](Self::client) does, and the SDK's client below it. `meter` counts what both send.
    pub(crate) async fn metered(
        &self,
        purpose: Purpose,
        meter: &Meter,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> Result<(Client, LockClient), Failure> {
        let mut below = None;
        let through = |dynamodb| below.insert(meter.on(&dynamodb)).clone();
        let locks = self.client_over(purpose, through, set).await?;
        let below = below.ok_or_else(|| Failure::internal("no client of DynamoDB"))?;
        Ok((below, locks))
    }

    /// The settings of a lock client that these flags ask for.
    pub(crate) fn builder(&self, dynamodb: Client) -> LockClientBuilder {
        let builder = LockClient::builder(dynamodb)
            .table(&self.table)
            .namespace(&self.namespace)
            .key_names(&self.partition_key, &self.sort_key, &self.ttl_attribute);
        match self.trust_own_clock {
            true => builder.fallback_date(Clock::system()),
            false => builder,
        }
    }

    /// Whether the locks are in a file that the first turn makes. Until then no lock is held there.
    pub(crate) fn is_to_come(&self) -> bool {
        self.local.as_deref().is_some_and(local_file::is_to_come)
    }

    /// Opens the file, or DynamoDB.
    async fn opened(&self, purpose: Purpose) -> Result<Client, Failure> {
        match &self.local {
            Some(file) => local_file::open(file, purpose, self.file_systems()).await,
            None => cloud::connect(self).await,
        }
    }
}

/// The pause before the configuration is read again.
const AGAIN: Duration = Duration::from_secs(1);

/// Opens again and again where a failure may pass, for as long as the command waits. A command that does not wait tries once, and gives
/// the configuration its own time. So does one whose locks are in a file, which needs no configuration. Tells each failure once.
pub(crate) async fn patiently<T, Fut>(
    location: &Location,
    wait: RecordWait,
    quiet: bool,
    mut open: impl FnMut() -> Fut + Send,
) -> Result<T, Failure>
where
    T: Send,
    Fut: Future<Output = Result<T, Failure>> + Send,
{
    if quiet {
        location.is_news_that_it_is_slow();
    }
    let began = now();
    let limit = match wait {
        _ if location.local.is_some() => return open().await,
        RecordWait::NoWait | RecordWait::Timeout(Duration::ZERO) => return open().await,
        RecordWait::Timeout(span) => span,
        RecordWait::Infinite => Duration::MAX,
    };
    let left = |limit: Duration| limit.saturating_sub(now().saturating_sub(began));
    let mut last: Option<Failure> = None;
    // The wait ends it, or a failure that does not pass.
    loop {
        let opened = tokio::select! {
            biased;
            opened = open() => opened,
            () = sleep(left(limit)) => Err(last.take().unwrap_or_else(|| {
                let text = "the AWS configuration and credentials take longer to load than this command may wait";
                Failure::unavailable(text)
            })),
        };
        let failure = match opened {
            Ok(opened) => return Ok(opened),
            Err(failure) => failure,
        };
        let pause = AGAIN.min(left(limit.min(failure.passes())));
        if pause.is_zero() {
            return Err(failure);
        }
        let is_news = last.is_none_or(|last| last.text() != failure.text());
        if is_news && !quiet {
            say(&format!("{}; goes on trying", failure.text()));
        }
        sleep(pause).await;
        last = Some(failure);
    }
}

/// Whether the file was just made. A file with other tables belongs to another program, or the table's name is wrong: no table is created
/// there.
async fn has_no_tables(dynamodb: &Client) -> bool {
    let tables = dynamodb.list_tables().send().await;
    tables.is_ok_and(|found| found.table_names().is_empty())
}
