//! A real DynamoDB API in this process, in memory or in a file that several processes share, behind an
//! SDK client whose transport needs no socket.
//!
//! For tests, demonstrations and work without a network; never for production: it is one SQLite database
//! on one machine.
//!
//! With its feature `embedded`, the lock library fairlock offers this crate as `fairlock::embedded`. This crate knows nothing of locks.
//!
//! # Limitations
//!
//! - Reads are always strongly consistent. Nothing is throttled, in conflict or left unprocessed unless a [`Fault`] says so.
//! - An engine in memory computes on the thread that asks, and that thread never waits for I/O.
//! - An engine on a file remembers a table's keys and indexes while it is open. Do not delete and create a table again, or change its
//!   indexes, while other engines have the file open.
//! - A table's tags, key and deletion protection are remembered and described. Deletion protection refuses `DeleteTable`. Nothing is
//!   encrypted. Requests about backups are unknown operations.
//! - A request to a file that another process keeps busy is tried for half a minute, and then answered with 500.
//!
//! # What is here
//!
//! An [`Engine`] keeps the tables and answers requests. A [`Network`] stands between clients and an engine (or any other transport). It
//! delays, loses, repeats and refuses requests as [`Faults`] and scripted [`Fault`]s say, counts them, and lets an observer record what
//! happened. Delays run on tokio's clock, which a test may pause (or, for measurements, [exactly](Network::with_exact_delays)). All chance
//! comes from one seed.
//!
//! # Examples
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fairlock_embedded::Engine;
//!
//! let engine = Engine::memory()?;
//! let tables = engine.client().list_tables().send().await?;
//! assert!(tables.table_names().is_empty());
//! # Ok(())
//! # }
//! ```

mod answer;
mod client;
mod connections;
mod connector;
mod counts;
mod database;
mod date;
mod engine;
mod fate;
mod faults;
mod file;
mod gate;
mod latency;
mod network;
mod operations;
mod own;
mod reply;
mod request;
mod signal;
mod store;
mod tags;
mod time;
mod timer;
mod ttl;
mod turnstile;
mod unmade;

pub use counts::Counts;
pub use engine::{Engine, EngineError};
pub use faults::{Fault, Faults, When};
pub use gate::Gate;
pub use latency::Latency;
pub use network::Network;
pub use reply::Reply;
pub use request::{Exchange, Outcome, Request};
pub use signal::Signal;
pub use time::{BootTime, WallClock};
