//! `fairlock table`: creates the table of the locks, and checks it.

use std::process::ExitCode;

use fairlock::{Finding, TableOptions, TableReport};

use crate::args::{Create, Table};
use crate::failure::{Failure, UNFIT};
use crate::local::Purpose;
use crate::output;
use crate::place::Place;
use crate::remedy;
use crate::text::shown;

pub(crate) async fn table(what: Table) -> Result<ExitCode, Failure> {
    match what {
        Table::Create(options) => create(options).await,
        Table::Check { place } => check(place).await,
    }
}

async fn create(options: Create) -> Result<ExitCode, Failure> {
    let place = &options.place;
    let client = place.client(Purpose::Make, |builder| builder).await?;
    let created = client.create_table(&billing(&options)).await;
    created.map_err(|error| Failure::of(&error, place))?;
    let mut text = format!("{} is ready\n", place.name());
    // Reports only the findings about TTL. Other findings may be about permissions that a creator of tables does not need.
    let report = client.check_table().await;
    let findings = report.map_or(Vec::new(), |report| report.findings);
    let is_of_ttl = |finding: &&Finding| matches!(finding, Finding::NoTtl | Finding::WithoutTtl);
    text.extend(
        findings
            .iter()
            .filter(is_of_ttl)
            .map(|finding| line(finding, place)),
    );
    let _ = output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn billing(options: &Create) -> TableOptions {
    match (options.read_capacity, options.write_capacity) {
        (Some(read), Some(write)) => TableOptions::provisioned(read, write),
        _ => TableOptions::default(),
    }
}

async fn check(place: Place) -> Result<ExitCode, Failure> {
    if place.is_to_come() {
        let _ = output::print(&format!("{}: the first turn makes it\n", place.name()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = place.locks().await?.check_table().await;
    let report = report.map_err(|error| Failure::of(&error, &place))?;
    let _ = output::print(&told(&report, &place))?;
    Ok(match report.is_usable() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(UNFIT),
    })
}

/// Writes a line for each finding.
fn told(report: &TableReport, place: &Place) -> String {
    if report.findings.is_empty() {
        return format!("{}: all is well\n", place.name());
    }
    let findings = report.findings.iter();
    findings.map(|finding| line(finding, place)).collect()
}

fn line(finding: &Finding, place: &Place) -> String {
    shown(&remedy::told(finding, place)) + "\n"
}
