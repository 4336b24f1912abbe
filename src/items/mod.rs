//! What a caller's own items can rely on: fences, checks of the holder, and items that are changed only as they were read.

mod fencing;
mod versioned_table;

pub use fencing::{Fence, FenceParts, Fenceable};
pub use versioned_table::{
    Change, Item, UpdateError, UpdateOutcome, Version, VersionedTable, VersionedTableBuilder,
};
