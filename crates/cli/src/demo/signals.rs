//! The signals that end the demo.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::oneshot;

use crate::failure::Failure;

/// Resolves with the number of the first signal that comes.
pub(crate) type Signal = oneshot::Receiver<i32>;

/// Catches the signals. From now on they only resolve this.
pub(crate) fn first() -> Result<Signal, Failure> {
    let signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]);
    let failed = |error| Failure::internal(format!("cannot listen to signals: {error}"));
    let mut signals = signals.map_err(failed)?;
    let (tell, told) = oneshot::channel();
    // Uses a thread, because waiting for a signal blocks. The thread ends with the first signal, or with the process.
    std::thread::spawn(move || signals.forever().next().map(|number| tell.send(number)));
    Ok(told)
}
