//! Requests and answers on their way.

use std::sync::Arc;

use fairlock_protocol::agent::{Answer, Request, RequestId};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::{Moment, ServerTime};

use crate::times::At;

/// A process of a host. A host that crashed goes on as another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) host: usize,
    pub(crate) life: u32,
}

/// A request on its way.
pub(crate) struct Parcel {
    pub(crate) from: Process,
    pub(crate) id: RequestId,
    pub(crate) request: Arc<Request>,
    pub(crate) sent: Moment,
    /// When its answer reaches the host, if it does.
    pub(crate) answered: Option<At>,
    pub(crate) front_end: usize,
}

/// What became of a request, on its way to its host.
pub(crate) struct Delivery {
    pub(crate) to: Process,
    pub(crate) id: RequestId,
    pub(crate) sent: Moment,
    pub(crate) answer: Result<Answer, Failure>,
    pub(crate) told: Told,
}

/// What an answer tells of the time.
#[derive(Clone, Copy)]
pub(crate) enum Told {
    Date(ServerTime),
    NoDate,
    /// It is no answer of DynamoDB's.
    Nothing,
}
