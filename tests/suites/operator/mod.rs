//! What operators do and see.

mod attributes;
mod delete;
mod inspect;
mod intervene;
mod logs;
mod metrics;
mod operators;
mod resize;
mod spans;
mod sweeper;
mod sweeping;
mod table;
