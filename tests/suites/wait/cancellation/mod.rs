//! A caller goes away at any request, whatever becomes of that request. If the client lives, the next caller waits for no lease. If the
//! client died, it waits for one lease at most. Nothing is left behind.

mod bounds;
mod caller;
mod fate;
mod lease_lock;
mod operators;
mod scene;
mod shared;
mod stage;
mod unpolled;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bounds::{BOUNDED, IN_PARTS, SHORTENED};
use fairlock::RecordWait;
use fairlock_testkit::effort::{Effort, effort, is_thorough, sampled};
use fairlock_testkit::{steps, virtual_time};
use fate::{CLIENTS, Client, Fate};
use lease_lock::{ASKED_AGAIN, LEASES};
use scene::{
    AT_ONCE, AT_ONCE_NEVER, Act, CLEANING_UP, COMING, HOLDING, LONG, Scene, TOGETHER, VERBS,
    WAITING, WAITING_NEVER,
};
use shared::{SHARING, SHARING_AT_ONCE, SHARING_CLEANING_UP, SHARING_HOLDING};
use stage::{Cell, play};
use unpolled::{MOMENTS, Stall, Way, is_prompt};

/// A sample of the cells is played, one in this many, unless all are asked for. A scene has more fates than 19, and the two have no divisor in
/// common. So every scene is played by a client that lives, and every fate in some scene. The others play some of the scenes.
fn brief(client: Client, wait: RecordWait) -> usize {
    match client {
        Client::Lives if plays_every_scene(client, wait) => 19,
        Client::Lives | Client::IsOvertaken => 57,
        Client::Dies => 9,
    }
}

fn plays_every_scene(client: Client, wait: RecordWait) -> bool {
    is_thorough() || (client == Client::Lives && wait != LONG)
}

/// Whether the clients of the cell of this number notify each other: in every other cell. For a release each cell is played in both ways.
fn ways(number: usize) -> &'static [bool] {
    match effort() {
        Effort::Complete => &[false, true],
        Effort::Brief | Effort::Thorough => &[[false], [true]][number % 2],
    }
}

/// A lease by name has no address, so there is nobody to notify. A waiter whose place before it confirms does not poll.
fn ways_of(scene: &Scene, number: usize) -> &'static [bool] {
    match scene.act {
        _ if scene.only_polls => &[false],
        Act::Lease(_) => &[false],
        _ => ways(number),
    }
}

/// Plays every fate of every scene, for one kind of client. Names the cells that failed, and prints how many there were and the longest
/// wait in them.
fn play_all(scenes: &[Scene], wait: RecordWait, client: Client) {
    let fates = scenes
        .iter()
        .enumerate()
        .flat_map(|(nth, scene)| Fate::all(client).map(move |fate| (nth, *scene, fate)));
    let cells: Vec<_> = sampled(fates, brief(client, wait)).enumerate().collect();
    let played: BTreeSet<_> = cells.iter().map(|(_, (nth, ..))| nth).collect();
    if plays_every_scene(client, wait) {
        assert_eq!(played.len(), scenes.len(), "scenes that are played");
    }
    let cells = cells.into_iter().flat_map(|(number, (_, scene, fate))| {
        ways_of(&scene, number).iter().map(move |notifies| Cell {
            scene,
            wait,
            fate,
            client,
            notifies: *notifies,
        })
    });
    let (mut played, mut longest, mut failed) = (0, Duration::ZERO, Vec::new());
    let (mut notified, mut notifications) = (0, 0);
    for cell in cells {
        played += 1;
        notified += usize::from(cell.notifies);
        match catch_unwind(AssertUnwindSafe(|| virtual_time(play(cell)))) {
            Ok(cell) => {
                longest = longest.max(cell.took);
                notifications += cell.notifications;
            }
            Err(_) => failed.push(cell.to_string()),
        }
    }
    println!(
        "{played} cells, {wait:?}, {client:?}: the next waited {longest:?} at the most; \
         {notified} cells with {notifications} notifications"
    );
    let list = failed.join("\n");
    assert!(failed.is_empty(), "{} cells failed:\n{list}", failed.len());
    let is_told = notified == 0 || notifications > 0;
    assert!(is_told, "nobody notified anybody");
}

