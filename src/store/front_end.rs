//! Which of DynamoDB's front ends answers: the same one for as long as a connection lasts.

use std::net::SocketAddr;

use aws_sdk_dynamodb::config::ConfigBag;
use aws_smithy_runtime_api::client::connection::{
    CaptureSmithyConnection, ConnectionId, ConnectionMetadata,
};

/// A connection, by what its transport tells of it: a number, or the local port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrontEnd {
    id: Option<ConnectionId>,
    local: Option<SocketAddr>,
}

impl FrontEnd {
    /// Returns `None` if the transport tells nothing by which to recognise the connection.
    pub(super) fn of(connection: &ConnectionMetadata) -> Option<FrontEnd> {
        let (id, local) = (connection.connection_id(), connection.local_addr());
        let is_known = id.is_some() || local.is_some();
        is_known.then_some(FrontEnd { id, local })
    }
}

/// The connection over which the answer of a request came, if its transport tells of it.
pub(super) fn connection(of: &ConfigBag) -> Option<ConnectionMetadata> {
    of.load::<CaptureSmithyConnection>()?.get()
}
