//! Two clocks, each compared with itself, checked exhaustively: what is ended by both has no believer, though all front ends are wrong or
//! all wall clocks are, and what is dead is ended within a bound.
//!
//! An owner hears the `Date`s of some answers, enters, renews, and lets its hold go as a lease or for its shortest time. Callers that have
//! watched nothing judge by the answer that shows the entry and by their own wall clock, replace a `Date` of the future, extend leases,
//! and end what is over. Right clocks are off by anything up to two seconds, and a `Date` by one more. A wrong one shows another time at each
//! reading, so it also steps. Requests are applied and answered at any time, lost, or applied late again. Besides, there are models of the
//! stamps of a draw, of how long an item stays, and of newcomers that find a dead owner.
//!
//! What is left out because it can make no difference:
//!
//! - A poll is sent, applied and answered in one step. If any of these came later, what comes after it would come later, and that is
//!   explored.
//! - An owner counts as believing from the moment at which its write is applied, though it learns of that later, or never.
//! - Stamps go along with their beat from a row to a slot, and to the sharers. So where an entry stands makes no difference.
mod gap;
mod hold;
mod item;
mod owner;
mod progress;
mod rules;
mod table;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use hold::{KEPT, PASSED, STOPPED, Setup, WHOLE};
use owner::Pause;
use rules::{DATES, DATES_OFF, Mutant, NONE, Rules, Server, WALLS, Wrong, wrong};
use stateright::Model;
use table::Kind;

use crate::explore::{Report, Search, is_tried};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const FAR_OFF: &[i64] = &[-HOUR, HOUR];
const BEHIND: &[i64] = &[-HOUR];
const AHEAD: &[i64] = &[HOUR];

/// An owner by the slowest clock that there may be.
fn rules(tick: i64, wrong: Wrong) -> Rules {
    Rules {
        mutant: None,
        tick,
        wrong: [wrong; 3],
        // An owner that is told a late time is in less danger.
        told: &DATES_OFF[..1],
        offsets: FAR_OFF,
        server: Server::Ahead(0),
        is_silent_at_times: false,
        rate: 98,
    }
}

/// A hold that is renewed once. Its lease is a little longer than three ticks, so a moment too early shows. Its client was told the time
/// four minutes before, or never.
fn held(wrong: Wrong) -> Setup {
    Setup {
        lease: Duration::from_millis(30_100),
        ends: Kind::Hold,
        renewals: 1,
        losses: 0,
        ages: &[24],
        timeout: 1,
        polls: [2, 0],
        extends: None,
        horizon: 5,
        pause: Pause::Never,
        rules: rules(10_000, wrong),
    }
}

/// The same, where the clocks of its owner and of the caller are wrong in these ways.
fn held_by(owner: Wrong, caller: Wrong) -> Setup {
    let mut setup = held(NONE);
    setup.rules.wrong = [owner, caller, NONE];
    setup
}

/// A hold whose owner gives it back for its shortest time.
fn given_back(wrong: Wrong) -> Setup {
    Setup {
        ends: Kind::GivenBack,
        renewals: 0,
        ..held(wrong)
    }
}

/// A hold that becomes a lease, which callers extend by a third.
fn leased(wrong: Wrong, offsets: &'static [i64]) -> Setup {
    let mut setup = Setup {
        ends: Kind::Lease,
        renewals: 0,
        extends: Some(Duration::from_millis(10_100)),
        ..held(wrong)
    };
    setup.rules.offsets = offsets;
    setup
}

/// The same, where the owner is told different parts of a second by clocks that are ahead, and its own is fast.
fn leased_by_parts() -> Setup {
    let mut setup = leased(NONE, FAR_OFF);
    (setup.ages, setup.rules.told, setup.rules.rate) = (&[1], &[1_001, 1_999], 102);
    setup
}