/// The same for clients of each kind.
fn play_each(scenes: &[Scene], wait: RecordWait) {
    for client in CLIENTS {
        play_all(scenes, wait, client);
    }
}

#[test]
fn an_acquisition_without_end_dropped_anywhere_by_a_client_that_lives_holds_nobody_up() {
    play_all(
        &[COMING, WAITING].concat(),
        RecordWait::Infinite,
        Client::Lives,
    );
}

#[test]
fn an_acquisition_without_end_whose_request_comes_after_the_clean_up_costs_one_lease_at_most() {
    play_all(
        &[COMING, WAITING].concat(),
        RecordWait::Infinite,
        Client::IsOvertaken,
    );
}

#[test]
fn an_acquisition_without_end_of_a_client_that_dies_anywhere_costs_one_lease_at_most() {
    play_all(
        &[COMING, WAITING].concat(),
        RecordWait::Infinite,
        Client::Dies,
    );
}

#[test]
fn an_acquisition_with_a_time_out_dropped_anywhere_is_as_one_without() {
    play_each(&[COMING, WAITING].concat(), LONG);
}

#[test]
fn an_acquisition_beside_another_at_its_place_dropped_anywhere_holds_nobody_up() {
    play_each(TOGETHER, RecordWait::Infinite);
}

#[test]
fn an_acquisition_that_does_not_wait_dropped_anywhere_holds_nobody_up_or_costs_one_lease_at_most() {
    play_each(&[COMING, AT_ONCE].concat(), RecordWait::NoWait);
}

#[test]
fn a_clean_up_that_meets_faults_is_done_all_the_same_or_costs_one_lease_at_most() {
    play_each(CLEANING_UP, RecordWait::Infinite);
}

#[test]
fn a_guard_or_a_release_dropped_anywhere_holds_nobody_up_or_costs_one_lease_at_most() {
    play_each(HOLDING, RecordWait::Infinite);
}

#[test]
fn a_wait_for_permits_dropped_anywhere_holds_nobody_up_or_costs_one_lease_at_most() {
    play_each(SHARING, RecordWait::Infinite);
}

#[test]
fn permits_asked_for_without_a_wait_or_left_in_doubt_hold_nobody_up_or_cost_one_lease_at_most() {
    play_each(SHARING_AT_ONCE, RecordWait::NoWait);
    play_each(SHARING_CLEANING_UP, RecordWait::Infinite);
}

#[test]
fn a_release_beside_others_a_downgrade_or_a_write_of_data_dropped_anywhere_leaves_nothing_taken() {
    play_each(SHARING_HOLDING, RecordWait::Infinite);
}

#[test]
fn a_bounded_hold_dropped_anywhere_holds_nobody_up_for_longer_than_its_bounds_say() {
    play_each(BOUNDED, RecordWait::Infinite);
    play_each(SHORTENED, RecordWait::Infinite);
}

#[test]
fn a_part_that_is_given_back_and_dropped_anywhere_leaves_nothing_taken() {
    play_each(IN_PARTS, RecordWait::Infinite);
}

#[test]
fn whatever_an_operator_asks_for_dropped_anywhere_is_had_by_asking_again() {
    let cells = CLIENTS.into_iter().flat_map(|client| {
        let cells = operators::all(client).collect::<Vec<_>>();
        sampled(cells.into_iter(), brief(client, RecordWait::Infinite)).collect::<Vec<_>>()
    });
    let (mut played, mut failed) = (0, Vec::new());
    for cell in cells {
        played += 1;
        let done = catch_unwind(AssertUnwindSafe(|| virtual_time(operators::play(cell))));
        failed.extend(done.is_err().then(|| cell.to_string()));
    }
    println!("{played} cells of operators");
    let list = failed.join("\n");
    assert!(failed.is_empty(), "{} cells failed:\n{list}", failed.len());
}

#[test]
fn whatever_is_asked_of_a_lease_dropped_anywhere_costs_no_more_than_the_lease() {
    play_each(LEASES, RecordWait::NoWait);
}

#[test]
fn whatever_is_asked_of_a_lease_dropped_anywhere_is_had_by_asking_again_with_its_name() {
    play_each(ASKED_AGAIN, RecordWait::NoWait);
}

