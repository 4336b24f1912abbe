//! What the caller's own items can rely on.

mod fencing;
mod optimistic;
