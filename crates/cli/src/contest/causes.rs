//! An error in words, with all that led to it.

use std::error::Error;

/// A cause that the words before it already said is left out.
pub fn told(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    // Ends with the first cause of all.
    while let Some(error) = cause {
        let said = error.to_string();
        if !words.contains(&said) {
            words = format!("{words}: {said}");
        }
        cause = error.source();
    }
    words
}
