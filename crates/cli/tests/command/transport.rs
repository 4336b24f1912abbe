//! The command, when its connections end in the middle of an exchange.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock::embedded::Fault;
use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use fairlock_testkit::wire::server::{Blow, End, Part};
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::command::{Said, fairlock, said};

/// A proxy that accepts a connection, reads a request and closes.
const SHUT: Blow = Blow {
    is_applied: false,
    part: Part::Nothing,
    end: End::Close,
};

/// A place behind a server, and a directory in which commands run.
struct Cloud {
    place: ServedEngine,
    url: String,
    home: TempDir,
}

impl Cloud {
    async fn new() -> Cloud {
        Cloud::at(ServedEngine::new(Wire::Tcp).await).await
    }

    async fn at(place: ServedEngine) -> Cloud {
        let (url, home) = (place.url().await, TempDir::new().unwrap());
        Cloud { place, url, home }
    }

    /// Puts the flags of the place before the lock's name, and adds a script to run.
    fn command(&self, line: &str, script: &str) -> Command {
        let at = format!("--table locks --endpoint-url {}", self.url);
        let line = line.replace("AT", &at);
        let mut words: Vec<_> = line.split(' ').collect();
        if !script.is_empty() {
            words.extend(["--", "sh", "-c", script]);
        }
        let mut command = fairlock(self.home.path(), &words);
        let names = ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        command.envs(names.map(|name| (name, "test")));
        command
    }

    /// Runs to the end while the server answers.
    async fn run(&self, line: &str, script: &str) -> Said {
        let mut command = self.command(line, script);
        spawn_blocking(move || said(&mut command)).await.unwrap()
    }

    /// Runs beside the test, with its output in a file.
    fn start(&self, line: &str, script: &str, file: &str) -> Child {
        let told = std::fs::File::create(self.home.path().join(file)).unwrap();
        let mut command = self.command(line, script);
        command.stdout(Stdio::null()).stderr(told).spawn().unwrap()
    }

    fn told(&self, file: &str) -> String {
        std::fs::read_to_string(self.home.path().join(file)).unwrap_or_default()
    }

    /// Waits until a file contains these words.
    async fn until(&self, file: &str, words: &str) {
        while !self.told(file).contains(words) {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn code(mut process: Child) -> Option<i32> {
    spawn_blocking(move || process.wait().unwrap().code())
        .await
        .unwrap()
}

/// Holds the lock until there is a file `go`.
const UNTIL_GO: &str = "echo yes > held; until [ -e go ]; do sleep 0.05; done";

#[test]
fn a_command_that_waits_goes_on_through_an_outage_and_keeps_its_place() {
    real_time(async {
        let cloud = Cloud::new().await;
        let holder = cloud.start("run --lease 60s AT a", UNTIL_GO, "holder");
        cloud.until("held", "yes").await;
        let first = cloud.start("run --wait 100s AT a", "echo first >> order", "first");
        cloud.until("first", "you are next").await;
        let second = cloud.start("run --wait infinite AT a", "echo second >> order", "second");
        cloud.until("second", "1 waits before you").await;
        cloud.place.server.strike_all("", SHUT);
        for waits in ["first", "second"] {
            cloud
                .until(waits, "cannot reach DynamoDB, and goes on trying")
                .await;
        }
        // A command that comes now, and waits only briefly, is told soon, and leaves nothing behind.
        let late = cloud.run("run --wait 1s AT a", "true").await;
        assert_eq!(late.code, Some(69), "{late:?}");
        cloud.place.server.strike_no_more();
        for waits in ["first", "second"] {
            cloud.until(waits, "reached DynamoDB again").await;
        }
        std::fs::write(cloud.home.path().join("go"), "").unwrap();
        for ended in [holder, first, second] {
            assert_eq!(code(ended).await, Some(0));
        }
        assert_eq!(cloud.told("order"), "first\nsecond\n");
        assert_eq!(cloud.place.items("a").await, ["fairlock/#lock"]);
        let next = cloud.run("run --wait none AT a", "true").await;
        assert_eq!(next.code, Some(0), "{next:?}");
    });
}

#[test]
fn a_command_that_begins_in_an_outage_waits_for_its_end() {
    for is_applied in [false, true] {
        real_time(async {
            let cloud = Cloud::new().await;
            cloud
                .place
                .server
                .strike_all("", Blow { is_applied, ..SHUT });
            let waits = cloud.start(
                "run --wait infinite --lease 60s AT a",
                "touch done",
                "waits",
            );
            cloud
                .until("waits", "cannot reach DynamoDB, and goes on trying")
                .await;
            cloud.place.server.strike_no_more();
            assert_eq!(code(waits).await, Some(0), "{}", cloud.told("waits"));
            assert!(cloud.home.path().join("done").exists());
            let next = cloud.run("run --wait none AT a", "true").await;
            assert_eq!(next.code, Some(0), "{next:?}");
        });
    }
}

/// A user that creates a table there is told the same as a user that checks it, and not to create it again.
#[test]
fn an_engine_without_ttl_is_called_so_by_those_who_create_a_table_and_those_who_check_it() {
    real_time(async {
        let place = ServedEngine::before(Wire::Tcp, true, |network| {
            network.script(|request| {
                let operation = request.operation();
                let is_of_ttl = ["DescribeTimeToLive", "UpdateTimeToLive"].contains(&operation);
                is_of_ttl.then_some(Fault::Refuse("UnknownOperationException"))
            })
        });
        let cloud = Cloud::at(place.await).await;
        let told = "warning: this table can have no TTL";
        let created = cloud.run("table create AT", "").await;
        assert!(created.assert_done().contains(told), "{created:?}");
        let checked = cloud.run("table check AT", "").await;
        let checked = checked.assert_done();
        assert!(
            checked.contains(told) && !checked.contains("table create"),
            "{checked}"
        );
    });
}

#[test]
fn a_command_says_once_that_it_is_throttled_or_denied_and_goes_on() {
    let busy = (
        "ThrottlingException",
        "DynamoDB is too busy; goes on trying",
    );
    let denied = (
        "AccessDeniedException",
        "DynamoDB refuses a request; goes on trying for a while",
    );
    let run = ("run --wait infinite AT a", "true");
    let several = ("run --also b --wait infinite AT a", "true");
    let clear = ("data clear --wait infinite AT a", "");
    let lease = ("lease acquire --wait infinite --id x --for 1m AT a", "");
    for ((code, says), (line, script)) in [
        (busy, run),
        (denied, run),
        (denied, several),
        (busy, clear),
        (denied, clear),
        (busy, lease),
        (denied, lease),
    ] {
        real_time(async {
            let is_well = Arc::new(AtomicBool::new(false));
            let cured = Arc::clone(&is_well);
            let place = ServedEngine::before(Wire::Tcp, true, |network| {
                network.script(move |request| {
                    let is_ill = !cured.load(Ordering::Relaxed) && request.table() == Some("locks");
                    is_ill.then_some(Fault::Refuse(code))
                })
            });
            let cloud = Cloud::at(place.await).await;
            let waits = cloud.start(line, script, "waits");
            cloud.until("waits", says).await;
            is_well.store(true, Ordering::Relaxed);
            assert_eq!(self::code(waits).await, Some(0), "{}", cloud.told("waits"));
            let told = cloud.told("waits");
            assert_eq!(told.matches(says).count(), 1, "{told}");
            assert!(told.contains("DynamoDB serves requests again"), "{told}");
        });
    }
}
