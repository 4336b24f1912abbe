//! Many hosts, each with a client of the protocol, in virtual time: what they promise is watched while anything goes wrong.
//!
//! A seed decides everything, so a violation is replayed by its seed.

mod agenda;
mod callers;
mod causes;
mod chaos;
mod clocks;
mod costs;
mod driving;
mod faults;
mod features;
mod host;
mod kept_out;
mod live_places;
mod misbehaviour;
mod mistakes;
mod named;
mod network;
mod operator;
mod oracles;
mod parcel;
mod parts;
mod plan;
mod queue_told;
mod remains;
mod replay;
mod run;
mod scripted;
mod seen;
mod standing;
mod story;
mod table;
mod telling;
#[cfg(test)]
mod tests;
mod times;
mod waiter;
mod world;

/// Saves a tenth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Simulates hosts that contend for locks, and prints a line of JSON.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// How many seeds are run. Of each mistake, how many at most.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of the seeds.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many threads run them. As many as there are processors, if nothing is said.
    #[arg(long)]
    jobs: Option<usize>,
    /// How many lines of the history of a lock are told.
    #[arg(long, default_value_t = run::LINES)]
    lines: usize,
    /// Plants mistakes, and says which of them are noticed.
    #[arg(long)]
    mistakes: bool,
    /// Only mistakes whose names have this in them.
    #[arg(long, default_value = "", requires = "mistakes")]
    only: String,
    /// Plays short histories again and again, with each fault at each request.
    #[arg(long)]
    every: bool,
    /// Plays short histories with this fault alone, such as 12:LostAfter.
    #[arg(long)]
    fault: Option<faults::Planted>,
    /// Prints in how many turns each pair of features was met, and fails if one was in none.
    #[arg(long)]
    pairs: bool,
    /// Puts a record of each host of each seed into this folder.
    #[arg(long)]
    record: Option<PathBuf>,
    #[command(subcommand)]
    instead: Option<Instead>,
}

/// What is done instead of a simulation.
#[derive(Debug, clap::Subcommand)]
enum Instead {
    /// Plays a record of a client, and prints a line of JSON, and where the client does something else than its record says.
    Replay {
        /// The record, such as `FAIRLOCK_RECORD` names.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Instead::Replay { file }) = &args.instead {
        return replay::replay(file);
    }
    match (args.mistakes, args.every) {
        (true, _) => run::mistakes(&args),
        (_, true) => run::every(&args),
        _ => run::seeds(&args),
    }
}
