//! The sweeper removes what is settled or expired: of one lock by a call, of a whole table by a stream.

mod lock;
pub(crate) mod removal;
mod report;
mod table;
mod undated;

pub(crate) use lock::ToRemove;
pub use report::{SweepReport, TableSweepReport};
pub(crate) use table::Sweeper;
