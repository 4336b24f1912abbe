//! `fairlock doctor`: finds out what may be wrong on the way from this process to its locks. Nothing is changed.

mod probe;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use clap::builder::styling::{AnsiColor, Style};
use fairlock::{Finding, Severity, TableReport};
use rustix::process::getpid;
use serde::Serialize;

use crate::args::commands::Doctor;
use crate::cloud::{Cloud, told_if_slow};
use crate::failure::{Failure, UNFIT};
use crate::local_file::{self, FileSystemKind, FileSystems, Purpose};
use crate::location::Location;
use crate::output;
use crate::process_tree;
use crate::table_advice;
use crate::text::shown;

/// Clocks that differ by less may show the same time: a date has whole seconds, and takes a while to come.
const AGREED: Duration = Duration::from_secs(2);
/// AWS refuses the first signature of each process on a host whose clock is this wrong.
const REFUSED: Duration = Duration::from_secs(300);
/// A longer round trip makes turns slow, because each handoff takes some of them.
const FAR: Duration = Duration::from_millis(100);
/// Credentials that expire sooner may expire in a turn.
const SOON: Duration = Duration::from_secs(600);

const GOOD: Style = AnsiColor::Green.on_default();
const DOUBTFUL: Style = AnsiColor::Yellow.on_default();
const BAD: Style = AnsiColor::Red.on_default();

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warning,
    Problem,
}

/// The result of a check, in JSON by the schema in `json.md`.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    state: State,
    /// What was found, with the way out if it is not well.
    text: String,
}

/// The checks so far. Each is printed when it is done, because the next may take a while.
struct Checks<'a> {
    options: &'a Doctor,
    gravest: State,
}

pub(crate) async fn doctor(options: Doctor) -> Result<ExitCode, Failure> {
    // A command line that can mean no table is refused before anything is checked.
    let built = options.location.builder(local_file::nothing_yet()?).build();
    built.map_err(|error| Failure::of(&error, &options.location))?;
    let mut checks = Checks {
        options: &options,
        gravest: State::Ok,
    };
    checks.processes()?;
    if let Some(dynamodb) = checks.way_there().await? {
        checks.table(&dynamodb).await?;
    }
    Ok(match checks.gravest {
        State::Problem => ExitCode::from(UNFIT),
        State::Ok | State::Warning => ExitCode::SUCCESS,
    })
}

