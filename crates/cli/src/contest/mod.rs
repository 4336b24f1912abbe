//! The parts of a contest for one lock, for `fairlock demo`, `fairlock bench` and the drivers of `fairlock-bench`.

pub mod causes;
pub mod lanes;
pub mod member;
pub mod monotonic;
pub mod palette;
pub mod parent;
pub mod passed;
pub mod say;
pub mod tally;
pub mod turn;
pub mod verdict;
