//! The command line.

pub(crate) mod bench;
pub(crate) mod claim;
pub(crate) mod commands;
pub(crate) mod serve;
#[cfg(feature = "top")]
pub(crate) mod top;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use fairlock_cli::flags::{self, duration};

use crate::failure::{Failure, MISUSE};
use crate::location::Location;
use crate::notify::Notify;
use crate::stderr_thread;
use bench::{BENCH_EXAMPLES, Bench};
use commands::{
    COMPLETIONS_EXAMPLES, Claim, Completions, DATA_EXAMPLES, DOCTOR_EXAMPLES, Data, DataClear,
    DataGet, DataPut, Doctor, HOLD_EXAMPLES, Hold, Holder, LEASE_EXAMPLES, Lease, LeaseAcquire,
    LeaseExtend, LeaseRelease, LeaseShow, MAN_EXAMPLES, Pages, SWEEP_EXAMPLES, Sweep,
};
use serve::{SERVE_EXAMPLES, Serve};
#[cfg(feature = "top")]
use top::{TOP_EXAMPLES, Top};

/// A fair lock for any program: first come, first served, over DynamoDB
#[derive(Debug, Parser)]
#[command(name = "fairlock", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fairlock table create                      once for all, in this AWS account
  fairlock doctor                            what may be wrong, and the way out
  fairlock run nightly -- ./report.sh        one after the other, in their order
  fairlock run --wait none nightly -- ./x    only if nobody else is at it
  fairlock show nightly                      who has it, and who waits
  fairlock demo                              eight processes, one lock, no AWS

`fairlock COMMAND --help` says more.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Wait for the lock, and run a command while holding it
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Wait for the lock, and hold it until standard input ends or a signal comes
    #[command(after_help = HOLD_EXAMPLES)]
    Hold(Hold),
    /// Create the table of the locks, or check it
    #[command(after_help = TABLE_EXAMPLES)]
    Table {
        #[command(subcommand)]
        what: Table,
    },
    /// Show who holds a lock and who waits for it
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// List the locks of a table
    #[command(after_help = LS_EXAMPLES)]
    Ls(Ls),
    /// Watch the locks of a table as they are used
    #[cfg(feature = "top")]
    #[command(after_help = TOP_EXAMPLES)]
    Top(Top),
    /// Ask the holder of a lock to give way
    #[command(after_help = ASK_EXAMPLES)]
    Ask(Ask),
    /// Take a lock, or a place in its queue, away from its owner
    #[command(after_help = BREAK_EXAMPLES)]
    Break(Break),
    /// Delete a lock that nobody uses, with the bytes that it carries
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(Delete),
    /// Change how many permits a semaphore has, while it is in use
    #[command(after_help = RESIZE_EXAMPLES)]
    Resize(Resize),
    /// Read or write the bytes that a lock carries from holder to holder
    #[command(after_help = DATA_EXAMPLES)]
    Data {
        #[command(subcommand)]
        what: Data,
    },
    /// Hold a lock for a time under a name, across processes and hosts
    #[command(after_help = LEASE_EXAMPLES)]
    Lease {
        #[command(subcommand)]
        what: Lease,
    },
    /// Remove what crashed clients left in a table
    #[command(after_help = SWEEP_EXAMPLES)]
    Sweep(Sweep),
    /// Find out what may be wrong: credentials, table, permissions, clocks, latency
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Answer as a DynamoDB over HTTP, for tests of programs in any language
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Measure turns, handoffs, requests and their price at your own table
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(Bench),
    /// Watch several processes take turns at one lock, in a temporary file
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(Demo),
    /// Print what lets a shell complete this command line
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(Completions),
    /// Print a page for `man`, or write all of them
    #[command(after_help = MAN_EXAMPLES)]
    Man(Pages),
    #[command(hide = true)]
    DemoWorker(DemoWorker),
    #[command(hide = true)]
    Holder(Holder),
    #[command(hide = true)]
    Supervisor(Supervisor),
}

