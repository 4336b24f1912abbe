//! A FIFO, starvation-free, distributed lock on DynamoDB. (Under construction.)

mod chance;
mod clock;
#[cfg(feature = "embedded")]
pub mod embedded;
mod entry;
mod ticket;

pub use chance::Chance;
pub use clock::Clock;
pub use ticket::Ticket;
