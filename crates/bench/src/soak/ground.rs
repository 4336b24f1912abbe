//! What clients of the soak stand on: the tables, the weather, and what counts their requests.

use std::sync::Arc;

use fairlock_testkit::request_counts::Counter;

use crate::soak::location::Location;
use crate::soak::options::Options;
use crate::soak::weather::Climate;

pub(crate) struct Ground {
    pub(crate) options: Options,
    pub(crate) location: Location,
    pub(crate) climate: Arc<Climate>,
    /// What the callers' clients send.
    pub(crate) turns: Counter,
}
