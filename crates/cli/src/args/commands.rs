//! The flags of the commands that keep a lock without a command around the work, and of those that look after locks and their table.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use clap_complete::Shell;
use fairlock::RecordWait;
use fairlock_cli::flags::{self, duration, seconds};

use crate::failure::{LOST, NOT_GRANTED};
use crate::location::Location;
use crate::metrics::Target;
use crate::notify::Notify;

/// The flags of a command that waits for its turn and keeps it.
#[derive(Args, Debug)]
pub(crate) struct Claim {
    /// How long to wait for the lock: none, infinite, or a duration such as 90s, 5m or 1h
    #[arg(long, value_name = "WAIT", env = "FAIRLOCK_WAIT", default_value = "60s", value_parser = flags::wait)]
    pub(crate) wait: RecordWait,

    /// As with flock: do not wait at all; the same as --wait none
    #[arg(short = 'n', long, hide_short_help = true)]
    pub(crate) nonblock: bool,

    /// As with flock: wait for this many seconds; 0 does not wait at all
    #[arg(short = 'w', long, value_name = "SECONDS", value_parser = seconds, hide_short_help = true)]
    pub(crate) timeout: Option<RecordWait>,

    /// As with flock: hold the lock exclusively, which is the default
    #[arg(short = 'x', short_alias = 'e', long, hide_short_help = true, conflicts_with_all = ["shared", "permits"])]
    pub(crate) exclusive: bool,

    /// As with flock: share the lock with other readers, beside which no writer holds it; all stand in one queue
    #[arg(short = 's', long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    /// Use the lock as a semaphore of this many permits, the same number in every command that uses it
    #[arg(long, value_name = "TOTAL", value_parser = flags::permits)]
    pub(crate) permits: Option<u64>,

    /// With --permits: how many of them to take, all at once [default: 1]
    #[arg(long, value_name = "N", requires = "permits", value_parser = flags::permits)]
    pub(crate) take: Option<u64>,

    /// Hold this lock too: all of them or none; may be given several times
    #[arg(long, value_name = "LOCK", conflicts_with_all = ["shared", "permits"])]
    pub(crate) also: Vec<String>,

    /// How long other waiters wait if this host fails; while this command runs, the lock stays held
    #[arg(long, value_name = "DURATION", env = "FAIRLOCK_LEASE", default_value = "30s", value_parser = duration)]
    pub(crate) lease: Duration,

    /// Lose the lock when it was held for this long, and end the command
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) max_hold: Option<Duration>,

    /// Keep the lock from others for this long, however soon it is given back; this process need not wait for that
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) min_hold: Option<Duration>,

    /// Lose the lock this long before its lease ends, so that what was sent last has time to arrive: for resources that compare no fencing
    /// tokens
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) safety_margin: Option<Duration>,

    /// Print nothing about the wait
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print every change of the position in the queue
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// The name of this process for people who inspect the lock [default: user@host:pid]
    #[arg(long, value_name = "NAME", env = "FAIRLOCK_OWNER")]
    pub(crate) owner: Option<String>,

    /// Be notified of the turn by UDP, at this host's own address or at another one; the table alone decides whose turn it is
    #[arg(long, value_name = "ADDRESS", env = "FAIRLOCK_NOTIFY", num_args = 0..=1, require_equals = true, default_missing_value = "own")]
    pub(crate) notify: Option<Notify>,

    /// Show metrics for Prometheus: over HTTP at an address such as 127.0.0.1:9464, or in a file whose name ends in .prom, for node_exporter
    #[arg(long, value_name = "ADDRESS|FILE")]
    pub(crate) metrics: Option<Target>,

    /// The exit code if the lock was not granted
    #[arg(long, short = 'E', value_name = "CODE", default_value_t = NOT_GRANTED)]
    pub(crate) conflict_exit_code: u8,

    /// The exit code if the lock was lost, which ends the command that it runs
    #[arg(long, value_name = "CODE", default_value_t = LOST)]
    pub(crate) lost_exit_code: u8,

    /// Wait even for a lock that is held by the very command in which this one runs
    #[arg(long, hide_short_help = true)]
    pub(crate) nested: bool,

    /// The lock's name
    pub(crate) lock: String,
}

pub(crate) const HOLD_EXAMPLES: &str = "\
Prints the ticket of LOCK when it holds the lock, and releases the lock when its standard input ends, or at \
SIGINT, SIGTERM, SIGHUP or SIGQUIT.

