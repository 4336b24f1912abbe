//! The tests that the pages name as proof exist in the suites, and every suite is run and says what it is about.

use std::path::{Path, PathBuf};

use crate::docs::links::pages;

/// Paths into these are no tests.
const CRATES: [&str; 4] = ["aws_config::", "fairlock", "std::", "tokio::"];

/// What stands in backticks as `suite::test`, or `suite::part::test`. Items of the library are written from their types on, which begin
/// with a capital, and its modules from the crate on.
fn named(page: &str) -> Vec<&str> {
    let quoted = page
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |text: &&str| {
        let of_a_test = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
        let is_of_a_crate = CRATES.iter().any(|it| text.starts_with(it));
        text.contains("::") && !is_of_a_crate && text.chars().all(of_a_test)
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
    let groups = declared().map(|group| format!("tests/suites/{group}"));
    let folders = modules.into_iter().chain(groups).chain(programs);
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

/// Whether a test has this name, or a part of a suite.
fn exists(name: &str) -> bool {
    let path: Vec<_> = name.trim_end_matches("::").split("::").collect();
    let is_part = source(path[0], &path[1..]).is_some();
    let is_test = match path.as_slice() {
        [suite, parts @ .., test] => source(suite, parts).is_some_and(|it| has(&it, test)),
        _ => false,
    };
    is_part || is_test
}

fn missing(page: &str) -> Vec<&str> {
    named(page)
        .into_iter()
        .filter(|name| !exists(name))
        .collect()
}

#[test]
fn every_test_that_the_pages_name_exists() {
    let pages = pages();
    let named = pages.iter().map(|page| named(&page.text).len());
    assert!(named.sum::<usize>() > 10);
    for page in pages {
        assert_eq!(missing(&page.text), [""; 0], "{}", page.path.display());
    }
}

/// The groups of suites that the program has.
fn declared() -> impl Iterator<Item = &'static str> {
    modules(include_str!("../main.rs"))
}

/// The modules that a source declares.
fn modules(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines();
    let lines = lines.map(|line| line.trim_start_matches("pub(crate) "));
    lines.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
}

/// Whether a source opens with a sentence of what it is, as `scripts/map` prints it.
fn is_described(source: &str) -> bool {
    let opening = source.lines().map_while(|line| line.strip_prefix("//!"));
    opening.collect::<String>().contains('.')
}

#[test]
fn every_suite_says_what_it_is_about() {
    for group in declared() {
        let text = source(group, &[]).unwrap();
        assert!(is_described(&text), "{group}");
        for suite in modules(&text) {
            let text = source(group, &[suite]).unwrap_or_default();
            assert!(is_described(&text), "{group}::{suite}");
        }
    }
    assert!(!is_described("// A comment.\nmod a;") && !is_described("//! A title\nmod a;"));
}

/// A suite that is not declared as a module is not compiled, and so it is never run.
#[test]
fn every_suite_is_a_module_of_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites");
    assert_eq!(Vec::from_iter(declared()), in_folder(&root));
    for group in declared() {
        let text = source(group, &[]).unwrap();
        assert_eq!(Vec::from_iter(modules(&text)), in_folder(&root.join(group)));
    }
}

/// The modules that the files of a folder could be, in order.
fn in_folder(folder: &Path) -> Vec<String> {
    let named = |path: PathBuf| path.file_stem()?.to_str().map(str::to_owned);
    let entries = std::fs::read_dir(folder).unwrap();
    let modules = entries.filter_map(|entry| named(entry.unwrap().path()));
    let mut modules: Vec<_> = modules
        .filter(|name| name != "main" && name != "mod")
        .collect();
    modules.sort();
    modules
}

#[test]
fn a_name_that_is_wrong_is_found() {
    let right = "`features::a_name_that_is_wrong_is_found`, `fencing::recipes`, `pace::`";
    let wrong = [
        "`features::a_name_that_is_wrong`",
        "`features::missing`",
        "`feature::`",
        "`nowhere::a_name_that_is_wrong_is_found`",
        "`features::part::a_name_that_is_wrong_is_found`",
        "`fencing::a_checked_transaction_is_refused_as_soon_as_another_has_the_lock_and_before_it_writes`",
    ];
    let others = "`LockGuard::fence`, `tests/pace.rs`, `acquire`, `std::process::exit`";
    let page = format!("| {right}, {others} | {} |", wrong.join(", "));
    let bare: Vec<_> = wrong.iter().map(|name| name.trim_matches('`')).collect();
    assert_eq!(missing(&page), bare);
    assert_eq!(named(&page).len(), wrong.len() + 3);
}
