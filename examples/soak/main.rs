//! A soak: everything that callers do with locks, at once and for as long as one likes, on a network with faults, judged
//! all the while.
//!
//! Standard output has a line for each interval, and all figures at the end; standard error has violations as they are
//! found. Fails if there was any.
//!
//! ```text
//! cargo run --release --features cli --example soak -- --for 1h
//! ```

mod caller;
mod contest;
mod course;
mod crew;
mod ending;
#[path = "../contend/endpoint.rs"]
mod endpoint;
mod expiry;
#[path = "../contend/failure.rs"]
mod failure;
mod findings;
#[expect(dead_code, reason = "a soak's callers wait in all ways")]
#[path = "../../src/bin/fairlock/flags.rs"]
mod flags;
mod host;
mod memory;
mod names;
mod onlooker;
mod options;
mod oracle;
mod place;
mod plant;
mod register;
mod report;
mod soak;
mod tally;
#[path = "../contend/tell.rs"]
mod tell;
#[expect(dead_code, reason = "the driver adds up what its processes sent")]
#[path = "../contend/traffic.rs"]
mod traffic;
#[path = "../contend/verb.rs"]
mod verb;
mod vitals;
mod weather;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use crate::failure::Failure;
use crate::findings::Findings;
use crate::options::Options;
use crate::report::Report;
use crate::soak::Soak;
use crate::tell::tell;

#[tokio::main]
async fn main() -> ExitCode {
    let ended = soak(Options::parse()).await;
    ended.unwrap_or_else(|failure| {
        tell(format_args!("soak: {failure}"));
        failure.exit_code()
    })
}

async fn soak(options: Options) -> Result<ExitCode, Failure> {
    let findings = Arc::new(Findings::default());
    count_panics(&findings);
    let before = course::vitals()?;
    let soak = Soak::open(&options, &findings).await?;
    let crew = crew::start(&soak)?;
    let course = course::run(&soak).await?;
    let left = ending::end(&soak, crew).await?;
    let mut report = Report {
        counts: soak.tally.whole(),
        names: soak.names.count(),
        faults: soak.climate.befallen(),
        traffic: soak.turns.counted().clone(),
        options,
        course,
        left,
        before,
        after: before,
        findings,
    };
    drop(soak);
    report.after = ending::baseline(before, &report.findings).await?;
    report.judge_memory();
    report::say(&report);
    Ok(match report.is_good() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// A panic is a violation, also in a background task of the library.
fn count_panics(findings: &Arc<Findings>) {
    let findings = Arc::clone(findings);
    std::panic::set_hook(Box::new(move |panic| {
        findings.add(format!("panic: {panic}"));
    }));
}
