//! What a test makes the library log.

use std::sync::LazyLock;
use std::sync::mpsc::channel;

use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Level};

use crate::lab::{Host, Lab, among};
use crate::log_lines::Lines;
use crate::virtual_time;

/// A subscriber that hears nothing, and stays as long as the program. While there is a single subscriber, `tracing` asks it only once about
/// a log line, on the thread that first comes to the line, and keeps the answer. A test beside this one would then answer for this one's
/// thread.
static BESIDE: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// Returns the lines up to a level that are logged in a test in a laboratory, with as many clients as it names.
pub fn said_in_lab<const N: usize>(
    upto: Level,
    test: impl AsyncFnOnce(&Lab, [Host; N]),
) -> Vec<String> {
    said(upto, async || among(|builder| builder, test).await)
}

/// Returns the lines up to a level that are logged in `test`, on the test's own thread.
pub fn said(upto: Level, test: impl AsyncFnOnce()) -> Vec<String> {
    let (keep, kept) = channel();
    let lines = Lines {
        upto,
        // Lines that are logged after the test have no receiver.
        to: move |line| drop(keep.send(line)),
    };
    LazyLock::force(&BESIDE);
    tracing::subscriber::with_default(lines, || virtual_time(async { test().await }));
    kept.try_iter().collect()
}
