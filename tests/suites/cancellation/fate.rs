//! What becomes of the request at which a caller goes away, and of the client behind it.

use std::fmt;

use fairlock::embedded::{Fault, Gate, When};

/// On which side of its being applied the request stands when its caller goes, and what happens to it then.
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

/// What a client that is dead is told changes nothing: its request is applied or not.
const MEETS_THE_DEAD: [Meets; 2] = [Meets::Nothing, Meets::Lost(When::Before)];

/// What there is of the client when its caller has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// It cleans up, and the request goes on before that.
    Lives,
    /// It has cleaned up when the request arrives.
    IsOvertaken,
    /// Nothing that it sends from now on arrives; the request is on its way.
    Dies,
}

pub(crate) const CLIENTS: [Client; 3] = [Client::Lives, Client::IsOvertaken, Client::Dies];

impl Fate {
    /// Each that makes a difference to a client.
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
