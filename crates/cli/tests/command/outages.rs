//! The command, when its connections end in the middle of an exchange.

use std::fs::File;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairlock::embedded::Fault;
use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use fairlock_testkit::wire::server::{Blow, End, Part};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::home::UNTIL_GO;
use crate::served::Cloud;

/// A proxy that accepts a connection, reads a request and closes.
const SHUT: Blow = Blow {
    is_applied: false,
    part: Part::Nothing,
    end: End::Close,
};

impl Cloud {
    /// Runs beside the test, with what it tells in a file.
    fn start(&self, line: &str, file: &str) -> Child {
        let told = File::create(self.home.file(file)).unwrap();
        let mut command = self.command(line);
        command.stdout(Stdio::null()).stderr(told).spawn().unwrap()
    }

    /// Waits until a file contains these words.
    async fn until(&self, file: &str, words: &str) {
        while !self.home.read(file).contains(words) {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn code(mut process: Child) -> Option<i32> {
    let ended = spawn_blocking(move || process.wait().unwrap());
    ended.await.unwrap().code()
}

#[test]
fn a_command_that_waits_goes_on_through_an_outage_and_keeps_its_place() {
    real_time(async {
        let cloud = Cloud::new().await;
        let holder = format!("run --lease 60s a -- sh -c '{UNTIL_GO}'");
        let holder = cloud.start(&holder, "holder");
        cloud.until("held", "\n").await;
        let line = "run --wait 100s a -- sh -c 'echo first >> order'";
        let first = cloud.start(line, "first");
        cloud.until("first", "you are next").await;
        let line = "run --wait infinite a -- sh -c 'echo second >> order'";
        let second = cloud.start(line, "second");
        cloud.until("second", "1 waits before you").await;
        cloud.place.server.strike_all("", SHUT);
        for waits in ["first", "second"] {
            let told = "cannot reach DynamoDB, and goes on trying";
            cloud.until(waits, told).await;
        }
        // A command that comes now, and waits only briefly, is told soon, and leaves nothing behind.
        let late = cloud.run("run --wait 1s a -- true").await;
        assert_eq!(late.code, Some(69), "{late:?}");
        cloud.place.server.strike_no_more();
        for waits in ["first", "second"] {
            cloud.until(waits, "reached DynamoDB again").await;
        }
        cloud.home.go();
        for ended in [holder, first, second] {
            assert_eq!(code(ended).await, Some(0));
        }
        assert_eq!(cloud.home.read("order"), "first\nsecond\n");
        assert_eq!(cloud.place.items("a").await, ["fairlock/#lock"]);
        let next = cloud.run("run --wait none a -- true").await;
        assert_eq!(next.code, Some(0), "{next:?}");
    });
}

#[test]
fn a_command_that_begins_in_an_outage_waits_for_its_end() {
    for is_applied in [false, true] {
        real_time(async {
            let cloud = Cloud::new().await;
            let shut = Blow { is_applied, ..SHUT };
            cloud.place.server.strike_all("", shut);
            let line = "run --wait infinite --lease 60s a -- touch done";
            let waits = cloud.start(line, "waits");
            let told = "cannot reach DynamoDB, and goes on trying";
            cloud.until("waits", told).await;
            cloud.place.server.strike_no_more();
            assert_eq!(code(waits).await, Some(0), "{}", cloud.home.read("waits"));
            assert!(cloud.home.has("done"));
            let next = cloud.run("run --wait none a -- true").await;
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
        let created = cloud.run("table create").await;
        assert!(created.assert_done().contains(told), "{created:?}");
        let checked = cloud.run("table check").await;
        let checked = checked.assert_done();
        assert!(
            checked.contains(told) && !checked.contains("table create"),
            "{checked}"
        );
    });
}

/// The rows run side by side, because each waits for seconds.
#[test]
fn a_command_says_once_that_it_is_throttled_or_denied_and_goes_on() {
    const BUSY: &str = "ThrottlingException";
    const DENIED: &str = "AccessDeniedException";
    let run = "run --wait infinite a -- true";
    let several = "run --also b --wait infinite a -- true";
    let clear = "data clear --wait infinite a";
    let lease = "lease acquire --wait infinite --id x --for 1m a";
    thread::scope(|rows| {
        for line in [run, clear, lease] {
            rows.spawn(move || {
                real_time(goes_on(line, BUSY, "DynamoDB is too busy; goes on trying"))
            });
        }
        for line in [run, several, clear, lease] {
            let says = "DynamoDB refuses a request; goes on trying for a while";
            rows.spawn(move || real_time(goes_on(line, DENIED, says)));
        }
    });
}

async fn goes_on(line: &str, refusal: &'static str, says: &str) {
    let is_well = Arc::new(AtomicBool::new(false));
    let cured = Arc::clone(&is_well);
    let place = ServedEngine::before(Wire::Tcp, true, |network| {
        network.script(move |request| {
            let is_ill = !cured.load(Ordering::Relaxed) && request.table() == Some("locks");
            is_ill.then_some(Fault::Refuse(refusal))
        })
    });
    let cloud = Cloud::at(place.await).await;
    let waits = cloud.start(line, "waits");
    cloud.until("waits", says).await;
    is_well.store(true, Ordering::Relaxed);
    let code = code(waits).await;
    let told = cloud.home.read("waits");
    assert_eq!(code, Some(0), "{line}: {told}");
    assert_eq!(told.matches(says).count(), 1, "{line}: {told}");
    assert!(
        told.contains("DynamoDB serves requests again"),
        "{line}: {told}"
    );
}
