//! Every engine is used in the same way.

mod contract;
mod differential;
mod embedded;
