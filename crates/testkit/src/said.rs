//! What a test makes this crate log.

use std::sync::LazyLock;
use std::sync::mpsc::channel;

use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Level};

use crate::lines::Lines;
use crate::virtual_time;

/// Hears nothing, and is there as long as the program. While a subscriber is the only one, `tracing` asks only the thread that comes to a
/// line first whether anybody wants to hear it, and keeps the answer: a test beside this one would answer for this one's thread.
static BESIDE: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// The lines that come up to a level in `test`, on the test's own thread.
pub fn said(upto: Level, test: impl AsyncFnOnce()) -> Vec<String> {
    let (keep, kept) = channel();
    let lines = Lines {
        upto,
        // Nobody reads what is said after the test.
        to: move |line| drop(keep.send(line)),
    };
    LazyLock::force(&BESIDE);
    tracing::subscriber::with_default(lines, || virtual_time(async { test().await }));
    kept.try_iter().collect()
}
