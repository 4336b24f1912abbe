//! The page of measurements and the commands that measure. Every place on the page is filled, every picture exists and can be read, and the
//! commands work.

use std::fs;
use std::path::{Path, PathBuf};

use fairlock_testkit::child_process::Run;

use crate::{assert_ended, driver};

const PAGE: &str = "performance.md";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The names and contents of the places that the command fills.
fn places(page: &str) -> Vec<(&str, &str)> {
    let begins = page.split("<!-- ").skip(1);
    let places = begins.filter(|place| !place.starts_with('/'));
    let places = places.map(|place| place.split_once(" -->\n").unwrap());
    places.collect()
}

fn pictures(page: &str) -> Vec<&str> {
    let shown = page.split("](performance/").skip(1);
    let shown = shown.map(|shown| shown.split_once(')').unwrap().0);
    shown.collect()
}

/// What is wrong with a page and its pictures.
fn faults(docs: &Path) -> Vec<String> {
    let page = fs::read_to_string(docs.join(PAGE)).unwrap();
    let mut faults = Vec::new();
    for (name, measured) in places(&page) {
        if !page.contains(&format!("<!-- /{name} -->")) {
            faults.push(format!("{name} has no end"));
        }
        let rows = measured.lines().filter(|line| line.starts_with("| "));
        let columns: Vec<_> = rows.map(|row| row.matches(" | ").count()).collect();
        let is_table = columns.len() > 1 && columns.iter().all(|count| *count == columns[0]);
        if measured.trim().is_empty() || !columns.is_empty() && !is_table {
            faults.push(format!("{name} is not filled"));
        }
    }
    for name in pictures(&page) {
        let picture = fs::read_to_string(docs.join("performance").join(name));
        let picture = picture.unwrap_or_default();
        if !picture.starts_with("<svg") || !picture.trim_end().ends_with("</svg>") {
            faults.push(format!("{name} is no picture"));
        }
    }
    faults
}

#[test]
fn every_place_of_the_page_is_filled_and_every_picture_is_there() {
    let faults = faults(&docs());
    assert!(faults.is_empty(), "{faults:#?}");
    let page = fs::read_to_string(docs().join(PAGE)).unwrap();
    assert_eq!((places(&page).len(), pictures(&page).len()), (11, 6));
}

#[test]
fn the_command_fills_an_empty_page_and_draws_all_pictures() {
    let place = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(docs().join(PAGE)).unwrap();
    let filled = places(&page).into_iter();
    let empty = filled.fold(page.clone(), |page, (_, it)| page.replace(it, ""));
    fs::write(place.path().join(PAGE), empty).unwrap();
    let unfilled = faults(place.path());
    assert_eq!(unfilled.len(), 11 + 6, "{unfilled:#?}");

    let docs = place.path().display();
    let command = driver(&format!("performance --check --docs {docs}"));
    assert_ended(&Run::start(command).end(), 0, &[]);
    let faults = faults(place.path());
    assert!(faults.is_empty(), "{faults:#?}");
}

/// `scripts/instructions` counts them, with a program that is not installed everywhere.
#[test]
fn turns_whose_instructions_are_counted_are_taken_both_ways() {
    for by in ["fairlock", "bare"] {
        let command = driver(&format!("instructions {by} 3"));
        assert_ended(&Run::start(command).end(), 0, &[]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_calls_that_wait_fit_into_sixty_megabytes() {
    let ended = Run::start(driver("performance --waiting 10000")).end();
    assert_ended(&ended, 0, &[]);
    let bytes: u64 = ended.lines[0].parse().unwrap();
    assert!((1..60_000_000).contains(&bytes), "{bytes}");
}
