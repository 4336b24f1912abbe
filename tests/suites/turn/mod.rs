//! Callers take their turns: in order, at what pace, in batches, without a wait, and told by others.

mod batches;
mod blocking;
mod data;
mod leader;
mod no_wait;
mod notify;
mod order;
mod pace;
mod run;
mod self_wait;
mod turns;
