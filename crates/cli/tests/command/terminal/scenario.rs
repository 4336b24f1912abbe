//! The same at a terminal, with a lock and without it.

use std::fmt::Debug;

use super::pty::Terminal;

/// In front of a command.
pub(crate) const LOCK: &str = "fairlock run --local locks.db a -- ";
/// With the lease of a test that loses it.
pub(crate) const SHORT: &str = "fairlock run --local locks.db --lease 2s a -- ";
/// Whether the lock is free. The code is 75 if it is held.
pub(crate) const IS_FREE: &str = "fairlock run --local locks.db --wait none a -- true";

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const CTRL_Z: &str = "\x1a";

/// Does the same without a lock and with it. Returns the result, which must be the same.
#[track_caller]
pub(crate) fn alike<T: Debug + PartialEq>(scenario: impl Fn(&mut Terminal, &str) -> T) -> T {
    let without = scenario(&mut Terminal::new(), "");
    let with = scenario(&mut Terminal::new(), LOCK);
    assert_eq!(with, without, "with and without a lock");
    with
}

/// A command that reports that it is ready, and ends well once there is a file `go`.
pub(crate) const UNTIL_GO: &str =
    "bash -c 'echo $$ > pid; echo ready; while [ ! -e go ]; do sleep 0.02; done; echo went'";

pub(crate) fn pid(terminal: &Terminal) -> i32 {
    terminal.home.wait_for("pid").parse().unwrap()
}
