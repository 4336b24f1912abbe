//! What is wrong: with callers, with items, with requests, with credentials.

mod bad_input;
mod corrupt_items;
mod credentials;
mod hostile_writer;
mod lost_answers;
mod network;
mod transport;
