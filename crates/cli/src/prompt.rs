//! Questions to the user at a terminal.

use std::io::{IsTerminal, Write};

use crate::failure::Failure;

/// Fails if the user did not answer beforehand, and there is no terminal at which to ask.
pub(crate) fn must_be_answerable(is_answered: bool, otherwise: &str) -> Result<(), Failure> {
    match is_answered || std::io::stdin().is_terminal() {
        true => Ok(()),
        false => Err(Failure::misuse(format!(
            "there is no terminal at which to ask: {otherwise}"
        ))),
    }
}

/// Asks, and returns whether the answer is yes. No answer is a no.
pub(crate) fn asks(question: &str) -> bool {
    let mut err = std::io::stderr();
    let _ = write!(err, "fairlock: {question} [y/N] ");
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
}
