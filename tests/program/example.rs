//! An example of this package as a program.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::process::Command;

/// `cargo test` builds it, but `cargo test --test NAME` does not.
pub(crate) fn example(name: &str) -> Command {
    let here = std::env::current_exe().unwrap();
    let built = here.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        built.is_file(),
        "{} is missing: build it with `cargo build --all-features --example {name}`",
        built.display()
    );
    Command::new(built)
}
