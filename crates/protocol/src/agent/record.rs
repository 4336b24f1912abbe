//! A record of a client: each turn with its times, its chance and what the client was told, and what it told and asked for then. Played again
//! into a new client, it tells and asks for the same.
//!
//! A record has one line of JSON for the settings, one for each turn, and one for all that is told or asked for. It has names of locks and
//! owners, attributes and addresses. It has no data of locks, only how many bytes they are, and nothing of what requests are signed with.

use std::fmt::{self, Debug};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use serde::{Deserialize, Serialize};

use super::{Client, Clocks, Input, Output, Random, Refusal, Request, RequestId, Terms, Turn};
use crate::entry::Nonce;
use crate::failure::{By, Failure, Kind, Lack, cause};
use crate::problem::ItemProblem;

/// A line of a record.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// The settings.
    Terms(Terms),
    /// A turn, with an input or with what was due.
    Turn {
        clocks: Clocks,
        chance: Vec<Drawn>,
        input: Option<Input>,
        /// It ended in a panic.
        panics: bool,
    },
    Told(String),
    Asked(String),
}

/// What chance gave.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Drawn {
    Nonce(Nonce),
    /// The bits of a number.
    Unit(u64),
}

/// Writes down what a client is told, asks for and tells.
#[derive(Debug)]
pub struct Recorder<W>(W);

impl<W: Write> Recorder<W> {
    /// Begins a record of a client with these settings.
    ///
    /// # Errors
    ///
    /// The first line cannot be written.
    pub fn new(to: W, terms: &Terms) -> io::Result<Self> {
        let mut recorder = Recorder(to);
        recorder.write(&Line::Terms(terms.clone()))?;
        Ok(recorder)
    }

    /// A turn of the client, which is written down before what comes of it.
    ///
    /// # Errors
    ///
    /// It cannot be written. The client has had its turn all the same.
    pub fn turn(
        &mut self,
        client: &mut Client,
        input: Option<Input>,
        turn: Turn<'_>,
    ) -> io::Result<()> {
        let (clocks, told) = (turn.clocks, input.clone());
        let mut noted = Noted {
            of: turn.random,
            chance: Vec::new(),
        };
        let ended = takes(client, input, clocks, &mut noted);
        self.write(&Line::Turn {
            clocks,
            chance: noted.chance,
            input: told,
            panics: ended.is_err(),
        })?;
        if let Err(panic) = ended {
            resume_unwind(panic);
        }
        Ok(())
    }

    /// What the client tells.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn told(&mut self, output: &Output) -> io::Result<()> {
        self.write(&Line::Told(text(&worded(output))))
    }

    /// What the client asks for.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn asked(&mut self, request: &(RequestId, Request)) -> io::Result<()> {
        self.write(&Line::Asked(text(request)))
    }

    /// What it has been written to.
    pub fn into_inner(self) -> W {
        self.0
    }

    fn write(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, line)?;
        self.0.write_all(b"\n")
    }
}

fn takes(
    client: &mut Client,
    input: Option<Input>,
    clocks: Clocks,
    random: &mut dyn Random,
) -> thread::Result<()> {
    let turn = Turn { clocks, random };
    catch_unwind(AssertUnwindSafe(|| client.turn(input, turn)))
}

/// Causes say more of themselves than their words, which are all that a record has.
fn worded(output: &Output) -> Output {
    let mut output = output.clone();
    match &mut output {
        Output::Refused {
            why: Refusal::Failed(failure),
            ..
        }
        | Output::Done {
            done: Err(failure), ..
        } => *failure = Words::of(failure).failure(),
        _ => {}
    }
    output
}

fn text(it: &impl Debug) -> String {
    format!("{it:?}")
}

/// Chance that writes down what it gives.
struct Noted<'a> {
    of: &'a mut dyn Random,
    chance: Vec<Drawn>,
}

impl Random for Noted<'_> {
    fn nonce(&mut self) -> Nonce {
        let nonce = self.of.nonce();
        self.chance.push(Drawn::Nonce(nonce));
        nonce
    }

    fn unit(&mut self) -> f64 {
        let unit = self.of.unit();
        self.chance.push(Drawn::Unit(unit.to_bits()));
        unit
    }
}

/// Where a client does something else than its record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the line.
    pub line: u64,
    /// What the record says. `None` if it says nothing more before the next turn.
    pub recorded: Option<String>,
    /// What the client does. `None` if nothing.
    pub played: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nothing = || "nothing".to_owned();
        let recorded = self.recorded.clone().unwrap_or_else(nothing);
        let played = self.played.clone().unwrap_or_else(nothing);
        write!(
            f,
            "line {}: recorded {recorded}, played {played}",
            self.line
        )
    }
}

/// Why a record cannot be played.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Unreadable {
    /// The number of the line.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// What came of playing a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// How many turns there were.
    pub turns: u64,
    /// How many requests.
    pub requests: u64,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Plays a record into a new client, up to the first difference.
///
/// # Errors
///
/// A line is no line of a record of this version.
pub fn play<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Played, Unreadable> {
    let mut player = Player::default();
    for (number, line) in (1..).zip(lines) {
        let unreadable = |why: String| Unreadable { line: number, why };
        let read = serde_json::from_str(line).map_err(|why| unreadable(why.to_string()))?;
        let difference = player.plays(read).map_err(unreadable)?;
        if let Some((recorded, played)) = difference {
            player.played.difference = Some(Difference {
                line: number,
                recorded,
                played,
            });
            break;
        }
    }
    Ok(player.played)
}

#[derive(Default)]
struct Player {
    client: Option<Client>,
    played: Played,
}

/// What was recorded, and what was played.
type Both = (Option<String>, Option<String>);

