//! Refusals of values that cannot work, by their words.

use fairlock::Error;

/// Whether an error refuses a value in these words.
pub fn is_invalid(error: &Error, words: &str) -> bool {
    matches!(error, Error::Invalid(invalid) if invalid.to_string().contains(words))
}
