//! Pages, names and sources agree.

mod api;
mod examples;
mod features;
mod layering;
pub(crate) mod links;
mod migration;
mod public_api;
mod readme;
mod words;