impl Player {
    fn plays(&mut self, line: Line) -> Result<Option<Both>, String> {
        let (line, client) = match (line, &mut self.client) {
            (Line::Terms(terms), client) => {
                *client = Some(Client::new(Arc::new(terms)));
                return Ok(None);
            }
            (_, None) => return Err("comes before the settings".to_owned()),
            (line, Some(client)) => (line, client),
        };
        Ok(match line {
            Line::Terms(_) => None,
            Line::Turn {
                clocks,
                chance,
                input,
                panics,
            } => {
                self.played.turns += 1;
                let mut again = Again(chance.into_iter());
                let panicked = takes(client, input, clocks, &mut again).is_err();
                if panicked {
                    client.buries();
                }
                let ends = |panics| if panics { "a panic" } else { "no panic" };
                let left = again.0.next().map(|left| text(&left));
                match (panics == panicked, left) {
                    (true, None) => None,
                    (true, left) => Some((left, None)),
                    (false, _) => Some((Some(ends(panics).into()), Some(ends(panicked).into()))),
                }
            }
            Line::Told(recorded) => {
                let played = client.poll_output();
                differs(recorded, played.map(|output| text(&worded(&output))))
            }
            Line::Asked(recorded) => {
                self.played.requests += 1;
                differs(
                    recorded,
                    client.poll_request().map(|request| text(&request)),
                )
            }
        })
    }
}

fn differs(recorded: String, played: Option<String>) -> Option<Both> {
    (Some(&recorded) != played.as_ref()).then_some((Some(recorded), played))
}

/// Chance that gives what it gave before. Of what it never gave, it gives zeros: the client does something else by then.
struct Again(std::vec::IntoIter<Drawn>);

impl Random for Again {
    fn nonce(&mut self) -> Nonce {
        match self.0.next() {
            Some(Drawn::Nonce(nonce)) => nonce,
            Some(Drawn::Unit(_)) | None => Nonce::new(0),
        }
    }

    fn unit(&mut self) -> f64 {
        match self.0.next() {
            Some(Drawn::Unit(bits)) => f64::from_bits(bits),
            Some(Drawn::Nonce(_)) | None => 0.0,
        }
    }
}

/// A failure in words.
#[derive(Serialize, Deserialize)]
struct Words(String, Meaning);

#[derive(Serialize, Deserialize)]
enum Meaning {
    Busy(String),
    Conflict(String),
    Unserved(Lack, String),
    Unknown(String),
    Refused(By, String),
    Invalid(String, Problem),
}

#[derive(Serialize, Deserialize)]
enum Problem {
    NewerFormat(u64, u64),
    OlderFormat(u64, u64),
    Permits(u64, u64),
    Missing(String),
    WrongType(String, String),
    Inconsistent(String),
}

impl Serialize for Failure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Words::of(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Failure {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Words::deserialize(deserializer).map(Words::failure)
    }
}

impl Words {
    fn of(Failure { verb, kind }: &Failure) -> Self {
        let meaning = match kind {
            Kind::Busy(why) => Meaning::Busy(why.to_string()),
            Kind::Conflict(why) => Meaning::Conflict(why.to_string()),
            Kind::Unserved(lack, why) => Meaning::Unserved(*lack, why.to_string()),
            Kind::Unknown(why) => Meaning::Unknown(why.to_string()),
            Kind::Refused(by, why) => Meaning::Refused(*by, why.to_string()),
            Kind::Invalid { item, problem } => {
                Meaning::Invalid(item.to_string(), Problem::of(problem))
            }
        };
        Words((*verb).to_owned(), meaning)
    }

    fn failure(self) -> Failure {
        let Words(verb, meaning) = self;
        let kind = match meaning {
            Meaning::Busy(why) => Kind::Busy(cause(why)),
            Meaning::Conflict(why) => Kind::Conflict(cause(why)),
            Meaning::Unserved(lack, why) => Kind::Unserved(lack, cause(why)),
            Meaning::Unknown(why) => Kind::Unknown(cause(why)),
            Meaning::Refused(by, why) => Kind::Refused(by, cause(why)),
            Meaning::Invalid(item, problem) => Kind::Invalid {
                item: item.into(),
                problem: problem.problem(),
            },
        };
        let verb = lasting(verb);
        Failure { verb, kind }
    }
}

impl Problem {
    fn of(problem: &ItemProblem) -> Self {
        match *problem {
            ItemProblem::NewerFormat { found, known } => Problem::NewerFormat(found, known),
            ItemProblem::OlderFormat { found, known } => Problem::OlderFormat(found, known),
            ItemProblem::Permits { found, said } => Problem::Permits(found, said),
            ItemProblem::Missing { attribute } => Problem::Missing(attribute.to_owned()),
            ItemProblem::WrongType {
                attribute,
                expected,
            } => Problem::WrongType(attribute.to_owned(), expected.to_owned()),
            ItemProblem::Inconsistent { rule } => Problem::Inconsistent(rule.to_owned()),
        }
    }

    fn problem(self) -> ItemProblem {
        match self {
            Problem::NewerFormat(found, known) => ItemProblem::NewerFormat { found, known },
            Problem::OlderFormat(found, known) => ItemProblem::OlderFormat { found, known },
            Problem::Permits(found, said) => ItemProblem::Permits { found, said },
            Problem::Missing(attribute) => ItemProblem::Missing {
                attribute: lasting(attribute),
            },
            Problem::WrongType(attribute, expected) => ItemProblem::WrongType {
                attribute: lasting(attribute),
                expected: lasting(expected),
            },
            Problem::Inconsistent(rule) => ItemProblem::Inconsistent {
                rule: lasting(rule),
            },
        }
    }
}

/// Words that last as long as the process: a record is played once.
fn lasting(words: String) -> &'static str {
    Box::leak(words.into_boxed_str())
}
