//! The drivers that measure and soak, run as programs.

mod contend;
mod performance;
#[cfg(target_os = "linux")]
mod soak;

use std::process::Command;

/// The command of a driver. The caller adds its flags.
fn driver(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock-bench"));
    command.arg(name);
    command
}
