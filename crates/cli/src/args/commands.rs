//! The flags of the commands that keep a lock without a command around the work, and of those that look after locks and their table.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap_complete::Shell;
use fairlock::RecordWait;
use fairlock_cli::flags::{self, duration, seconds};

use crate::failure::{LOST, NOT_GRANTED};
use crate::notify::Notify;
use crate::place::Place;

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
    #[arg(long, value_name = "TOTAL")]
    pub(crate) permits: Option<u64>,

    /// With --permits: how many of them to take, all at once [default: 1]
    #[arg(long, value_name = "N", requires = "permits")]
    pub(crate) take: Option<u64>,

    /// Hold this lock too: all of them or none; may be given several times
    #[arg(long, value_name = "LOCK", conflicts_with_all = ["shared", "permits"])]
    pub(crate) also: Vec<String>,

    /// How long other waiters wait if this host fails; while this command runs, the lock stays held
    #[arg(long, value_name = "DURATION", env = "FAIRLOCK_LEASE", default_value = "30s", value_parser = duration)]
    pub(crate) lease: Duration,

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
    /// Print a line of JSON in place of the ticket; docs/operations.md explains the fields
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) claim: Claim,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The process that `fairlock hold` runs in its turn
#[derive(Debug, clap::Args)]
pub(crate) struct Holder {
    #[arg(long)]
    pub(crate) json: bool,
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
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `fairlock man`
#[derive(Debug, clap::Args)]
pub(crate) struct Pages {
    /// Write all pages into this directory, which must be there, in place of printing one
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,

    /// The command whose page to print, such as `table create` [default: that of fairlock itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
