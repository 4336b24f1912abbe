//! Plans bent towards what few seeds bring about, so that every few seeds of such a plan do. They break no promise either.

use crate::mischief::Kind;
use crate::plan::{Plan, Sharing};

/// What is rare, and where it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rare {
    /// What an operator does to a semaphore in use.
    Operated,
    /// An operator finds locks that are idle.
    Idle,
    /// Callers bound their holds, and some lose them.
    Bounded,
    /// Holds end by force while others wait behind them in the same place.
    Cut,
    /// Callers leave while others of the same place have their turns.
    Gone,
    /// Late copies of enters come after their holds have ended.
    Revived,
}

pub(crate) const ALL: [Rare; 6] = [
    Rare::Operated,
    Rare::Idle,
    Rare::Bounded,
    Rare::Cut,
    Rare::Gone,
    Rare::Revived,
];

impl Rare {
    /// What the plans bring about.
    pub(crate) fn events(self) -> &'static [&'static str] {
        match self {
            Rare::Operated => &[
                "broken",
                "not broken: changed",
                "told of a break",
                "told to give way",
                "more permits",
                "fewer permits",
            ],
            Rare::Idle => &["not broken: gone", "deleted"],
            Rare::Bounded => &[
                "hold ended by its longest time",
                "hold kept for its shortest time",
                "margin after a loss",
            ],
            Rare::Cut => &[
                "hold lost",
                "stale write refused",
                "batch cut by a loss",
                "batch cut by a crash",
            ],
            Rare::Gone => &["gone from the middle of a batch"],
            Rare::Revived => &["hold brought back by a late copy"],
        }
    }

    pub(crate) fn bend(self, plan: &mut Plan) {
        (plan.is_silent, plan.requests) = (false, 3_000);
        (plan.leases, plan.has_several) = (0, false);
        match self {
            Rare::Operated => {
                (plan.operates, plan.sharing) = (true, Sharing::Permits(3));
                plan.long_turns = 1;
            }
            Rare::Idle => {
                plan.operates = true;
                plan.locks = (0..12).map(|lock| format!("lock-{lock}")).collect();
                plan.hosts.truncate(1);
                plan.each(|host| (host.workers, host.crowd) = (1, 1));
            }
            Rare::Bounded => {
                (plan.bounds, plan.sharing) = (true, Sharing::None);
                (plan.mischief, plan.long_turns) = (vec![Kind::Freeze, Kind::CutOff], 2);
                plan.each(|host| (host.crowd, host.margin) = (1, host.lease / 2));
            }
            Rare::Cut => {
                plan.lose_holds();
                plan.sharing = Sharing::None;
            }
            // A batch has its turns for about as long as some of its callers wait.
            Rare::Gone => {
                two_hosts(plan, (1, 6));
                plan.hosts.truncate(1);
                plan.each(|host| _ = host.lasts(2));
                (plan.mischief, plan.long_turns) = (vec![Kind::Sweep], 1);
                plan.only_infinite = false;
            }
            Rare::Revived => {
                two_hosts(plan, (1, 1));
                plan.weather.slow = vec!["enter", "enter known"];
            }
        }
    }
}

/// Makes one lock that these workers, each with this crowd, want alone.
fn two_hosts(plan: &mut Plan, (workers, crowd): (usize, usize)) {
    plan.locks.truncate(1);
    plan.hosts.truncate(2);
    plan.sharing = Sharing::None;
    plan.each(|host| {
        host.lasts(6);
        (host.workers, host.crowd) = (workers, crowd);
    });
}
