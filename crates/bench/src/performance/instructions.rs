//! How many instructions a turn takes.

use std::process::{Command, Output};

use crate::performance::Done;
use crate::performance::budget::Budget;

/// The instructions of fairlock divided by those of the bare SDK. Returns NaN in a brief run, for which
/// valgrind is too slow.
pub(crate) fn ratio(budget: &Budget) -> Done<f64> {
    if budget.is_brief {
        return Ok(f64::NAN);
    }
    eprintln!("scripts/instructions");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/instructions");
    let Output { stdout, stderr, .. } = Command::new(script).output()?;
    let counted = String::from_utf8(stdout)?;
    let (fairlock, bare) = counted
        .trim()
        .split_once(' ')
        .ok_or_else(|| String::from_utf8_lossy(&stderr).into_owned())?;
    Ok(fairlock.parse::<f64>()? / bare.parse::<f64>()?)
}
