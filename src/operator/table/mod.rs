//! The table of the locks: how it is created, what it must be, and whether it is that.

mod check;
mod create;
mod finding;
mod probe;
mod requests;
mod schema;

pub(crate) use check::check;
pub(crate) use create::create;
pub use finding::{Finding, Severity, TableReport};
pub(crate) use requests::CreateTableFluentBuilder;
