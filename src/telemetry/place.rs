//! Places that come into the queue, and places that are taken away because they are over.

#[cfg(feature = "metrics")]
use super::{Label, counts};
use crate::vocabulary::config::Config;
use crate::vocabulary::name::LockName;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::ticket::Ticket;

/// The place of an expired entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictedPlace {
    Holder,
    Successor,
    Waiter,
}

impl EvictedPlace {
    /// The label `place`.
    #[cfg(feature = "metrics")]
    fn label(self) -> &'static str {
        match self {
            EvictedPlace::Holder => "holder",
            EvictedPlace::Successor => "successor",
            EvictedPlace::Waiter => "waiter",
        }
    }
}

/// A place has joined the queue behind `before` turns.
#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "the settings have the label for metrics")
)]
pub(crate) fn joined(config: &Config, name: &LockName, ticket: Ticket, before: usize) {
    #[cfg(feature = "metrics")]
    counts::joined(&Label::of(config, name), before);
    tracing::debug!(lock = %name, %ticket, before, "joined the queue");
}

/// An entry that had expired was taken away.
#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "the settings have the label for metrics")
)]
pub(crate) fn evicted(config: &Config, name: &LockName, place: EvictedPlace, dead: &Entry) {
    #[cfg(feature = "metrics")]
    counts::evicted(&Label::of(config, name), place.label(), 1);
    let Entry { ticket, owner, .. } = dead;
    match place {
        EvictedPlace::Holder => {
            tracing::info!(lock = %name, %ticket, %owner, "evicted a dead holder");
        }
        EvictedPlace::Successor => {
            tracing::info!(lock = %name, %ticket, %owner, "evicted a dead successor");
        }
        EvictedPlace::Waiter => {
            tracing::info!(lock = %name, %ticket, %owner, "passed a dead waiter");
        }
    }
}

/// Tickets whose callers did not join in time were made void: this one, and those just before it.
#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "the settings have the label for metrics")
)]
pub(crate) fn closed_gap(config: &Config, name: &LockName, ticket: Ticket, tickets: u64) {
    #[cfg(feature = "metrics")]
    counts::evicted(&Label::of(config, name), "gap", tickets);
    tracing::info!(lock = %name, %ticket, tickets, "closed a gap");
}
