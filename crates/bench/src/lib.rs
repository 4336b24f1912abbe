//! Measures fairlock's speed and endurance: the program `fairlock-bench`, and the crews of the benches.

mod algorithm;
mod contend;
mod crew;
mod endpoint;
mod failure;
mod instructions;
mod performance;
#[cfg(target_os = "linux")]
mod soak;
mod tell;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use algorithm::Algorithm;
pub use crew::Crew;
use failure::Failure;
use tell::tell;

/// Measures fairlock, and wears it out.
#[derive(Debug, Parser)]
#[command(name = "fairlock-bench")]
struct Line {
    #[command(subcommand)]
    driver: Driver,
}

#[derive(Debug, Subcommand)]
enum Driver {
    Contend(contend::options::Options),
    #[cfg(target_os = "linux")]
    Soak(soak::options::Options),
    Performance(performance::Options),
    Instructions(instructions::Options),
}

/// Runs the program by its command line.
pub fn main() -> ExitCode {
    let (name, ended) = match Line::parse().driver {
        Driver::Contend(options) => ("contend", contend::run(options)),
        #[cfg(target_os = "linux")]
        Driver::Soak(options) => ("soak", soak::run(options)),
        Driver::Performance(options) => ("performance", page(performance::run(&options))),
        Driver::Instructions(options) => {
            instructions::run(options);
            ("instructions", Ok(ExitCode::SUCCESS))
        }
    };
    ended.unwrap_or_else(|failure| {
        tell(format_args!("{name}: {failure}"));
        failure.exit_code()
    })
}

fn page(ended: performance::Done<()>) -> Result<ExitCode, Failure> {
    let failed = |error: Box<dyn std::error::Error>| Failure::Run(error.to_string());
    ended.map(|()| ExitCode::SUCCESS).map_err(failed)
}
