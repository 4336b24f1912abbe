//! A soak: everything that callers do with locks, at once and for any time, on a network with faults. It is judged all the while.
//!
//! Standard output has a line for each interval, and all figures at the end. Standard error has violations as they are found. The run fails
//! if there was any.
//!
//! ```text
//! cargo run --release -p fairlock-bench -- soak --for 1h
//! ```

mod caller;
mod coming;
mod course;
mod crew;
mod ending;
mod expiry;
mod findings;
mod ground;
mod host;
mod location;
mod memory;
mod names;
mod onlooker;
pub(crate) mod options;
mod oracle;
mod plant;
mod register;
mod report;
mod stage;
mod table;
mod tally;
mod vitals;
mod weather;

use std::process::ExitCode;
use std::sync::Arc;

use crate::failure::Failure;
use crate::soak::findings::Findings;
use crate::soak::options::Options;
use crate::soak::report::Report;
use crate::soak::stage::Soak;

/// Runs the driver by its command line.
#[tokio::main]
pub(crate) async fn run(options: Options) -> Result<ExitCode, Failure> {
    let findings = Arc::new(Findings::default());
    count_panics(&findings);
    let before = vitals::vitals()?;
    let soak = Soak::open(&options, &findings).await?;
    let crew = crew::start(&soak)?;
    let course = course::run(&soak).await?;
    let left = ending::end(&soak, crew).await?;
    let mut report = Report {
        counts: soak.tally.whole(),
        names: soak.names.count(),
        faults: soak.ground.climate.befallen(),
        traffic: soak.ground.turns.counted().clone(),
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

/// Counts a panic as a violation, also in a background task of the library.
fn count_panics(findings: &Arc<Findings>) {
    let findings = Arc::clone(findings);
    std::panic::set_hook(Box::new(move |panic| {
        findings.add(format!("panic: {panic}"));
    }));
}
