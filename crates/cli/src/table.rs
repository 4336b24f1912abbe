//! `fairlock table`: creates the table of the locks, and checks it.

use std::process::ExitCode;

use fairlock::{EncryptionKey, Finding, TableOptions, TableReport};

use crate::args::{Check, Create, Settings, Table};
use crate::failure::{Failure, UNFIT};
use crate::local_file::{self, Purpose};
use crate::location::Location;
use crate::output;
use crate::table_advice;
use crate::text::shown;

pub(crate) async fn table(what: Table) -> Result<ExitCode, Failure> {
    match what {
        Table::Create(Create { settings, location }) => {
            create(&wanted(&settings)?, &location).await
        }
        Table::Check(Check { settings, location }) => check(&wanted(&settings)?, &location).await,
    }
}

/// Refuses settings that no table can have, before a file is made.
fn wanted(settings: &Settings) -> Result<TableOptions, Failure> {
    let mut options = match (settings.read_capacity, settings.write_capacity) {
        (Some(read), Some(write)) => TableOptions::provisioned(read, write),
        _ => TableOptions::default(),
    };
    for (at, (key, value)) in settings.tags.iter().enumerate() {
        if settings.tags[..at].iter().any(|(before, _)| before == key) {
            return Err(Failure::misuse(format!(
                "--tag names `{key}` twice: a table has one value for each key"
            )));
        }
        options = options.tag(key, value);
    }
    if settings.deletion_protection {
        options = options.deletion_protection();
    }
    if settings.point_in_time_recovery {
        options = options.point_in_time_recovery();
    }
    if let Some(key) = &settings.kms_key {
        options = options.encryption_key(key_of(key));
    }
    let checked = options.check();
    checked.map_err(|wrong| Failure::misuse(wrong.to_string()))?;
    Ok(options)
}

/// The key that AWS manages has an alias, by which people know it.
fn key_of(name: &str) -> EncryptionKey {
    match name.ends_with("alias/aws/dynamodb") {
        true => EncryptionKey::AwsManaged,
        false => EncryptionKey::Customer(name.to_owned()),
    }
}

async fn create(options: &TableOptions, location: &Location) -> Result<ExitCode, Failure> {
    let client = location.client(Purpose::Make, |builder| builder).await?;
    let created = client.create_table(options).await;
    created.map_err(|error| Failure::of(&error, location))?;
    let mut text = format!("{} is ready\n", location.name());
    // Reports only what was asked for and is not there. Other findings may be about permissions that a creator of tables does not need.
    let report = client.check_table_with(options).await;
    let findings = report.map_or(Vec::new(), |report| report.findings);
    let missing = findings.iter().filter(|finding| is_of_creation(finding));
    text.extend(missing.map(|finding| line(finding, location)));
    let _ = output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the finding is about what `create` would have brought about.
fn is_of_creation(finding: &Finding) -> bool {
    let of_ttl = matches!(finding, Finding::NoTtl | Finding::WithoutTtl);
    let of_settings = matches!(
        finding,
        Finding::OtherSetting { .. } | Finding::WithoutSetting { .. }
    );
    of_ttl || of_settings
}

async fn check(options: &TableOptions, location: &Location) -> Result<ExitCode, Failure> {
    if location.is_to_come() {
        if let Some(why) = location.local.as_deref().and_then(local_file::obstacle) {
            let text = format!("{}: no turn can make it: {why}", location.name());
            return Err(Failure::new(UNFIT, text));
        }
        let _ = output::print(&format!("{}: the first turn makes it\n", location.name()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = location.locks().await?.check_table_with(options).await;
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
