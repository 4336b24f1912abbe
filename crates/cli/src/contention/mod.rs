//! The parts of a contest for one lock, for `fairlock demo`, `fairlock bench` and the drivers of `fairlock-bench`.

pub mod error_chain;
pub mod json_lines;
pub mod monotonic;
pub mod overtaken;
pub mod parent_pipe;
pub mod plot_style;
pub mod tally;
pub mod timeline;
pub mod turn;
pub mod verdict;
pub mod worker_process;