Exit codes: 0 if the lock was held and released, 75 if it was not granted (or \
--conflict-exit-code), 76 if it was lost (or --lost-exit-code), 128 + n if signal n ended the \
wait, 64 for a wrong command line, 69 if the table cannot be used, 70 if fairlock itself cannot \
go on.

Examples:
  fairlock hold deploy/prod                  until Ctrl-D or Ctrl-C
  fairlock hold --json deploy/prod < fifo
  coproc LOCK { fairlock hold deploy/prod; }; read -r ticket <&\"${LOCK[0]}\"";

/// `fairlock hold`
#[derive(Debug, clap::Args)]
pub(crate) struct Hold {
    /// Print a line of JSON in place of the ticket; `fairlock man json` explains the fields
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) claim: Claim,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// The process that `fairlock hold` runs in its turn
#[derive(Debug, clap::Args)]
pub(crate) struct Holder {
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) const DATA_EXAMPLES: &str = "\
Examples:
  fairlock data get import/7 > cursor
  echo 'page 7' | fairlock data put import/7
  fairlock data clear import/7";

const GET_EXAMPLES: &str = "\
Prints the bytes as they are. Exit codes: 0 if there are any, none of them perhaps, 1 if no holder \
left any, 64 for a wrong command line, 69 if the lock could not be read.

Examples:
  fairlock data get import/7 > cursor
  fairlock data get --json import/7 | jq -r .base64 | base64 -d";

const PUT_EXAMPLES: &str = "\
Reads standard input to its end, and then waits for the lock and holds it while it writes. At most \
64 KB. An input that is closed is refused; `</dev/null` leaves no bytes. Exit codes: 0 if the bytes \
are written, 75 if the lock was not granted, 76 if it was lost, 64 for a wrong command line or too \
many bytes, 69 if the table cannot be used, 74 if the input cannot be read, 128 + n if signal n \
ended the wait.

Examples:
  echo 'page 7' | fairlock data put import/7
  fairlock data put --wait none import/7 < cursor";

const CLEAR_EXAMPLES: &str = "\
Waits for the lock, and holds it while it removes the bytes. Exit codes: those of `fairlock data \
put`.

Examples:
  fairlock data clear import/7";

/// `fairlock data`
#[derive(Debug, Subcommand)]
pub(crate) enum Data {
    /// Print the bytes that the last holder left; the lock need not be free
    #[command(after_help = GET_EXAMPLES)]
    Get(DataGet),
    /// Leave the bytes of standard input on the lock, in place of those that are there
    #[command(after_help = PUT_EXAMPLES)]
    Put(DataPut),
    /// Remove the bytes
    #[command(after_help = CLEAR_EXAMPLES)]
    Clear(DataClear),
}

/// `fairlock data get`
#[derive(Debug, clap::Args)]
pub(crate) struct DataGet {
    /// Print JSON, whose fields `fairlock man json` explains
    #[arg(long)]
    pub(crate) json: bool,

