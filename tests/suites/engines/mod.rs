//! Every engine is used in the same way.

mod contract;
mod delta_rs;
mod differential;
mod embedded;