/// Heartbeats of four minutes, over which a clock of this rate carries a `Date` on.
fn slow(wrong: Wrong, rate: i64) -> Setup {
    let mut setup = Setup {
        lease: Duration::from_millis(720_100),
        ages: &[1],
        ..held(wrong)
    };
    (setup.rules.tick, setup.rules.rate, setup.rules.offsets) = (240_000, rate, AHEAD);
    setup
}

/// An owner whose machine stands still with all of its clocks. Its lease is a little shorter than a time at which a caller may judge, so a
/// moment too long shows.
fn stands_still(pause: Pause) -> Setup {
    let mut setup = held(NONE);
    (setup.lease, setup.pause) = (Duration::from_millis(34_900), pause);
    setup.rules.told = DATES_OFF;
    setup
}

/// The same machine, which stands still once, and one caller that polls once.
fn renews_late() -> Setup {
    Setup {
        polls: [1, 0],
        horizon: 4,
        ..stands_still(Pause::Once(2))
    }
}

/// The same machine, before it. Its client was told the time ten minutes before, and counts by the fastest clock that there may be.
fn idles() -> Setup {
    let mut setup = stands_still(Pause::Before(6));
    (setup.ages, setup.rules.rate) = (&[60], 102);
    setup
}

/// An owner whose machine never stands still. Whatever front end it asks is hours ahead or behind.
fn astray() -> Setup {
    let mut setup = stands_still(Pause::Before(0));
    (setup.polls, setup.rules.wrong) = ([1, 0], [NONE, DATES, NONE]);
    setup.rules.told = FAR_OFF;
    setup
}

fn gap(wrong: Wrong) -> gap::Setup {
    gap::Setup {
        join_timeout: Duration::from_millis(4_800),
        polls: 2,
        horizon: 4,
        draws_undated: false,
        rules: rules(2_500, wrong),
    }
}

fn item(wrong: Wrong) -> item::Setup {
    let mut rules = rules(6 * HOUR, wrong);
    rules.offsets = &[-400 * DAY, -20 * HOUR, 20 * HOUR, 400 * DAY];
    item::Setup {
        retention: Duration::from_secs(24 * 3600),
        horizon: 12,
        rules,
    }
}

/// Stamps and wall clocks are ahead or behind by hours, and `Date`s are right.
fn newcomers() -> progress::Setup {
    progress::Setup {
        lease: Duration::from_millis(10_100),
        is_given_back: false,
        stamps: [
            // The second is late, as what was carried on for long.
            &[Some(1_999), Some(2_990), None],
            &[Some(-HOUR), Some(1_999), Some(HOUR), None],
        ],
        clocks: [&[-2_999], &[-HOUR, -1_999, HOUR]],
        within: 10_000,
        from_the_end: false,
        horizon: 14,
        rules: rules(3_000, NONE),
    }
}

fn explore<M: Debug + Model<State: Hash, Action: Clone + Debug>>(setup: &M) -> Report {
    Search::new(setup, |_| false, |_| true).run()
}

fn prove<M: Debug + Model<State: Hash, Action: Clone + Debug>>(setup: &M, states: usize) {
    if is_tried(states) {
        explore(setup).proves(states);
    }
}

/// With right clocks, wrong `Date`s, and wrong wall clocks.
fn prove_each<M: Debug + Model<State: Hash, Action: Clone + Debug>>(
    setup: impl Fn(Wrong) -> M,
    states: [usize; 3],
) {
    let each = [NONE, DATES, WALLS].into_iter().zip(states);
    each.for_each(|(wrong, states)| prove(&setup(wrong), states));
}

