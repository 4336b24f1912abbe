//! A FIFO, starvation-free, distributed lock on DynamoDB. (Under construction.)

mod acquire;
mod background;
mod builder;
mod chance;
mod client;
mod clock;
mod config;
mod core;
mod counter;
#[cfg(feature = "embedded")]
pub mod embedded;
mod entry;
mod error;
mod guard;
mod heartbeat;
mod hold;
mod item;
mod lease;
mod line;
mod lock;
mod look;
mod moment;
mod name;
mod passing;
mod queue;
mod seats;
mod store;
mod sweeper;
mod sweeping;
mod swept;
mod table;
mod ticket;
mod upkeep;
mod wait;

pub use builder::LockClientBuilder;
pub use chance::Chance;
pub use client::{HeldLocks, LockClient, ShutdownReport, Unfinished};
pub use clock::Clock;
pub use error::{Error, Holder, Invalid, Loss, Problem};
pub use guard::LockGuard;
pub use lock::FairLock;
pub use sweeping::{SweepOptions, Sweeper, SweptTable};
pub use swept::{IdleLocks, Swept};
pub use table::{Finding, Severity, TableOptions, TableReport};
pub use ticket::Ticket;
pub use wait::RecordWait;