impl Command {
    /// Returns the flags that say where the locks are. Returns `None` if the command has none.
    pub(crate) fn location(&mut self) -> Option<&mut Location> {
        match self {
            Command::Run(Run { location, .. })
            | Command::Hold(Hold { location, .. })
            | Command::Data {
                what:
                    Data::Get(DataGet { location, .. })
                    | Data::Put(DataPut { location, .. })
                    | Data::Clear(DataClear { location, .. }),
            }
            | Command::Lease {
                what:
                    Lease::Acquire(LeaseAcquire { location, .. })
                    | Lease::Extend(LeaseExtend { location, .. })
                    | Lease::Release(LeaseRelease { location, .. })
                    | Lease::Show(LeaseShow { location, .. }),
            }
            | Command::Sweep(Sweep { location, .. })
            | Command::Doctor(Doctor { location, .. })
            | Command::Table {
                what: Table::Create(Create { location, .. }) | Table::Check { location },
            }
            | Command::Show(Show { location, .. })
            | Command::Ls(Ls { location, .. })
            | Command::Ask(Ask { location, .. })
            | Command::Break(Break { location, .. })
            | Command::Delete(Delete { location, .. })
            | Command::Resize(Resize { location, .. })
            | Command::Bench(Bench { location, .. })
            | Command::Supervisor(Supervisor { location, .. }) => Some(location),
            #[cfg(feature = "top")]
            Command::Top(Top { location, .. }) => Some(location),
            Command::Serve(_)
            | Command::Demo(_)
            | Command::DemoWorker(_)
            | Command::Holder(_)
            | Command::Completions(_)
            | Command::Man(_) => None,
        }
    }

    /// Returns what the command asks for in a queue. Returns `None` if it joins no queue, or has fewer flags for that.
    pub(crate) fn claim(&mut self) -> Option<&mut Claim> {
        match self {
            Command::Run(Run { claim, .. }) | Command::Hold(Hold { claim, .. }) => Some(claim),
            _ => None,
        }
    }
}

const RUN_EXAMPLES: &str = "\
The command finds the lock's name in FAIRLOCK_LOCK, its fencing token in FAIRLOCK_TICKET, and the \
tokens of all its locks in FAIRLOCK_TICKETS, as JSON. Tokens of callers that share a lock do not \
exclude each other.

Exit codes: those of the command, 128 + n if signal n ended it, 126 if it cannot be run, 127 if \
there is no such command; 75 if the lock was not granted (or --conflict-exit-code), 76 if it was \
lost and the command was ended (or --lost-exit-code), 64 for a wrong command line, 69 if the table \
cannot be used, 70 if fairlock itself cannot go on, as when its supervisor was killed, 71 if \
processes of the command cannot be ended.

Examples:
  fairlock run backup -- pg_dump -f /backup/db.sql mydb
  fairlock run --wait none --conflict-exit-code 0 cleanup -- ./cleanup.sh
  fairlock run --wait 5m --lease 60s deploy -- sh -c './x \"$FAIRLOCK_TICKET\"'
  fairlock run --shared catalog -- ./read.sh
  fairlock run --permits 5 --take 2 exports -- ./export.sh
  fairlock run account/7 --also account/42 -- ./transfer.sh
  fairlock run --local /var/lib/locks.db nightly -- ./report.sh";

const TABLE_EXAMPLES: &str = "\
Examples:
  fairlock table create
  fairlock table check";

const CREATE_EXAMPLES: &str = "\
A table that is there already is left as it is, but TTL is switched on if it is off. Throughput, protection and recovery are \
set by `aws dynamodb`, or in docs/infrastructure. Exit codes: 0 if the table is there and ready, 64 for a wrong command line, 69 if it cannot be made.

Examples:
  fairlock table create
  fairlock table create --table locks --tag team=payments
  fairlock table create --local /var/lib/locks.db";

const CHECK_EXAMPLES: &str = "\
Nothing is created or changed. Exit codes: 0 if locks work, 1 if they do not, 64 for a wrong \
command line, 69 if nothing could be found out.