#[test]
fn no_live_hold_ends_while_all_clocks_of_one_kind_are_right() {
    prove_each(held, [48_139, 1_132_015, 158_711]);
    prove_each(|owner| held_by(owner, NONE), [48_139, 296_363, 158_711]);
    prove_each(|caller| held_by(NONE, caller), [48_139, 222_887, 48_139]);
    // Answers tell of different parts of a second.
    let parts = |wrong| {
        let mut setup = held(wrong);
        (setup.rules.told, setup.ages) = (&[-2_999, -2_001], &[1, 24]);
        setup
    };
    prove_each(parts, [124_350, 1_931_550, 407_982]);
    let mut silent = held(WALLS);
    (silent.ages, silent.rules.offsets) = (&[], AHEAD);
    silent.rules.is_silent_at_times = true;
    prove(&silent, 137_904);
    let with = |renewals, losses, polls| {
        move |wrong| Setup {
            renewals,
            losses,
            polls,
            ..held(wrong)
        }
    };
    prove_each(with(1, 1, [2, 0]), [226_240, 5_972_406, 823_606]);
    prove_each(with(0, 1, [1, 1]), [46_819, 586_283, 93_553]);
    prove_each(with(1, 0, [1, 1]), [403_495, 11_372_105, 1_399_619]);
}

/// The promise rests on this not happening.
#[test]
fn a_wrong_front_end_and_a_wrong_wall_clock_at_once_end_a_live_hold() {
    const BOTH: Wrong = wrong(true, true);
    let with_both = [NONE, DATES, WALLS].map(|it| [[BOTH, it], [it, BOTH]]);
    let apart = [[BOTH, BOTH], [DATES, WALLS], [WALLS, DATES]];
    for [owner, caller] in with_both.into_iter().flatten().chain(apart) {
        explore(&held_by(owner, caller)).catches(STOPPED);
    }
}

#[test]
fn an_engine_on_the_machine_itself_is_safe_by_an_anchored_date_alone() {
    let on = |server, wrong| {
        let mut setup = held(wrong);
        (setup.ages, setup.rules.server) = (&[], server);
        setup
    };
    explore(&on(Server::TheWall, wrong(true, true))).catches(STOPPED);
    for (server, wrong, states) in [
        (Server::Ahead(HOUR), WALLS, 147_388),
        (Server::Ahead(-HOUR), NONE, 44_330),
        (Server::Alone(0), WALLS, 11_576),
        (Server::Alone(HOUR), WALLS, 11_576),
        (Server::Alone(-HOUR), WALLS, 11_576),
    ] {
        prove(&on(server, wrong), states);
    }
}

#[test]
fn a_date_may_be_carried_on_for_any_time_by_any_clock() {
    // For 25 minutes.
    let mut setup = held(WALLS);
    (setup.ages, setup.rules.offsets) = (&[150], AHEAD);
    prove(&setup, 95_601);
    prove_each(|wrong| slow(wrong, 98), [47_919, 351_158, 95_163]);
    prove_each(|wrong| slow(wrong, 102), [47_531, 344_072, 92_139]);
}

#[test]
fn a_machine_that_stood_still_with_its_clocks_believes_only_by_what_answers_show() {
    for (pause, states) in [
        (Pause::Before(1), 280_711),
        (Pause::Before(2), 285_698),
        (Pause::Before(6), 231_860),
        (Pause::Once(1), 1_342_750),
        (Pause::Once(2), 934_680),
    ] {
        prove(&stands_still(pause), states);
    }
    prove(&renews_late(), 270_591);
    prove(&idles(), 275_406);
    let mut parts = renews_late();
    (parts.rules.told, parts.ages) = (&[-2_999, -2_001], &[1]);
    prove(&parts, 281_631);
    let mut setup = leased(NONE, FAR_OFF);
    setup.pause = Pause::Once(2);
    prove(&setup, 364_674);
    (setup.lease, setup.rules.told) = (Duration::from_millis(34_900), DATES_OFF);
    prove(&setup, 1_009_644);
    setup.rules.mutant = Some(Mutant::TrustsItsClocks);
    explore(&setup).catches(STOPPED);
}

#[test]
fn while_all_front_ends_are_wrong_an_owner_believes_in_all_that_it_writes() {
    prove(&astray(), 447_165);
}

