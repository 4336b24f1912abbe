//! A place that can be notified, and what has arrived for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Notifications;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::notification::{Kind, PlaceKey};

/// The most places that are notified of one place's end. Only the place just behind has a reason to subscribe. The newest subscriptions
/// count.
const SUBSCRIBERS: usize = 4;

/// What has arrived for a place.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    mail: Mutex<Mail>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Mail {
    subscribers: VecDeque<(PlaceKey, Arc<str>)>,
    is_confirmed: bool,
    /// The place has sent what ends it, so it confirms nothing any more.
    is_leaving: bool,
    /// The newest of what says that it is time to poll, and when it arrived.
    news: Option<(News, Moment)>,
}

/// Says that it is time to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The place before has sent its release, which the table may not show yet.
    Releasing,
    /// The table shows something that concerns the place.
    Changed,
}

impl Inbox {
    /// Takes in a notification. Returns the subscriber to whom to confirm that the place is there.
    pub(super) fn receive(&self, kind: Kind, now: Moment) -> Option<(Arc<str>, PlaceKey)> {
        let mut mail = self.mail();
        let news = match kind {
            Kind::Subscribe { from, address } => {
                let address: Arc<str> = address.into();
                mail.subscribers.retain(|(known, _)| *known != from);
                mail.subscribers.push_back((from, Arc::clone(&address)));
                if mail.subscribers.len() > SUBSCRIBERS {
                    mail.subscribers.pop_front();
                }
                return (!mail.is_leaving).then_some((address, from));
            }
            Kind::Confirm => None,
            Kind::Releasing => Some(News::Releasing),
            Kind::Changed => Some(News::Changed),
        };
        // What was confirmed is no longer so once there is news.
        mail.is_confirmed = news.is_none();
        mail.news = match (mail.news, news) {
            // Of releases the first counts: otherwise repeated ones would put the poll off.
            (Some((News::Releasing, first)), Some(News::Releasing)) => {
                Some((News::Releasing, first))
            }
            (known, news) => news.map(|news| (news, now)).or(known),
        };
        drop(mail);
        self.arrived.notify_one();
        None
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registration of a place. Closing it, or dropping it, takes the place off the client's list, and notifies its subscribers.
#[derive(Debug)]
pub(crate) struct Registration {
    of: Arc<Notifications>,
    key: PlaceKey,
    inbox: Arc<Inbox>,
}

impl Registration {
    pub(super) fn new(of: Arc<Notifications>, key: PlaceKey, inbox: Arc<Inbox>) -> Self {
        Registration { of, key, inbox }
    }

    /// Where the place can be notified.
    pub(crate) fn address(&self) -> &Arc<str> {
        &self.of.address
    }

    /// Subscribes to the place of an entry. Returns whether that place can be notified at all.
    pub(crate) fn subscribe(&self, before: &Entry) -> bool {
        let Some(address) = &before.address else {
            return false;
        };
        self.inbox.mail().is_confirmed = false;
        let (from, own) = (self.key, self.address().to_string());
        let subscribe = Kind::Subscribe { from, address: own };
        self.of.send(address, PlaceKey::of(before.nonce), subscribe);
        true
    }

    /// Whether the last subscription was confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.inbox.mail().is_confirmed
    }

    /// What says that it is time to poll, and when it arrived.
    pub(crate) fn news(&self) -> Option<(News, Moment)> {
        self.inbox.mail().news
    }

    /// Takes what says that it is time to poll.
    pub(crate) fn take_news(&self) -> Option<News> {
        Some(self.inbox.mail().news.take()?.0)
    }

    /// The place has sent, or is about to send, what ends it. From now on it confirms no subscription, so places behind it poll.
    pub(crate) fn leaves(&self) {
        self.inbox.mail().is_leaving = true;
    }

    /// Waits until something arrives. Cancel safe. May end though nothing has.
    pub(crate) async fn arrival(&self) {
        self.inbox.arrived.notified().await;
    }

    /// Notifies the subscribers that the place's release has just been sent.
    pub(crate) fn notify_releasing(&self) {
        self.leaves();
        self.notify(Kind::Releasing);
    }

    /// Ends the registration. The subscribers are notified, once.
    pub(crate) fn close(&self) {
        self.leaves();
        let closed = self.of.places().remove(&self.key);
        if closed.is_some() {
            self.notify(Kind::Changed);
        }
    }

    /// Notifies the place that an entry shows, unless it subscribed from the address that the entry names: then it is notified as a
    /// subscriber.
    pub(crate) fn tell_change(&self, entry: &Entry) {
        let key = PlaceKey::of(entry.nonce);
        let subscribes = |(known, from): &(PlaceKey, Arc<str>)| {
            *known == key && entry.address.as_ref() == Some(from)
        };
        if key != self.key && !self.inbox.mail().subscribers.iter().any(subscribes) {
            self.of.tell_change(entry);
        }
    }

    fn notify(&self, kind: Kind) {
        let subscribers = self.inbox.mail().subscribers.clone();
        for (key, address) in subscribers {
            self.of.send(&address, key, kind.clone());
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Otherwise a storm of them would put off the poll that heeds the first one, for ever.
    #[test]
    fn of_releases_that_wait_for_one_poll_the_first_counts_and_a_change_counts_more() {
        let inbox = Inbox::default();
        let at = |ms| Moment(Duration::from_millis(ms));
        for ms in [5, 6, 7] {
            inbox.receive(Kind::Releasing, at(ms));
        }
        assert_eq!(inbox.mail().news, Some((News::Releasing, at(5))));
        inbox.receive(Kind::Confirm, at(8));
        assert_eq!(inbox.mail().news, Some((News::Releasing, at(5))));
        inbox.receive(Kind::Changed, at(9));
        assert_eq!(inbox.mail().news, Some((News::Changed, at(9))));
        inbox.receive(Kind::Releasing, at(10));
        assert_eq!(inbox.mail().news, Some((News::Releasing, at(10))));
    }
}
