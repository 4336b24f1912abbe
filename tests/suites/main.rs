//! The suites of the library: one program, so that it is linked once.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; callers have tasks and times of their own"
)]

/// Saves a sixth of what the tests compute.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod damage;
mod docs;
mod driven;
mod engines;
mod items;
mod loss;
mod operator;
mod sharing;
mod turn;
mod wait;
