//! The messages between `fairlock run` and its supervisor: one line each, over a pair of sockets.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

/// Tells the supervisor what it must know or do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Names the places of `fairlock run` in the table, as text: one for each of its locks at most. The supervisor gives them up if
    /// `fairlock run` is killed.
    Places(Vec<String>),
    /// `fairlock run` holds its locks by its places: start the command, with these environment variables and with the files that come with
    /// this order. A supervisor that gave a place up does not. From now on it does not give up the places of a parent that is stopped.
    Start {
        deadline: Deadline,
        /// Until when the locks are kept from others, however soon the command ends. Zero if they are not.
        kept: Duration,
        environment: Vec<(String, String)>,
    },
    /// The lease was renewed until this deadline: end the command with SIGTERM at the first time, and with SIGKILL at the second.
    Until(Deadline),
    /// Pass a signal on to the command.
    Signal(i32),
    /// The lock is lost already: send SIGTERM now, and SIGKILL after this duration.
    End(Duration),
}

/// Times on CLOCK_BOOTTIME. All processes of a machine share this clock, and it goes on while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) term: Duration,
    pub(crate) kill: Duration,
}

/// Tells `fairlock run` what the supervisor has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The supervisor has all that it needs to end a command.
    Ready,
    /// The supervisor lacks something, and ends.
    Unfit(String),
    /// The supervisor gave a place up because `fairlock run` was stopped: the command was not started.
    GivenUp,
    /// The command runs under this process number, and was not there before this moment.
    Started(i32, Duration),
    /// The command could not be run. The number is the operating system's error code.
    Failed(i32),
    /// The command was stopped, as by SIGSTOP.
    Stopped,
    /// A signal that asks the command to end cannot be passed on to it.
    Unreachable,
    /// The supervisor is ending the command, because the lease ends.
    Ending,
    Exited(i32),
    Killed(i32),
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Places(places) => write!(f, "places {}", json(places)?),
            Order::Start {
                deadline: Deadline { term, kill },
                kept,
                environment,
            } => {
                let (term, kill, kept) = (term.as_nanos(), kill.as_nanos(), kept.as_nanos());
                write!(f, "start {term} {kill} {kept} {}", json(environment)?)
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
        // The JSON text comes last, because it may contain blanks.
        if let Some(places) = line.strip_prefix("places ") {
            let places = serde_json::from_str(places).map_err(|_| Garbled)?;
            return Ok(Order::Places(places));
        }
        let words: Vec<_> = line.splitn(5, ' ').collect();
        match words[..] {
            ["start", term, kill, kept, environment] => Ok(Order::Start {
                deadline: deadline(term, kill)?,
                kept: nanos(kept)?,
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
            Report::Ready => f.write_str("ready"),
            Report::Unfit(why) => write!(f, "unfit {}", json(why)?),
            Report::GivenUp => f.write_str("given-up"),
            Report::Started(pid, at) => write!(f, "started {pid} {}", at.as_nanos()),
            Report::Failed(reason) => write!(f, "failed {reason}"),
            Report::Stopped => f.write_str("stopped"),
            Report::Unreachable => f.write_str("unreachable"),
            Report::Ending => f.write_str("ending"),
            Report::Exited(code) => write!(f, "exited {code}"),
            Report::Killed(signal) => write!(f, "killed {signal}"),
        }
    }
}

impl FromStr for Report {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Self, Garbled> {
        if let Some(why) = line.strip_prefix("unfit ") {
            return serde_json::from_str(why)
                .map(Report::Unfit)
                .map_err(|_| Garbled);
        }
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["ready"] => Ok(Report::Ready),
            ["given-up"] => Ok(Report::GivenUp),
            ["started", pid, at] => Ok(Report::Started(parsed(pid)?, nanos(at)?)),
            ["failed", reason] => Ok(Report::Failed(parsed(reason)?)),
            ["stopped"] => Ok(Report::Stopped),
            ["unreachable"] => Ok(Report::Unreachable),
            ["ending"] => Ok(Report::Ending),
            ["exited", code] => Ok(Report::Exited(parsed(code)?)),
            ["killed", signal] => Ok(Report::Killed(parsed(signal)?)),
            _ => Err(Garbled),
        }
    }
}

/// The line is not a message of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

fn parsed<T: FromStr>(word: &str) -> Result<T, Garbled> {
    word.parse().map_err(|_| Garbled)
}

/// Writes the value as JSON, which stays on one line whatever the value contains.
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

/// The current time on the clock of [`Deadline`].
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
            Order::Places(vec![]),
            Order::Places(vec!["place of \n a \"lock\"".into(), "another".into()]),
            Order::Start {
                deadline,
                kept: Duration::from_secs(60),
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
            Report::Ready,
            Report::Unfit("line\n of \"it\"".into()),
            Report::GivenUp,
            Report::Started(1, Duration::from_nanos(7)),
            Report::Failed(2),
            Report::Stopped,
            Report::Unreachable,
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
            "places",
            "places a",
            "start 1 2",
            "start 1 2 3",
            "start 1 2 3 a",
            "signal",
            "end -1",
            "end 1 2",
        ] {
            assert_eq!(line.parse::<Order>(), Err(Garbled), "{line}");
        }
        for line in ["", "unfit", "unfit a", "started", "exited x", "stopped 1"] {
            assert_eq!(line.parse::<Report>(), Err(Garbled), "{line}");
        }
    }
}
