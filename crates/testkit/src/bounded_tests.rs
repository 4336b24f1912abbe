//! The kinds of time a test may run on, each with a bound in real time.
#![expect(
    clippy::expect_used,
    reason = "a test without a runtime or a watchdog has failed"
)]

use std::future::Future;
use std::io::Write;
use std::pin::{Pin, pin};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// No test may take longer, however much virtual time passes in it. Four tests share two processors.
const BOUND: Duration = Duration::from_secs(300);

/// Runs a test on one thread, on a clock that jumps to the next timer whenever everything waits.
pub fn virtual_time<F: Future>(test: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    bounded(BOUND, runtime.enable_all().start_paused(true), test)
}

/// Runs a test on one thread and the clock on the wall, for what blocks on the world outside.
pub fn real_time<F: Future>(test: F) -> F::Output {
    real_time_within(BOUND, test)
}

/// Runs a test as `real_time` does, with a bound of its own.
pub fn real_time_within<F: Future>(bound: Duration, test: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    bounded(bound, runtime.enable_all(), test)
}

/// Runs a test that blocks its thread and starts others, on the clock on the wall.
pub fn blocking<T>(test: impl FnOnce() -> T) -> T {
    let _watched = watchdog(BOUND);
    test()
}

fn bounded<F: Future>(
    bound: Duration,
    runtime: &mut tokio::runtime::Builder,
    test: F,
) -> F::Output {
    // Without its type, so that the loop of the runtime is built once and not for each of a thousand tests.
    block_on(bound, runtime, pin!(test))
}

fn block_on<T>(
    bound: Duration,
    runtime: &mut tokio::runtime::Builder,
    test: Pin<&mut dyn Future<Output = T>>,
) -> T {
    let _watched = watchdog(bound);
    let runtime = runtime.build().expect("a runtime");
    runtime.block_on(test)
}

/// Ends the process unless the returned value is dropped in time: a test that hangs cannot be unwound.
fn watchdog(bound: Duration) -> Sender<()> {
    let (alive, watched) = channel();
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::spawn(move || {
        if watched.recv_timeout(bound) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln!`: the harness keeps its output until the test ends.
            let message = format!("{test} ran longer than {bound:?} of real time: aborting\n");
            let _ = std::io::stderr().write_all(message.as_bytes());
            std::process::abort();
        }
    });
    alive
}
