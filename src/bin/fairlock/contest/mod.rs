//! What a contest for one lock is made of, for the demo and for the driver `contend`, which includes this folder.

pub(crate) mod causes;
pub(crate) mod member;
pub(crate) mod monotonic;
pub(crate) mod parent;
pub(crate) mod say;
pub(crate) mod tally;
pub(crate) mod turn;
pub(crate) mod verdict;
