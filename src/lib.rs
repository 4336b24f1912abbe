//! A FIFO, starvation-free, distributed lock on DynamoDB. (Under construction.)

mod chance;
mod clock;
mod entry;
mod lease;
mod line;
mod moment;
mod ticket;

pub use chance::Chance;
pub use clock::Clock;
pub use ticket::Ticket;
