//! The drivers that measure and soak, as programs.

mod contend;
mod performance;
#[cfg(target_os = "linux")]
mod soak;

use std::process::Command;

/// A driver with its first flags to come.
fn driver(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock-bench"));
    command.arg(name);
    command
}
