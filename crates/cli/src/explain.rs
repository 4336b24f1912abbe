//! Turns an error of the library into a failure of this program, with what the user can do about it on the command line.

use std::error::Error as StdError;

use aws_smithy_types::error::ErrorMetadata;
use fairlock::{Error, Finding, ItemProblem};

use crate::failure::{Failure, LOST, MISUSE, NOT_GRANTED, UNAVAILABLE, deepest};
use crate::location::Location;
use crate::output::OF_A_LOCK;
use crate::table_advice;
use crate::text::quoted;

impl Failure {
    /// Explains an error of the library, with what the user can do about it on this command line.
    pub(crate) fn of(error: &Error, location: &Location) -> Self {
        let code = match error {
            Error::NotGranted { .. } => NOT_GRANTED,
            Error::Lost { .. } => LOST,
            Error::Invalid(_) => MISUSE,
            Error::InvalidItem {
                problem: ItemProblem::Permits { .. },
                ..
            } => MISUSE,
            _ => UNAVAILABLE,
        };
        Failure::new(code, explain(error, location))
    }

    /// Explains an error as [`of`](Self::of) does, for a command with the flag `--permits`, which was given this value.
    pub(crate) fn of_permits(error: &Error, location: &Location, permits: Option<u64>) -> Self {
        match error {
            Error::InvalidItem {
                table,
                item,
                problem: ItemProblem::Permits { found, .. },
            } => Failure::misuse(format!(
                "item `{item}` in table `{table}`: {}",
                disagree(*found, permits)
            )),
            error => Failure::of(error, location),
        }
    }
}

/// Two callers of a lock name different numbers of permits: its item has `found`, and this command line says another.
fn disagree(found: u64, said: Option<u64>) -> String {
    let has = match found {
        OF_A_LOCK => "64 permits, as a lock that is used without --permits",
        found => &format!("{found} permits"),
    };
    let says = match said {
        Some(said) => format!("--permits says {said}"),
        None => format!("without --permits it would have {OF_A_LOCK}"),
    };
    let remedy = match found {
        OF_A_LOCK => "leave --permits out".to_owned(),
        1 => "say --permits 1".to_owned(),
        found => match said {
            Some(_) => format!(
                "say --permits {found}, and let `fairlock resize` change how many there are"
            ),
            None => format!("say --permits {found}"),
        },
    };
    format!(
        "the lock has {has}, and {says}: {remedy}, or name another lock; if the lock's number is wrong, `fairlock delete` it when it \
         is idle"
    )
}

/// Error codes with which DynamoDB rejects the credentials.
const UNKNOWN_CALLER: [&str; 5] = [
    "UnrecognizedClientException",
    "ExpiredToken",
    "TokenRefreshRequired",
    "MissingAuthenticationToken",
    "InvalidClientTokenId",
];

/// Parts of error codes with which DynamoDB rejects a signature.
const UNSIGNED: [&str; 3] = ["Signature", "RequestExpired", "RequestTimeTooSkewed"];

/// Parts of error codes with which DynamoDB reports too many requests.
const BUSY: [&str; 4] = [
    "Throughput",
    "Throttl",
    "RequestLimit",
    "TransactionConflict",
];

const REPAIR: &str = "`Repairing a lock` in docs/repair.md says what to do";

const CLOCK: &str = "see whether this host's clock and the AWS secret key are right";

const CREDENTIALS: &str = "see whether the AWS credentials are the right ones, and still valid";

fn explain(error: &Error, location: &Location) -> String {
    let text = error.to_string();
    match error {
        Error::NotGranted { lock, .. } => {
            let show = location.command(&format!("show {}", quoted(lock)));
            format!("{text} (see who is there: `{show}`)")
        }
        Error::Refused {
            table,
            verb,
            source,
            ..
        } => match (source.downcast_ref::<Finding>(), answer(source.as_ref())) {
            (Some(finding), _) => {
                format!(
                    "{}: {}",
                    location.name(),
                    table_advice::reason(finding, location)
                )
            }
            (None, Some(said)) => {
                refused(format!("table `{table}` refuses {verb}: {said}"), location)
            }
            (None, None) => refused(text, location),
        },
        Error::Unavailable {
            table,
            verb,
            source,
            ..
        } => match answer(source.as_ref()) {
            Some(said) => busy(table, verb, &said, location),
            None if text.contains("UnknownIssuer") => {
                let way = location.way_there();
                format!("{text}: name the certificates to trust in AWS_CA_BUNDLE, or {way}")
            }
            None => format!("{text}: {}", location.way_there()),
        },
        Error::InvalidItem {
            table,
            item,
            problem: ItemProblem::Permits { found, .. },
        } => format!(
            "item `{item}` in table `{table}`: a lock of {found} permits, and this command is for locks that are used without --permits: \
             name another lock"
        ),
        Error::InvalidItem { problem, .. }
            if !matches!(problem, ItemProblem::NewerFormat { .. }) =>
        {
            format!("{text}: {REPAIR}")
        }
        _ => text,
    }
}

/// Returns DynamoDB's own message, without the words of the SDK and of the library around it. Returns `None` if DynamoDB did not answer.
fn answer(error: &(dyn StdError + 'static)) -> Option<String> {
    let chain = || std::iter::successors(Some(error), |&error| error.source());
    if !chain().any(|error| error.to_string().starts_with("service error")) {
        return None;
    }
    let cause = deepest(error);
    let said = cause.downcast_ref().and_then(|said: &ErrorMetadata| {
        let (code, message) = (said.code()?, said.message()?);
        Some(format!("{code}: {message}"))
    });
    said.or_else(|| Some(cause.to_string()))
}

fn busy(table: &str, verb: &str, said: &str, location: &Location) -> String {
    if let Some(local) = location.explained(said) {
        return local;
    }
    let says = |codes: &[&str]| codes.iter().any(|code| said.contains(code));
    let remedy = match () {
        () if says(&UNKNOWN_CALLER) => CREDENTIALS,
        () if says(&UNSIGNED) => CLOCK,
        () if says(&BUSY) => "it is too busy, try again later",
        () => "try again later",
    };
    format!("table `{table}` does not {verb} now: {said}: {remedy}")
}

fn refused(text: String, location: &Location) -> String {
    if let Some(local) = location.explained(&text) {
        return local;
    }
    let check = || location.command("table check");
    match text {
        _ if text.contains("ResourceNotFound") => {
            let create = location.command("table create");
            format!("there is no {}: create it with `{create}`", location.name())
        }
        _ if text.contains("AccessDenied") => {
            // The check covers the permissions for locks. Creating a table needs others.
            let check = check();
            format!("{text}: `{check}` says what is missing, docs/operations.md what is needed")
        }
        _ if text.contains("have no `Date`") => {
            format!(
                "{text}: for an engine that has none, as DynamoDB Local, say `--trust-own-clock`"
            )
        }
        // DynamoDB does not name the item. Every item that fairlock writes is far smaller, so another program has filled one.
        _ if text.contains("Item size") => {
            format!("{text}: an item of the lock was filled by somebody else: {REPAIR}")
        }
        _ if text.contains("not DynamoDB's") => format!("{text}: {}", location.way_there()),
        _ => format!("{text}: `{}` says whether it is fit for locks", check()),
    }
}
