//! Holds are kept, end, and are lost: by time, by wrong clocks, by the end of a process.

mod bounds;
mod events;
mod fallback_date;
mod guard_scopes;
mod heartbeats;
mod holds;
mod process_exit;
mod reboots;
mod safety_margin;
mod shutdown;
mod stepped_clocks;
