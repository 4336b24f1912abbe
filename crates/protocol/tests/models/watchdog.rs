//! Ends the whole run, with a message, when a search takes much longer than it ever should.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Much more than any of the searches takes on a slow machine.
const TOO_LONG: Duration = Duration::from_secs(900);

pub(crate) fn within<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (working, ended) = channel::<()>();
    let what = what.to_owned();
    let watch = thread::spawn(move || {
        if ended.recv_timeout(TOO_LONG) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{what}: still searching after {TOO_LONG:?}; aborted");
            std::process::abort();
        }
    });
    let result = work();
    drop(working);
    let watched = watch.join();
    assert!(watched.is_ok(), "the watch only waits");
    result
}
