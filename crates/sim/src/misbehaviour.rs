//! Mistakes of behaviour: what a client, or its driver, would do wrong. They are planted where it is told something, and where it tells.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use fairlock_protocol::agent::{
    HoldView, Input, Loss, Order, Output, Refusal, Request, Wait, What,
};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::moment::{HostTime, ServerTime};
use fairlock_protocol::stamps::Wall;
use fairlock_protocol::ticket::Ticket;

/// What a client does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Misbehaviour {
    BelievesLonger,
    TellsNoLoss,
    TellsNoBreak,
    HidesRequests,
    TellsAnotherReason,
    TellsNoRefusal,
    RefusesTwice,
    TellsNoOutcome,
    GivesATokenTwice,
    GivesTheNewestTokenFirst,
    GrantsToTheLastCaller,
    HidesData,
    ReleasesNothing,
    RenewsNothing,
    AsksTwice,
    WakesLate,
    ForgetsTheShortestTime,
    ForgetsTheLongestTime,
    ForgetsTheBeginning,
    ForgetsTheTimeout,
    ForgetsToWait,
    AcceptsFewerBefore,
    TellsAnotherLimit,
    DeniesAnySelfWait,
    TellsTwiceHowItStands,
    StandsFurtherBack,
    OwesNoMargin,
    FreesNothing,
    LeasesForLess,
    ForgetsTheName,
    TellsNoLease,
    GivesUpAnother,
    JudgesByTheDateAlone,
    JudgesByTheWallClockAlone,
    JudgesNobody,
    HearsNoAnswer,
}

use Misbehaviour::*;

/// How much longer it believes.
const LONGER: Duration = Duration::from_secs(3);

impl Misbehaviour {
    /// What it hears of what it is told.
    pub(crate) fn hears(self, mut input: Input) -> Option<Input> {
        match (self, &mut input) {
            (ForgetsTheShortestTime, Input::Call { claim, .. }) => claim.bounds.min = None,
            (ForgetsTheLongestTime, Input::Call { claim, .. }) => claim.bounds.max = None,
            (ForgetsTheTimeout, Input::Call { claim, .. }) if claim.wait != Wait::No => {
                claim.wait = Wait::Forever;
            }
            (ForgetsToWait, Input::Call { claim, .. }) => claim.wait = Wait::No,
            (AcceptsFewerBefore, Input::Call { claim, .. }) => {
                claim.max_waiters = claim.max_waiters.map(|most| most / 2);
            }
            (ForgetsTheName, Input::Call { claim, .. }) => claim.lease = None,
            (DeniesAnySelfWait, Input::Call { claim, .. }) => claim.denies_self_wait = true,
            (
                ForgetsTheBeginning,
                Input::Order {
                    order: Order::BeginBounds,
                    ..
                },
            ) => return None,
            (
                OwesNoMargin,
                Input::Order {
                    order: Order::Release { is_unused },
                    ..
                },
            ) => *is_unused = true,
            (
                FreesNothing,
                Input::Order {
                    order: Order::Free(permits),
                    ..
                },
            ) => *permits = 0,
            (
                LeasesForLess,
                Input::Order {
                    order: Order::LeaseOut(term),
                    ..
                },
            ) => term.span /= 2,
            (GivesUpAnother, Input::GiveUp { place, .. }) => place.nonce = Nonce::new(0),
            (HearsNoAnswer, Input::Answer { request, .. }) if request.0 % 97 == 0 => return None,
            (_, Input::Answer { reply, .. }) => {
                let reading = &mut reply.reading;
                match (self, reading.date, reading.wall) {
                    (JudgesByTheDateAlone, Some(date), Wall::Shows(_)) => {
                        reading.wall = Wall::Shows(HostTime(date.0));
                    }
                    (JudgesByTheWallClockAlone, Some(_), Wall::Shows(wall)) => {
                        reading.date = Some(ServerTime(wall.0));
                    }
                    (JudgesNobody, ..) => reading.date = None,
                    _ => {}
                }
            }
            _ => {}
        }
        Some(input)
    }

    /// What it tells of what it has to.
    pub(crate) fn tells(self, mut output: Output, tokens: &mut Tokens) -> Vec<Output> {
        match (self, &mut output) {
            (TellsNoLoss, Output::Lost { .. })
            | (TellsNoRefusal, Output::Refused { .. })
            | (TellsNoOutcome, Output::Done { .. }) => return Vec::new(),
            (
                TellsNoLease,
                Output::Refused {
                    why: Refusal::Leased { .. },
                    ..
                },
            ) => return Vec::new(),
            (
                TellsNoBreak,
                Output::Lost {
                    why: Loss::Broken(_),
                    ..
                },
            ) => return Vec::new(),
            (RefusesTwice, Output::Refused { .. })
            | (TellsTwiceHowItStands, Output::Waits { .. }) => {
                return vec![output.clone(), output];
            }
            (
                TellsAnotherLimit,
                Output::Refused {
                    why: Refusal::QueueFull { limit, .. },
                    ..
                },
            ) => *limit += 1,
            (StandsFurtherBack, Output::Waits { waiting, .. }) => {
                waiting.position = waiting.position.map(|it| 9_u64.saturating_sub(it));
            }
            (TellsAnotherReason, Output::Lost { why, .. }) => *why = Loss::Deleted,
            (HidesData, Output::Granted { seen, .. }) => {
                let mut item = (*seen.item).clone();
                item.data = None;
                seen.item = item.into();
            }
            (HidesRequests, Output::Granted { seen, .. } | Output::View { seen, .. }) => {
                let mut item = (*seen.item).clone();
                item.asked = None;
                seen.item = item.into();
            }
            (GivesATokenTwice, Output::Granted { seen, .. }) => tokens.gives(seen),
            (GivesTheNewestTokenFirst, Output::Granted { seen, .. }) => {
                seen.ticket = seen.held.footing.ticket;
            }
            (BelievesLonger, Output::Granted { seen, .. } | Output::View { seen, .. }) => {
                seen.until = seen.until + LONGER;
            }
            _ => {}
        }
        vec![output]
    }

    /// How often it sends a request.
    pub(crate) fn sends(self, request: &Request) -> usize {
        let verb = match &request.what {
            What::Write { write, .. } => write.verb,
            _ => "",
        };
        match self {
            ReleasesNothing if verb == "release" => 0,
            RenewsNothing if verb == "renew" => 0,
            AsksTwice if verb == "enter" => 2,
            _ => 1,
        }
    }

    /// How late it wakes.
    pub(crate) fn lags(self) -> Duration {
        match self {
            WakesLate => Duration::from_secs(20),
            _ => Duration::ZERO,
        }
    }
}

/// The tokens that were given last at each place.
#[derive(Default)]
pub(crate) struct Tokens(BTreeMap<u64, Ticket>);

impl Tokens {
    fn gives(&mut self, seen: &mut HoldView) {
        let place = seen.held.footing.ticket.get();
        seen.ticket = *self.0.entry(place).or_insert(seen.ticket);
    }
}
