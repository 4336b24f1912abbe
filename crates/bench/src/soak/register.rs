//! What a lock protects: a cell that remembers its newest token.

/// Whether the cell refuses older tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    Closed,
    Open,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Register(u64);

impl Register {
    pub(crate) fn newest(self) -> u64 {
        self.0
    }

    /// Returns whether the write was accepted.
    pub(crate) fn write(&mut self, token: u64, fence: Fence) -> bool {
        let is_taken = fence == Fence::Open || self.0 <= token;
        self.0 = self.0.max(token);
        is_taken
    }
}
