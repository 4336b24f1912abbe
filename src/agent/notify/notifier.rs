//! What a client asks of whatever carries its notifications.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// Carries notifications between the clients of a lock.
///
/// DynamoDB tells no client when a lock becomes free, so waiters poll. With a notifier the clients tell each other when to poll. **A
/// notification is never believed:** the table alone says who holds a lock. So a notifier may lose, delay, repeat, reorder or invent
/// datagrams, and nothing but the times of polls depends on them. A forged notification costs a poll or two. A confirmation that is forged or
/// out of date can delay a handoff until the next heartbeat. A forger needs the key of a place.
///
/// Each client needs a notifier of its own: a datagram that another client receives is lost.
///
/// # Examples
///
/// ```
/// use std::collections::HashMap;
/// use std::future::Future;
/// use std::pin::Pin;
/// use std::sync::{Arc, Mutex, PoisonError};
/// use tokio::sync::mpsc;
///
/// /// The clients of one process, by their names.
/// #[derive(Clone, Debug, Default)]
/// struct Post(Arc<Mutex<HashMap<String, mpsc::Sender<Vec<u8>>>>>);
///
/// #[derive(Debug)]
/// struct Box {
///     name: String,
///     post: Post,
///     arrived: tokio::sync::Mutex<mpsc::Receiver<Vec<u8>>>,
/// }
///
/// impl fairlock::Notifier for Box {
///     fn address(&self) -> String {
///         self.name.clone()
///     }
///
///     fn send(&self, address: &str, datagram: &[u8]) {
///         let boxes = self.post.0.lock().unwrap_or_else(PoisonError::into_inner);
///         if let Some(to) = boxes.get(address) {
///             // A full box loses the datagram.
///             let _ = to.try_send(datagram.to_vec());
///         }
///     }
///
///     fn receive(&self) -> Pin<std::boxed::Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
///         std::boxed::Box::pin(async {
///             match self.arrived.lock().await.recv().await {
///                 Some(datagram) => datagram,
///                 None => std::future::pending().await,
///             }
///         })
///     }
/// }
/// ```
pub trait Notifier: fmt::Debug + Send + Sync + 'static {
    /// Where other clients reach this one: 1 to 128 bytes without control characters. Asked once, when the client is built. It stands in
    /// the table beside each place of the client.
    fn address(&self) -> String;

    /// Sends a datagram of at most 164 bytes to another client. Must neither block nor wait. Whatever cannot be sent at once is lost. It is
    /// called on any thread, also outside of a runtime and while a guard is dropped. A panic loses the datagram.
    fn send(&self, address: &str, datagram: &[u8]);

    /// Waits for the next datagram, which may be anything. Must be cancel safe, and must wait for ever once nothing can arrive any more. It
    /// is polled on the runtime in which the client was built.
    fn receive(&self) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>>;
}
