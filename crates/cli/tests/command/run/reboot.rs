//! A machine is started again under commands with a lock or a lease in a file. The file is made to look as if another boot had written it.

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::Clock;
use fairlock_testkit::http::say;
use fairlock_testkit::real_time;
use rustix::process::{Signal, kill_process};

use crate::command::{heeding, said};
use crate::home::{Home, local};
use crate::running::{Running, parent_of};

/// Makes another boot of what wrote the file, one that lasted for longer. Returns `None` if there the lease decides: if the system does not
/// tell its boot, or the file's system may be of several machines.
async fn is_of_another_boot(home: &Home) -> Option<()> {
    // By a clock without a boot, the engine notes nothing in the file.
    let client = home.engine().with_clock(Clock::system()).client();
    let table = "fairlock-embedded.clock";
    let number = |nanos: u64| AttributeValue::N(nanos.to_string());
    let key = || AttributeValue::S("date".into());
    let kept = client.get_item().table_name(table).key("id", key());
    let kept = kept.send().await.unwrap().item.unwrap();
    let is_told = kept["boot"] != AttributeValue::S(String::new());
    if !is_told || kept["one_machine"] != AttributeValue::Bool(true) {
        return None;
    }
    let other = AttributeValue::S("00000000-0000-4000-8000-000000000000".into());
    let nanos = |name: &str| -> u64 { kept[name].as_n().unwrap().parse().unwrap() };
    // As if the machine had been off for ten seconds more than it is up.
    let newest = nanos("newest") + 10_000_000_000 - nanos("elapsed");
    let century = 3_000_000_000 * 1_000_000_000_u64;
    let update = client.update_item().table_name(table).key("id", key());
    let update = update.update_expression("SET boot = :b, elapsed = :e, newest = :n");
    let update = update.expression_attribute_values(":b", other);
    let update = update.expression_attribute_values(":e", number(century));
    let update = update.expression_attribute_values(":n", number(newest));
    update.send().await.unwrap();
    Some(())
}

/// Ends all of a run at once, so that nothing is given back.
fn crashes(home: &Home, running: Running) {
    let command = running.pid_in("held");
    let all = [running.pid(), parent_of(command), command];
    for signal in [Signal::STOP, Signal::KILL] {
        all.iter()
            .for_each(|pid| kill_process(*pid, signal).unwrap());
    }
    running.end();
    home.remove("held");
}

#[test]
fn a_lock_of_a_command_is_free_after_a_reboot_and_a_lease_is_not() {
    let home = Home::new();
    let holder = home.held("--lease 10m");
    let lease = home.run("lease acquire --id one --for 10m leased");
    lease.assert_done();
    crashes(&home, holder);
    let code = |lock| {
        home.run(&format!("run --quiet --wait none {lock} -- true"))
            .code
    };
    assert_eq!(code("a"), Some(75));
    if real_time(is_of_another_boot(&home)).is_none() {
        return say("here the lease decides, after a reboot too");
    }
    assert_eq!(home.shown()["holder"]["lease_left_ms"], 0);
    assert_eq!((code("a"), code("leased")), (Some(0), Some(75)));
    // The machine is not started again: who holds a lock now keeps it.
    crashes(&home, home.held("--lease 10m"));
    assert_eq!(code("a"), Some(75));
}

/// A container may count the time since boot from another moment on.
#[test]
fn a_time_namespace_is_no_other_boot_and_tells_no_other_time() {
    let home = Home::new();
    let apart = "unshare --map-root-user --time --boottime 100000 --fork fairlock".split(' ');
    let apart: Vec<_> = apart.collect();
    let later = |line: &str| said(&mut heeding(home.path(), &apart, &local(line)));
    if later("show a").code != Some(0) {
        return say("unshare may not make namespaces: all commands count by one clock");
    }
    let holder = home.held("--lease 1m");
    let line = "run --quiet --wait none a -- true";
    // Its time, if it told another, would stay in the file.
    assert_eq!(
        (later(line).code, home.run(line).code),
        (Some(75), Some(75))
    );
    holder.signal(Signal::TERM);
    holder.end().assert_ended(143, &[]);
}
