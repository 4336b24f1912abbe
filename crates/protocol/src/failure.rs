//! What became of a request that brought no usable answer: may it have been applied, and does sending it again help?

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::problem::ItemProblem;

/// The error that a request met, such as the SDK's own. Several callers may be told of it.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// Words, or another error, as a cause.
pub fn cause(why: impl Into<Box<dyn Error + Send + Sync>>) -> Cause {
    Arc::from(why.into())
}

/// A request that brought no usable answer.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the request was to do.
    pub verb: &'static str,
    /// What the failure means.
    pub kind: Kind,
}

/// What a failure means.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Not applied, and may be if sent again: DynamoDB was too busy.
    Busy(Cause),
    /// Not applied, and may be if sent again: at that moment another client's transaction was using the item, or another process
    /// was changing the table.
    Conflict(Cause),
    /// Not applied, and may be if sent again, but not for want of time: the request lacked something.
    Unserved(Lack, Cause),
    /// No answer: it may have been applied, or may be yet. Never said of a read.
    Unknown(Cause),
    /// Not applied, and never will be until somebody mends what the cause names.
    Refused(By, Cause),
    /// Answered with an item that is not ours, or damaged.
    Invalid {
        /// The keys of the item.
        item: Arc<str>,
        /// What is wrong with it.
        problem: ItemProblem,
    },
}

/// What a request lacked that was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Lack {
    /// There was no connection, so nothing was sent on it.
    Connection,
    /// A read got no answer.
    Answer,
    /// Its credentials are still being loaded.
    Loading,
    /// It had no valid credentials.
    Credentials,
    /// Its signature was not taken.
    Signature,
}

/// What refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum By {
    /// A policy denies it to this client. A policy may be mended while a caller waits.
    Policy,
    /// The table, or what stands before it.
    Table,
}

impl Failure {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        !matches!(self.kind, Kind::Refused(..) | Kind::Invalid { .. })
    }

    /// Whether DynamoDB refused the request, and will until what it names is mended.
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, Kind::Refused(..))
    }

    /// Whether a policy denies the request to this client. A proxy in between denies without DynamoDB's code.
    pub fn is_denied(&self) -> bool {
        matches!(self.kind, Kind::Refused(By::Policy, _))
    }

    /// Whether a newer version of fairlock uses this lock.
    pub fn is_newer_format(&self) -> bool {
        let problem = match &self.kind {
            Kind::Invalid { problem, .. } => Some(problem),
            _ => None,
        };
        matches!(problem, Some(ItemProblem::NewerFormat { .. }))
    }

    /// Whether DynamoDB answered that it was too busy.
    pub fn is_busy(&self) -> bool {
        matches!(self.kind, Kind::Busy(_))
    }

    /// Whether DynamoDB answered that now is not the time, which shows that it is there.
    pub fn is_not_now(&self) -> bool {
        matches!(self.kind, Kind::Busy(_) | Kind::Conflict(_))
    }

    /// Whether the request may have been applied, or may be yet.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self.kind, Kind::Unknown(_))
    }

    /// A read changes nothing, so nothing of it can have been applied.
    pub fn of_a_read(self) -> Self {
        let kind = match self.kind {
            Kind::Unknown(cause) => Kind::Unserved(Lack::Answer, cause),
            kind => kind,
        };
        Failure { kind, ..self }
    }
}

/// For logs, in one line: the words of errors, and nothing else of requests and answers.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.verb, self.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (came_to, cause) = match self {
            Kind::Busy(cause) | Kind::Conflict(cause) | Kind::Unserved(_, cause) => {
                ("came to nothing", cause)
            }
            Kind::Unknown(cause) => ("may have been applied", cause),
            Kind::Refused(_, cause) => ("was refused", cause),
            Kind::Invalid { item, problem } => return write!(f, "met item `{item}`: {problem}"),
        };
        write!(f, "{came_to}: {}", Chain(cause.as_ref()))
    }
}

/// An error and its causes, in one line. Leaves out a cause if the text before it already ends with that cause.
pub struct Chain<'a>(pub &'a (dyn Error + Send + Sync + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.0.to_string();
        f.write_str(&said)?;
        let mut cause = self.0.source();
        // Ends because no error is among its own causes.
        while let Some(error) = cause {
            let words = error.to_string();
            if !said.ends_with(&words) {
                write!(f, ": {words}")?;
                said = words;
            }
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_was_sent_what_became_of_it_and_why() {
        let problem = ItemProblem::Missing { attribute: "last" };
        let item = "pk = a".into();
        for (kind, told) in [
            (Kind::Busy(cause("slow")), "`enter` came to nothing: slow"),
            (
                Kind::Unknown(cause("slow")),
                "`enter` may have been applied: slow",
            ),
            (
                Kind::Refused(By::Table, cause("no")),
                "`enter` was refused: no",
            ),
            (
                Kind::Invalid { item, problem },
                "`enter` met item `pk = a`: has no `last`: not written by fairlock, or damaged",
            ),
        ] {
            let verb = "enter";
            assert_eq!(Failure { verb, kind }.to_string(), told);
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{words}")]
    struct Caused {
        words: &'static str,
        source: Option<Box<dyn Error + Send + Sync>>,
    }

    /// An error with the first of these words, caused by an error with the words that follow.
    fn caused(words: &[&'static str]) -> Option<Box<dyn Error + Send + Sync>> {
        let (words, causes) = words.split_first()?;
        let source = caused(causes);
        Some(Box::new(Caused { words, source }))
    }

    #[test]
    fn a_cause_is_said_unless_the_one_before_it_ends_with_it() {
        for (words, told) in [
            (&["lost", "broken pipe"][..], "lost: broken pipe"),
            (&["answered", "E: none", "E: none"], "answered: E: none"),
            (&["E: none", "none", "why"], "E: none: why"),
            (&["a", "b", "a"], "a: b: a"),
        ] {
            let source = caused(words).unwrap();
            assert_eq!(Chain(source.as_ref()).to_string(), told);
        }
    }

    #[test]
    fn a_read_without_an_answer_changed_nothing() {
        let read = Failure {
            verb: "read the queue",
            kind: Kind::Unknown(cause("slow")),
        };
        let read = read.of_a_read();
        assert!(read.is_transient() && !read.is_ambiguous());
        assert!(matches!(read.kind, Kind::Unserved(Lack::Answer, _)));
    }
}
