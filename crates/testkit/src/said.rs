//! What a test makes this crate log.

use std::sync::mpsc::channel;

use tracing::Level;

use crate::lines::Lines;
use crate::virtual_time;

/// The lines that come up to a level in `test`, on the test's own thread.
pub fn said(upto: Level, test: impl AsyncFnOnce()) -> Vec<String> {
    let (keep, kept) = channel();
    let lines = Lines {
        upto,
        // Nobody reads what is said after the test.
        to: move |line| drop(keep.send(line)),
    };
    tracing::subscriber::with_default(lines, || virtual_time(async { test().await }));
    kept.try_iter().collect()
}
