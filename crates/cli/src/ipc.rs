//! What `fairlock run` and its supervisor say to each other: one line each, over a pair of sockets.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

/// What the supervisor is to know and to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// What `fairlock run` has in the table now, which the supervisor gives up should it be killed: the text of a place, or nothing.
    Place(Option<String>),
    /// It has the lock by its place, and the command is to start soon: the supervisor gives up nothing of a parent that stands still any
    /// more.
    Claim,
    /// Start the command, with these variables, and the files that come with this order.
    Start {
        deadline: Deadline,
        environment: Vec<(String, String)>,
    },
    /// The lease now lasts so long: end the command with SIGTERM at one time, and with SIGKILL at the other.
    Until(Deadline),
    /// Pass a signal on to the command.
    Signal(i32),
    /// The lock is lost already: SIGTERM now, and SIGKILL so soon.
    End(Duration),
}

/// Times on CLOCK_BOOTTIME, which all processes of a machine share and which goes on while it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) term: Duration,
    pub(crate) kill: Duration,
}

/// What the supervisor has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The place is as it was, and the command may start.
    Claimed,
    /// The place was given up, because `fairlock run` stood still: it has no turn.
    GivenUp,
    Started(i32),
    /// The command could not be run, for this reason of the operating system.
    Failed(i32),
    /// The command was stopped, as by SIGSTOP.
    Stopped,
    /// The command is being ended, because the lease ends.
    Ending,
    Exited(i32),
    Killed(i32),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Place(None) => f.write_str("nowhere"),
            Order::Place(Some(place)) => write!(f, "place {}", json(place)?),
            Order::Claim => f.write_str("claim"),
            Order::Start {
                deadline: Deadline { term, kill },
                environment,
            } => {
                let (term, kill) = (term.as_nanos(), kill.as_nanos());
                write!(f, "start {term} {kill} {}", json(environment)?)
            }
            Order::Until(Deadline { term, kill }) => {
                write!(f, "until {} {}", term.as_nanos(), kill.as_nanos())
            }
            Order::Signal(number) => write!(f, "signal {number}"),
            Order::End(grace) => write!(f, "end {}", grace.as_nanos()),
        }
    }
}

impl FromStr for Order {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        // A text in JSON comes last, and may have blanks in it.
        if let Some(place) = line.strip_prefix("place ") {
            let place = serde_json::from_str(place).map_err(|_| Garbled)?;
            return Ok(Order::Place(Some(place)));
        }
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["nowhere"] => Ok(Order::Place(None)),
            ["claim"] => Ok(Order::Claim),
            ["start", term, kill, environment] => Ok(Order::Start {
                deadline: deadline(term, kill)?,
                environment: serde_json::from_str(environment).map_err(|_| Garbled)?,
            }),
            ["until", term, kill] => Ok(Order::Until(deadline(term, kill)?)),
            ["signal", number] => Ok(Order::Signal(parsed(number)?)),
            ["end", grace] => Ok(Order::End(nanos(grace)?)),
            _ => Err(Garbled),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Claimed => f.write_str("claimed"),
            Report::GivenUp => f.write_str("given-up"),
            Report::Started(pid) => write!(f, "started {pid}"),
            Report::Failed(reason) => write!(f, "failed {reason}"),
            Report::Stopped => f.write_str("stopped"),
            Report::Ending => f.write_str("ending"),
            Report::Exited(code) => write!(f, "exited {code}"),
            Report::Killed(signal) => write!(f, "killed {signal}"),
        }
    }
}

impl FromStr for Report {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["claimed"] => Ok(Report::Claimed),
            ["given-up"] => Ok(Report::GivenUp),
            ["started", pid] => Ok(Report::Started(parsed(pid)?)),
            ["failed", reason] => Ok(Report::Failed(parsed(reason)?)),
            ["stopped"] => Ok(Report::Stopped),
            ["ending"] => Ok(Report::Ending),
            ["exited", code] => Ok(Report::Exited(parsed(code)?)),
            ["killed", signal] => Ok(Report::Killed(parsed(signal)?)),
            _ => Err(Garbled),
        }
    }
}

/// Not a line of this language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

fn parsed<T: FromStr>(word: &str) -> Result<T, Garbled> {
    word.parse().map_err(|_| Garbled)
}

/// On one line, whatever is in it.
fn json(value: &impl Serialize) -> Result<String, fmt::Error> {
    serde_json::to_string(value).map_err(|_| fmt::Error)
}

fn deadline(term: &str, kill: &str) -> Result<Deadline, Garbled> {
    let (term, kill) = (nanos(term)?, nanos(kill)?);
    Ok(Deadline { term, kill })
}

fn nanos(word: &str) -> Result<Duration, Garbled> {
    Ok(Duration::from_nanos(parsed(word)?))
}

/// Now, on the clock of [`Deadline`].
#[expect(
    clippy::disallowed_methods,
    reason = "a deadline that the two processes share, not the lock's time"
)]
pub(crate) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let deadline = Deadline {
            term: Duration::from_nanos(7),
            kill: Duration::from_secs(9),
        };
        let orders = [
            Order::Place(None),
            Order::Place(Some("place of \n a \"lock\"".into())),
            Order::Claim,
            Order::Start {
                deadline,
                environment: vec![("A B".into(), "line\nline  \"".into())],
            },
            Order::Until(deadline),
            Order::Signal(15),
            Order::End(Duration::from_millis(250)),
        ];
        for order in orders {
            let line = order.to_string();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(line.parse(), Ok(order));
        }
        let reports = [
            Report::Claimed,
            Report::GivenUp,
            Report::Started(1),
            Report::Failed(2),
            Report::Stopped,
            Report::Ending,
            Report::Exited(3),
            Report::Killed(9),
        ];
        for report in reports {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }

    #[test]
    fn anything_else_is_not() {
        for line in [
            "",
            "until",
            "until 1",
            "until x 2",
            "place",
            "place a",
            "start 1 2",
            "start 1 2 a",
            "signal",
            "end -1",
            "end 1 2",
        ] {
            assert_eq!(line.parse::<Order>(), Err(Garbled), "{line}");
        }
        for line in ["", "started", "exited x", "stopped 1"] {
            assert_eq!(line.parse::<Report>(), Err(Garbled), "{line}");
        }
    }
}
