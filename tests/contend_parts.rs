//! The unit tests of the contention driver's parts.
//!
//! They run from here because cargo builds an example as a program or as a test, and `contend.rs` needs the program.
#![expect(
    dead_code,
    reason = "the driver needs more of its parts than their tests do"
)]

#[path = "../examples/contend/algorithm.rs"]
mod algorithm;
#[path = "../src/bin/fairlock/contest/mod.rs"]
mod contest;
#[path = "../examples/contend/endpoint.rs"]
mod endpoint;
#[path = "../examples/contend/events.rs"]
mod events;
#[path = "../examples/contend/figures.rs"]
mod figures;
#[path = "../src/bin/fairlock/flags.rs"]
mod flags;
#[path = "../examples/contend/options.rs"]
mod options;
#[path = "../examples/contend/palette.rs"]
mod palette;
#[path = "../examples/contend/plot.rs"]
mod plot;
#[path = "../examples/contend/report.rs"]
mod report;
#[path = "../examples/contend/traffic.rs"]
mod traffic;
#[path = "../examples/contend/verb.rs"]
mod verb;