/// The price, which the promise names: where a clock was wrong before, a pause shows nowhere.
#[test]
fn a_machine_that_stood_still_after_one_of_its_clocks_was_wrong_believes_for_too_long() {
    let mut astray = astray();
    astray.pause = Pause::Before(6);
    let mut setup = stands_still(Pause::Before(6));
    setup.rules.wrong[0] = WALLS;
    explore(&astray).catches(STOPPED);
    explore(&setup).catches(STOPPED);
}

#[test]
fn what_was_given_back_stays_for_its_time_and_a_lease_is_never_shortened() {
    prove_each(given_back, [35_923, 976_903, 116_871]);
    for (wrong, offsets, horizon, states) in [
        (NONE, FAR_OFF, 6, 120_956),
        (DATES, BEHIND, 5, 512_738),
        (DATES, AHEAD, 5, 566_812),
        (DATES, FAR_OFF, 6, 3_320_663),
        (WALLS, BEHIND, 5, 166_140),
        (WALLS, AHEAD, 5, 155_433),
        (WALLS, FAR_OFF, 6, 458_023),
    ] {
        let mut setup = leased(wrong, offsets);
        setup.horizon = horizon;
        prove(&setup, states);
    }
    prove(&leased_by_parts(), 169_824);
}

#[test]
fn what_is_made_void_has_had_its_join_timeout() {
    prove_each(gap, [15_235, 765_767, 73_749]);
    let mut undated = gap(NONE);
    undated.draws_undated = true;
    prove(&undated, 164_122);
    // A draw that was stamped before, and is applied after one without a time, would date the tickets of both. So a client that was told no
    // time draws only where no answer has one.
    let mut undated = gap(WALLS);
    (undated.draws_undated, undated.horizon) = (true, 3);
    undated.rules.offsets = BEHIND;
    explore(&undated).catches(gap::OVERDUE);
}

#[test]
fn an_item_stays_under_who_believes_and_comes_back_with_larger_tickets() {
    prove_each(item, [13_599, 40_355, 84_796]);
}

#[test]
fn a_newcomer_ends_what_is_dead_within_its_lease_and_what_clocks_differ() {
    let by_walls = newcomers();
    let mut by_dates = newcomers();
    by_dates.stamps = [by_walls.stamps[1], by_walls.stamps[0]];
    by_dates.clocks = [&[-HOUR, -2_999, HOUR], &[-1_999]];
    // Right clocks that differ by nothing, but for the seconds of a `Date`.
    let mut exact = newcomers();
    exact.stamps = [&[Some(0)], &[Some(0)]];
    exact.clocks = [&[-999], &[0]];
    exact.within = 6_000;
    for (mut setup, states, of_those_given_back) in [
        (by_walls, 102_178, 80_155),
        (by_dates, 78_283, 66_662),
        (exact, 1_141, 706),
    ] {
        prove(&setup, states);
        setup.is_given_back = true;
        setup.within -= 5_000;
        prove(&setup, of_those_given_back);
    }
}

/// Also by a newcomer that comes late and polls once.
#[test]
fn what_is_dead_is_ended_on_time_though_wall_clocks_are_hours_apart() {
    for (is_given_back, within, states) in [(false, 10_000, 25_006), (true, 5_000, 20_695)] {
        let mut setup = newcomers();
        (setup.is_given_back, setup.within, setup.from_the_end) = (is_given_back, within, true);
        setup.stamps = [&[Some(1_999)], &[Some(-HOUR), Some(1_999), Some(HOUR)]];
        prove(&setup, states);
        for mutant in [Mutant::TrustsWalls, Mutant::RedatesWalls] {
            setup.rules.mutant = Some(mutant);
            explore(&setup).catches(progress::BOUNDED);
        }
    }
}

