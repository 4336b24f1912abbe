//! The events of a hold, as every listener gets them.

use std::fmt;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};

use crate::agent::{Stand, Watch};
use crate::vocabulary::error::LossReason;

/// An event of a held lock, as [`LockGuard::events`](crate::LockGuard::events) reports it.
///
/// # Examples
///
/// ```
/// use fairlock::{HoldEvent, LossReason};
///
/// let event = HoldEvent::Lost(LossReason::Deleted);
/// assert_eq!(event.to_string(), "lost: the lock item was deleted");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldEvent {
    /// The lock was granted. Every listener gets this event first.
    Granted,
    /// A third of the lease is left, or less, and renewals are failing: finish soon, or save what can be saved.
    InDanger {
        /// How long the hold may still be trusted, at the time of the event.
        remaining: Duration,
    },
    /// A renewal succeeded after all.
    Recovered,
    /// The hold was lost: stop the work that it protects. Nothing comes after this.
    Lost(LossReason),
    /// The guard was released or dropped. Only [`release`](crate::LockGuard::release) says how that went. Nothing comes after this.
    Released,
}

impl fmt::Display for HoldEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldEvent::Granted => f.write_str("granted"),
            HoldEvent::InDanger { remaining } => write!(f, "in danger: {remaining:.1?} left"),
            HoldEvent::Recovered => f.write_str("recovered"),
            HoldEvent::Lost(loss) => write!(f, "lost: {loss}"),
            HoldEvent::Released => f.write_str("released"),
        }
    }
}

/// The events of a hold from now on, after a first event that it was granted.
pub(crate) fn of(hold: Watch) -> impl Stream<Item = HoldEvent> + Send + 'static {
    let reported = Reported::Nothing;
    stream::unfold(Listener { hold, reported }, Listener::next).fuse()
}

/// A listener. The last event that it got is all that is kept for it.
struct Listener {
    hold: Watch,
    reported: Reported,
}

/// What a listener was told last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reported {
    Nothing,
    Well,
    InDanger,
    TheEnd,
}

impl Listener {
    async fn next(mut self) -> Option<(HoldEvent, Listener)> {
        let (event, reported) = match self.reported {
            Reported::Nothing => (HoldEvent::Granted, Reported::Well),
            Reported::TheEnd => return None,
            Reported::Well | Reported::InDanger => self.news().await,
        };
        self.reported = reported;
        Some((event, self))
    }

    async fn news(&self) -> (HoldEvent, Reported) {
        let was_in_danger = self.reported == Reported::InDanger;
        match self.hold.news(was_in_danger).await {
            Stand::Lost(loss) => (HoldEvent::Lost(loss), Reported::TheEnd),
            Stand::GivenBack => (HoldEvent::Released, Reported::TheEnd),
            Stand::Offered | Stand::Held if was_in_danger => (HoldEvent::Recovered, Reported::Well),
            Stand::Offered | Stand::Held => {
                let remaining = self.hold.remaining();
                (HoldEvent::InDanger { remaining }, Reported::InDanger)
            }
        }
    }
}
