//! What has come for a place by notifications, and who subscribed to it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::moment::Moment;
use crate::notification::{Kind, PlaceKey};

/// The most places that are notified of one place's end. Only the place just behind has a reason to subscribe. The newest subscriptions
/// count.
const SUBSCRIBERS: usize = 4;

/// A place, and where it can be notified.
pub(super) type Subscriber = (PlaceKey, Arc<str>);

/// What has come for a place, and who subscribed to it.
pub(super) struct Post {
    pub(super) key: PlaceKey,
    pub(super) subscribers: VecDeque<Subscriber>,
    /// The place before has answered the last subscription.
    pub(super) is_confirmed: bool,
    /// The place has sent what ends it, so it confirms nothing any more.
    pub(super) is_leaving: bool,
    /// When the place before told that it has sent its release. Of several that wait for one poll the first counts: otherwise a storm of
    /// them would put the poll off.
    releasing: Option<Moment>,
    /// When something said that the table shows a change.
    changed: Option<Moment>,
}

/// Says that it is time to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The place before has sent its release, which the table may not show yet.
    Releasing,
    /// The table shows something that concerns the place. If a release was told and not polled for before that, it came so much later.
    Changed { after: Option<Duration> },
}

impl Post {
    pub(super) fn new(key: PlaceKey) -> Self {
        Post {
            key,
            subscribers: VecDeque::new(),
            is_confirmed: false,
            is_leaving: false,
            releasing: None,
            changed: None,
        }
    }

    /// Takes in a notification. Returns the subscriber to whom to confirm that the place is there.
    pub(super) fn receives(&mut self, kind: Kind, now: Moment) -> Option<Subscriber> {
        match kind {
            Kind::Subscribe { from, address } => {
                let address: Arc<str> = address.into();
                self.subscribers.retain(|(known, _)| *known != from);
                self.subscribers.push_back((from, Arc::clone(&address)));
                if self.subscribers.len() > SUBSCRIBERS {
                    self.subscribers.pop_front();
                }
                return (!self.is_leaving).then_some((from, address));
            }
            Kind::Confirm => self.is_confirmed = true,
            // What was confirmed is no longer so once there is news.
            Kind::Releasing => {
                self.releasing.get_or_insert(now);
                self.is_confirmed = false;
            }
            Kind::Changed => {
                self.changed.get_or_insert(now);
                self.is_confirmed = false;
            }
        }
        None
    }

    /// When to poll because of what has come, if a poll finds a release `lateness` after it was told.
    pub(super) fn poll_due(&self, lateness: Duration) -> Option<Moment> {
        let found = self.releasing.map(|told| told + lateness);
        self.changed.into_iter().chain(found).min()
    }

    /// A change that came after a release speaks for both. A release that was told after a change has a poll of its own.
    pub(super) fn takes_news(&mut self) -> Option<News> {
        let Some(changed) = self.changed.take() else {
            return self.releasing.take().map(|_| News::Releasing);
        };
        let told = self.releasing.take_if(|told| *told <= changed);
        let after = told.map(|told| changed.since(told));
        Some(News::Changed { after })
    }
}
