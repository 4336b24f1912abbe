//! A hang-up ends the job, and a signal to it reaches the command once.

use super::scenario::{UNTIL_GO, alike};
use crate::running::until;

/// In the foreground, in the background, and stopped.
#[test]
fn a_hang_up_ends_the_job() {
    let sleeps = "sh -c 'echo ready; sleep 1000'";
    alike(|terminal, lock| {
        terminal.ready(&format!("{lock}{sleeps}"));
        terminal.close();
        terminal.home.nothing_runs();
    });
    alike(|terminal, lock| {
        terminal.run_behind(&format!("{lock}{sleeps}"), "ready");
        terminal.close();
        terminal.home.nothing_runs();
    });
    alike(|terminal, lock| {
        terminal.ready(&format!("{lock}sh -c 'echo ready; exec sleep 1000'"));
        terminal.stops();
        terminal.close();
        terminal.home.nothing_runs();
    });
}

#[test]
fn a_command_with_nohup_survives_the_hang_up() {
    alike(|terminal, lock| {
        terminal.type_in(&format!("nohup {lock}{UNTIL_GO} > out 2>&1 &"));
        terminal.home.wait_for("pid");
        terminal.close();
        let is_gone = || terminal.home.named("bash --norc").is_empty();
        until("the shell is gone", is_gone);
        terminal.home.go();
        until("the end", || terminal.home.read("out").contains("went"));
        terminal.home.nothing_runs();
    });
}

#[test]
fn a_signal_to_the_job_comes_to_the_command() {
    // From a shell it may come twice: a sender to the group and a sender to `fairlock run` alone look the same.
    let code = alike(|terminal, lock| {
        let wait =
            "trap \"code=3\" TERM; echo ready; until [ $code ]; do sleep 0.02; done; exit $code";
        terminal.run_behind(&format!("{lock}sh -c '{wait}'"), "ready");
        terminal.run("kill %1; wait %1").1
    });
    assert_eq!(code, 3);
}

#[test]
fn a_command_that_signals_its_own_group_hears_it_once() {
    let heard = alike(|terminal, lock| {
        let heard = "trap \"echo term >> terms\" TERM; kill 0; sleep 0.5 & wait; exit 3";
        let code = terminal.run(&format!("{lock}sh -c '{heard}'")).1;
        (code, terminal.home.read("terms"))
    });
    assert_eq!(heard, (3, "term\n".to_owned()));
}
