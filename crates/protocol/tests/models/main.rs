//! The protocol, checked exhaustively: every order of every step of small queues and small leases.

mod explore;
mod lease;
mod queue;
mod watchdog;