impl Checks<'_> {
    fn tell(
        &mut self,
        check: &'static str,
        state: State,
        text: impl Into<String>,
    ) -> Result<(), Failure> {
        self.gravest = self.gravest.max(state);
        let text = text.into();
        let check = Check { check, state, text };
        let line = match self.options.json {
            true => output::json_line(&check)?,
            false => for_people(&check),
        };
        // A reader that has gone does not change what is found out.
        let _ = output::print(&line)?;
        Ok(())
    }

    /// Checks what `run` stands on, before this process has children that others wait for.
    fn processes(&mut self) -> Result<(), Failure> {
        match process_tree::test_means(getpid()) {
            Ok(()) => self.tell("processes", State::Ok, "`run` can end what it starts"),
            Err(failure) => self.tell(
                "processes",
                State::Problem,
                format!("`run` {}", failure.text()),
            ),
        }
    }

    /// Checks what must be there before the first request. Returns `None` if there can be none.
    async fn way_there(&mut self) -> Result<Option<Client>, Failure> {
        match &self.options.location.local {
            Some(file) => self.file(file).await,
            None => self.cloud().await,
        }
    }

    async fn file(&mut self, file: &Path) -> Result<Option<Client>, Failure> {
        let name = file.display();
        let obstacle = local_file::obstacle(file);
        let file_systems = self.options.location.file_systems();
        if !self.file_system(file)? {
            return Ok(None);
        }
        if local_file::is_to_come(file) {
            match obstacle {
                Some(why) => {
                    let text = format!("no turn can make {name}: {why}");
                    self.tell("file", State::Problem, text)?;
                }
                None => self.tell("file", State::Ok, format!("the first turn makes {name}"))?,
            }
            return Ok(None);
        }
        let opened = match local_file::open(file, Purpose::Inspect, file_systems).await {
            Ok(opened) => opened,
            Err(failure) => {
                self.tell("file", State::Problem, failure.text())?;
                return Ok(None);
            }
        };
        match obstacle {
            Some(why) => self.tell(
                "file",
                State::Problem,
                format!("cannot take locks in {name}: {why}"),
            )?,
            None if local_file::is_disk_full(file) => {
                let text = format!("the disk of {name} is almost full: make room there");
                self.tell("file", State::Problem, text)?;
            }
            None => {
                let text = format!("{name} can be read and written{}", seen_by(file));
                self.tell("file", State::Ok, text)?;
            }
        }
        Ok(Some(opened))
    }

    /// Tells of a file system on which locks may not hold. Returns whether the file may be used.
    fn file_system(&mut self, file: &Path) -> Result<bool, Failure> {
        let safe = local_file::check_file_system(file, FileSystems::Safe);
        let Err(doubt) = safe else {
            return Ok(true);
        };
        let name = file.display();
        let insists = self.options.location.any_filesystem;
        match insists {
            true => self.tell("file", State::Warning, format!("{name}: {doubt}"))?,
            false => self.tell(
                "file",
                State::Problem,
                format!("cannot use {name}: {doubt}"),
            )?,
        }
        Ok(insists)
    }

    async fn cloud(&mut self) -> Result<Option<Client>, Failure> {
        let location = &self.options.location;
        let cloud = match Cloud::load(location.endpoint_url.as_deref()).await {
            Ok(cloud) => cloud,
            Err(failure) => {
                self.tell("endpoint", State::Problem, failure.text())?;
                return Ok(None);
            }
        };
        let region = cloud.region();
        match &region {
            Ok((region, named)) => {
                self.tell("region", State::Ok, format!("{region}, given by {named}"))?
            }
            Err(failure) => self.tell("region", State::Problem, failure.text())?,
        }
        let credentials = told_if_slow(location, cloud.credentials()).await;
        match &credentials {
            Ok(found) => {
                let (state, text) = credentials_text(found.expiry());
                self.tell("credentials", state, text)?;
            }
            Err(failure) => self.tell("credentials", State::Problem, failure.text())?,
        }
        let (Ok(_), Ok(credentials)) = (region, credentials) else {
            return Ok(None);
        };
        match cloud.client(location, &credentials).await {
            Ok(client) => Ok(Some(client)),
            Err(failure) => {
                self.tell("endpoint", State::Problem, failure.text())?;
                Ok(None)
            }
        }
    }

    async fn table(&mut self, dynamodb: &Client) -> Result<(), Failure> {
        let location = &self.options.location;
        let locks = location.builder(dynamodb.clone()).build();
        let checked = match locks {
            Ok(locks) => locks.check_table().await,
            // The flags ask for what cannot be.
            Err(error) => return Err(Failure::of(&error, location)),
        };
        let report = match checked {
            Ok(report) => report,
            Err(error) => {
                return self.tell(
                    "table",
                    State::Problem,
                    Failure::of(&error, location).text(),
                );
            }
        };
        self.report(&report)?;
        if report.findings.contains(&Finding::NoTable) {
            return Ok(());
        }
        if report.tried.contains(&probe::READ) && location.local.is_none() {
            self.transactions(dynamodb).await?;
        }
        self.times(dynamodb).await
    }

    fn report(&mut self, report: &TableReport) -> Result<(), Failure> {
        let location = &self.options.location;
        // What this process may not write is told of the file already.
        let is_told = location
            .local
            .as_deref()
            .and_then(local_file::obstacle)
            .is_some();
        let is_news =
            move |finding: &&Finding| !is_told || !matches!(finding, Finding::Denied { .. });
        let found = |check| move |finding: &&Finding| about(finding) == check;
        let checks = ["table", "ttl"]
            .into_iter()
            .chain(report.tried.iter().copied());
        for check in checks.chain(["clock", "notifications"]) {
            let findings: Vec<_> = report.findings.iter().filter(found(check)).collect();
            for finding in findings.iter().copied().filter(is_news) {
                self.tell(
                    check,
                    state(finding),
                    table_advice::reason(finding, location),
                )?;
            }
            if let Some(text) = well(check, report, location).filter(|_| findings.is_empty()) {
                self.tell(check, State::Ok, text)?;
            }
        }
        Ok(())
    }

    /// Whether transactions may check a hold. The command sends none, but programs may.
    async fn transactions(&mut self, dynamodb: &Client) -> Result<(), Failure> {
        match probe::condition_check(dynamodb, &self.options.location).await {
            Ok(()) => self.tell("ConditionCheckItem", State::Ok, "permitted"),
            Err(said) => {
                let text = format!(
                    "{said}: permit it if a program gives `check_item` to its transactions"
                );
                self.tell("ConditionCheckItem", State::Warning, text)
            }
        }
    }

    /// Checks the clock, and how long a request takes.
    async fn times(&mut self, dynamodb: &Client) -> Result<(), Failure> {
        let location = &self.options.location;
        let measured = match probe::times(dynamodb, location).await {
            Ok(measured) => measured,
            Err(said) => {
                let text = format!("cannot be measured: {said}: {}", location.way_there());
                return self.tell("latency", State::Warning, text);
            }
        };
        // The report of the table says so if answers have no date.
        if let Some(skew) = measured.skew {
            let (state, text) = skew.text();
            self.tell("clock", state, text)?;
        }
        let trip = measured.round_trip;
        let text = format!(
            "{trip:.1?} for a request and its answer, the median of {}",
            probe::TIMES
        );
        match trip > FAR {
            false => self.tell("latency", State::Ok, text),
            true => {
                let text = format!(
                    "{text}: a handoff takes one to two of these, so run nearer to {}, or name a region that is nearer",
                    location.name()
                );
                self.tell("latency", State::Warning, text)
            }
        }
    }
}

