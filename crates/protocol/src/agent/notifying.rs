//! A place notifies others. What it tells them is never believed: only the times of polls depend on it.

use std::sync::Arc;

use super::Output;
use super::context::{Attempt, Context};
use super::post::{Post, Subscriber};
use crate::entry::Entry;
use crate::item::LockItem;
use crate::notification::{Kind, Notification, PlaceKey};

impl Context<'_> {
    /// A new attempt, whose place others can notify if this client has an address.
    pub(super) fn attempts(&mut self) -> Attempt {
        self.closes_post();
        let attempt = Attempt::new(self.random.nonce(), self.callers.tickets());
        if self.terms.address.is_some() {
            let key = PlaceKey::of(attempt.nonce);
            let place = (self.lock.clone(), self.key);
            self.shared.posts.insert(key, place);
            *self.post = Some(Box::new(Post::new(key)));
        }
        attempt
    }

    /// A notification has come for this place.
    pub(super) fn receives(&mut self, kind: Kind) {
        let now = self.now();
        let confirms = self.post.as_mut().and_then(|post| post.receives(kind, now));
        if let Some((from, address)) = confirms {
            self.notifies(&address, from, Kind::Confirm);
        }
    }

    /// Subscribes to the place of an entry. Returns whether that place can be notified at all.
    pub(super) fn subscribes(&mut self, before: &Entry) -> bool {
        let (Some(post), Some(own), Some(to)) =
            (&mut *self.post, &self.terms.address, &before.address)
        else {
            return false;
        };
        post.is_confirmed = false;
        let (from, address) = (post.key, own.to_string());
        let subscribe = Kind::Subscribe { from, address };
        self.notifies(to, PlaceKey::of(before.nonce), subscribe);
        true
    }

    /// The place is about to end: no place behind it may take it for one that stays.
    pub(super) fn confirms_no_more(&mut self) {
        if let Some(post) = self.post {
            post.is_leaving = true;
        }
    }

    /// Its release is being sent.
    pub(super) fn tells_release(&mut self) {
        self.confirms_no_more();
        self.tells_subscribers(&Kind::Releasing);
    }

    /// Ends what others can notify, and tells those who subscribed.
    pub(super) fn closes_post(&mut self) {
        self.tells_subscribers(&Kind::Changed);
        if let Some(post) = self.post.take() {
            self.shared.posts.remove(&post.key);
        }
    }

    /// Tells the places that stand otherwise on the lock item by what this place did.
    pub(super) fn tells_promoted(&mut self, before: &LockItem, after: &LockItem) {
        for entry in after.promoted_since(before) {
            self.tells_change(entry);
        }
    }

    /// Tells the place that an entry shows, unless it subscribed from the address that the entry names: then it is told as a subscriber.
    pub(super) fn tells_change(&mut self, entry: &Entry) {
        let (Some(post), Some(address)) = (&*self.post, &entry.address) else {
            return;
        };
        let key = PlaceKey::of(entry.nonce);
        let subscribes =
            |(known, from): &Subscriber| *known == key && Some(from) == entry.address.as_ref();
        if key != post.key && !post.subscribers.iter().any(subscribes) {
            self.notifies(address, key, Kind::Changed);
        }
    }

    /// Tells those who were let in.
    pub(super) fn tells_admitted(&mut self, admitted: &[Entry]) {
        if self.terms.address.is_none() {
            return;
        }
        for entry in admitted {
            if let Some(address) = &entry.address {
                self.notifies(address, PlaceKey::of(entry.nonce), Kind::Changed);
            }
        }
    }

    fn tells_subscribers(&mut self, kind: &Kind) {
        let subscribers = self.post.as_ref().map(|post| post.subscribers.clone());
        for (key, address) in subscribers.into_iter().flatten() {
            self.notifies(&address, key, kind.clone());
        }
    }

    fn notifies(&mut self, address: &Arc<str>, to: PlaceKey, kind: Kind) {
        let (to, datagram) = (Arc::clone(address), Notification { to, kind }.datagram());
        self.tell(Output::Send { to, datagram });
    }
}