    /// The lock's name
    pub(crate) lock: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock data put`
#[derive(Debug, clap::Args)]
pub(crate) struct DataPut {
    #[command(flatten)]
    pub(crate) turn: DataTurn,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock data clear`
#[derive(Debug, clap::Args)]
pub(crate) struct DataClear {
    #[command(flatten)]
    pub(crate) turn: DataTurn,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock data put` and `fairlock data clear`
#[derive(Debug, clap::Args)]
pub(crate) struct DataTurn {
    /// How long to wait for the lock: none, infinite, or a duration such as 90s, 5m or 1h
    #[arg(long, value_name = "WAIT", env = "FAIRLOCK_WAIT", default_value = "60s", value_parser = flags::wait)]
    pub(crate) wait: RecordWait,

    /// How long other waiters wait if this host fails meanwhile
    #[arg(long, value_name = "DURATION", env = "FAIRLOCK_LEASE", default_value = "30s", value_parser = duration)]
    pub(crate) lease: Duration,

    /// The name of this process for people who inspect the lock [default: user@host:pid]
    #[arg(long, value_name = "NAME", env = "FAIRLOCK_OWNER")]
    pub(crate) owner: Option<String>,

    /// Wait even for a lock that is held by the very command in which this one runs
    #[arg(long, hide_short_help = true)]
    pub(crate) nested: bool,

    /// Print a line of JSON when it is done; `fairlock man json` explains the fields
    #[arg(long)]
    pub(crate) json: bool,

    /// The lock's name
    pub(crate) lock: String,
}

pub(crate) const LEASE_EXAMPLES: &str = "\
Examples:
  lease=$(fairlock lease acquire --id build-7 --for 5m deploy/prod)
  lease=$(fairlock lease extend --for 5m deploy/prod \"$lease\")
  fairlock lease release deploy/prod \"$lease\"
  fairlock lease show deploy/prod";

const ACQUIRE_EXAMPLES: &str = "\
Nothing runs afterwards: the lock is held until it is released, or until the time is over. With \
--wait it waits for its turn in the queue, and the time begins when the turn comes. Asked again \
under the same name, it prints the lease as it stands; a lease with fewer permits than are asked for \
counts as another one. Standard output has the text of the lease, in one line, for `extend` and \
`release`. If that cannot be written, the lease stays: ask again under the same name, or print it by \
`lease show --json`. So it is after a signal that comes at the moment of the grant.

DynamoDB's clock has whole seconds: its owner may rely on a lease for up to 2 % and a second less \
than --for. Others take the lock later, by up to 10 s if they do not wait.

Exit codes: 0 if the name has the lock, 75 if another caller has it or waits for it, 64 for a wrong \
command line, 69 if the table cannot be used, 74 if the text cannot be written, 128 + n if signal n \
ended the wait.

Examples:
  fairlock lease acquire --id \"run-$CI_JOB\" --for 30m deploy/prod > lease
  fairlock lease acquire --wait 10m --id build-7 --for 5m prod
  fairlock lease acquire --permits 5 --take 2 --id export-7 --for 1h exports
  fairlock lease acquire --json --id build-7 --for 5m prod | jq .expires_at";

const EXTEND_EXAMPLES: &str = "\
Prints the text of the lease as it is now. Never makes a lease shorter: if it lasts longer already, \
a line on standard error says so. Exit codes: 0 if it was extended, 76 if it no longer has the lock, \
64 for a wrong command line, or a text that is no lease of this lock, 69 if the table cannot be used.

Examples:
  fairlock lease extend --for 5m deploy/prod \"$lease\"
  fairlock lease extend --for 5m deploy/prod - < lease";

const RELEASE_EXAMPLES: &str = "\
Exit codes: 0 if it was released, 76 if it no longer had the lock, 64 for a wrong command line, or a \
text that is no lease of this lock, 69 if the table cannot be used.

Examples:
  fairlock lease release deploy/prod \"$lease\"
  fairlock lease release deploy/prod - < lease";

const LEASE_SHOW_EXAMPLES: &str = "\
Shows each lease of a lock that leases share. Of leases of one name it shows the first.

Exit codes: 0 if a lease has the lock, 1 if none has, or another than that of --id, 64 for a wrong \
command line, 69 if the lock cannot be read.

Examples:
  fairlock lease show deploy/prod
  fairlock lease show --json --id build-7 deploy/prod | jq -r .lease";

/// `fairlock lease`
#[derive(Debug, Subcommand)]
pub(crate) enum Lease {
    /// Take the lock if it is free, or in turn, under a name and for a time, and print the lease
    #[command(after_help = ACQUIRE_EXAMPLES)]
    Acquire(LeaseAcquire),
    /// Make a lease last for a time from now on, and print it
    #[command(after_help = EXTEND_EXAMPLES)]
    Extend(LeaseExtend),
    /// Give the lock back before its time is over
    #[command(after_help = RELEASE_EXAMPLES)]
    Release(LeaseRelease),
    /// Show which leases have the lock, and until when
    #[command(after_help = LEASE_SHOW_EXAMPLES)]
    Show(LeaseShow),
}

/// `fairlock lease acquire`
#[derive(Debug, clap::Args)]
pub(crate) struct LeaseAcquire {
    /// The name under which the lock is held: that of one piece of work, such as a pipeline's number.
    #[arg(long, value_name = "NAME")]
    pub(crate) id: String,

    /// How long it is held: from 1s to 1day.
    #[arg(long = "for", value_name = "DURATION", value_parser = flags::lease)]
    pub(crate) span: Duration,

    /// How long to wait for the lock: none, infinite, or a duration such as 90s, 5m or 1h.
    #[arg(long, value_name = "WAIT", default_value = "none", value_parser = flags::wait)]
    pub(crate) wait: RecordWait,

    /// Share the lock with readers and with other leases that share it.
    #[arg(short = 's', long, conflicts_with = "permits")]
    pub(crate) shared: bool,

    #[command(flatten)]
    pub(crate) of: Permits,

    /// With --permits: how many of them to take, all at once [default: 1].
    #[arg(long, value_name = "N", requires = "permits", value_parser = flags::permits)]
    pub(crate) take: Option<u64>,

    /// The name of this process for people who inspect the lock [default: user@host:pid].
    #[arg(long, value_name = "NAME", env = "FAIRLOCK_OWNER")]
    pub(crate) owner: Option<String>,

    /// Wait even for a lock that is held by the very command in which this one runs.
    #[arg(long, hide_short_help = true)]
    pub(crate) nested: bool,

    /// Print a line of JSON in place of the text; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// The lock's name.
    pub(crate) lock: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// Whether the lock is a semaphore.
#[derive(Debug, clap::Args)]
pub(crate) struct Permits {
    /// Use the lock as a semaphore of this many permits, the same number in every command that uses it.
    #[arg(long, value_name = "TOTAL", value_parser = flags::permits)]
    pub(crate) permits: Option<u64>,
}

/// The same where the lock itself tells.
#[derive(Debug, clap::Args)]
pub(crate) struct PermitsOfShow {
    /// Refuse the lock if it is no semaphore of this many permits; not needed otherwise.
    #[arg(long, value_name = "TOTAL", value_parser = flags::permits)]
    pub(crate) permits: Option<u64>,
}

/// `fairlock lease extend`
#[derive(Debug, clap::Args)]
pub(crate) struct LeaseExtend {
    /// How long it lasts from now on: from 1s to 1day.
    #[arg(long = "for", value_name = "DURATION", value_parser = flags::lease)]
    pub(crate) span: Duration,

    #[command(flatten)]
    pub(crate) of: Permits,

    /// Print a line of JSON in place of the text; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// The lock's name.
    pub(crate) lock: String,

    /// The text that `acquire` or `extend` printed, or - to read it from standard input.
    pub(crate) lease: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock lease release`
#[derive(Debug, clap::Args)]
pub(crate) struct LeaseRelease {
    #[command(flatten)]
    pub(crate) of: Permits,

