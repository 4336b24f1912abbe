//! Real processes, killed and stopped at random moments. No two believe at the same time, nothing stale is accepted, and the next process
//! gets the lock soon after. In half of the arenas the processes notify each other of their turns.
//!
//! `FAIRLOCK_CRASH_KILLS` is how many are killed, `FAIRLOCK_CRASH_SEED` when and which.

mod crew;
mod ledger;
mod location;
mod ports;
mod verdict;
mod worker;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlock_cli::contention::monotonic::now_ns;
use fairlock_testkit::effort::sized;
use fairlock_testkit::http::{over_http, say};
use tempfile::TempDir;

use crew::{Crew, Odds};
use ledger::{Fence, Ledger, PROCESS};
use location::Location;
use ports::{Counts, Ports};
use verdict::Verdict;
use worker::{IGNORES_LOSS, LEASE, LEDGER, LOCK, NOTIFY};

/// How many locks are contended for at the same time, each by `PROCESSES` processes, in a place of its own.
fn number_of_arenas() -> usize {
    sized(2, 4)
}

const PROCESSES: usize = 4;

/// How long a run of the suite may take, whatever else the machine does.
const BOUND: Duration = Duration::from_secs(600);
/// In addition, for each process that is killed.
const BOUND_OF_A_KILL: Duration = Duration::from_secs(5);

fn set(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn kills() -> usize {
    set("FAIRLOCK_CRASH_KILLS").unwrap_or(sized(8, 100)) as usize
}

/// The seed of this process, so that one line replays it as far as real processes can be.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let drawn = || u64::from(std::process::id()) ^ now_ns();
        let seed = set("FAIRLOCK_CRASH_SEED").unwrap_or_else(drawn);
        say(&format!("FAIRLOCK_CRASH_SEED={seed}"));
        std::thread::spawn(watch);
        seed
    })
}

/// Ends the process if it takes too long. The processes that it started end with it.
fn watch() {
    let bound = BOUND + BOUND_OF_A_KILL * kills() as u32;
    std::thread::sleep(bound);
    say(&format!("ran longer than {bound:?}: aborting"));
    std::process::abort();
}

/// This program, as one of its processes.
fn process(role: &str, location: &Location, ledger: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", role, "--ignored", "--nocapture"]);
    with_places(&mut command, location, ledger);
    command
}

fn with_places(command: &mut Command, location: &Location, ledger: &Path) {
    command.envs(location.environment()).env(LEDGER, ledger);
    // Any value will do for a test's endpoint.
    command.env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "nobody");
    command.env("AWS_SECRET_ACCESS_KEY", "nothing");
}

/// The same, notified at this port, if there is one.
fn client(location: &Location, ledger: &Path, port: Option<u16>) -> Command {
    let mut command = process("crash::takes_turns", location, ledger);
    if let Some(port) = port {
        command.env(NOTIFY, port.to_string());
    }
    command
}

/// `fairlock run` of this program. Its command names it to the ledger.
fn run(location: &Location, ledger: &Path, port: Option<u16>) -> Command {
    run_at(LOCK, location, ledger, port)
}

