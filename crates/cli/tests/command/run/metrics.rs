//! `fairlock run --metrics`: over HTTP while the run waits and holds, or in a file that is whole at any moment.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::home::{Home, UNTIL_GO};
use crate::running::{BOUND, until};

/// An address of the loopback that no other test listens at: each process of tests has a network of its own there.
fn address() -> SocketAddr {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = HOSTS.fetch_add(1, Ordering::Relaxed);
    SocketAddr::from((Ipv4Addr::new(127, high | 128, low, host), 9464))
}

/// What Prometheus would read. `None` if nothing listens there yet.
fn scraped(at: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    Some(answer)
}

fn has(at: SocketAddr, line: &str) -> bool {
    scraped(at).is_some_and(|text| text.lines().any(|it| it == line))
}

#[track_caller]
fn assert_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "no {line}: {text}");
    }
}

#[test]
fn an_address_answers_while_the_run_waits_and_while_it_holds() {
    let home = Home::new();
    let (first, second) = (address(), address());
    let holder = home.held(&format!("--metrics {first}"));
    until("a hold", || has(first, "fairlock_holds{lock=\"a\"} 1"));
    let flags = format!("--wait infinite --quiet --metrics {second}");
    let waiter = home.start_sh(&flags, UNTIL_GO);
    home.until_successor();
    until("a wait", || {
        has(second, "fairlock_waiting_calls{lock=\"a\"} 1")
    });
    let lines = [
        "# TYPE fairlock_wait_seconds histogram",
        "fairlock_queue_length_sum{lock=\"a\"} 1",
        "fairlock_evictions_total{place=\"holder\",lock=\"a\"} 0",
    ];
    assert_lines(&scraped(second).unwrap(), &lines);
    home.go();
    for running in [holder, waiter] {
        assert_eq!(running.end().assert_done(), "");
    }
    assert!(scraped(first).is_none() && scraped(second).is_none());
}

#[test]
fn a_file_is_there_from_the_start_and_has_all_that_was_counted_at_the_end() {
    let home = Home::new();
    home.make_dir("textfile");
    // The command keeps the file as it is when it starts, under a second name.
    home.run("run --metrics textfile/a.prom a -- ln textfile/a.prom before")
        .assert_done();
    let lines = [
        "fairlock_hold_seconds_count{outcome=\"released\",lock=\"a\"} 1",
        "fairlock_releases_total{outcome=\"idle\",lock=\"a\"} 1",
        "fairlock_holds{lock=\"a\"} 0",
    ];
    assert_lines(&home.read("textfile/a.prom"), &lines);
    // Another file has the name now. A reader that had the first one open has read it whole.
    let before = home.read("before");
    assert!(
        home.has("before") && !before.contains("released"),
        "{before}"
    );
    assert_eq!(fs::read_dir(home.file("textfile")).unwrap().count(), 1);
    // As the umask has it for any file.
    home.write("probe", "");
    let mode = |file| fs::metadata(home.file(file)).unwrap().permissions().mode();
    assert_eq!(mode("textfile/a.prom"), mode("probe"));
    let _holder = home.held("");
    let refused = home.run("run --wait none --metrics b.prom a -- true");
    refused.assert_refused(75, &["`a`"]);
    let busy = "fairlock_wait_seconds_count{outcome=\"busy\",lock=\"a\"} 1";
    assert_lines(&home.read("b.prom"), &[busy]);
}

#[test]
fn what_cannot_show_metrics_is_refused_at_once_and_nothing_runs() {
    let home = Home::new();
    let at = address();
    let _busy = TcpListener::bind(at).unwrap();
    let at = at.to_string();
    for (target, words) in [
        (&*at, &["cannot show metrics at", "in use"][..]),
        ("192.0.2.1:9464", &["cannot show metrics at"]),
        ("nowhere/a.prom", &["nowhere/a.prom", "No such file"]),
        ("/proc/a.prom", &["/proc/a.prom"]),
    ] {
        let refused = home.run(&format!("run --metrics {target} a -- touch ran"));
        refused.assert_refused(64, &[words, &["--metrics"]].concat());
    }
    for wrong in ["localhost:9464", "127.0.0.1", "127.0.0.1:0", "a.txt", "''"] {
        let refused = home.run(&format!("run --metrics {wrong} a -- touch ran"));
        refused.assert_ended(64, &["--metrics"]);
    }
    assert!(!home.has("ran"));
    assert!(home.is_free());
}

#[test]
fn a_file_that_cannot_be_written_any_more_is_told_and_the_command_has_its_turn_and_its_code() {
    let home = Home::new();
    home.make_dir("textfile");
    let ended = home.sh("--metrics textfile/a.prom", "rm -r textfile; exit 3");
    ended.assert_ended(3, &["cannot write metrics to textfile/a.prom"]);
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(home.is_free());
}
