//! The line, checked exhaustively: every order of every request, with faults, decided by the product's own functions.
#![expect(dead_code, reason = "the product's modules are compiled in whole; the model calls what decides")]

#[path = "../src/line.rs"]
mod line;
#[path = "../src/ticket.rs"]
mod ticket;

#[path = "model/caller.rs"]
mod caller;
#[path = "model/client.rs"]
mod client;
#[path = "model/explore.rs"]
mod explore;
#[path = "model/faults.rs"]
mod faults;
#[path = "model/few.rs"]
mod few;
#[path = "model/look.rs"]
mod look;
#[path = "model/properties.rs"]
mod properties;
#[path = "model/request.rs"]
mod request;
#[path = "model/rules.rs"]
mod rules;
#[path = "model/sweeper.rs"]
mod sweeper;
#[path = "model/table.rs"]
mod table;
#[path = "model/waiter.rs"]
mod waiter;
#[path = "model/world.rs"]
mod world;

use client::Role;
use explore::{Report, Search};
use faults::Faults;
use rules::Rules;
use world::{Action, Setup};

fn explore(setup: &Setup) -> Report {
    Search::new(setup, Action::is_fault, properties::is_done).run()
}

#[test]
fn scratch() {
    let env = |name: &str, or: u8| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or);
    let mut roles = vec![Role::Waiter; env("N", 2) as usize];
    roles.extend(vec![Role::Caller; env("CALLERS", 0) as usize]);
    roles.extend(vec![Role::Sweeper; env("SWEEPERS", 0) as usize]);
    let setup = Setup { roles, rounds: env("R", 2), rules: Rules { seats: env("S", 1) as usize, mutant: None },
        faults: Faults { all: env("F", 0), crash: env("CRASH", 1), cancel: env("CANCEL", 1), lapse: env("LAPSE", 1), slow: env("SLOW", 1), copy: env("COPY", 1), nick: env("NICK", 1) } };
    #[expect(clippy::disallowed_methods, reason = "x")]
    let t = std::time::Instant::now();
    println!("{:#?}", explore(&setup));
    println!("{:?}", t.elapsed());
}

#[test]
fn scratch_mutants() {
    use rules::Mutant::*;
    let all = [LowestRowEnters, SeatWithoutSeated, SeatWithoutLeft, GapSkipped, EnterOverUnsettled, SitOverUnsettled, LiveHolderEvicted, LiveHeirUnseated, EvictWithoutBeat, UnseatWithoutBeat, VoidWithoutBeat, LeaveKeepsSeat, LeaveWithoutLeft, OneNonce, EnterOverWithoutLast, TicketsFromZero, MissingMeansOver, RetireGivesUpSeat];
    let w = Role::Waiter;
    for mutant in all {
        let (roles, rounds) = match mutant {
            EnterOverWithoutLast => (vec![w, w, Role::Caller], 1),
            TicketsFromZero => (vec![w, w, Role::Sweeper], 1),
            _ => (vec![w, w, w], 1),
        };
        for (roles, rounds, seats, f) in [(vec![w, w], 2, 1, 0), (vec![w, w], 2, 2, 0), (roles.clone(), rounds, 1, 0), (roles.clone(), rounds, 2, 0), (vec![w,w], 2, 1, 1), (roles.clone(), rounds, 1, 1), (roles.clone(), rounds, 2, 1)] {
            let setup = Setup { roles, rounds, rules: Rules { seats, mutant: Some(mutant) }, faults: Faults::any(f) };
            let report = explore(&setup);
            if report.broken.is_some() || report.stuck.is_some() {
                println!("{mutant:?} {} x {rounds} seats {seats} faults {f}: {} states, {} deep {:?} {:?}", setup.roles.len(), report.states, report.depth, report.broken, report.stuck);
                break;
            }
        }
        println!("-- {mutant:?} done");
    }
}
