//! Connections to an engine. They are kept and used again, as the SDK's own transport does with real ones. Each has one request at a time,
//! and leads to one front end for as long as it is kept.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_smithy_runtime_api::client::connection::{
    CaptureSmithyConnection, ConnectionId, ConnectionMetadata,
};

/// Takes the number of a connection. Returns by how many seconds the clock of its front end is ahead.
pub(crate) type Clocks = Arc<dyn Fn(u64) -> i64 + Send + Sync>;

/// The connections of one network.
#[derive(Default)]
pub(crate) struct Connections {
    opened: u64,
    idle: Vec<Connection>,
    pub(crate) clocks: Option<Clocks>,
}

#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    /// Whether it must not be used again.
    is_retired: Arc<AtomicBool>,
}

impl Connections {
    /// Takes the connection that was used last, of the idle ones that are not retired.
    pub(crate) fn take(&mut self) -> Option<Connection> {
        while let Some(idle) = self.idle.pop() {
            if !idle.is_retired() {
                return Some(idle);
            }
        }
        None
    }

    /// Returns the number of a new connection.
    pub(crate) fn open(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    /// Keeps a connection whose answer came, so that it may be used again.
    pub(crate) fn keep(&mut self, connection: Connection) {
        self.idle.push(connection);
    }

    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }
}

impl Connection {
    pub(crate) fn new(number: u64) -> Self {
        Connection {
            number,
            is_retired: Arc::default(),
        }
    }

    /// Lets the SDK ask which connection this is.
    pub(crate) fn shown_to(&self, capture: &CaptureSmithyConnection) {
        let connection = self.clone();
        capture.set_connection_retriever(move || Some(connection.metadata()));
    }

    fn metadata(&self) -> ConnectionMetadata {
        let is_retired = Arc::clone(&self.is_retired);
        ConnectionMetadata::builder()
            .proxied(false)
            .connection_id(ConnectionId::new(self.number))
            .poison_fn(move || is_retired.store(true, Ordering::Relaxed))
            .build()
    }

    fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections")
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}