fn run_at(lock: &str, location: &Location, ledger: &Path, port: Option<u16>) -> Command {
    let mut command = Command::new("sh");
    let named = format!("export {PROCESS}=$$; exec \"$@\"");
    command.args(["-c", &named, "sh", env!("CARGO_BIN_EXE_fairlock"), "run"]);
    command.args(location.flags());
    command.args(["--wait", "infinite", "--lease"]);
    command.arg(humantime::format_duration(LEASE).to_string());
    command.args(port.map(|port| format!("--notify=127.0.0.1:{port}")));
    command
        .args([lock, "--"])
        .arg(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::writes_with_its_ticket", "--ignored"]);
    with_places(&mut command, location, ledger);
    command
}

/// The results of one lock.
struct Arena {
    verdict: Verdict,
    /// What happened there.
    told: String,
    /// How many notifications the processes heard that were for their places, as they reported themselves.
    heard: u64,
}

/// The holder more often than others, and killed as often as stopped.
const ODDS: Odds = Odds {
    killed: 50,
    holder: 70,
};
/// Mostly stops the holder: a worker that ignores its loss can hardly be found otherwise.
const STOPPED_AS_HOLDER: Odds = Odds {
    killed: 20,
    holder: 100,
};

/// Contends for one lock until `kills` processes were killed.
fn arena(
    location: &Location,
    (fence, odds): (Fence, Odds),
    seed: u64,
    kills: usize,
    start: impl Fn(&Path) -> Command,
) -> Arena {
    location.create_table();
    let home = TempDir::new().unwrap();
    let socket = home.path().join("ledger");
    let ledger = Ledger::open(&socket, fence);
    let start = || start(&socket);
    let mut crew = Crew::start(PROCESSES, seed, odds, &ledger, &start);
    crew.suffer(kills);
    let (book, kills, stops) = (ledger.book(), crew.kills, crew.stops);
    let (verdict, progress) = (Verdict::of(&book), &crew.progress);
    Arena {
        told: format!("{kills} killed, {stops} stopped, {verdict}; {progress}"),
        heard: book.heard(),
        verdict,
    }
}

/// Who contends.
struct Contenders {
    name: &'static str,
    fence: Fence,
    start: fn(&Location, &Path, Option<u16>) -> Command,
    /// Whether they were notified, by how much they heard and what happened at their ports.
    are_notified: fn(u64, Counts) -> bool,
}

/// Clients count what they hear.
const CLIENTS: Contenders = Contenders {
    name: "clients",
    fence: Fence::Closed,
    start: client,
    are_notified: |heard, _| heard > 0,
};

/// The ledger accepts whatever comes. What it has must be in order all the same, and no command may have started before another's last
/// write. A `fairlock run` tells nobody what it heard. That it listens is seen at its port.
const RUNS: Contenders = Contenders {
    name: "fairlock run",
    fence: Fence::Open,
    start: run,
    are_notified: |_, ports| ports.listened_at > 0,
};

/// Several locks at the same time, each in a place of its own. At every other one the processes notify each other.
fn arenas(place: &str, location: impl Fn(usize) -> Location + Sync, who: &Contenders) {
    let what = format!("{place}, {}", who.name);
    let (seed, kills) = (seed(), kills().div_ceil(number_of_arenas()));
    let one = |number: usize| {
        let location = location(number);
        let seed = seed.wrapping_add(number as u64);
        let ports = (number % 2 == 1).then(Ports::of_a_lock);
        let start = |ledger: &Path| (who.start)(&location, ledger, ports.as_ref().map(Ports::give));
        let Arena {
            verdict,
            told,
            heard,
        } = arena(&location, (who.fence, ODDS), seed, kills, start);
        let ports = ports.map(|ports| ports.counts());
        say(&format!(
            "{what}: {told}; {heard} notifications reported, ports: {ports:?}"
        ));
        assert!(verdict.is_good(), "{what}: {verdict}");
        match ports {
            Some(ports) => {
                let are_notified = (who.are_notified)(heard, ports);
                assert!(are_notified, "{what}: {heard} heard, {ports:?}");
                assert!(
                    ports.given_again > 0,
                    "{what}: no port was taken over: {ports:?}"
                );
            }
            None => assert_eq!(heard, 0, "{what}"),
        }
    };
    std::thread::scope(|scope| {
        for number in 0..number_of_arenas() {
            scope.spawn(move || one(number));
        }
    });
}

fn in_files(home: &TempDir) -> impl Fn(usize) -> Location {
    let home = home.path().to_owned();
    move |number| Location::file(home.join(format!("{number}.db")))
}

#[test]
fn clients_killed_and_stopped_never_overlap_nor_write_late_on_a_shared_file() {
    let home = TempDir::new().unwrap();
    arenas("file", in_files(&home), &CLIENTS);
}

#[test]
fn no_write_of_a_killed_or_stopped_fairlock_run_comes_after_the_next_holders_first() {
    let home = TempDir::new().unwrap();
    arenas("file", in_files(&home), &RUNS);
}

#[test]
fn clients_killed_and_stopped_never_overlap_nor_write_late_over_http() {
    over_http(|url| {
        let location = |number: usize| Location::endpoint(url, &format!("clients-{number}"));
        arenas("HTTP", location, &CLIENTS);
    });
}

#[test]
fn no_write_of_a_killed_or_stopped_fairlock_run_comes_too_late_over_http() {
    over_http(|url| {
        let location = |number: usize| Location::endpoint(url, &format!("run-{number}"));
        arenas("HTTP", location, &RUNS);
    });
}

/// How many are killed in a run that is to be found at fault. Several times as many are stopped in most of these.
fn few_kills() -> usize {
    sized(2, 3)
}

/// Workers that go on believing and writing after they lost the lock. A round finds the fault if one of a few is stopped while it writes.
fn with_a_planted_fault(fence: Fence, is_found: impl Fn(&Verdict) -> bool) -> Verdict {
    let round = |round| {
        let home = TempDir::new().unwrap();
        let location = Location::file(home.path().join("locks.db"));
        let start = |ledger: &Path| {
            let mut command = process("crash::takes_turns", &location, ledger);
            command.env(IGNORES_LOSS, "yes");
            command
        };
        let how = (fence, STOPPED_AS_HOLDER);
        arena(&location, how, seed() + round, few_kills(), start).verdict
    };
    let found = (0..10).map(round).find(is_found);
    found.unwrap()
}

#[test]
fn workers_that_ignore_their_loss_are_found_by_their_overlaps_and_fenced_off() {
    let found = with_a_planted_fault(Fence::Closed, |found| {
        found.overlaps > 0 && found.refused > 0
    });
    assert_eq!(found.stale, 0, "{found}");
}

#[test]
fn a_ledger_that_does_not_look_at_tickets_is_found_by_the_writes_that_it_took() {
    with_a_planted_fault(Fence::Open, |found| found.stale > 0);
}

/// Each `fairlock run` uses a lock of its own, so nothing keeps their commands apart.
#[test]
fn commands_of_several_locks_are_found_by_their_overlaps() {
    let home = TempDir::new().unwrap();
    let location = Location::file(home.path().join("locks.db"));
    let started = AtomicUsize::new(0);
    let start = |ledger: &Path| {
        let number = started.fetch_add(1, Ordering::Relaxed);
        run_at(&format!("{LOCK}-{number}"), &location, ledger, None)
    };
    let found = arena(&location, (Fence::Open, ODDS), seed(), few_kills(), start).verdict;
    assert!(found.overlaps > 0, "{found}");
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn takes_turns() {
    worker::contend();
}

#[test]
#[ignore = "one of the processes of the other tests"]
fn writes_with_its_ticket() {
    worker::write();
}
