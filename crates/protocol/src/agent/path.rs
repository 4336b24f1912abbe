//! What a waiter knows of the place before it by notifications.

use super::post::News;
use crate::entry::Nonce;
use crate::moment::Moment;
use crate::ticket::Ticket;

/// What a waiter knows of the place before it by notifications.
#[derive(Default)]
pub(super) struct Path {
    /// The place to which it subscribed.
    pub(super) before: Option<Stands>,
    /// Since when a subscription has waited for its confirmation.
    pub(super) asked: Option<Moment>,
    /// How many notifications in a row brought nothing.
    pub(super) false_alarms: u32,
    /// No notification is heeded before this moment.
    pub(super) heeds_from: Moment,
    /// The next poll is for a release that may not be in the table yet. Another one follows it before it is answered.
    pub(super) expects_release: bool,
    /// The last notification came before the table showed what it was about: one more poll follows at once.
    pub(super) polls_again: bool,
    pub(super) unfound: Option<Unfound>,
    pub(super) polling: Option<Polling>,
}

/// A place by its nonce and its newest ticket.
pub(super) type Stands = (Nonce, Ticket);

/// Why it polls.
pub(super) enum Polling {
    /// A notification said so, when this place stood before it.
    Told(News, Option<Stands>),
    /// A poll was due, when it stood behind the slots, or in one.
    Due { was_queued: bool },
}

/// A release that was told, and that no poll has found yet. It teaches something once a poll finds it, and is forgotten after a while: a
/// forged notification teaches nothing.
#[derive(Clone, Copy)]
pub(super) struct Unfound {
    /// The place that told.
    pub(super) before: Stands,
    /// When the first poll for it was answered.
    pub(super) since: Moment,
    /// How many polls came too early for it.
    pub(super) early: u32,
}
