//! `fairlock-bench`: drivers that measure fairlock, and wear it out.

use std::process::ExitCode;

fn main() -> ExitCode {
    fairlock_bench::main()
}
