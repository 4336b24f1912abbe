//! Renews a baseline's lease until it is dropped.

use std::time::Duration;

use tokio::task::JoinSet;

pub(crate) struct Heartbeat {
    _beating: JoinSet<()>,
}

impl Heartbeat {
    /// Sends the first beat one period from now. The next beat or the release finds out how a beat went.
    pub(crate) fn every<F>(period: Duration, beat: impl Fn() -> F + Send + 'static) -> Heartbeat
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut beating = JoinSet::new();
        beating.spawn(async move {
            // The loop ends when the heartbeat is dropped.
            loop {
                tokio::time::sleep(period).await;
                beat().await;
            }
        });
        Heartbeat { _beating: beating }
    }
}
