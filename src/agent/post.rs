//! What carries the notifications of a driver.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::Semaphore;

use super::mail::{Message, Outbox};
use crate::agent::notify::Notifications;

/// So many datagrams wait in the mailbox at most: whoever can reach the address can send any number.
const WAITING: usize = 64;

/// Puts what arrives into the mailbox, until the driver has gone. Each datagram waits for a permit, which also lets other tasks run.
pub(super) async fn listens(post: Arc<Notifications>, mailbox: Outbox) {
    let waiting = Arc::new(Semaphore::new(WAITING));
    loop {
        let receives = AssertUnwindSafe(post.notifier().receive()).catch_unwind();
        tokio::select! {
            biased;
            () = mailbox.closed() => return,
            received = receives => {
                let Ok(datagram) = received else {
                    tracing::warn!("the notifier panicked: nothing is received any more");
                    return;
                };
                post.received();
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
