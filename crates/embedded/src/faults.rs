//! What can go wrong on the way to a server and back, as data.

use std::time::Duration;

use crate::gate::Gate;
use crate::latency::Latency;

/// On which side of the application of a request something happens. This is the difference between "certainly not applied" and "applied,
/// and the client does not know it".
///
/// # Examples
///
/// ```
/// use fairlock_embedded::{Fault, When};
///
/// let lost_request = Fault::Lose(When::Before);
/// let lost_answer = Fault::Lose(When::After);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// On the way there: for a loss or a failure, the request is never applied.
    Before,
    /// On the way back: the request has been applied.
    After,
}

/// Something that goes wrong with one request.
///
/// # Examples
///
/// An answer that is late on its way back, and then lost: the client learns after two seconds that it will never know.
///
/// ```
/// use std::time::Duration;
/// use fairlock_embedded::{Fault, When};
///
/// let late = Fault::Delay(When::After, Duration::from_secs(2));
/// let late_and_lost = late.and(Fault::Lose(When::After));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// It takes this much longer, besides the network's own latency. A request that is late on its way there is applied when it arrives,
    /// even if its client gave up long before.
    Delay(When, Duration),
    /// The connection breaks: the request, or its answer, is lost. The client sees an I/O error.
    Lose(When),
    /// The server closes the connection in good order and answers nothing, with the request applied or not. The client sees what hyper
    /// calls an incomplete message. The SDK's transport counts it neither among I/O errors nor among time-outs.
    Close(When),
    /// The server answers 500, with the request applied or not.
    ServerError(When),
    /// The answer breaks off in the middle, whatever it says.
    CutShort,
    /// No answer ever comes, with the request applied or not.
    Hang(When),
    /// It stands at the gate until the gate is opened.
    Hold(When, Gate),
    /// The request is applied again, this much later than it arrives, or would have arrived; the client gets the answer of the first
    /// application. A request that is lost on its way there is thus applied late. A request that the server refuses is not repeated.
    Duplicate {
        /// The time from the first arrival to the second.
        after: Duration,
    },
    /// Refused, not applied: `ProvisionedThroughputExceededException`.
    Throttle,
    /// Refused, not applied, because a transaction is under way for the item: `TransactionConflictException`. A `TransactWriteItems` gets
    /// `TransactionCanceledException`, whose reason is `TransactionConflict` for its last item and `None` for the others.
    Conflict,
    /// Refused, not applied: status 400 with this error code, such as `"AccessDeniedException"`.
    Refuse(&'static str),
    /// Answered by a front end of DynamoDB whose clock is this many seconds ahead, or behind if negative: the `Date` of the answer says so.
    /// Nothing else is wrong.
    Skew(i64),
    /// Both faults, as [`and`](Fault::and) puts them together.
    Both(Box<Fault>, Box<Fault>),
}

impl Fault {
    /// Combines this fault with another on the same request. Delays add up, and the last gate of each direction counts. A request that is
    /// lost or refused on its way there is not applied. Of several endings, the client sees the most silent.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use fairlock_embedded::{Fault, When};
    ///
    /// // The client sees a broken connection; the request is applied a minute later.
    /// let very_late = Fault::Lose(When::Before).and(Fault::Duplicate { after: Duration::from_secs(60) });
    /// ```
    #[must_use]
    pub fn and(self, other: Fault) -> Fault {
        Fault::Both(Box::new(self), Box::new(other))
    }
}

/// How often things go wrong by chance. Each rate is a probability between 0 and 1. By default all rates are 0, and nothing takes any time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use fairlock_embedded::{Faults, Latency};
///
/// let storm = Faults {
///     round_trip: Latency::HeavyTailed { median: Duration::from_millis(5), p99: Duration::from_millis(80) },
///     lost_answers: 0.05,
///     duplicates: 0.01,
///     duplicate_within: Duration::from_secs(120),
///     ..Faults::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// How long a request and its answer take together.
    pub round_trip: Latency,
    /// Requests lost on their way; the client sees an I/O error.
    pub lost_requests: f64,
    /// Answers lost on their way; the client sees an I/O error.
    pub lost_answers: f64,
    /// Requests whose connections the server closes without an answer, not applied.
    pub closes_before: f64,
    /// Requests whose connections the server closes without an answer, applied.
    pub closes_after: f64,
    /// Requests answered with 500 and not applied.
    pub errors_before: f64,
    /// Requests answered with 500 and applied.
    pub errors_after: f64,
    /// Requests never answered and not applied.
    pub hangs_before: f64,
    /// Requests never answered and applied.
    pub hangs_after: f64,
    /// Requests refused because of too many others.
    pub throttles: f64,
    /// Writes refused because of a transaction on the same item.
    pub conflicts: f64,
    /// Requests applied a second time.
    pub duplicates: f64,
    /// The longest time from a request's arrival to its duplicate's; the times are evenly spread.
    pub duplicate_within: Duration,
}

impl Faults {
    /// Draws what befalls a request besides latency. The number of draws is the same, whatever comes of them.
    pub(crate) fn draw(&self, rng: &mut fastrand::Rng) -> Vec<Fault> {
        let after = self.duplicate_within.mul_f64(rng.f64());
        let rates = [
            (self.lost_requests, Fault::Lose(When::Before)),
            (self.lost_answers, Fault::Lose(When::After)),
            (self.errors_before, Fault::ServerError(When::Before)),
            (self.errors_after, Fault::ServerError(When::After)),
            (self.hangs_before, Fault::Hang(When::Before)),
            (self.hangs_after, Fault::Hang(When::After)),
            (self.throttles, Fault::Throttle),
            (self.conflicts, Fault::Conflict),
            (self.duplicates, Fault::Duplicate { after }),
            (self.closes_before, Fault::Close(When::Before)),
            (self.closes_after, Fault::Close(When::After)),
        ];
        let befalls = rates.into_iter().filter(|(rate, _)| rng.f64() < *rate);
        befalls.map(|(_, fault)| fault).collect()
    }
}
