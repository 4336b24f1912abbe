//! `fairlock table`: creates the table of the locks, and checks it.

use std::process::ExitCode;

use aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;
use aws_sdk_dynamodb::types::Tag;
use fairlock::{Finding, TableReport};

use crate::args::{Create, Table};
use crate::failure::{Failure, UNFIT};
use crate::local_file::{self, Purpose};
use crate::location::Location;
use crate::output;
use crate::table_advice;
use crate::text::shown;

pub(crate) async fn table(what: Table) -> Result<ExitCode, Failure> {
    match what {
        Table::Create(Create { tags, location }) => create(&self::tags(&tags)?, &location).await,
        Table::Check { location } => check(&location).await,
    }
}

/// The tags, for the request that makes the table. A tag that no table can have is refused before a file is made.
fn tags(said: &[(String, String)]) -> Result<Vec<Tag>, Failure> {
    let twice = |at: usize| said[..at].iter().any(|(before, _)| *before == said[at].0);
    if let Some(at) = (0..said.len()).find(|at| twice(*at)) {
        let key = &said[at].0;
        return Err(Failure::misuse(format!(
            "--tag names `{key}` twice: a table has one value for each key"
        )));
    }
    let tag = |(key, value): &(String, String)| Tag::builder().key(key).value(value).build();
    let tags: Result<_, _> = said.iter().map(tag).collect();
    tags.map_err(|error| Failure::misuse(error.to_string()))
}

async fn create(tags: &[Tag], location: &Location) -> Result<ExitCode, Failure> {
    let client = location.client(Purpose::Make, |builder| builder).await?;
    let tagged = |request: CreateTableFluentBuilder| {
        let tags = (!tags.is_empty()).then(|| tags.to_vec());
        request.set_tags(tags)
    };
    let created = client.create_table_with(tagged).await;
    created.map_err(|error| Failure::of(&error, location))?;
    let mut text = format!("{} is ready\n", location.name());
    // Reports only what was asked for and is not there. Other findings may be about permissions that a creator of tables does not need.
    let report = client.check_table().await;
    let findings = report.map_or(Vec::new(), |report| report.findings);
    let is_of_creation =
        |finding: &&Finding| matches!(finding, Finding::NoTtl | Finding::WithoutTtl);
    let missing = findings.iter().filter(is_of_creation);
    text.extend(missing.map(|finding| line(finding, location)));
    let _ = output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn check(location: &Location) -> Result<ExitCode, Failure> {
    if location.is_to_come() {
        if let Some(why) = location.local.as_deref().and_then(local_file::obstacle) {
            let text = format!("{}: no turn can make it: {why}", location.name());
            return Err(Failure::new(UNFIT, text));
        }
        let _ = output::print(&format!("{}: the first turn makes it\n", location.name()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = location.locks().await?.check_table().await;
    let report = report.map_err(|error| Failure::of(&error, location))?;
    let _ = output::print(&told(&report, location))?;
    Ok(match report.is_usable() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(UNFIT),
    })
}

/// Writes a line for each finding.
fn told(report: &TableReport, location: &Location) -> String {
    if report.findings.is_empty() {
        return format!("{}: all is well\n", location.name());
    }
    let findings = report.findings.iter();
    findings.map(|finding| line(finding, location)).collect()
}

fn line(finding: &Finding, location: &Location) -> String {
    shown(&table_advice::told(finding, location)) + "\n"
}