Examples:
  fairlock table check
  fairlock table check --table locks || exit 1";

const SHOW_EXAMPLES: &str = "\
Nothing is written, and what is shown may be over already: never decide by it whether to go ahead. \
Exit codes: 0 if the lock could be read, held or free (but see --exit-code), 64 for a wrong \
command line, 69 if not.

Examples:
  fairlock show deploy/prod
  fairlock show --watch deploy/prod
  fairlock show --exit-code --older-than 1h nightly || ./alarm.sh
  fairlock show --json deploy/prod | jq -r .holder.owner";

const LS_EXAMPLES: &str = "\
Reads the whole table. Exit codes: 0 if all could be read, 64 for a wrong command line, 69 if not.

Examples:
  fairlock ls
  fairlock ls --held --older-than 1h deploy/
  fairlock ls --json | jq -r 'select(.holder != null) | .lock'";

const ASK_EXAMPLES: &str = "\
Nothing is taken away. `fairlock run` tells the request on its standard error, and a program sees \
it at its guard. No process keeps a lease, so a lease cannot be asked. Exit codes: 0 if somebody was \
asked, 75 if nobody has the lock, or leases alone have it, 64 for a wrong command line, 69 if the \
table cannot be used.

Examples:
  fairlock ask leader/search --reason 'a deployment begins'";

const BREAK_EXAMPLES: &str = "\
A holder that is alive may work on until its next heartbeat, beside the next holder: ask first, and \
fence what it writes. Only what was shown is taken away. Exit codes: 0 if it was, 75 if nobody has \
the lock, or the place has gone or moved up, 64 for a wrong command line, 69 if the table cannot be \
used.

Examples:
  fairlock break nightly
  fairlock break --yes --reason 'build-7 was thrown away' nightly
  fairlock break --ticket 1795763705402425 nightly";

const DELETE_EXAMPLES: &str = "\
Not needed as a rule: a lock that nobody uses is deleted by DynamoDB itself in time. What crashed \
clients left there goes first, once their leases have expired. Exit codes: 0 if the table has no \
such lock any more, 75 if somebody has the lock or waits for it, or if it was first used less than \
a minute ago, 64 for a wrong command line, 69 if the table cannot be used.

Examples:
  fairlock delete import/4711";

const RESIZE_EXAMPLES: &str = "\
Its callers go on to name the number that they were written with. More permits are given out at \
once, in the order of the queue. With fewer, each holder keeps its own, and others wait. The change \
is forgotten with the lock: when it was idle for the idle retention, or is deleted. Exit codes: 0 if \
it has so many permits, 75 if it was not used yet, 64 for a wrong number, 69 if the table cannot be \
used.

Examples:
  fairlock resize exports 8";

const DEMO_EXAMPLES: &str = "\
Examples:
  fairlock demo
  fairlock demo --workers 3 --turns 10 --hold 200ms
  fairlock demo --notify                     what notifications save";

/// `fairlock run`
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) claim: Claim,

    /// How long the command has between SIGTERM and SIGKILL when the lock is about to be lost [default: a sixth of the lease, or of --max-hold if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    // After the lock and the command, because clap puts all that follows under the heading of `Place`.
    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock table`
#[derive(Debug, Subcommand)]
pub(crate) enum Table {
    /// Create the table, on demand by default, and switch TTL on; an existing table is left as it is
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// Report what is wrong with the table, and what to do about it
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        #[command(flatten)]
        location: Location,
    },
}

/// `fairlock table create`
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// A tag; the key ends at the first `=`; once for each tag
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = flags::tag)]
    pub(crate) tags: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock show`
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// Print JSON, whose fields `fairlock man json` explains
    #[arg(long)]
    pub(crate) json: bool,

    /// Exit with 1 if the lock is held, with 2 if its holder looks dead, and with 0 if it is free
    #[arg(long)]
    pub(crate) exit_code: bool,

    /// With --exit-code: exit with 1 only if the lock has been held for at least this long
    #[arg(long, value_name = "DURATION", requires = "exit_code", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,

    /// Keep running, and show the lock again whenever it has changed; the duration is how often it is read, 100ms or more
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = duration, conflicts_with = "exit_code")]
    pub(crate) watch: Option<Duration>,

    /// The lock's name
    pub(crate) lock: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock ask`
#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    /// Why, for the holder to read
    #[arg(long, value_name = "TEXT", default_value = "somebody needs the lock")]
    pub(crate) reason: String,

    /// The lock's name
    pub(crate) lock: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock break`
