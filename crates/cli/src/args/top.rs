//! The flags of `fairlock top`.

use std::time::Duration;

use clap::Args;
use fairlock_cli::flags::duration;

use crate::location::Location;

pub(crate) const TOP_EXAMPLES: &str = "\
Each read scans the whole table, which is paid for by its size; of a lock that is inspected it \
reads that lock alone. Keys cause no read. The third line of the screen tells what the reads cost.

Turns are counted by the tickets that ended between two reads, so waiters that left count too. A \
turn is the hold and the handoff after it, which reads cannot tell apart; it is the mean while \
callers waited. The end of a hold is expected after one such turn. Decide nothing by it.

Keys: up and down choose a lock, enter inspects it, s sorts by something else, / filters by a part \
of the name, q ends.

Exit codes: 0 if all could be read, 64 for a wrong command line or without a terminal, 69 if not, \
128 + n if signal n ended it.

Examples:
  fairlock top
  fairlock top --every 10s                   a fifth of the cost
  fairlock top --once
  fairlock top --json --every 10s | jq -r 'select(.turns_an_hour > 600) | .lock'";

/// How far reads are apart unless the user says so.
const EVERY: Duration = Duration::from_secs(2);

/// `fairlock top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// How often the table is read at most, 100ms or more [default: 2s]; with --once, read it twice, this far apart, to tell turns too.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) every: Option<Duration>,

    /// Print the locks once as text, and end.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print the locks once as JSON, one line for each; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,

    /// Panic after the first read.
    #[arg(long, hide = true)]
    pub(crate) plant_panic: bool,

    #[command(flatten)]
    pub(crate) location: Location,
}

impl Top {
    pub(crate) fn every(&self) -> Duration {
        self.every.unwrap_or(EVERY)
    }
}
