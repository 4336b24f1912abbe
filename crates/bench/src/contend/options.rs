//! The command line.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use fairlock::RecordWait;
use fairlock_cli::flags;

use crate::algorithm::Algorithm;
use crate::endpoint;

/// Workers contending for one lock. Tables are in memory unless an endpoint or a file is given.
///
/// The algorithms article and lease are baselines to measure against, for the same work and with the same report. They are not safe or
/// not fair, and the report says what it found. Their turns may overlap or come out of order, which fails the run as it does with
/// fairlock. Without tickets, a turn is out of order if it was granted after a turn that had asked later.
#[derive(Clone, Debug, Parser)]
#[command(after_help = endpoint::ENVIRONMENT)]
pub(crate) struct Options {
    /// DynamoDB, or a service that speaks its protocol, over HTTP
    #[arg(long, value_name = "URL", value_parser = flags::url, conflicts_with_all = ["local", "rtt_ms"])]
    pub(crate) endpoint_url: Option<String>,

    /// Tables in this file, which is created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) local: Option<PathBuf>,

    /// The table, which is created if it does not exist
    #[arg(long, default_value = "fairlock")]
    pub(crate) table: String,

    /// The lock's name
    #[arg(long, default_value = "contended")]
    pub(crate) lock: String,

    /// How many workers contend
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: u32,

    /// How many turns each worker takes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cycles: u32,

    /// How long each turn holds the lock
    #[arg(long, value_name = "MS", default_value = "50", value_parser = millis)]
    pub(crate) hold_ms: Duration,

    /// The algorithm by which the workers lock
    #[arg(long, value_enum, default_value_t = Algorithm::Fairlock)]
    pub(crate) algorithm: Algorithm,

    /// How long each turn of fairlock waits for the lock: none, infinite, or a duration; 60s by default. The baselines wait without end
    #[arg(long, value_parser = flags::wait)]
    pub(crate) wait: Option<RecordWait>,

    /// How long a baseline sleeps between two attempts: 500 for the article and 1000 for the lease by default, by their authors' choice
    #[arg(long, value_name = "MS", value_parser = poll)]
    poll_ms: Option<Duration>,

    /// The time that a request and its answer take together, half of it in each direction
    #[arg(long, value_name = "MS", value_parser = millis)]
    pub(crate) rtt_ms: Option<Duration>,

    /// How long a dead worker keeps the others waiting, with any algorithm
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) lease: Duration,

    /// How many slots the queue fills, with fairlock: 8 by default
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) slots: Option<u8>,

    /// Each worker in a process of its own
    #[arg(long)]
    pub(crate) processes: bool,

    /// All workers in one client, as tasks of one program that share it
    #[arg(long, conflicts_with = "processes")]
    pub(crate) one_client: bool,

    /// The workers notify each other when to poll, by UDP at this address
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1")]
    pub(crate) notify: Option<IpAddr>,

    /// Write what was sent into this file, as JSON: by operation and verb
    #[arg(long, value_name = "FILE")]
    pub(crate) sent: Option<PathBuf>,

    /// Write what happened when into this file, as JSON: a line each time that a worker asked, was granted the lock, began to release it,
    /// and had released it
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,

    /// Draw into this file, as SVG, which worker waited for the lock and held it, and when
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,

    /// This process is the worker of that number, of a run with --processes
    #[arg(long, hide = true)]
    worker: Option<u32>,

    /// Make the turns look as if two had overlapped and two had come out of order
    #[arg(long, hide = true)]
    pub(crate) plant_fault: bool,
}

impl Options {
    /// Ends the process if the options contradict each other. Returns the number of the worker that this process is, if any.
    pub(crate) fn checked(&self) -> Option<u32> {
        if let Err(problem) = self.check() {
            let conflict = ErrorKind::ArgumentConflict;
            let mut command = Options::command().bin_name("fairlock-bench contend");
            command.error(conflict, problem).exit();
        }
        self.worker
    }

    /// The same options, with tables of this process alone.
    pub(crate) fn in_memory(&self) -> Options {
        let mut options = self.clone();
        options.endpoint_url = None;
        options.local = None;
        options
    }

