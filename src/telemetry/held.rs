//! A hold from its grant to its end: its span, how it ended, and what became of its release.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Span;
use tracing::field::{Empty, debug};

use super::call::Origin;
#[cfg(feature = "metrics")]
use super::{Label, counts};
use crate::vocabulary::config::Config;
use crate::vocabulary::error::LossReason;
use crate::vocabulary::name::LockName;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Ticket;

/// A hold. It ends at most once.
#[derive(Debug)]
pub(crate) struct HoldTelemetry {
    name: LockName,
    ticket: Ticket,
    #[cfg(feature = "metrics")]
    label: Label,
    /// The span of the hold, from when a caller gets it until it has been released.
    span: Mutex<Span>,
    is_over: AtomicBool,
}

/// What became of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseOutcome {
    /// The next in the queue holds the lock.
    HandedOff,
    /// The next caller of this client holds the lock, at the same place.
    PassedOn,
    /// No caller waits.
    Idle,
    /// Other callers that share the lock hold it still.
    Shared,
    /// The client was shut down while it kept the hold for its shortest time: the lease ends it.
    LeftToLease,
    /// The hold had ended before.
    Gone,
    /// The release could not be written, so the hold lasts until its lease ends.
    Failed,
}

impl ReleaseOutcome {
    /// By the item after the release of a ticket. A holder that is left with an older ticket, or beside others, has held the lock before.
    pub(crate) fn shown(item: &LockItem, ticket: Ticket) -> Self {
        match item.first_holder() {
            None => ReleaseOutcome::Idle,
            Some(next) if item.sharers.is_empty() && next.ticket > ticket => {
                ReleaseOutcome::HandedOff
            }
            Some(_) => ReleaseOutcome::Shared,
        }
    }

    /// The label `outcome`.
    #[cfg(feature = "metrics")]
    pub(super) fn label(self) -> &'static str {
        match self {
            ReleaseOutcome::HandedOff => "handed_off",
            ReleaseOutcome::PassedOn => "passed_on",
            ReleaseOutcome::Idle => "idle",
            ReleaseOutcome::Shared => "shared",
            ReleaseOutcome::LeftToLease => "left_to_lease",
            ReleaseOutcome::Gone => "gone",
            ReleaseOutcome::Failed => "failed",
        }
    }
}

impl HoldTelemetry {
    pub(crate) fn begin(config: &Config, name: &LockName, ticket: Ticket) -> HoldTelemetry {
        #[cfg(feature = "metrics")]
        let label = Label::of(config, name);
        #[cfg(feature = "metrics")]
        counts::holds(&label);
        #[cfg(not(feature = "metrics"))]
        let _ = config;
        HoldTelemetry {
            name: name.clone(),
            ticket,
            #[cfg(feature = "metrics")]
            label,
            span: Mutex::new(Span::none()),
            is_over: AtomicBool::new(false),
        }
    }

    /// Opens the span of the hold, beside the span of the call that got it.
    pub(crate) fn granted_to(&self, call: &Origin, now: Moment) {
        let waited = now.since(call.started);
        let span = tracing::info_span!(
            target: "fairlock", parent: &call.around, "hold",
            lock = %self.name, ticket = %self.ticket, ?waited, held = Empty, outcome = Empty
        );
        span.follows_from(&call.call);
        *self.locked() = span;
    }

    /// The span of the hold. It is empty while no caller has the hold, and after the release.
    pub(crate) fn span(&self) -> Span {
        self.locked().clone()
    }

    pub(crate) fn lost(&self, loss: &LossReason, held: Duration) {
        self.ends("lost", held);
        #[cfg(feature = "metrics")]
        counts::lost(&self.label, loss);
        let (lock, ticket, span) = (&self.name, self.ticket, self.span());
        match loss {
            LossReason::ShutDown => {
                tracing::info!(parent: &span, %lock, %ticket, %loss, ?held, "lost");
            }
            _ => tracing::warn!(parent: &span, %lock, %ticket, %loss, ?held, "lost"),
        }
    }

    pub(crate) fn given_back(&self, held: Duration) {
        self.ends("released", held);
    }

    fn ends(&self, outcome: &'static str, held: Duration) {
        self.is_over.store(true, Ordering::Relaxed);
        let span = self.span();
        span.record("held", debug(held)).record("outcome", outcome);
        #[cfg(feature = "metrics")]
        counts::held(&self.label, outcome, held);
    }

    /// Ends the span of the hold.
    pub(crate) fn released(&self, outcome: ReleaseOutcome) {
        #[cfg(feature = "metrics")]
        counts::released(&self.label, outcome.label());
        let span = std::mem::replace(&mut *self.locked(), Span::none());
        let (lock, ticket) = (&self.name, self.ticket);
        match outcome {
            ReleaseOutcome::HandedOff | ReleaseOutcome::Idle | ReleaseOutcome::Shared => {
                tracing::debug!(parent: &span, %lock, %ticket, "released");
            }
            ReleaseOutcome::PassedOn => {
                tracing::debug!(parent: &span, %lock, %ticket, "passed on");
            }
            ReleaseOutcome::LeftToLease => {
                tracing::debug!(parent: &span, %lock, %ticket, "left to its lease");
            }
            // The loss has been told, and the caller gets the failure.
            ReleaseOutcome::Gone | ReleaseOutcome::Failed => {}
        }
    }

    fn locked(&self) -> MutexGuard<'_, Span> {
        self.span.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "metrics")]
impl Drop for HoldTelemetry {
    fn drop(&mut self) {
        if !*self.is_over.get_mut() {
            counts::holds_no_more(&self.label);
        }
    }
}
