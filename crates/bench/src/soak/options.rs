//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use fairlock_cli::flags;

use crate::endpoint;

/// A mixed workload for a given time, judged all the while. Tables are in memory unless an endpoint or a file is given.
#[derive(Clone, Debug, Parser)]
#[command(after_help = endpoint::ENVIRONMENT)]
pub(crate) struct Options {
    /// How long to run
    #[arg(long = "for", value_name = "DURATION", default_value = "1m", value_parser = span)]
    pub(crate) lasts: Duration,

    /// DynamoDB, or a service that speaks its protocol, over HTTP
    #[arg(long, value_name = "URL", value_parser = flags::url, conflicts_with = "local")]
    pub(crate) endpoint_url: Option<String>,

    /// Tables in this file, which is created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) local: Option<PathBuf>,

    /// A table for the soak alone, which is created if it does not exist
    #[arg(long, default_value = "fairlock-soak")]
    pub(crate) table: String,

    /// The clients notify each other when to poll, by UDP at this address
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1")]
    pub(crate) notify: Option<IpAddr>,

    /// How often to report
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = span)]
    pub(crate) every: Duration,

    /// The random seed of the workload and the faults
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// How many callers take turns at a time
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = callers)]
    pub(crate) callers: usize,

    /// How many of a thousand requests meet a fault
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=500))]
    pub(crate) faults_per_mille: u32,

    /// A lock that is granted to no caller for this long is a stall, if a caller waits for it without end
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = span)]
    pub(crate) stalled_after: Duration,

    /// How long each step of the end may take; a longer step is a violation
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = span)]
    pub(crate) ends_within: Duration,

    /// Make this go wrong
    #[arg(long, hide = true)]
    pub(crate) plant: Option<Plant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// Callers of the hot lock go on believing for a while after they released it.
    Overlap,
    /// Grants are recorded twice, the second time with a ticket that is not larger.
    Order,
    /// What the locks protect accepts older tokens, and some are sent.
    Stale,
    /// Holders write with a token that is older than their own, which is refused.
    Refuse,
    /// Memory, tasks and connections that are never released.
    Leak,
    /// A client holds the hot lock and never releases it.
    Stall,
    /// A task of the soak panics.
    Panic,
    /// A client is shut down under its callers, and they are told so.
    Surprise,
    /// A task does not stop at the end.
    Stuck,
    /// A client is cut off while it holds a lock, and cannot release it at the end.
    Unfinished,
    /// A client keeps a lock beyond the end, and there is an item that belongs to no lock.
    Left,
}

impl Options {
    /// Where the tables are, for people.
    pub(crate) fn place(&self) -> String {
        match (&self.endpoint_url, &self.local) {
            (Some(url), _) => url.clone(),
            (None, Some(path)) => path.display().to_string(),
            (None, None) => "memory".into(),
        }
    }
}

fn span(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 3600);
    match bounds.contains(&span) {
        true => Ok(span),
        false => Err("not between 1s and 30days".into()),
    }
}

fn callers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(callers @ 4..=1000) => Ok(callers),
        _ => Err("not a number from 4 to 1000".into()),
    }
}
