//! What delays run on.

use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Timer {
    /// Tokio's clock: to the millisecond, and a test may pause it.
    #[default]
    Tokio,
    /// Real time, as exactly as the machine wakes a thread.
    Exact,
}

impl Timer {
    pub(crate) async fn pass(self, span: Duration) {
        if span.is_zero() {
            return;
        }
        match self {
            Timer::Tokio => tokio::time::sleep(span).await,
            Timer::Exact => futures_timer::Delay::new(span).await,
        }
    }
}
