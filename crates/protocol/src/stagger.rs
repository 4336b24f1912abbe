//! By how much the renewals of a hold come earlier than they must, so that the renewals of many holds do not come at once.

use std::time::Duration;

/// A hold's first renewals come early by a share of its own, the later ones a heartbeat apart. No renewal comes late. A client with many
/// holds pays at most one renewal more for each hold, and nothing for holds that last less than half a heartbeat.
#[derive(Clone, Debug)]
pub struct Stagger {
    /// The share of a heartbeat, for each of the steps.
    share: f64,
    /// How many renewals are still to come early.
    steps: u32,
}

/// The number of steps in which a renewal is moved by up to a heartbeat.
const STEPS: u32 = 2;
/// The golden ratio, in units of which 2^64 make one.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Stagger {
    /// The stagger of a client's hold with this number, counted from zero. Hold zero is not early at all. Multiples of the golden ratio
    /// divide an interval evenly, however many there are.
    pub fn of(number: u64) -> Self {
        let phase = number.wrapping_mul(GOLDEN) as f64 / 2_f64.powi(64);
        Stagger {
            share: phase / f64::from(STEPS),
            steps: STEPS,
        }
    }

    /// The time from one renewal to the next: at most a heartbeat, and at least half of one.
    pub fn span(&self, heartbeat: Duration) -> Duration {
        match self.steps {
            0 => heartbeat,
            _ => heartbeat.mul_f64(1.0 - self.share),
        }
    }

    /// Notes that a renewal came when it was due.
    pub fn step(&mut self) {
        self.steps = self.steps.saturating_sub(1);
    }

    /// Notes that a renewal came late, as the renewals of all holds do after an outage.
    pub fn again(&mut self) {
        self.steps = STEPS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Duration = Duration::from_secs(10);

    /// When a hold that was granted at zero is renewed.
    fn renewals(number: u64) -> impl Iterator<Item = Duration> {
        let mut stagger = Stagger::of(number);
        std::iter::repeat_with(move || {
            let span = stagger.span(HEARTBEAT);
            stagger.step();
            span
        })
        .scan(Duration::ZERO, |now, span| {
            *now += span;
            Some(*now)
        })
    }

    #[test]
    fn the_only_hold_is_renewed_once_a_heartbeat() {
        let expected = [10, 20, 30, 40].map(Duration::from_secs);
        assert!(renewals(0).take(4).eq(expected));
    }

    #[test]
    fn no_renewal_is_later_than_a_heartbeat_after_the_last_nor_sooner_than_half_of_one() {
        for number in (0..10_000).chain([u64::MAX]) {
            let mut before = Duration::ZERO;
            for at in renewals(number).take(6) {
                let span = at - before;
                assert!(
                    HEARTBEAT / 2 <= span && span <= HEARTBEAT,
                    "{number}: {span:?}"
                );
                before = at;
            }
        }
    }

    #[test]
    fn the_renewals_of_however_many_holds_that_began_together_are_spread_evenly() {
        for holds in [2, 3, 10, 100, 1_000] {
            for renewal in [1, 5] {
                let mut tenths = [0_u64; 10];
                for number in 0..holds {
                    let at = renewals(number).nth(renewal).unwrap();
                    let phase = at.as_secs_f64() % 10.0;
                    tenths[phase as usize] += 1;
                }
                let (least, most) = (tenths.iter().min().unwrap(), tenths.iter().max().unwrap());
                assert!(most - least <= 3, "{holds} holds: {tenths:?}");
            }
        }
    }

    #[test]
    fn whoever_fell_out_of_step_finds_its_place_again() {
        let mut stagger = Stagger::of(1);
        let early = stagger.span(HEARTBEAT);
        (0..5).for_each(|_| stagger.step());
        assert_eq!(stagger.span(HEARTBEAT), HEARTBEAT);
        stagger.again();
        assert_eq!(stagger.span(HEARTBEAT), early);
    }
}
