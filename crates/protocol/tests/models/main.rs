//! The protocol, checked exhaustively: every order of every step of small queues and small leases, of front ends that disagree on the time,
//! and of stamps by two clocks.

mod blank;
mod clock;
mod dates;
mod explore;
mod lease;
mod queue;
mod watchdog;
