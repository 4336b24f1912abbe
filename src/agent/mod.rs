//! The driver of a client: its mailbox, its timer, its requests, and what its callers see of it; and what all locks of the client share. All that is decided is
//! decided in `fairlock_protocol::agent`.
//!
//! Each client has a task, which carries inputs, times and chance to the value, and its outputs to the callers. Each request is a task of its own,
//! and so is each callback of a user. What a caller sees of its hold is true though that task is late, stopped, or gone with its runtime.

mod carry;
pub(crate) mod client_state;
mod driver;
mod ground;
mod handle;
mod held;
mod mail;
mod notes;
pub(crate) mod notify;
pub(crate) mod offer;
mod post;
mod record;
mod view;
mod words;

pub(crate) use handle::{Asked, Asks, Driven};
pub(crate) use held::{Held, Ordered, Watch};
pub(crate) use view::{Stand, View};
pub(crate) use words::refused;
