//! Every engine is used in the same way; what locks of others promise holds.

mod contract;
mod delta_rs;
mod differential;
mod dynamodb_local;
mod embedded;
mod ported;
