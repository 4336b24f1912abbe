//! What a check of a table found, and what to do about it.

use std::fmt;

/// What [`check_table`](crate::LockClient::check_table) found: nothing, if all is well.
///
/// # Examples
///
/// ```
/// # async fn check(locks: fairlock::LockClient) -> Result<(), Box<dyn std::error::Error>> {
/// let report = locks.check_table().await?;
/// println!("{report}");
/// if !report.is_usable() {
///     return Err("no locks here".into());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableReport {
    /// What is not as it should be, the gravest first.
    pub findings: Vec<Finding>,
    /// DynamoDB's names of the operations that were tried. An operation that no finding names is permitted, and works.
    pub tried: Vec<&'static str>,
}

impl TableReport {
    pub(super) fn new(mut findings: Vec<Finding>, tried: Vec<&'static str>) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
        TableReport { findings, tried }
    }

    /// Whether locks work: no finding is [`Severity::Fatal`].
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fairlock::TableReport::default().is_usable());
    /// ```
    pub fn is_usable(&self) -> bool {
        let mut findings = self.findings.iter();
        !findings.any(|finding| finding.severity() == Severity::Fatal)
    }
}

impl fmt::Display for TableReport {
    /// A line for each finding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((last, others)) = self.findings.split_last() else {
            return f.write_str("all is well");
        };
        for finding in others {
            writeln!(f, "{finding}")?;
        }
        write!(f, "{last}")
    }
}

/// How much a [`Finding`] matters.
///
/// # Examples
///
/// ```
/// use fairlock::Severity;
///
/// assert!(Severity::Fatal > Severity::Warning);
/// assert_eq!(Severity::Fatal.to_string(), "fatal");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Locks work. Something beside them does not, which may be intended.
    Note,
    /// Locks work, but not all that is promised about them holds.
    Warning,
    /// Locks do not work.
    Fatal,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Fatal => "fatal",
        })
    }
}

/// A single thing about a table that is not as it should be.
///
/// Its text is one line, with what to do about it. As the source of an [`Error::Refused`](crate::Error::Refused) it says why
/// [`create_table`](crate::LockClient::create_table) cannot use the existing table.
///
/// # Examples
///
/// ```
/// use fairlock::{Finding, Severity};
///
/// assert_eq!(Finding::NoTable.severity(), Severity::Fatal);
/// assert_eq!(Finding::NoTable.to_string(), "fatal: there is no such table: create it with `create_table`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// There is no such table in the region and account of the SDK client.
    NoTable,
    /// The table's keys are not those of this client.
    WrongKeys {
        /// The keys that it has.
        found: String,
        /// The keys that it must have.
        needed: String,
    },
    /// The table cannot be used, or not yet.
    NotActive {
        /// DynamoDB's word for its state.
        status: String,
    },
    /// An operation is not permitted.
    Denied {
        /// DynamoDB's name of the operation.
        operation: &'static str,
        /// DynamoDB's answer.
        answer: String,
    },
    /// An operation is refused for another reason.
    Refused {
        /// DynamoDB's name of the operation.
        operation: &'static str,
        /// DynamoDB's answer.
        answer: String,
    },
    /// TTL, DynamoDB's own deletion, is off: what crashed clients leave stays, and so do the items of unused locks.
    NoTtl,
    /// The same stays, because TTL cannot be switched on: this engine does not know it, or the table is a global one of strong
    /// consistency.
    WithoutTtl,
    /// TTL uses another attribute.
    OtherTtl {
        /// The attribute that TTL uses.
        found: String,
        /// The attribute that this client writes.
        needed: String,
    },
    /// The table has replicas that learn of writes only later: clients in two regions may both be granted a lock.
    EventuallyConsistentReplicas {
        /// The regions of the replicas.
        regions: Vec<String>,
    },
    /// The answers carry no `Date`: callers that do not wait cannot tell a crashed holder from a busy one.
    MissingDateHeader,
    /// The answers carry no `Date`, and the clock of [`fallback_date`](crate::LockClientBuilder::fallback_date) stands in for it. Locks work
    /// in full as long as the clocks of all hosts agree.
    FallbackDate,
    /// Clients with and without a [notifier](crate::LockClientBuilder::notifier) use one lock, which may be intended.
    PartlyNotified {
        /// The lock's name.
        lock: String,
        /// How many participants hold the lock or are successors.
        places: usize,
        /// How many of these cannot be notified.
        unreachable: usize,
    },
}

/// Operations that are needed only for work on whole tables.
const BESIDE_LOCKS: [&str; 3] = ["DescribeTable", "DescribeTimeToLive", "Scan"];

