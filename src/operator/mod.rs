//! What an operator does: makes and checks the table, reads and watches locks, breaks, asks, resizes, deletes.

mod admin;
mod delete;
mod give_up;
mod inspect;
mod intervene;
mod resize;
mod state_reader;
mod table;
mod watch;

pub use delete::DeleteOutcome;
pub use intervene::BreakOutcome;
pub use resize::ResizeOutcome;
pub use table::{Finding, Severity, TableReport};
