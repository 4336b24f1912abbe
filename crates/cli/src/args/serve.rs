//! The flags of `fairlock serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

pub(crate) const SERVE_EXAMPLES: &str = "\
For tests only: nothing authenticates a client, and it is one process on one machine. It knows the \
operations on items, batches, transactions, tables, tags, TTL and recovery. It answers every other \
operation with UnknownOperationException, throttles nothing, and deletes nothing by TTL. Its first \
line of output is its address. A signal ends it.

Exit codes: 0 if a signal ended it, 64 for a wrong command line, 69 if it cannot listen there, or \
cannot use the file.

Examples:
  fairlock serve                             at http://127.0.0.1:8000, in memory
  fairlock serve --listen 127.0.0.1:0        at a free port, which it prints
  fairlock serve --local locks.db --json
  fairlock run --endpoint-url http://127.0.0.1:8000 nightly -- ./report.sh";

/// `fairlock serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address of the server, with port 0 for any free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    pub(crate) listen: SocketAddr,

    /// Keep the tables in this file, which other commands may use by --local meanwhile [default: in memory].
    #[arg(long, value_name = "FILE")]
    pub(crate) local: Option<PathBuf>,

    /// Use the file of --local also on NFS, SMB or FUSE, where two may get one lock.
    #[arg(long, requires = "local")]
    pub(crate) any_filesystem: bool,

    /// Print each operation on standard error, with the status of its answer.
    #[arg(long)]
    pub(crate) log: bool,

    /// Print the address as a line of JSON; `fairlock man json` explains the fields.
    #[arg(long)]
    pub(crate) json: bool,
}