impl Finding {
    /// How much the finding matters.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{Finding, Severity};
    ///
    /// assert_eq!(Finding::NoTtl.severity(), Severity::Warning);
    /// ```
    pub fn severity(&self) -> Severity {
        match self {
            Finding::NoTable | Finding::WrongKeys { .. } | Finding::NotActive { .. } => {
                Severity::Fatal
            }
            Finding::Denied { operation, .. } | Finding::Refused { operation, .. } => {
                severity_without(operation)
            }
            Finding::NoTtl
            | Finding::WithoutTtl
            | Finding::OtherTtl { .. }
            | Finding::EventuallyConsistentReplicas { .. }
            | Finding::MissingDateHeader
            | Finding::FallbackDate => Severity::Warning,
            Finding::PartlyNotified { .. } => Severity::Note,
        }
    }

    /// What to do about the finding.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(fairlock::Finding::NoTable.remedy().contains("create_table"));
    /// ```
    pub fn remedy(&self) -> String {
        match self {
            Finding::NoTable => "create it with `create_table`".into(),
            Finding::WrongKeys { .. } => {
                "name another table, or this table's keys with `key_names`".into()
            }
            Finding::NotActive { .. } => {
                "wait until it is ACTIVE, or see what DynamoDB says about it".into()
            }
            Finding::Denied { operation, .. } => permit(operation),
            Finding::Refused { .. } => "see what DynamoDB says about it".into(),
            Finding::NoTtl => {
                "switch it on with `create_table`, or remove idle locks with `sweeps`"
                    .into()
            }
            Finding::WithoutTtl => "remove idle locks with `sweeps`".into(),
            Finding::OtherTtl { .. } => {
                "name that attribute with `key_names`, or remove idle locks with `sweeps`"
                    .into()
            }
            Finding::EventuallyConsistentReplicas { .. } => {
                "use its locks from one region only, or make it strongly consistent (MRSC)".into()
            }
            Finding::MissingDateHeader => {
                "let the `Date` of answers through the proxies, or set `fallback_date` for an engine that has none"
                    .into()
            }
            Finding::FallbackDate => {
                "set `fallback_date` at all clients of the table, and keep their hosts' clocks in step"
                    .into()
            }
            Finding::PartlyNotified { .. } => "give their clients a notifier too".into(),
        }
    }
}

fn severity_without(operation: &str) -> Severity {
    match operation {
        "BatchWriteItem" => Severity::Warning,
        beside if BESIDE_LOCKS.contains(&beside) => Severity::Note,
        _ => Severity::Fatal,
    }
}

fn permit(operation: &str) -> String {
    let action = format!("permit `dynamodb:{operation}` on the table");
    match operation {
        "DescribeTable" => format!("{action} to have its keys and replicas checked"),
        "DescribeTimeToLive" => format!("{action} to have its TTL checked"),
        "Scan" => format!("{action} if whole tables are to be swept"),
        "BatchWriteItem" => {
            format!("{action}, or rows of past turns are deleted one by one")
        }
        _ => action,
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.severity(), What(self), self.remedy())
    }
}

impl std::error::Error for Finding {}

/// A finding without its severity and remedy.
struct What<'a>(&'a Finding);

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Finding::NoTable => f.write_str("there is no such table"),
            Finding::WrongKeys { found, needed } => {
                write!(f, "the table has {found}, and locks need {needed}")
            }
            Finding::NotActive { status } => write!(f, "the table is {status}"),
            Finding::Denied { operation, answer } => {
                write!(f, "{operation} is not permitted ({answer})")
            }
            Finding::Refused { operation, answer } => {
                write!(f, "{operation} is refused ({answer})")
            }
            Finding::NoTtl => f.write_str("TTL is off"),
            Finding::WithoutTtl => f.write_str("this table can have no TTL"),
            Finding::OtherTtl { found, needed } => {
                write!(f, "TTL looks at `{found}`, and locks write `{needed}`")
            }
            Finding::EventuallyConsistentReplicas { regions } => {
                let regions = regions.join(", ");
                write!(
                    f,
                    "replicas ({regions}) are eventually consistent, and locks hold in one region only"
                )
            }
            Finding::MissingDateHeader => f.write_str(
                "answers carry no `Date`, and callers that do not wait never pass a crashed holder",
            ),
            Finding::FallbackDate => f.write_str(
                "answers carry no `Date`, and the clocks of the clients' hosts stand in for it",
            ),
            Finding::PartlyNotified {
                lock,
                places,
                unreachable,
            } => write!(
                f,
                "{unreachable} of {places} places at `{}` cannot be notified: the waiter behind each polls",
                lock.escape_debug()
            ),
        }
    }
}
