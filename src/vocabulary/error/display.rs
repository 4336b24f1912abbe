//! Errors in words, each in one line.

use std::error::Error as StdError;
use std::fmt;

use aws_smithy_types::DateTime;
use fairlock_protocol::failure::Chain;

use super::{Error, Holder};

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotGranted {
                lock,
                holder,
                position,
                waited,
                untaken,
                ..
            } => {
                let held = HeldBy(holder.as_deref(), *position, *untaken);
                write!(
                    f,
                    "lock `{lock}` was not granted after {waited:.1?}: {held}"
                )
            }
            Error::QueueFull {
                lock,
                waiting,
                limit,
            } => write!(
                f,
                "lock `{lock}` has {waiting} waiting already, and this call waits behind fewer than {limit} only: try \
                 again later"
            ),
            Error::Lost {
                lock,
                ticket,
                reason,
            } => write!(
                f,
                "lock `{lock}` was lost before ticket {ticket} was done: {reason}"
            ),
            Error::Invalid(invalid) => invalid.fmt(f),
            Error::InvalidItem {
                table,
                item,
                problem,
            } => write!(f, "item `{item}` in table `{table}`: {problem}"),
            Error::Refused {
                table,
                verb,
                source,
            } => write!(
                f,
                "table `{table}` refuses `{verb}`: {}",
                Reason(source.as_ref())
            ),
            Error::Unavailable {
                table,
                verb,
                waited,
                source,
            } => {
                let cause = Chain(source.as_ref());
                write!(
                    f,
                    "table `{table}` did not serve `{verb}` within {waited:.1?}: {cause}"
                )
            }
            Error::ShutDown(closed) => closed.fmt(f),
        }
    }
}

/// Prints the line for people, behind the variant. The `Debug` output of the SDK's errors has whole requests and answers in it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Error::NotGranted { .. } => "NotGranted",
            Error::QueueFull { .. } => "QueueFull",
            Error::Lost { .. } => "Lost",
            Error::Invalid(_) => "Invalid",
            Error::InvalidItem { .. } => "InvalidItem",
            Error::Refused { .. } => "Refused",
            Error::Unavailable { .. } => "Unavailable",
            Error::ShutDown(_) => "ShutDown",
        };
        write!(f, "{variant}({self})")
    }
}

/// A caller's text in quotation marks. Only the beginning is shown if the text is long.
pub(super) struct Said<'a>(pub(super) &'a str);

/// The most characters that are shown. The reader needs no more of a text to understand the rule about it.
const MAX_SAID: usize = 80;

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(MAX_SAID) {
            Some((end, _)) => write!(f, "{:?}... ({} bytes)", &self.0[..end], self.0.len()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// Why DynamoDB refuses a request, and what to do about the most common reasons.
struct Reason<'a>(&'a (dyn StdError + Send + Sync + 'static));

const NO_TABLE: &str = "there is no such table: one for locks is made by `LockClient::create_table` or `fairlock table create`";
const DENIED: &str = "a policy denies it: for a table of locks `LockClient::check_table` tells what is to be permitted";
const OTHER_KEYS: &str = "the table has other keys: for a table of locks `LockClient::check_table` tells which, and \
                          `LockClientBuilder::key_names` names them";

/// DynamoDB's codes and words, and what they come from. DynamoDB has many words for keys that are not the table's.
const ADVICE: [(&str, &str); 7] = [
    ("ResourceNotFoundException", NO_TABLE),
    ("AccessDeniedException", DENIED),
    ("key element does not match the schema", OTHER_KEYS),
    ("key attributes defined in the schema", OTHER_KEYS),
    ("missed key schema element", OTHER_KEYS),
    ("Missing the key", OTHER_KEYS),
    ("Type mismatch for key", OTHER_KEYS),
];

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = Chain(self.0).to_string();
        let known = ADVICE.iter().find(|(words, _)| cause.contains(words));
        if let Some((_, advice)) = known {
            write!(f, "{advice}: ")?;
        }
        f.write_str(&cause)
    }
}

/// What is before a caller that was not granted the lock.
struct HeldBy<'a>(Option<&'a Holder>, Option<usize>, bool);

impl fmt::Display for HeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.2 {
            return f
                .write_str("it was granted and given back, for the call was not polled in time");
        }
        match self.0 {
            Some(holder) => has(f, holder)?,
            None => f.write_str("others are before this caller")?,
        }
        match self.1 {
            // The holder is before all waiters, and does not wait.
            Some(0 | 1) => f.write_str(", and nobody waits before this caller"),
            Some(2) => f.write_str(", and 1 waits before this caller"),
            Some(place) => write!(f, ", and {} wait before this caller", place - 1),
            None => Ok(()),
        }
    }
}

/// Describes the holder. Which task of a process holds a lock is not known, so the text says that the caller may wait for itself.
fn has(f: &mut fmt::Formatter<'_>, holder: &Holder) -> fmt::Result {
    let (owner, ticket) = (holder.named(), holder.ticket);
    if let Some(until) = holder.kept_until {
        let some = match holder.is_shared {
            true => "too few of its permits are free, and some are",
            false => "it is",
        };
        let until = DateTime::from_secs(DateTime::from(until).secs());
        return write!(
            f,
            "{some} kept until {until}, though {owner} gave ticket {ticket} back"
        );
    }
    match (holder.is_shared, holder.is_this_process) {
        (false, false) => write!(f, "{owner} has it with ticket {ticket}"),
        (false, true) => write!(
            f,
            "this process has it with ticket {ticket}, as {owner}, in another task or in this one (a lock is not re-entrant)"
        ),
        (true, false) => write!(
            f,
            "too few of its permits are free, and {owner} has some with ticket {ticket}"
        ),
        (true, true) => write!(
            f,
            "too few of its permits are free, and this process has some with ticket {ticket}"
        ),
    }
}
