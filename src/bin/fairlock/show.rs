//! `fairlock show`: who has a lock, and who waits for it.

use std::process::ExitCode;

use crate::args::Show;
use crate::failure::Failure;
use crate::output;

pub(crate) async fn show(options: Show) -> Result<ExitCode, Failure> {
    let Show { json, place, lock } = options;
    let told = |error| Failure::of(&error, &place);
    let lock = place.locks().await?.fair_lock(&lock).map_err(told)?;
    let state = lock.inspect().await.map_err(told)?;
    let text = match json {
        true => output::json(&state)?,
        false => output::lock(&state, output::now()),
    };
    // All is said, whether or not it was read to the end.
    let _ = output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
