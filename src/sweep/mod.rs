//! Sweeps remove what is settled or expired: of one lock, or of a whole table, once or again and again.

mod lock;
mod report;
mod table;

pub(crate) use lock::{SweepMemory, ToRemove};
pub use report::SweepReport;
pub use table::TableSweepReport;
pub(crate) use table::{Pass, Sweeps};
