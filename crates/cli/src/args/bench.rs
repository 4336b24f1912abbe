//! The flags of `fairlock bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fairlock_cli::flags::duration;

use crate::location::Location;

pub(crate) const BENCH_EXAMPLES: &str = "\
The workers are tasks of this process, each with a lock client of its own; they share connections. \
The price is that of the formula in docs/cost.md, with the round trip that was measured just \
before. The prices of units are those on demand in us-east-1 in November 2026; taxes and free tiers \
are left out. Elsewhere multiply the units by the prices there.

Without --lock, the lock has a name of its own. It is deleted at the end, when it is a minute old: \
a younger one may not be. A lock that was named stays.

Exit codes: 0 if all turns were taken in order and no two at once, 1 if not, 64 for a wrong command \
line, or without --yes where nobody can be asked, 69 if the table cannot be used, 74 if the report \
cannot be written, 75 if the answer was no, or the lock is in use, 128 + n if signal n ended it.

Examples:
  fairlock bench --workers 4 --turns 20
  fairlock bench --yes --for 30s --hold 200ms --report report
  fairlock bench --yes --local /tmp/locks.db";

/// How long a contest lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Length {
    /// So many turns of each worker.
    Turns(u32),
    /// A time.
    Time(Duration),
}

/// `fairlock bench`.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// How many workers contend.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) workers: u32,

    /// How many turns each worker takes.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "span")]
    turns: u32,

    /// How long the workers contend, in place of a number of turns.
    #[arg(long = "for", id = "span", value_name = "DURATION", value_parser = duration)]
    span: Option<Duration>,

    /// How long each turn holds the lock; 0s releases it at once.
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub(crate) hold: Duration,

    /// The lease of each worker.
    #[arg(long, value_name = "DURATION", env = "FAIRLOCK_LEASE", default_value = "30s", value_parser = duration)]
    pub(crate) lease: Duration,

    /// The lock's name, of a lock that is not in use [default: a name of its own].
    #[arg(long, value_name = "LOCK")]
    pub(crate) lock: Option<String>,

    /// Write a page with all figures and with pictures into this directory, which is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,

    /// Do not ask whether to begin.
    #[arg(long)]
    pub(crate) yes: bool,

    /// Do not wait until the lock may be deleted; say what is left.
    #[arg(long)]
    pub(crate) leave: bool,

    /// Make the turns look as if two had overlapped and two had come out of order.
    #[arg(long, hide = true)]
    pub(crate) plant_fault: bool,

    #[command(flatten)]
    pub(crate) location: Location,
}

impl Bench {
    pub(crate) fn length(&self) -> Length {
        match self.span {
            Some(span) => Length::Time(span),
            None => Length::Turns(self.turns),
        }
    }

    /// The lock's name. A name of its own has the number of this process, and of its host.
    pub(crate) fn lock(&self) -> String {
        let own = || {
            let host = rustix::system::uname();
            let host = host.nodename().to_string_lossy().into_owned();
            format!("bench/{host}/{}", std::process::id())
        };
        self.lock.clone().unwrap_or_else(own)
    }
}
