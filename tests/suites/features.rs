//! The tests that the pages name as proof exist in the suites, and every suite is run.

use std::path::{Path, PathBuf};

const FEATURES: &str = include_str!("../../docs/features.md");
const PROTOCOL: &str = include_str!("../../docs/protocol.md");
const SEVERAL: &str = include_str!("../../docs/multi-lock.md");

/// What stands in backticks as `suite::test`, or `suite::part::test`. Items of the library are written from their types on, which begin
/// with a capital.
fn named(page: &str) -> Vec<&str> {
    let quoted = page
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |text: &&str| {
        let of_a_test = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
        text.contains("::") && text.chars().all(of_a_test)
    };
    quoted.filter(is_path).collect()
}

/// The source file of a test, if there is one that could contain it.
fn source(suite: &str, parts: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = match parts {
        [] => suite.to_owned(),
        parts => format!("{suite}/{}", parts.join("/")),
    };
    // Tests of the baselines are in this directory, because they use parts that no other crate can use.
    let beside = "crates/bench/src/contend/contender";
    let crates = ["", "crates/bench/", "crates/cli/", "crates/protocol/"];
    let programs = crates.map(|of| format!("{of}tests"));
    let modules = ["tests/suites".to_owned(), beside.to_owned()];
    let folders = modules.into_iter().chain(programs);
    let files = folders.flat_map(|folder| {
        ["", "/main", "/mod"].map(|end| root.join(&folder).join(format!("{file}{end}.rs")))
    });
    { files }.find_map(|file| std::fs::read_to_string(file).ok())
}

/// Whether the source has a test of this name. A helper, or a test that is commented out, does not count.
fn has(source: &str, test: &str) -> bool {
    let head = format!("fn {test}(");
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        // Attributes may span several lines. The line before them ends with a brace, a semicolon, or is empty.
        let is_before = |line: &str| line.is_empty() || line.ends_with(['}', ';']);
        let mut above = lines[..at].iter().rev().take_while(|line| !is_before(line));
        line.starts_with(&head) && above.any(|line| *line == "#[test]")
    })
}

fn exists(name: &str) -> bool {
    let path: Vec<_> = name.split("::").collect();
    let [suite, parts @ .., test] = path.as_slice() else {
        return false;
    };
    source(suite, parts).is_some_and(|source| has(&source, test))
}

pub(crate) fn missing(page: &str) -> Vec<&str> {
    named(page)
        .into_iter()
        .filter(|name| !exists(name))
        .collect()
}

#[test]
fn every_test_that_the_pages_name_exists() {
    for (page, least) in [(FEATURES, 100), (PROTOCOL, 5), (SEVERAL, 3)] {
        assert!(named(page).len() >= least, "{:?}", named(page));
        assert_eq!(missing(page), [""; 0]);
    }
}

/// The suites that the program has.
fn declared() -> impl Iterator<Item = &'static str> {
    let lines = include_str!("main.rs").lines();
    lines.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
}

/// The suites that no row of a table on this page is about.
fn undescribed(page: &str) -> Vec<&'static str> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let firsts = rows.filter_map(|row| row.split('|').nth(1));
    let described: Vec<_> = firsts
        .flat_map(|first| first.split('`').skip(1).step_by(2))
        .collect();
    declared()
        .filter(|suite| !described.contains(suite))
        .collect()
}

#[test]
fn every_suite_is_described_on_the_pages_of_testing_and_of_the_architecture() {
    for page in [
        include_str!("../../docs/testing.md"),
        include_str!("../../docs/architecture.md"),
    ] {
        assert_eq!(undescribed(page), [""; 0]);
        let planted = page.replace("`safety_margin`", "`safe`");
        assert_eq!(undescribed(&planted), ["safety_margin"]);
    }
}

/// A suite that is not declared as a module is not compiled, and so it is never run.
#[test]
fn every_suite_is_a_module_of_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites");
    let entries = std::fs::read_dir(folder).unwrap();
    let named = |path: PathBuf| path.file_stem()?.to_str().map(str::to_owned);
    let mut suites: Vec<_> = entries
        .filter_map(|entry| named(entry.unwrap().path()))
        .filter(|name| name != "main")
        .collect();
    suites.sort();
    assert_eq!(declared().collect::<Vec<_>>(), suites);
}

#[test]
fn a_name_that_is_wrong_is_found() {
    let right = "`features::a_name_that_is_wrong_is_found`";
    let wrong = [
        "`features::a_name_that_is_wrong`",
        "`features::missing`",
        "`nowhere::a_name_that_is_wrong_is_found`",
        "`features::part::a_name_that_is_wrong_is_found`",
        "`fencing::a_checked_transaction_is_refused_as_soon_as_another_has_the_lock_and_before_it_writes`",
    ];
    let others = "`LockGuard::fence`, `tests/pace.rs`, `acquire`";
    let page = format!("| {right}, {others} | {} |", wrong.join(", "));
    let bare: Vec<_> = wrong.iter().map(|name| name.trim_matches('`')).collect();
    assert_eq!(missing(&page), bare);
    assert_eq!(named(&page).len(), wrong.len() + 1);
}
