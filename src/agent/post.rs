//! What carries the notifications of a driver.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::mail::{Message, Outbox};
use crate::notify::Notifier;

/// So many datagrams wait in the mailbox at most: whoever can reach the address can send any number.
const WAITING: usize = 64;

/// What carries notifications, which is the user's.
#[derive(Clone, Debug)]
pub(super) struct Post(pub(super) Arc<dyn Notifier>);

impl Post {
    /// A panic of the notifier loses the datagram.
    pub(super) fn sends(&self, address: &str, datagram: &[u8]) {
        let sends = AssertUnwindSafe(|| self.0.send(address, datagram));
        if catch_unwind(sends).is_err() {
            tracing::warn!(address, "the notifier panicked: the notification is lost");
        }
    }

    /// Puts what arrives into the mailbox, until the driver has gone. Each datagram waits for a permit, which also lets other tasks run.
    pub(super) async fn listens(self, mailbox: Outbox) {
        let waiting = Arc::new(Semaphore::new(WAITING));
        loop {
            tokio::select! {
                biased;
                () = mailbox.closed() => return,
                datagram = self.0.receive() => {
                    let Ok(permit) = Arc::clone(&waiting).acquire_owned().await else {
                        return;
                    };
                    let message = Message::Datagram(datagram.into(), permit);
                    if mailbox.send(message).is_err() {
                        return;
                    }
                }
            }
        }
    }
}
