//! `fairlock run --metrics`: over HTTP while the run waits and holds, or in a file that is whole at any moment.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use super::running::{BOUND, Running, has_a_successor, home, is_free, run, until};

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

/// The names of all files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn an_address_answers_while_the_run_waits_and_while_it_holds() {
    let home = home();
    let (first, second) = (address(), address());
    let at = [first, second].map(|at| at.to_string());
    let script = "until [ -e go ]; do sleep 0.05; done";
    let holder = Running::start(home.path(), &["--metrics", &at[0]], script);
    until("a hold", || has(first, "fairlock_holds{lock=\"a\"} 1"));
    let flags = ["--wait", "infinite", "--quiet", "--metrics", &at[1]];
    let waiter = Running::start(home.path(), &flags, script);
    until("a place", || has_a_successor(home.path()));
    until("a wait", || {
        has(second, "fairlock_waiting_calls{lock=\"a\"} 1")
    });
    let text = scraped(second).unwrap();
    for line in [
        "# TYPE fairlock_wait_seconds histogram",
        "fairlock_queue_length_sum{lock=\"a\"} 1",
        "fairlock_evictions_total{place=\"holder\",lock=\"a\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    fs::write(home.path().join("go"), "").unwrap();
    for running in [holder, waiter] {
        let (code, out, err) = running.end();
        assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    }
    assert!(scraped(first).is_none() && scraped(second).is_none());
}

#[test]
fn a_file_is_there_from_the_start_and_has_all_that_was_counted_at_the_end() {
    let home = home();
    let folder = home.path().join("textfile");
    fs::create_dir(&folder).unwrap();
    let flags = ["--metrics", "textfile/a.prom"];
    // The command keeps the file as it is when it starts, under a second name.
    let ended = run(home.path(), &flags, &["ln", "textfile/a.prom", "before"]);
    ended.assert_done();
    let file = folder.join("a.prom");
    let text = fs::read_to_string(&file).unwrap();
    for line in [
        "fairlock_hold_seconds_count{outcome=\"released\",lock=\"a\"} 1",
        "fairlock_releases_total{outcome=\"idle\",lock=\"a\"} 1",
        "fairlock_holds{lock=\"a\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    // Another file has the name now. A reader that had the first one open has read it whole.
    let before = fs::read_to_string(home.path().join("before")).unwrap();
    assert!(!before.contains("released"), "{before}");
    assert_eq!(names(&folder), ["a.prom"]);
    // As the umask has it for any file.
    let probe = home.path().join("probe");
    fs::write(&probe, "").unwrap();
    let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode(&file), mode(&probe));
}

#[test]
fn a_wait_that_came_to_nothing_is_in_the_file_too() {
    let home = home();
    let holder = Running::start(home.path(), &[], "echo $$ > pid; sleep 60");
    holder.pid_in("pid");
    let flags = ["--wait", "none", "--metrics", "a.prom"];
    let refused = run(home.path(), &flags, &["true"]);
    refused.assert_refused(75, &["`a`"]);
    let text = fs::read_to_string(home.path().join("a.prom")).unwrap();
    let line = "fairlock_wait_seconds_count{outcome=\"busy\",lock=\"a\"} 1";
    assert!(text.lines().any(|it| it == line), "{text}");
}

#[test]
fn what_cannot_show_metrics_is_refused_at_once_and_nothing_runs() {
    let home = home();
    let at = address();
    let _busy = TcpListener::bind(at).unwrap();
    let at = at.to_string();
    for (target, words) in [
        (
            at.as_str(),
            &["cannot show metrics at", "in use", "--metrics"][..],
        ),
        ("192.0.2.1:9464", &["cannot show metrics at", "--metrics"]),
        (
            "nowhere/a.prom",
            &["nowhere/a.prom", "No such file", "--metrics"],
        ),
        ("/proc/a.prom", &["/proc/a.prom", "--metrics"]),
    ] {
        let refused = run(home.path(), &["--metrics", target], &["touch", "ran"]);
        refused.assert_refused(64, words);
    }
    for wrong in ["localhost:9464", "127.0.0.1", "127.0.0.1:0", "a.txt", ""] {
        let refused = run(home.path(), &["--metrics", wrong], &["touch", "ran"]);
        assert_eq!(refused.code, Some(64), "{wrong}: {refused:?}");
        assert!(refused.err.contains("--metrics"), "{wrong}: {refused:?}");
    }
    assert!(!home.path().join("ran").exists());
    assert!(is_free(home.path()));
}

#[test]
fn a_file_that_cannot_be_written_any_more_is_told_and_the_command_has_its_turn_and_its_code() {
    let home = home();
    let folder = home.path().join("textfile");
    fs::create_dir(&folder).unwrap();
    let flags = ["--metrics", "textfile/a.prom"];
    let script = "rm -r textfile; exit 3";
    let ended = run(home.path(), &flags, &["sh", "-c", script]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert!(
        ended
            .err
            .contains("cannot write metrics to textfile/a.prom")
    );
    assert!(is_free(home.path()));
}
