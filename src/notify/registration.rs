//! A place that can be notified, and what has arrived for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// When the place before told that it has sent its release. Of several that wait for one poll the first counts: otherwise a storm of
    /// them would put the poll off.
    releasing: Option<Moment>,
    /// When something said that the table shows a change.
    changed: Option<Moment>,
}

/// Says that it is time to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The place before has sent its release, which the table may not show yet.
    Releasing,
    /// The table shows something that concerns the place. If a release was told and not polled for before that, it came so much later.
    Changed { after: Option<Duration> },
}

impl Inbox {
    /// Takes in a notification. Returns the subscriber to whom to confirm that the place is there.
    pub(super) fn receive(&self, kind: Kind, now: Moment) -> Option<(Arc<str>, PlaceKey)> {
        let mut mail = self.mail();
        match kind {
            Kind::Subscribe { from, address } => {
                let address: Arc<str> = address.into();
                mail.subscribers.retain(|(known, _)| *known != from);
                mail.subscribers.push_back((from, Arc::clone(&address)));
                if mail.subscribers.len() > SUBSCRIBERS {
                    mail.subscribers.pop_front();
                }
                return (!mail.is_leaving).then_some((address, from));
            }
            Kind::Confirm => mail.is_confirmed = true,
            // What was confirmed is no longer so once there is news.
            Kind::Releasing => {
                mail.releasing.get_or_insert(now);
                mail.is_confirmed = false;
            }
            Kind::Changed => {
                mail.changed.get_or_insert(now);
                mail.is_confirmed = false;
            }
        }
        drop(mail);
        self.arrived.notify_one();
        None
    }

    fn poll_due(&self, lateness: Duration) -> Option<Moment> {
        let mail = self.mail();
        let found = mail.releasing.map(|told| told + lateness);
        mail.changed.into_iter().chain(found).min()
    }

    /// A change that arrived after a release speaks for both. A release that was told after a change has a poll of its own.
    fn take_news(&self) -> Option<News> {
        let mut mail = self.mail();
        let Some(changed) = mail.changed.take() else {
            return mail.releasing.take().map(|_| News::Releasing);
        };
        let told = mail.releasing.take_if(|told| *told <= changed);
        let after = told.map(|told| changed.since(told));
        Some(News::Changed { after })
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

    /// When to poll because of what has arrived, if a poll finds a release `lateness` after it was told.
    pub(crate) fn poll_due(&self, lateness: Duration) -> Option<Moment> {
        self.inbox.poll_due(lateness)
    }

    /// Takes what says that it is time to poll.
    pub(crate) fn take_news(&self) -> Option<News> {
        self.inbox.take_news()
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

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    fn received(news: &[(Kind, u64)]) -> Inbox {
        let inbox = Inbox::default();
        for (kind, ms) in news {
            inbox.receive(kind.clone(), at(*ms));
        }
        inbox
    }

    /// Otherwise a storm of them would put off the poll that heeds the first one, for ever.
    #[test]
    fn of_releases_that_wait_for_one_poll_the_first_counts() {
        let told = [5, 6, 7].map(|ms| (Kind::Releasing, ms));
        let inbox = received(&told);
        assert_eq!(inbox.poll_due(Duration::from_millis(3)), Some(at(8)));
        assert_eq!(inbox.take_news(), Some(News::Releasing));
        assert_eq!(inbox.take_news(), None);
    }

    #[test]
    fn a_change_after_a_release_speaks_for_both_and_says_how_much_later_it_came() {
        let inbox = received(&[(Kind::Releasing, 5), (Kind::Confirm, 6), (Kind::Changed, 9)]);
        assert_eq!(inbox.poll_due(Duration::from_millis(20)), Some(at(9)));
        let after = Some(Duration::from_millis(4));
        assert_eq!(inbox.take_news(), Some(News::Changed { after }));
        assert_eq!(inbox.poll_due(Duration::ZERO), None);
    }

    /// Neither takes the other's poll away.
    #[test]
    fn a_change_before_a_release_is_polled_for_at_once_and_the_release_at_its_time() {
        let inbox = received(&[(Kind::Changed, 5), (Kind::Releasing, 6)]);
        let lateness = Duration::from_millis(20);
        assert_eq!(inbox.poll_due(lateness), Some(at(5)));
        assert_eq!(inbox.take_news(), Some(News::Changed { after: None }));
        assert_eq!(inbox.poll_due(lateness), Some(at(26)));
        assert_eq!(inbox.take_news(), Some(News::Releasing));
    }
}
