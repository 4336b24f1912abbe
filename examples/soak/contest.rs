//! What the contests have that the soak needs too.

#[path = "../../src/bin/fairlock/contest/causes.rs"]
pub(crate) mod causes;
#[path = "../../src/bin/fairlock/contest/monotonic.rs"]
pub(crate) mod monotonic;