    /// Print a line of JSON when it is done; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// The lock's name.
    pub(crate) lock: String,

    /// The text that `acquire` or `extend` printed, or - to read it from standard input.
    pub(crate) lease: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

/// `fairlock lease show`
#[derive(Debug, clap::Args)]
pub(crate) struct LeaseShow {
    /// Only a lease of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,

    #[command(flatten)]
    pub(crate) of: PermitsOfShow,

    /// Print a line of JSON for each lease; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// The lock's name.
    pub(crate) lock: String,

    #[command(flatten)]
    pub(crate) location: Location,
}

pub(crate) const SWEEP_EXAMPLES: &str = "\
Removes dead holders, dead waiters, what is left of past turns, and locks that nobody has used for \
the idle retention; never what is alive. Reads the whole table. Nothing needs this where callers \
come for the locks and TTL is on.

Exit codes: 0 if all was swept, or a signal ended --every, 64 for a wrong command line, 69 if a \
lock or the table could not be swept, 128 + n if signal n ended a single sweep.

Examples:
  fairlock sweep
  fairlock sweep --every 1h                  for tables without TTL
  fairlock sweep nightly
  fairlock sweep --json | jq .holders";

/// `fairlock sweep`
#[derive(Debug, clap::Args)]
pub(crate) struct Sweep {
    /// Sweep again and again, at about this distance, until a signal comes.
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "lock")]
    pub(crate) every: Option<Duration>,

    /// Print JSON, one line for each sweep; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// Only the lock of this name.
    pub(crate) lock: Option<String>,

    #[command(flatten)]
    pub(crate) location: Location,
}

pub(crate) const DOCTOR_EXAMPLES: &str = "\
Nothing is created or changed: it reads, and writes on conditions that cannot hold. Each line is ok, \
a warning (locks work, but not all that is promised holds), or a problem (locks do not work). \
Permission to create the table and to switch TTL on is not tried.

Exit codes: 0 if there is no problem, 1 if there is one, 64 for a wrong command line.

Examples:
  fairlock doctor
  fairlock doctor --table locks || exit 1
  fairlock doctor --json | jq -r 'select(.state != \"ok\") | .text'";

/// `fairlock doctor`
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    /// Print JSON, one line for each check; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) location: Location,
}

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  fairlock completions bash > /etc/bash_completion.d/fairlock
  fairlock completions zsh > ~/.zfunc/_fairlock
  fairlock completions fish > ~/.config/fish/completions/fairlock.fish";

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  fairlock man | man -l -
  fairlock man run | man -l -
  fairlock man --out /usr/local/share/man/man1";

/// `fairlock completions`
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `fairlock man`
#[derive(Debug, clap::Args)]
pub(crate) struct Pages {
    /// Write all pages into this directory, which must be there, in place of printing one.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,

    /// The command whose page to print, such as `table create`; `json` for the fields of the commands' JSON [default: that of fairlock itself].
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
