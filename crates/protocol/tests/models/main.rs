//! The protocol, checked exhaustively: every order of every step of small queues and small leases, and of
//! front ends that disagree on the time.

mod blank;
mod clock;
mod explore;
mod lease;
mod queue;
mod watchdog;
