//! The protocol, checked exhaustively: every order of every step of small queues and small leases, and of stamps by two clocks.

mod blank;
mod dates;
mod explore;
mod lease;
mod queue;
mod watchdog;
