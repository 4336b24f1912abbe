//! What metrics call a lock.

#[cfg(feature = "metrics")]
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "metrics")]
use std::sync::Arc;

use crate::vocabulary::config::Config;
use crate::vocabulary::name::LockName;

/// The label `lock` of the metrics of one lock. Empty by default, and without the feature `metrics`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Label {
    #[cfg(feature = "metrics")]
    pub(super) lock: Option<Arc<str>>,
}

impl Label {
    /// A panic of the caller's own function leaves the label out. It must end no hold, and no task of a place.
    #[cfg(feature = "metrics")]
    pub(crate) fn of(config: &Config, name: &LockName) -> Label {
        let lock = config.lock_label.as_ref().and_then(|label| {
            let labels = AssertUnwindSafe(|| label.of(name.lock()));
            let label = catch_unwind(labels);
            if label.is_err() {
                tracing::warn!(lock = %name, "the function for the label `lock` panicked: its metrics have no such label");
            }
            label.ok()
        });
        Label {
            lock: lock.map(Into::into),
        }
    }

    #[cfg(not(feature = "metrics"))]
    pub(crate) fn of(_: &Config, _: &LockName) -> Label {
        Label::default()
    }
}
