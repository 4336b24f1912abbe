//! A machine is started again under commands with a lock or a lease in a file. The file is made to look as if another boot had written it.

use std::path::Path;
use std::process::Command;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::Clock;
use fairlock::embedded::Engine;
use fairlock_testkit::http::say;
use rustix::process::{Signal, kill_process};

use super::promise::supervisor_of;
use super::running::{FILE, Running, home, run, run_line, shown};
use crate::command::{fairlock, said};

const HOLDS: &str = "echo $$ > held; sleep 600";
const WAITS_NOT: [&str; 3] = ["--quiet", "--wait", "none"];

/// Makes another boot of what wrote the file, one that lasted for longer. Returns `None` if there the lease decides: if the system does not
/// tell its boot, or the file's system may be of several machines.
fn is_of_another_boot(home: &Path) -> Option<()> {
    let engine = Engine::file(home.join("locks.db")).unwrap();
    // By a clock without a boot, the engine notes nothing in the file.
    let client = engine.with_clock(Clock::system()).client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let table = "fairlock-embedded.clock";
        let number = |nanos: u64| AttributeValue::N(nanos.to_string());
        let key = || AttributeValue::S("date".into());
        let kept = client.get_item().table_name(table).key("id", key());
        let kept = kept.send().await.unwrap().item.unwrap();
        if kept["boot"] == AttributeValue::S(String::new()) {
            return None;
        }
        if kept["one_machine"] != AttributeValue::Bool(true) {
            return None;
        }
        let update = client.update_item().table_name(table).key("id", key());
        let update = update.update_expression("SET boot = :b, elapsed = :e, newest = :n");
        let other = "00000000-0000-4000-8000-000000000000";
        let nanos = |name: &str| -> u64 { kept[name].as_n().unwrap().parse().unwrap() };
        // As if the machine had been off for ten seconds more than it is up.
        let newest = nanos("newest") + 10_000_000_000 - nanos("elapsed");
        let update = update.expression_attribute_values(":b", AttributeValue::S(other.into()));
        let century = 3_000_000_000 * 1_000_000_000_u64;
        let update = update.expression_attribute_values(":e", number(century));
        let update = update.expression_attribute_values(":n", number(newest));
        update.send().await.unwrap();
        Some(())
    })
}

/// Ends all of a run at once, so that nothing is given back.
fn crashes(running: Running) {
    let command = running.pid_in("held");
    let all = [running.pid(), supervisor_of(command), command];
    for signal in [Signal::STOP, Signal::KILL] {
        all.iter()
            .for_each(|pid| kill_process(*pid, signal).unwrap());
    }
    running.end();
}

#[test]
fn a_lock_of_a_command_is_free_after_a_reboot_and_a_lease_is_not() {
    let home = home();
    let flags = ["--lease", "10m"];
    let holder = Running::start(home.path(), &flags, HOLDS);
    holder.pid_in("held");
    let lease = [
        &["lease", "acquire"],
        &FILE[..],
        &["--id", "one", "--for", "10m", "leased"],
    ]
    .concat();
    assert_eq!(said(&mut fairlock(home.path(), &lease)).code, Some(0));
    crashes(holder);
    let refused = run(home.path(), &WAITS_NOT, &["true"]);
    assert_eq!(refused.code, Some(75), "{refused:?}");
    if is_of_another_boot(home.path()).is_none() {
        return say("here the lease decides, after a reboot too");
    }
    assert_eq!(shown(home.path())["holder"]["lease_left_ms"], 0);
    let has_it = run(home.path(), &WAITS_NOT, &["true"]);
    assert_eq!(has_it.code, Some(0), "{has_it:?}");
    let run_leased = [&["run"], &FILE[..], &WAITS_NOT, &["leased", "--", "true"]].concat();
    let refused = said(&mut fairlock(home.path(), &run_leased));
    assert_eq!(refused.code, Some(75), "{refused:?}");
    std::fs::remove_file(home.path().join("held")).unwrap();
    // The machine is not started again: who holds a lock now keeps it.
    let holder = Running::start(home.path(), &flags, HOLDS);
    holder.pid_in("held");
    crashes(holder);
    let refused = run(home.path(), &WAITS_NOT, &["true"]);
    assert_eq!(refused.code, Some(75), "{refused:?}");
}

/// A container may count the time since boot from another moment on.
#[test]
fn a_time_namespace_is_no_other_boot_and_tells_no_other_time() {
    let home = home();
    let later = |line: &[&str]| {
        let command = fairlock(home.path(), line);
        let mut apart = Command::new("unshare");
        apart.args([
            "--map-root-user",
            "--time",
            "--boottime",
            "100000",
            "--fork",
        ]);
        apart.arg(command.get_program()).args(command.get_args());
        said(apart.current_dir(home.path()))
    };
    if later(&["--version"]).code != Some(0) {
        return say("unshare may not make namespaces: all commands count by one clock");
    }
    let holder = Running::start(home.path(), &["--lease", "1m"], HOLDS);
    holder.pid_in("held");
    let refused = later(&run_line(&WAITS_NOT, &["true"]));
    assert_eq!(refused.code, Some(75), "{refused:?}");
    // Its time, if it told another, would stay in the file.
    let refused = run(home.path(), &WAITS_NOT, &["true"]);
    assert_eq!(refused.code, Some(75), "{refused:?}");
    holder.signal(Signal::TERM);
    assert_eq!(holder.end().0, 143);
}
