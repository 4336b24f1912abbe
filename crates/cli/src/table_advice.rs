//! What the user can do on this command line about a finding in a table.

use fairlock::Finding;

use crate::local_file;
use crate::location::Location;
use crate::text::quoted;

/// A finding in the library's words, but with a remedy for this command line.
pub(crate) fn told(finding: &Finding, location: &Location) -> String {
    let text = finding.to_string();
    let what = text.strip_suffix(&finding.remedy()).unwrap_or(&text);
    format!("{what}{}", remedy(finding, location))
}

/// A finding without its severity: the reason why something cannot be done.
pub(crate) fn reason(finding: &Finding, location: &Location) -> String {
    let told = told(finding, location);
    let weight = format!("{}: ", finding.severity());
    told.strip_prefix(&weight).unwrap_or(&told).to_owned()
}

fn remedy(finding: &Finding, location: &Location) -> String {
    let create = || location.command("table create");
    match finding {
        Finding::NoTable => format!("create it with `{}`", create()),
        Finding::WrongKeys { .. } => {
            "name another table with `--table`, or this table's keys with `--partition-key` \
                                      and `--sort-key`"
                .into()
        }
        Finding::NoTtl => format!("switch it on with `{}`", create()),
        Finding::WithoutTtl => {
            "what nobody uses any more stays in it, until a program of yours sweeps it".into()
        }
        Finding::OtherTtl { found, .. } => {
            format!(
                "name that attribute with `--ttl-attribute {}`",
                quoted(found)
            )
        }
        Finding::Denied { .. } if location.local.is_some() => {
            let obstacle = location.local.as_deref().and_then(local_file::obstacle);
            obstacle.unwrap_or_else(|| finding.remedy())
        }
        Finding::Denied { operation, .. } if *operation == "Scan" => {
            format!("{}, or listed with `fairlock ls`", finding.remedy())
        }
        Finding::MissingDateHeader => {
            "let the `Date` of answers through the proxies, or, for an engine that has none, say `--trust-own-clock`".into()
        }
        Finding::FallbackDate => "keep the clocks of their hosts in step".into(),
        Finding::PartlyNotified { .. } => "run their commands with `--notify` too".into(),
        _ => finding.remedy(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command, Table};

    fn location(flags: &[&str]) -> Location {
        let line = ["fairlock", "table", "check"].iter().chain(flags);
        match Args::try_parse_from(line).unwrap().command {
            Command::Table {
                what: Table::Check { location },
            } => location,
            other => panic!("{other:?}"),
        }
    }

    fn findings() -> [Finding; 12] {
        let text = || "x".to_owned();
        [
            Finding::NoTable,
            Finding::WrongKeys {
                found: text(),
                needed: text(),
            },
            Finding::NotActive { status: text() },
            Finding::Denied {
                operation: "Scan",
                answer: text(),
            },
            Finding::Refused {
                operation: "Scan",
                answer: text(),
            },
            Finding::NoTtl,
            Finding::WithoutTtl,
            Finding::OtherTtl {
                found: "ttl of old".into(),
                needed: text(),
            },
            Finding::EventuallyConsistentReplicas {
                regions: vec![text()],
            },
            Finding::MissingDateHeader,
            Finding::FallbackDate,
            Finding::PartlyNotified {
                lock: "a\nb".into(),
                places: 3,
                unreachable: 1,
            },
        ]
    }

    #[test]
    fn every_finding_says_what_to_do_on_this_command_line_and_names_no_function() {
        let location = location(&["--table", "locks"]);
        let findings = findings();
        for finding in &findings {
            let told = told(finding, &location);
            let weight = format!("{}: ", finding.severity());
            assert!(told.starts_with(&weight), "{told}");
            for word in [
                "create_table",
                "key_names",
                "fallback_date",
                "`sweeps`",
                "notifier",
                "\n",
            ] {
                assert!(!told.contains(word), "{told}");
            }
        }
        let told = |finding| told(finding, &location);
        assert_eq!(
            told(&findings[0]),
            "fatal: there is no such table: create it with `fairlock table create --table locks`"
        );
        assert_eq!(
            told(&findings[11]),
            r"note: 1 of 3 places at `a\nb` cannot be notified: the waiter behind each polls: run their commands with `--notify` too"
        );
        assert!(told(&findings[7]).ends_with("`--ttl-attribute 'ttl of old'`"));
    }
}