/// The price, in a mix that the promise excludes anyway: the owner's front end was an hour behind, and the judge's wall clock is. If that
/// clock counted, a judge would end nothing before it sees both wrong clocks change.
#[test]
fn where_a_wall_clock_is_behind_a_wrong_date_is_enough() {
    let mut setup = held_by(DATES, WALLS);
    (setup.polls, setup.rules.offsets) = ([1, 0], BEHIND);
    explore(&setup).catches(STOPPED);
    setup.rules.mutant = Some(Mutant::TrustsWalls);
    prove(&setup, 90_299);
}

#[test]
fn every_rule_of_stamps_that_is_changed_is_caught() {
    use Mutant as By;
    let mut losing = held(NONE);
    losing.losses = 1;
    let mut arrives = held(WALLS);
    (arrives.ages, arrives.rules.offsets) = (&[], AHEAD);
    let mut relies = leased(WALLS, FAR_OFF);
    (relies.polls, relies.extends) = ([1, 0], None);
    for (mutant, mut setup, property) in [
        (By::JudgesByDates, held(DATES), STOPPED),
        (By::JudgesByWalls, held(WALLS), STOPPED),
        (By::JudgesByEither, held(DATES), STOPPED),
        (By::JudgesByEither, held(WALLS), STOPPED),
        (By::JudgesByCarried, held(WALLS), STOPPED),
        (By::DoubtsRightWalls, held(DATES), STOPPED),
        (By::NoAllowance, held(NONE), STOPPED),
        (By::StampsByWallAlone, held(WALLS), STOPPED),
        (By::StampsByDateAlone, held(DATES), STOPPED),
        (By::FromTheArrival, arrives, STOPPED),
        (By::CarriesPlainly, held(WALLS), STOPPED),
        (By::BelievesFromTheStamps, held(NONE), STOPPED),
        (By::TrustsItsClocks, stands_still(Pause::Before(6)), STOPPED),
        (By::ExcusesASecond, stands_still(Pause::Before(1)), STOPPED),
        (By::RenewsByItsClocks, renews_late(), STOPPED),
        (By::CountsWhatDisagrees, astray(), WHOLE),
        (By::CarriesExactly, idles(), STOPPED),
        (By::EvictsWithoutBeat, losing.clone(), STOPPED),
        (By::DatesWithoutBeat, losing.clone(), STOPPED),
        (By::DatesByItsClocks, held(WALLS), STOPPED),
        (By::BeatsGoBack, losing, STOPPED),
        (By::GivesUpByDates, given_back(DATES), KEPT),
        (By::LeasesFromTheStamps, leased(NONE, FAR_OFF), PASSED),
        (By::HearsByASlowClock, leased_by_parts(), PASSED),
        (By::ReliesFromTheWrite, relies, STOPPED),
        (By::ExtendsFromNow, leased(NONE, FAR_OFF), STOPPED),
        (By::ExtendsByDates, leased(DATES, BEHIND), STOPPED),
    ] {
        setup.rules.mutant = Some(mutant);
        explore(&setup).catches(property);
    }
    for (mutant, wrong) in [
        (By::JudgesByDates, DATES),
        (By::JudgesByWalls, WALLS),
        (By::NoAllowance, NONE),
        (By::DrawsGoBack, NONE),
        (By::DatesWithoutBeat, NONE),
    ] {
        let mut setup = gap(wrong);
        (setup.draws_undated, setup.rules.mutant) = (mutant == By::DatesWithoutBeat, Some(mutant));
        explore(&setup).catches(gap::OVERDUE);
    }
    for (mutant, wrong, property) in [
        (By::ItemsByTheEarlier, DATES, item::STAYS),
        (By::ItemsByTheEarlier, WALLS, item::STAYS),
        (By::SweepsByWalls, WALLS, item::GROWS),
    ] {
        let mut setup = item(wrong);
        setup.rules.mutant = Some(mutant);
        explore(&setup).catches(property);
    }
    let mut setup = newcomers();
    setup.rules.mutant = Some(By::LeavesDates);
    explore(&setup).catches(progress::BOUNDED);
}
