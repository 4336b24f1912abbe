//! An error in words, with all its causes.

use std::error::Error;

/// Writes an error with its causes. A cause that the text before it already contains is left out.
pub fn told(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    // The loop ends with the first cause of all.
    while let Some(error) = cause {
        let said = error.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        cause = error.source();
    }
    words
}