impl probe::Skew {
    fn text(self) -> (State, String) {
        let (by, direction) = match self {
            probe::Skew::Ahead(by) => (by, "ahead of"),
            probe::Skew::Behind(by) => (by, "behind"),
        };
        if by <= AGREED {
            return (
                State::Ok,
                "this host's clock and that of the answers agree".to_owned(),
            );
        }
        let by_words = output::rounded(by);
        let text = format!(
            "this host's clock is {by_words} {direction} that of the answers: set it by NTP (`timedatectl set-ntp true`): \
             the SDK corrects its signatures after an answer that refuses one, but certificates and credentials expire by this clock"
        );
        match by < REFUSED {
            true => (State::Warning, text),
            false => (State::Problem, text),
        }
    }
}

/// Says which processes do not see the file, if it is in a container.
fn seen_by(file: &Path) -> &'static str {
    match local_file::kind_of(file) {
        Some(FileSystemKind::Overlay) => {
            ", in a layer of this container (overlay), which no other container sees"
        }
        _ => "",
    }
}

fn credentials_text(until: Option<std::time::SystemTime>) -> (State, String) {
    let Some(until) = until else {
        return (State::Ok, "found, and they do not expire".to_owned());
    };
    let left = until.duration_since(output::now()).unwrap_or_default();
    let at = output::to_the_second(until).unwrap_or_else(|| "an unknown time".to_owned());
    match left > SOON {
        true => (State::Ok, format!("found, valid until {at}")),
        false => {
            let text = format!(
                "valid until {at} only: get new ones, or use a role that renews them, for longer turns"
            );
            (State::Warning, text)
        }
    }
}

fn state(finding: &Finding) -> State {
    match finding.severity() {
        Severity::Fatal => State::Problem,
        Severity::Warning | Severity::Note => State::Warning,
    }
}

/// The check that a finding belongs to.
fn about(finding: &Finding) -> &'static str {
    match finding {
        Finding::Denied { operation, .. } | Finding::Refused { operation, .. } => operation,
        Finding::NoTtl | Finding::WithoutTtl | Finding::OtherTtl { .. } => "ttl",
        Finding::MissingDateHeader | Finding::FallbackDate => "clock",
        Finding::PartlyNotified { .. } => "notifications",
        _ => "table",
    }
}

/// What to say of a check without findings. Returns `None` if it was not done, or is told elsewhere.
fn well(check: &str, report: &TableReport, location: &Location) -> Option<String> {
    let is_permitted = |operation: &str| {
        let is_refused = report
            .findings
            .iter()
            .any(|finding| about(finding) == operation);
        report.tried.contains(&operation) && !is_refused
    };
    match check {
        "table" if is_permitted("DescribeTable") => {
            Some(format!("{} has the keys that locks need", location.name()))
        }
        "ttl" if is_permitted("DescribeTimeToLive") => {
            Some(format!("on, by the attribute `{}`", location.ttl_attribute))
        }
        operation if report.tried.contains(&operation) => Some("permitted".to_owned()),
        _ => None,
    }
}

fn for_people(check: &Check) -> String {
    let (style, word) = match check.state {
        State::Ok => (GOOD, "ok"),
        State::Warning => (DOUBTFUL, "warning"),
        State::Problem => (BAD, "problem"),
    };
    let (name, text) = (check.check, shown(&check.text));
    format!("{style}{word:<8}{style:#} {name}: {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_how_far_it_is_off() {
        let second = Duration::from_secs(1);
        for (skew, found, words) in [
            (probe::Skew::Ahead(second), State::Ok, "agree"),
            (probe::Skew::Behind(2 * second), State::Ok, "agree"),
            (
                probe::Skew::Ahead(3 * second),
                State::Warning,
                "3s ahead of",
            ),
            (
                probe::Skew::Behind(299 * second),
                State::Warning,
                "4m 59s behind",
            ),
            (
                probe::Skew::Behind(300 * second),
                State::Problem,
                "5m behind",
            ),
        ] {
            let (state, text) = skew.text();
            assert_eq!(state, found, "{text}");
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn credentials_that_are_about_to_expire_are_warned_of() {
        let now = output::now();
        assert_eq!(credentials_text(None).0, State::Ok);
        assert_eq!(credentials_text(Some(now + 2 * SOON)).0, State::Ok);
        assert_eq!(credentials_text(Some(now + SOON / 2)).0, State::Warning);
        assert_eq!(credentials_text(Some(now - SOON)).0, State::Warning);
    }
}
