//! What the suites share: tests on real and on virtual time, each with a bound, and tables with clients on a clock of the test. Also faults
//! that meet one step of the protocol.

mod bounded;
pub mod cost;
pub mod counter;
pub mod effort;
pub mod http;
pub mod keys;
pub mod lab;
pub mod liar;
pub mod lines;
pub mod mishaps;
pub mod panics;
pub mod post;
pub mod program;
pub mod queue;
pub mod reads;
pub mod said;
pub mod steps;
pub mod tamper;
pub mod traffic;
pub mod verbs;
pub mod wire;
pub mod world;

pub use bounded::{blocking, real_time, real_time_within, virtual_time};
