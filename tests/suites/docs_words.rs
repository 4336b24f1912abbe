//! The language of the pages, the documentation and the public items: the words of `docs/glossary.md`, and sentences that have an actor
//! and an end.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::path::{Path, PathBuf};

use crate::docs_links::{self, root};

/// Words that the project used before it took the field's, and phrases of them.
const OLD: [&str; 20] = [
    "heir",
    "heirs",
    "seat",
    "seats",
    "seated",
    "unseat",
    "party",
    "parties",
    "anew",
    "hand-over",
    "hand-overs",
    "gap grace",
    "gap_grace",
    "common clock",
    "common_clock_allowance",
    "in line",
    "look_bounds",
    "of_permits",
    "linefull",
    "lostlock",
];
/// Parts of names that no public item has, one or several of them. A line is a line of text, and no public item is one.
const NOT_IN_NAMES: [&str; 10] = [
    "heir",
    "seat",
    "seated",
    "party",
    "line",
    "look",
    "several",
    "chance",
    "unreadable",
    "swept",
];
/// Sentences that begin with these have no actor.
const BARE: [&str; 8] = [
    "Who",
    "Whoever",
    "Whom",
    "Those",
    "Somebody",
    "Nobody",
    "Everybody",
    "One",
];
/// A sentence has no more words, but for those at the end of a run of flags, which end without a full stop.
const WORDS: usize = 30;
const LONGER: usize = 10;

/// The sources in a folder, with those in its folders.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = entries.map(|entry| entry.unwrap().path());
    let of_path = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    };
    let found = paths.flat_map(of_path);
    found
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

/// What a reader of the project reads, each with its prose.
fn pages() -> Vec<(PathBuf, String)> {
    let texts = docs_links::pages()
        .into_iter()
        .map(|page| (page.path, page.text));
    let crates = ["protocol", "embedded", "testkit", "cli", "bench"];
    let crates = crates.map(|name| root().join("crates").join(name).join("src"));
    let folders = [root().join("src")].into_iter().chain(crates);
    let comments = folders.flat_map(|folder| sources(&folder)).map(|path| {
        let text = documentation(&std::fs::read_to_string(&path).unwrap());
        (path, text)
    });
    texts.chain(comments).collect()
}

/// The `///` and `//!` comments of a source.
fn documentation(source: &str) -> String {
    let lines = source.lines().map(str::trim_start);
    let comments = lines.filter_map(|line| {
        let text = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))?;
        Some(text.strip_prefix(' ').unwrap_or(text))
    });
    comments.collect::<Vec<_>>().join("\n")
}

/// Without code blocks, tables and headings, an empty line where they were.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        let start = line.trim_start();
        let is_fence = start.starts_with("```");
        is_code ^= is_fence;
        let is_prose = !is_code && !is_fence && !start.starts_with(['|', '#', '[']);
        if is_prose { line } else { "" }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The sentences of the paragraphs.
fn sentences(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut sentences = Vec::new();
    for paragraph in prose.split("\n\n") {
        let mut sentence = Vec::new();
        for word in paragraph.split_whitespace() {
            sentence.push(word);
            if word.ends_with(['.', '!', '?']) {
                sentences.push(std::mem::take(&mut sentence).join(" "));
            }
        }
        sentences.push(sentence.join(" "));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// The sentences like that of all pages, each with its page.
fn all_sentences(is_such: fn(&str) -> bool) -> Vec<(PathBuf, String)> {
    let of_page = |(path, text): (PathBuf, String)| {
        let found = sentences(&text).into_iter().filter(|it| is_such(it));
        found.map(|it| (path.clone(), it)).collect::<Vec<_>>()
    };
    pages().into_iter().flat_map(of_page).collect()
}

fn is_bare(sentence: &str) -> bool {
    let mut words = sentence
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let of = ["of", "the"];
    let is_one_of = words.by_ref().take(2).eq(of);
    BARE.contains(&first) && !is_one_of
}

fn is_long(sentence: &str) -> bool {
    sentence.split_whitespace().count() > WORDS
}

/// The old words that a text has in it.
fn old_words(text: &str) -> Vec<&'static str> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let words = text.to_lowercase();
    let words: Vec<_> = words
        .split(|c: char| !is_of_word(c))
        .filter(|word| !word.is_empty())
        .collect();
    let all = format!(" {} ", words.join(" "));
    { OLD }
        .into_iter()
        .filter(|old| all.contains(&format!(" {old} ")))
        .collect()
}

/// The names of what a line of a source makes public, in their parts.
fn public_names(line: &str) -> Vec<String> {
    let Some(item) = line.trim_start().strip_prefix("pub ") else {
        return Vec::new();
    };
    let of_kind = ["async ", "const ", "unsafe "];
    let item = of_kind
        .iter()
        .fold(item, |item, kind| item.strip_prefix(kind).unwrap_or(item));
    let kinds = ["fn ", "struct ", "enum ", "trait ", "type "];
    let named = kinds.iter().find_map(|kind| item.strip_prefix(kind));
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let name = named.unwrap_or(item).split(|c| !is_of_name(c)).next();
    let mut parts = vec![String::new()];
    for sign in name.unwrap_or_default().chars() {
        if sign == '_' || sign.is_uppercase() {
            parts.push(String::new());
        }
        if sign != '_' {
            parts.last_mut().unwrap().extend(sign.to_lowercase());
        }
    }
    parts
}

fn has_an_old_name(line: &str) -> bool {
    let parts = public_names(line);
    parts
        .iter()
        .any(|part| NOT_IN_NAMES.contains(&part.trim_end_matches('s')))
}

#[test]
fn the_pages_and_the_documentation_have_the_words_of_the_glossary() {
    let found: Vec<_> = pages()
        .into_iter()
        .map(|(path, text)| (path, old_words(&text)))
        .filter(|(_, words)| !words.is_empty())
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn public_items_have_the_words_of_the_glossary() {
    let found: Vec<_> = sources(&root().join("src"))
        .into_iter()
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|line| has_an_old_name(line));
            lines.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_sentence_has_an_actor() {
    let found = all_sentences(is_bare);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn sentences_are_short() {
    let found = all_sentences(is_long);
    assert!(found.len() <= LONGER, "{found:#?}");
}

#[test]
fn planted_words_and_sentences_are_found() {
    assert_eq!(old_words("The heirs stand\nin line."), ["heirs", "in line"]);
    assert_eq!(old_words("A deadline, inherited; a seating plan."), [""; 0]);
    assert!(has_an_old_name("    pub fn seats(mut self) -> Self {"));
    assert!(has_an_old_name("pub struct SeveralLocks {"));
    assert!(has_an_old_name("    pub line: Vec<Participant>,"));
    assert!(!has_an_old_name("    pub fn deadline(&self) -> Instant {"));
    assert!(!has_an_old_name("    let line = 1;"));
    let text = "It is held. Who waits, waits.\n\n```\nWho codes.\n```\n\n| Who tabulates. |";
    let bare = sentences(text).into_iter().filter(|it| is_bare(it));
    assert_eq!(bare.collect::<Vec<_>>(), ["Who waits, waits."]);
    assert!(!is_bare("One of the two ends."));
    assert!(is_long(&"word ".repeat(31)) && !is_long(&"word ".repeat(30)));
    let source = "/// Seats.\nfn code() {} // a party\n    //! One line.";
    assert_eq!(documentation(source), "Seats.\nOne line.");
}