#[derive(Debug, clap::Args)]
pub(crate) struct Break {
    /// The place with this ticket: of a holder, of one of several, or of a waiter
    #[arg(long, value_name = "TICKET")]
    pub(crate) ticket: Option<u64>,

    /// Do not ask whether to break it
    #[arg(long)]
    pub(crate) yes: bool,

    /// Why, for the owner to read
    #[arg(long, value_name = "TEXT", default_value = "an operator broke it")]
    pub(crate) reason: String,

    /// The lock's name
    pub(crate) lock: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock delete`
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// The lock's name
    pub(crate) lock: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock resize`
#[derive(Debug, clap::Args)]
pub(crate) struct Resize {
    /// The lock's name
    pub(crate) lock: String,

    /// How many permits it has from now on
    #[arg(value_parser = flags::permits)]
    pub(crate) permits: u64,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock ls`
#[derive(Debug, clap::Args)]
pub(crate) struct Ls {
    /// Print JSON, one line for each lock, in no order; `fairlock man json` explains the fields
    #[arg(long)]
    pub(crate) json: bool,

    /// Only locks that are held
    #[arg(long)]
    pub(crate) held: bool,

    /// Only locks that have waiters
    #[arg(long)]
    pub(crate) waiting: bool,

    /// Only locks that have been held for at least this long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,

    /// Only locks whose names begin with this prefix
    pub(crate) prefix: Option<String>,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock demo`
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Demo {
    /// How many processes contend
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) workers: u32,

    /// How many turns each process takes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) turns: u32,

    /// How long each turn holds the lock
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = humantime::parse_duration)]
    pub(crate) hold: Duration,

    /// Show what UDP notifications save: half of the turns poll and half are notified, at the loopback or at another address of this host, with 10 ms for each request and its answer
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "own")]
    pub(crate) notify: Option<Notify>,

    /// Make the turns look as if two had overlapped and two had come out of order
    #[arg(long, hide = true)]
    pub(crate) plant_fault: bool,
}

/// One of the demo's processes.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoWorker {
    #[arg(long)]
    pub(crate) number: u32,
    /// The number of its first turn.
    #[arg(long)]
    pub(crate) first: u32,
    #[arg(long)]
    pub(crate) turns: u32,
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) hold: Duration,
    /// How long a request and its answer take together. If given, requests are counted.
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) round_trip: Option<Duration>,
    #[arg(long)]
    pub(crate) notify: Option<Notify>,
    #[arg(long)]
    pub(crate) file: std::path::PathBuf,
    #[arg(long)]
    pub(crate) ledger: std::path::PathBuf,
}

/// The process between `fairlock run` and its command.
#[derive(Debug, clap::Args)]
pub(crate) struct Supervisor {
    /// The process group in which the command is to run
    #[arg(long)]
    pub(crate) group: i32,

    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// Prints help and version with code 0. Any other clap error is a misuse, and gets this program's code instead of clap's.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        stderr_thread::say(error.render().ansi().to_string(), stderr_thread::AT_LAST);
        return ExitCode::from(MISUSE);
    }
    match error.print() {
        // A closed pipe is no failure: the reader may be gone.
        Err(unwritten) if unwritten.kind() != std::io::ErrorKind::BrokenPipe => {
            Failure::unwritten(&unwritten).tell()
        }
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_go_together() {
        Args::command().debug_assert();
    }
}
