//! What the suites share: tests on real and on virtual time, each with a bound, and tables with clients on a clock of the test. Also faults
//! that meet one step of the protocol.

pub mod ambiguous_endings;
mod bounded_tests;
pub mod captured_log;
pub mod child_process;
pub mod consistent_reads;
pub mod cost;
pub mod counter;
pub mod datagram_network;
pub mod effort;
pub mod http;
pub mod invalid;
pub mod keyed_tables;
pub mod lab;
pub mod log_lines;
pub mod lying_notifier;
pub mod panics;
pub mod partition_budget;
pub mod queue;
pub mod request_counts;
pub mod steps;
pub mod sweep_fixture;
pub mod sweeps;
pub mod tamper;
pub mod verbs;
pub mod wire;

pub use bounded_tests::{blocking, real_time, real_time_within, virtual_time};

/// Fails the test if a value is not like the pattern, and shows the value.
#[macro_export]
macro_rules! assert_is {
    ($value:expr, $($pattern:tt)+) => {
        match &$value {
            $($pattern)+ => {}
            other => panic!("{other:?}"),
        }
    };
}
