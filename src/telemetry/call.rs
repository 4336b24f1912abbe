//! A call that waits for its turn: its span, and how it ended.

use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

#[cfg(feature = "metrics")]
use super::{Label, counts};
use crate::runtime::clock::Clock;
use crate::vocabulary::config::Config;
use crate::vocabulary::error::Error;
use crate::vocabulary::name::LockName;
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Ticket;

/// A call from its beginning to its end. A call that is dropped before has ended too.
#[derive(Debug)]
pub(crate) struct Wait {
    name: LockName,
    #[cfg(feature = "metrics")]
    label: Label,
    clock: Clock,
    started: Moment,
    /// Where the caller was when it called, and the span of the call.
    around: Span,
    span: Span,
    is_over: bool,
}

/// The call to which a hold is granted.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(super) around: Span,
    pub(super) call: Span,
    pub(super) started: Moment,
}

impl Origin {
    /// The span of the call.
    pub(crate) fn span(&self) -> Span {
        self.call.clone()
    }
}

impl Wait {
    pub(crate) fn begin(config: &Config, name: &LockName) -> Wait {
        #[cfg(feature = "metrics")]
        let label = Label::of(config, name);
        #[cfg(feature = "metrics")]
        counts::waits(&label);
        Wait {
            #[cfg(feature = "metrics")]
            label,
            name: name.clone(),
            clock: config.clock.clone(),
            started: config.clock.now(),
            around: Span::current(),
            span: tracing::info_span!(
                target: "fairlock", "acquire", lock = %name, ticket = Empty, waited = Empty, outcome = Empty
            ),
            is_over: false,
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin {
            around: self.around.clone(),
            call: self.span.clone(),
            started: self.started,
        }
    }

    /// The span in which the call runs.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    pub(crate) fn granted(mut self, ticket: Ticket) {
        self.span.record("ticket", tracing::field::display(ticket));
        let waited = self.ends("granted");
        let _in_call = self.span.enter();
        tracing::debug!(lock = %self.name, %ticket, ?waited, "granted");
    }

    /// `wait` tells a call that does not wait from a call whose time has run out.
    pub(crate) fn refused(mut self, error: &Error, wait: RecordWait) {
        let outcome = outcome(error, wait);
        let waited = self.ends(outcome);
        let _in_call = self.span.enter();
        tracing::debug!(lock = %self.name, outcome, ?waited, "not granted");
    }

    fn ends(&mut self, outcome: &'static str) -> Duration {
        self.is_over = true;
        let waited = self.clock.now().since(self.started);
        self.span.record("waited", tracing::field::debug(waited));
        self.span.record("outcome", outcome);
        #[cfg(feature = "metrics")]
        counts::waited(&self.label, outcome, waited);
        waited
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if !self.is_over {
            let waited = self.ends("dropped");
            let _in_call = self.span.enter();
            tracing::debug!(lock = %self.name, ?waited, "the call was dropped");
        }
    }
}

/// The label `outcome` of a wait that came to nothing.
fn outcome(error: &Error, wait: RecordWait) -> &'static str {
    match error {
        Error::NotGranted { untaken: true, .. } => "untaken",
        Error::NotGranted { .. } if wait == RecordWait::NoWait => "busy",
        Error::NotGranted { .. } => "timed_out",
        Error::QueueFull { .. } => "queue_full",
        Error::Lost { .. } => "lost",
        Error::Invalid(_) => "invalid",
        Error::InvalidItem { .. } => "invalid_item",
        Error::Refused { .. } => "refused",
        Error::Unavailable { .. } => "unavailable",
        Error::ShutDown(_) => "shut_down",
    }
}
