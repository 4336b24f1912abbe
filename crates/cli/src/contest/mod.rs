//! The parts of a contest for one lock, for the demo and for the drivers of `fairlock-bench`.

pub mod causes;
pub mod member;
pub mod monotonic;
pub mod parent;
pub mod say;
pub mod tally;
pub mod turn;
pub mod verdict;
