//! What delays run on.

use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Timer {
    /// Tokio's clock: to the millisecond, and a test may pause it.
    #[default]
    Tokio,
    /// Real time, as exactly as the machine wakes a thread.
    Exact,
}

impl Timer {
    pub(super) async fn pass(self, span: Duration) {
        if span.is_zero() {
            return;
        }
        match self {
            Timer::Tokio => tokio::time::sleep(span).await,
            Timer::Exact => futures_timer::Delay::new(span).await,
        }
    }
}
