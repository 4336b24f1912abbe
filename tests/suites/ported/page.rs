//! The page of these tests: each of its rows names a test that exists, or says why there is none, and every test is on it.

use std::collections::BTreeSet;

use crate::features::missing;

const PAGE: &str = include_str!("../../../docs/peers-tests.md");
/// The peers, each with the source of its tests.
const PEERS: [(&str, &str); 4] = [
    ("java", include_str!("java.rs")),
    ("go", include_str!("go.rs")),
    ("etcd", include_str!("etcd.rs")),
    ("curator", include_str!("curator.rs")),
];
/// How a row begins whose tests have no counterpart.
const REASONS: [&str; 2] = ["Differs: ", "Not here: "];

/// The tests of a source.
fn tests(source: &str) -> Vec<&str> {
    let lines: Vec<_> = source.lines().collect();
    let after = lines.windows(2).filter(|pair| pair[0] == "#[test]");
    let names = after.filter_map(|pair| pair[1].strip_prefix("fn ")?.split('(').next());
    names.collect()
}

/// The last cell of each row of a table, but for its head.
fn answers(page: &str) -> Vec<&str> {
    let lines: Vec<_> = page.lines().collect();
    let is_row = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("| "));
    let is_rule = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("|-"));
    let rows = (0..lines.len()).filter(|at| is_row(*at) && !is_rule(at + 1));
    rows.filter_map(|at| lines[at].trim_end_matches([' ', '|']).rsplit(" | ").next())
        .collect()
}

/// The rows that name no test of the peers, and say no reason.
fn unanswered(page: &str) -> Vec<&str> {
    let is_answered = |answer: &&str| {
        let has_reason = REASONS.iter().any(|reason| answer.starts_with(reason));
        has_reason || answer.contains("::")
    };
    answers(page)
        .into_iter()
        .filter(|answer| !is_answered(answer))
        .collect()
}

/// The tests of all peers that the page does not name.
fn unnamed(page: &str) -> BTreeSet<String> {
    let of_peer = |(peer, source)| {
        let names = tests(source).into_iter();
        names.map(move |name| format!("ported::{peer}::{name}"))
    };
    let all = PEERS.into_iter().flat_map(of_peer);
    all.filter(|name| !page.contains(&format!("`{name}`")))
        .collect()
}

#[test]
fn every_row_names_a_test_that_exists_or_says_why_there_is_none() {
    assert_eq!(unanswered(PAGE), [""; 0]);
    assert_eq!(missing(PAGE), [""; 0]);
    assert!(answers(PAGE).len() > 100, "{}", answers(PAGE).len());
}

#[test]
fn every_test_is_on_the_page() {
    assert_eq!(unnamed(PAGE), BTreeSet::new());
    let counts = PEERS.map(|(_, source)| tests(source).len());
    assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
}

#[test]
fn the_checks_catch_planted_faults() {
    let head = "| theirs | asserts | here |\n|---|---|---|\n";
    let row = |here: &str| format!("{head}| `testX` | it works | {here} |\n");
    let (sound, gone) = ("`ported::java::null_lock`", "`ported::java::no_such_test`");
    assert_eq!(missing(&row(gone)), [gone.trim_matches('`')]);
    assert_eq!(missing(&row(sound)), [""; 0]);
    assert_eq!(unanswered(&row(sound)), [""; 0]);
    assert_eq!(unanswered(&row("Differs: a reason.")), [""; 0]);
    assert_eq!(unanswered(&row("later")), ["later"]);
    assert_eq!(unanswered(&row("")).len(), 1);
    let without = PAGE.replace("`ported::java::null_lock`", "`ported::java::get_lock`");
    assert_eq!(
        unnamed(&without),
        ["ported::java::null_lock".to_owned()].into()
    );
}
