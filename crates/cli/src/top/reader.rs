//! Reads the locks, each time with a count of what the read cost.

use std::pin::pin;
use std::time::Duration;

use fairlock::{Error, LockClient};
use fairlock_cli::contention::monotonic::now_ns;
use futures::StreamExt;

use super::lock::Lock;
use super::state::{Read, Wanted};
use crate::failure::Failure;
use crate::local_file::Purpose;
use crate::location::Location;
use crate::request_meter::Meter;

/// How long the process that makes a file may take to make the table in it.
const TABLE_COMES: Duration = Duration::from_secs(1);

/// Reads a table.
pub(crate) struct Reader {
    location: Location,
    meter: Meter,
    locks: LockClient,
    /// Whether the first turn of another process has yet to make the file of the locks.
    is_to_come: bool,
    /// When the file came that was to come.
    came_ns: Option<u64>,
    began_ns: u64,
}

impl Reader {
    pub(crate) async fn open(location: Location) -> Result<Reader, Failure> {
        let meter = Meter::default();
        Ok(Reader {
            is_to_come: location.is_to_come(),
            locks: client(&location, &meter).await?,
            location,
            meter,
            came_ns: None,
            began_ns: now_ns(),
        })
    }

    /// Reads what is wanted once. The reader can be dropped in the middle, and reads no more then.
    pub(crate) async fn read(&mut self, wanted: Wanted) -> Result<Read, Trouble> {
        if self.is_to_come && !self.location.is_to_come() {
            // Another process has made the file, and may not have made its table yet.
            self.locks = client(&self.location, &self.meter)
                .await
                .map_err(Trouble::Passing)?;
            (self.is_to_come, self.came_ns) = (false, Some(now_ns()));
        }
        let _opening = self.meter.take();
        let (locks, unreadable) = match &wanted {
            Wanted::All => self.all().await?,
            Wanted::One(name) => (vec![self.one(name).await?], Vec::new()),
        };
        Ok(Read {
            at: Duration::from_nanos(now_ns().saturating_sub(self.began_ns)),
            of: wanted,
            locks,
            unreadable,
            units: self.meter.take().read_units,
        })
    }

    /// The loop ends because each page of the table starts after the page before.
    async fn all(&self) -> Result<(Vec<Lock>, Vec<String>), Trouble> {
        let (mut locks, mut unreadable) = (Vec::new(), Vec::new());
        let mut states = pin!(self.locks.locks());
        while let Some(found) = states.next().await {
            match found {
                Ok(state) => locks.push(Lock::from(&state)),
                Err(error @ Error::InvalidItem { .. }) => {
                    unreadable.push(Failure::of(&error, &self.location).text().to_owned());
                }
                Err(error) => return Err(self.trouble(&error)),
            }
        }
        Ok((locks, unreadable))
    }

    async fn one(&self, name: &str) -> Result<Lock, Trouble> {
        let told = |error| self.trouble(&error);
        let lock = self.locks.fair_lock(name).map_err(told)?;
        Ok(Lock::from(&lock.inspect().await.map_err(told)?))
    }

    fn trouble(&self, error: &Error) -> Trouble {
        let failure = Failure::of(error, &self.location);
        match error {
            // The next read may be answered, or the item be repaired by then.
            Error::Unavailable { .. } | Error::InvalidItem { .. } => Trouble::Passing(failure),
            _ if self.has_just_come() => Trouble::Passing(failure),
            _ => Trouble::Lasting(failure),
        }
    }

    /// The process that has made the file may still be making the table in it.
    fn has_just_come(&self) -> bool {
        let since = |came| Duration::from_nanos(now_ns().saturating_sub(came));
        self.came_ns
            .map(since)
            .is_some_and(|span| span < TABLE_COMES)
    }
}

/// Why a read failed.
pub(crate) enum Trouble {
    /// The next read may do better.
    Passing(Failure),
    /// No read will.
    Lasting(Failure),
}

impl Trouble {
    pub(crate) fn failure(self) -> Failure {
        match self {
            Trouble::Passing(failure) | Trouble::Lasting(failure) => failure,
        }
    }
}

async fn client(location: &Location, meter: &Meter) -> Result<LockClient, Failure> {
    let opened = location.metered(Purpose::Inspect, meter, |builder| builder);
    Ok(opened.await?.1)
}
