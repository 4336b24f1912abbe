//! Tells whether the calling thread polls a future of tokio, and so must not block.

use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::coop;

use crate::vocabulary::error::Invalid;

/// More steps than any task may take before it yields. tokio gives each poll 128.
const STEPS: usize = 1024;

/// Refuses to block a thread that polls a future of tokio.
pub(super) fn check() -> Result<(), Invalid> {
    match may_block() {
        true => Ok(()),
        false => Err(Invalid::new(
            "a blocking call stops the tasks of an async runtime: await the call of the async client, or make this one in `spawn_blocking`",
        )),
    }
}

/// Whether the calling thread may block. A runtime's handle alone does not tell: threads of `spawn_blocking` have it too. But tokio limits
/// the steps of each poll of a task or of a root future, and of nothing else. tokio's own blocking calls panic where this says no.
pub(super) fn may_block() -> bool {
    if Handle::try_current().is_err() {
        return true;
    }
    let mut context = Context::from_waker(Waker::noop());
    // Gives all steps back as it is dropped.
    let Poll::Ready(_before) = coop::poll_proceed(&mut context) else {
        return false;
    };
    (0..STEPS).all(|_| match coop::poll_proceed(&mut context) {
        Poll::Ready(step) => {
            step.made_progress();
            true
        }
        Poll::Pending => false,
    })
}
