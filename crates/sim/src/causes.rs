//! The failures that requests meet, each made once.

use std::sync::{Arc, OnceLock};

use fairlock_protocol::failure::{By, Cause, Failure, Kind, Lack, cause};

/// What becomes of a request that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Busy,
    Conflict,
    NoConnection,
    Denied,
    NoTable,
    NoAnswer,
}

impl Trouble {
    /// The failure of a request with this name. Of a read nothing can have been applied.
    pub(crate) fn failure(self, verb: &'static str, is_read: bool) -> Failure {
        let kind = match self {
            Trouble::Busy => Kind::Busy(self.cause()),
            Trouble::Conflict => Kind::Conflict(self.cause()),
            Trouble::NoConnection => Kind::Unserved(Lack::Connection, self.cause()),
            Trouble::Denied => Kind::Refused(By::Policy, self.cause()),
            Trouble::NoTable => Kind::Refused(By::Table, self.cause()),
            Trouble::NoAnswer => Kind::Unknown(self.cause()),
        };
        let failure = Failure { verb, kind };
        if is_read {
            failure.of_a_read()
        } else {
            failure
        }
    }

    fn cause(self) -> Cause {
        static CAUSES: OnceLock<[Cause; 6]> = OnceLock::new();
        let causes = CAUSES.get_or_init(|| {
            [
                "busy",
                "conflict",
                "no connection",
                "denied",
                "no table",
                "no answer",
            ]
            .map(cause)
        });
        Arc::clone(&causes[self as usize])
    }

    /// Whether what answers is DynamoDB, or what stands before it: such an answer has a `Date`.
    pub(crate) fn is_answer(self) -> bool {
        !matches!(self, Trouble::NoConnection | Trouble::NoAnswer)
    }
}
