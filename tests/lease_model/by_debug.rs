//! Makes a part of a state of what the product does not compare: two values are one if they print alike.

use std::fmt::{Debug, Result, Write};
use std::hash::{Hash, Hasher};

#[derive(Clone, Debug, Default)]
pub(crate) struct ByDebug<T>(pub(crate) T);

impl<T: Debug> Hash for ByDebug<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let printed = write!(Into(state), "{:?}", self.0);
        assert!(printed.is_ok(), "a hasher takes everything");
    }
}

/// Text written into a hasher.
struct Into<'h, H>(&'h mut H);

impl<H: Hasher> Write for Into<'_, H> {
    fn write_str(&mut self, text: &str) -> Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