/// The scenes of callers and holders, but not those of leases and operators.
fn all_scenes() -> Vec<Scene> {
    let waiting = [COMING, WAITING, AT_ONCE, TOGETHER, CLEANING_UP, HOLDING];
    let sharing = [
        SHARING,
        SHARING_AT_ONCE,
        SHARING_CLEANING_UP,
        SHARING_HOLDING,
    ];
    let bounded = [BOUNDED, SHORTENED, IN_PARTS];
    [waiting.concat(), sharing.concat(), bounded.concat()].concat()
}

#[test]
fn every_step_has_a_scene() {
    let scenes = [all_scenes(), LEASES.to_vec(), ASKED_AGAIN.to_vec()].concat();
    let played: BTreeSet<_> = scenes.iter().map(|scene| scene.verb).collect();
    let played: BTreeSet<_> = played.into_iter().chain(operators::verbs()).collect();
    assert_eq!(played, steps::names());
}

#[test]
fn every_request_has_a_scene_for_who_waits_and_for_who_does_not_or_a_reason() {
    for (scenes, never) in [(WAITING, WAITING_NEVER), (AT_ONCE, AT_ONCE_NEVER)] {
        let others = ["renew hold", "release"];
        let scenes = [COMING, scenes].concat();
        let played: BTreeSet<_> = scenes.iter().map(|scene| scene.verb).collect();
        let listed: BTreeSet<_> = never.iter().map(|(verb, _)| *verb).collect();
        assert!(played.is_disjoint(&listed));
        for verb in VERBS {
            assert!(played.contains(verb) || listed.contains(verb), "{verb}");
        }
        let known = |verb: &&str| VERBS.contains(verb) || others.contains(verb);
        assert!(played.iter().all(known));
    }
}

/// Returns `None` if the next caller was not granted the lock, or if the stalled call got a wrong result.
fn stall(cell: Stall) -> Option<Duration> {
    catch_unwind(AssertUnwindSafe(|| virtual_time(unpolled::play(cell)))).ok()
}

#[test]
fn a_call_that_nobody_polls_keeps_no_lock_and_no_place_whatever_holds_its_caller_up() {
    let (mut played, mut longest, mut failed) = (0, Duration::ZERO, Vec::new());
    let cells = sampled(unpolled::all().into_iter(), 7).enumerate();
    let cells = cells.flat_map(|(number, cell)| {
        ways(number).iter().map(move |notifies| Stall {
            notifies: *notifies,
            ..cell
        })
    });
    for cell in cells {
        played += 1;
        match stall(cell).filter(|took| is_prompt(*took)) {
            Some(took) => longest = longest.max(took),
            None => failed.push(format!("{cell:?}")),
        }
    }
    println!("{played} cells: the next waited {longest:?} at the most");
    let list = failed.join("\n");
    assert!(failed.is_empty(), "{} cells failed:\n{list}", failed.len());
}

#[test]
fn a_guard_that_a_stalled_caller_keeps_is_noticed_wherever_its_call_stood() {
    for wait in [
        RecordWait::Timeout(Duration::from_secs(5)),
        RecordWait::Infinite,
    ] {
        let cells = unpolled::at_places(Way::Keeps, wait);
        let cells = cells
            .into_iter()
            .filter(|cell| cell.releases.as_secs() == 2);
        for cell in cells {
            assert!(stall(cell).is_none(), "{cell:?}");
        }
    }
}

#[test]
fn a_runtime_that_stands_still_at_any_moment_takes_no_lock_from_a_caller_that_is_polled() {
    let granted = MOMENTS.map(|after| virtual_time(unpolled::stands_still(after)));
    let granted = granted.filter(|was_granted| *was_granted).count();
    assert!(0 < granted && granted < MOMENTS.len(), "{granted}");
}

#[test]
fn join_has_its_first_lock_for_no_longer_than_its_second_is_waited_for() {
    virtual_time(unpolled::joined());
}

#[test]
fn several_locks_that_nobody_polls_for_are_all_given_back() {
    for wait in [
        RecordWait::Timeout(Duration::from_secs(5)),
        RecordWait::Infinite,
    ] {
        for releases in [1, 60].map(Duration::from_secs) {
            virtual_time(unpolled::several(wait, releases));
        }
    }
}

#[test]
fn a_candidate_that_was_not_polled_in_time_stands_again() {
    virtual_time(unpolled::candidate());
}