    fn check(&self) -> Result<(), &'static str> {
        let in_memory = self.endpoint_url.is_none() && self.local.is_none();
        if self.processes && in_memory {
            return Err(
                "--processes needs --local or --endpoint-url: tables in memory are one process's own",
            );
        }
        if self.algorithm == Algorithm::Fairlock && self.poll_ms.is_some() {
            return Err(
                "--poll-ms needs --algorithm article or lease: fairlock paces its polls itself",
            );
        }
        if self.algorithm != Algorithm::Fairlock && self.slots.is_some() {
            return Err("--slots needs --algorithm fairlock: the baselines have none");
        }
        if self.algorithm != Algorithm::Fairlock && self.wait.is_some() {
            return Err("--wait needs --algorithm fairlock: the baselines wait without end");
        }
        if self.algorithm != Algorithm::Fairlock && self.one_client {
            return Err("--one-client needs --algorithm fairlock: the baselines share nothing");
        }
        if self.algorithm != Algorithm::Fairlock && self.notify.is_some() {
            return Err("--notify needs --algorithm fairlock: the baselines only poll");
        }
        let files: Vec<_> = [&self.events, &self.plot, &self.sent]
            .into_iter()
            .flatten()
            .collect();
        if BTreeSet::from_iter(&files).len() < files.len() {
            return Err("--events, --plot and --sent need a file each");
        }
        if self.plant_fault && u64::from(self.workers) * u64::from(self.cycles) < 2 {
            return Err("--plant-fault needs at least two turns");
        }
        Ok(())
    }

    /// How long a baseline sleeps; zero for fairlock.
    pub(crate) fn poll(&self) -> Duration {
        let by_default = || self.algorithm.poll().unwrap_or_default();
        self.poll_ms.unwrap_or_else(by_default)
    }
}

fn poll(text: &str) -> Result<Duration, String> {
    match millis(text)? {
        Duration::ZERO => Err("a sleep of nothing would try without a pause".into()),
        span => Ok(span),
    }
}

fn millis(text: &str) -> Result<Duration, String> {
    let count: u32 = text.parse().map_err(|_| "not a number of milliseconds")?;
    Ok(Duration::from_millis(count.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(["contend"].iter().chain(flags))
    }

    #[test]
    fn the_command_is_well_formed() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_eight_workers_in_memory() {
        let options = options(&[]).unwrap();
        assert_eq!((options.workers, options.cycles), (8, 5));
        assert_eq!(
            (options.algorithm, options.wait),
            (Algorithm::Fairlock, None)
        );
        assert!(options.local.is_none() && options.endpoint_url.is_none() && !options.processes);
        assert_eq!(options.check(), Ok(()));
    }

    #[test]
    fn what_cannot_go_together_is_refused() {
        assert!(options(&["--endpoint-url", "http://a", "--local", "b"]).is_err());
        assert!(options(&["--endpoint-url", "http://a", "--rtt-ms", "1"]).is_err());
        assert!(options(&["--processes", "--one-client"]).is_err());
        assert!(options(&["--processes"]).unwrap().check().is_err());
        assert!(
            options(&["--processes", "--local", "b"])
                .unwrap()
                .check()
                .is_ok()
        );
        for conflict in [
            &["--poll-ms", "10"][..],
            &["--algorithm", "article", "--wait", "1s"],
            &["--algorithm", "lease", "--wait", "none"],
            &["--algorithm", "lease", "--one-client"],
            &["--algorithm", "article", "--notify"],
            &["--events", "a", "--plot", "a"],
            &["--plot", "a", "--sent", "a"],
        ] {
            assert!(options(conflict).unwrap().check().is_err(), "{conflict:?}");
        }
        let one_turn = ["--plant-fault", "--workers", "1", "--cycles", "1"];
        assert!(options(&one_turn).unwrap().check().is_err());
    }

    #[test]
    fn baselines_sleep_as_their_authors_have_it_unless_told_otherwise() {
        let poll = |flags: &[&str]| options(flags).unwrap().poll().as_millis();
        assert_eq!(poll(&["--algorithm", "article"]), 500);
        assert_eq!(poll(&["--algorithm", "lease"]), 1_000);
        assert_eq!(poll(&["--algorithm", "lease", "--poll-ms", "10"]), 10);
        assert!(options(&["--algorithm", "lease", "--poll-ms", "0"]).is_err());
    }
}
