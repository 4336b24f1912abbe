//! What becomes of the request at which a caller goes away, and of the client behind it.

use std::fmt;

use fairlock::embedded::{Fault, Gate, When};

/// Whether the request is held before or after it is applied when its caller goes, and what happens to it then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    stands: When,
    meets: Meets,
}

#[derive(Clone, Copy, Debug)]
enum Meets {
    Nothing,
    Lost(When),
    Closed(When),
    CutShort,
    ServerError(When),
    Silence(When),
}

const MEETS: [Meets; 10] = [
    Meets::Nothing,
    Meets::Lost(When::Before),
    Meets::Lost(When::After),
    Meets::Closed(When::Before),
    Meets::Closed(When::After),
    Meets::CutShort,
    Meets::ServerError(When::Before),
    Meets::ServerError(When::After),
    Meets::Silence(When::Before),
    Meets::Silence(When::After),
];

/// Answers to a dead client change nothing: its request is applied or not.
const MEETS_THE_DEAD: [Meets; 2] = [Meets::Nothing, Meets::Lost(When::Before)];

/// What becomes of the client after its caller has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// The client cleans up. The held request goes on before that.
    Lives,
    /// The client has already cleaned up when the request arrives.
    IsOvertaken,
    /// Nothing that the client sends from now on arrives. Only the held request is under way.
    Dies,
}

pub(crate) const CLIENTS: [Client; 3] = [Client::Lives, Client::IsOvertaken, Client::Dies];

impl Fate {
    /// Every fate that makes a difference to such a client.
    pub(crate) fn all(of: Client) -> impl Iterator<Item = Fate> + Clone {
        let meets: &[Meets] = match of {
            Client::Lives | Client::IsOvertaken => &MEETS,
            Client::Dies => &MEETS_THE_DEAD,
        };
        let sides = [When::Before, When::After].into_iter();
        sides.flat_map(|stands| meets.iter().map(move |&meets| Fate { stands, meets }))
    }

    pub(crate) fn fault(self, gate: &Gate) -> Fault {
        let stands = Fault::Hold(self.stands, gate.clone());
        match self.meets {
            Meets::Nothing => stands,
            Meets::Lost(when) => stands.and(Fault::Lose(when)),
            Meets::Closed(when) => stands.and(Fault::Close(when)),
            Meets::CutShort => stands.and(Fault::CutShort),
            Meets::ServerError(when) => stands.and(Fault::ServerError(when)),
            Meets::Silence(when) => stands.and(Fault::Hang(when)),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fate { stands, meets } = self;
        write!(f, "dropped {stands:?} it applied, {meets:?}")
    }
}
