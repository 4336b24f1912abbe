//! What callers combine in one turn: every pair of features is to be met by some seed.

use fairlock_protocol::agent::{Claim, Wait};

/// Something that a caller asks for, or that happens to it in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    /// It does not wait, or only for so long.
    NoWait,
    Time,
    /// It wants a part of the permits.
    Share,
    /// It asks for a lease by its name.
    Lease,
    /// It sets a shortest time of its hold, a longest one, and begins them later.
    Min,
    Max,
    Later,
    /// It accepts so many turns before its own.
    Limit,
    /// It is told how it stands.
    Observed,
    /// It does not wait for its own client.
    Denies,
    /// Its host is notified.
    Notified,
    /// Others of its host ask beside it.
    Beside,
    /// It leaves data, frees a part of its permits, or makes a lease of its hold.
    Data,
    Freed,
    LeasedOut,
    /// Somebody asks it to give way, or breaks its hold.
    Asked,
    Broken,
    /// It goes away.
    Cancelled,
    /// Its client is shut down.
    ShutDown,
}

use Feature::*;

const ALL: [Feature; 19] = [
    NoWait, Time, Share, Lease, Min, Max, Later, Limit, Observed, Denies, Notified, Beside, Data,
    Freed, LeasedOut, Asked, Broken, Cancelled, ShutDown,
];

/// The pairs that no turn has, and why.
const NEVER: [(Feature, Feature, &str); 9] = [
    (NoWait, Time, "a call waits in one way"),
    (Share, Data, "only who holds all permits leaves data"),
    (Data, Cancelled, GONE),
    (Freed, Cancelled, GONE),
    (LeasedOut, Cancelled, GONE),
    (Asked, Cancelled, GONE),
    (Broken, Cancelled, GONE),
    (Broken, ShutDown, "a hold ends for one reason"),
    (Cancelled, ShutDown, GONE),
];
const GONE: &str = "who goes away while it asks has no hold";

/// The features of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Features {
    bits: u32,
    /// It got its turn, or went away before.
    pub(crate) counts: bool,
}

impl Features {
    pub(crate) fn of(claim: &Claim) -> Features {
        let mut it = Features::default();
        it.has_if(NoWait, claim.wait == Wait::No);
        it.has_if(Time, matches!(claim.wait, Wait::Until(_)));
        it.has_if(Share, claim.permits.is_some());
        it.has_if(Lease, claim.lease.is_some());
        it.has_if(Min, claim.bounds.min.is_some());
        it.has_if(Max, claim.bounds.max.is_some());
        it.has_if(Later, claim.bounds.begin_later);
        it.has_if(Limit, claim.max_waiters.is_some());
        it.has_if(Observed, claim.is_observed);
        it.has_if(Denies, claim.denies_self_wait);
        it
    }

    pub(crate) fn has(&mut self, feature: Feature) {
        self.has_if(feature, true);
    }

    pub(crate) fn has_if(&mut self, feature: Feature, has: bool) {
        self.bits |= u32::from(has) << feature as u32;
    }

    fn are(self, feature: Feature) -> bool {
        self.bits >> feature as u32 & 1 == 1
    }
}

/// In how many turns each pair was met. On the diagonal is how many turns had the feature.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs([[u64; ALL.len()]; ALL.len()]);

impl Pairs {
    pub(crate) fn count(&mut self, turn: Features) {
        let of_turn = |it: &&Feature| turn.counts && turn.are(**it);
        for &one in ALL.iter().filter(of_turn) {
            for &other in ALL.iter().filter(of_turn) {
                self.0[one as usize][other as usize] += 1;
            }
        }
    }

    pub(crate) fn add(&mut self, others: &Pairs) {
        let rows = self.0.iter_mut().flatten();
        for (mine, more) in rows.zip(others.0.iter().flatten()) {
            *mine += more;
        }
    }

    /// The pairs that a turn can have, and none had.
    pub(crate) fn unmet(&self) -> impl Iterator<Item = (Feature, Feature)> {
        let may = |&(one, other): &(Feature, Feature)| {
            let never = |it: &(Feature, Feature, &str)| (it.0, it.1) == (one, other);
            !NEVER.iter().any(never)
        };
        let before = |one: Feature| {
            ALL.iter()
                .take(one as usize)
                .map(move |other| (*other, one))
        };
        let pairs = ALL.iter().flat_map(move |one| before(*one));
        pairs
            .filter(|&(one, other)| self.0[one as usize][other as usize] == 0)
            .filter(may)
    }

    /// The table. Its columns have the numbers of its rows.
    pub(crate) fn print(&self) {
        for one in ALL {
            let row = &self.0[one as usize][..=one as usize];
            let cells: String = row.iter().map(|met| format!(" {met:>7}")).collect();
            println!("{:>2} {:<10}{cells}", one as u32, format!("{one:?}"));
        }
        let numbers: String = (0..ALL.len()).map(|it| format!(" {it:>7}")).collect();
        println!("{:<13}{numbers}", "");
        for (one, other, why) in NEVER {
            println!("never {one:?} and {other:?}: {why}");
        }
        for (one, other) in self.unmet() {
            println!("not met: {one:?} and {other:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_that_no_turn_had_is_not_met() {
        let mut pairs = Pairs::default();
        let mut turn = Features::default();
        turn.has(Min);
        turn.has(Data);
        pairs.count(turn);
        assert!(pairs.unmet().any(|it| it == (Min, Data)));
        turn.counts = true;
        pairs.count(turn);
        assert!(pairs.unmet().all(|it| it != (Min, Data)));
        assert!(pairs.unmet().any(|it| it == (Min, Max)));
    }
}
