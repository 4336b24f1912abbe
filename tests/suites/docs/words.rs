//! The language of the pages, the documentation and the public items: the project's words, sentences that have an actor and an end, and
//! pages of a stated length.

use std::path::{Path, PathBuf};

use crate::docs::links::{self, root, sources};

/// Words that the project used before it took the field's, and phrases of them.
const OLD: &str = "heir|heirs|seat|seats|seated|unseat|party|parties|anew|hand-over|hand-overs|gap grace|gap_grace|\
     common clock|common_clock_allowance|in line|look_bounds|of_permits|linefull|lostlock";
/// Parts of names that no public item has, one or several of them. A line is a line of text, and no public item is one.
const NOT_IN_NAMES: &str = "heir seat seated party line look several chance unreadable swept";
/// Sentences that begin with these have no actor.
const BARE: &str = "Who Whoever Whom Those Somebody Nobody Everybody One";
/// The most words of each page. Whoever adds takes away: what `--help`, the documentation or a test says needs no page.
const BUDGETS: [(&str, usize); 27] = [
    ("README.md", 1_250),
    ("CONTRIBUTING.md", 1_600),
    ("docs/SUMMARY.md", 100),
    ("docs/architecture.md", 1_300),
    ("docs/changelog.md", 400),
    ("docs/command.md", 2_900),
    ("docs/concepts.md", 2_400),
    ("docs/cost.md", 2_000),
    ("docs/errors.md", 2_500),
    ("docs/features.md", 2_000),
    ("docs/fencing.md", 2_200),
    ("docs/metrics.md", 1_700),
    ("docs/migration.md", 2_600),
    ("docs/notifications.md", 1_200),
    ("docs/operations.md", 3_500),
    ("docs/performance.md", 2_900),
    ("docs/protocol.md", 8_400),
    ("docs/releasing.md", 650),
    ("docs/repair.md", 1_500),
    ("docs/rolling-upgrades.md", 1_000),
    ("docs/safety.md", 1_650),
    ("docs/security.md", 1_600),
    ("docs/shutdown.md", 1_850),
    ("docs/start.md", 1_150),
    ("docs/testing.md", 2_800),
    ("docs/testing-your-service.md", 1_150),
    ("docs/which-primitive.md", 2_200),
];
/// All pages together have no more words.
const BOOK: usize = 50_000;
/// A paragraph, or an item of a list, has no more words.
const PARAGRAPH: usize = 80;
/// A cell of a table has no more words.
const CELL: usize = 40;
/// A sentence has no more words, but for those at the end of a run of flags, which end without a full stop.
const WORDS: usize = 30;
const LONGER: usize = 10;

/// The pages of the book, each with its text.
fn book() -> Vec<(PathBuf, String)> {
    let pages = links::pages().into_iter();
    pages.map(|page| (page.path, page.text)).collect()
}

/// What a reader of the project reads, each with its prose.
fn pages() -> Vec<(PathBuf, String)> {
    let texts = book().into_iter();
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
    let mut sentences = Vec::new();
    for paragraph in paragraphs(text) {
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

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The text without its blocks of code, an empty line where they were.
fn without_code(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || (number != line && number.starts_with(". "))
}

/// The paragraphs, and the items of lists.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in prose(text).lines() {
        if line.trim().is_empty() || is_item(line) {
            paragraphs.push(String::new());
        }
        if let Some(last) = paragraphs.last_mut() {
            *last += line.trim();
            last.push(' ');
        }
    }
    paragraphs
}

/// The paragraphs and the cells of tables that are too long.
fn fat(text: &str) -> Vec<String> {
    let text = without_code(text);
    let rows = text
        .lines()
        .filter(|line| line.trim_start().starts_with('|'));
    let cells = rows.flat_map(|row| row.split('|').map(str::to_owned));
    let cells = cells.filter(|cell| words(cell) > CELL);
    let paragraphs = paragraphs(&text).into_iter();
    let paragraphs = paragraphs.filter(|paragraph| words(paragraph) > PARAGRAPH);
    cells.chain(paragraphs).collect()
}

/// What a page has beyond its budget, if it has one.
fn beyond(path: &str, text: &str) -> Option<String> {
    let budget = BUDGETS.iter().find(|(page, _)| *page == path);
    match (budget, words(text)) {
        (None, count) => Some(format!("{path} has {count} words and no budget")),
        (Some((_, most)), count) if count > *most => {
            Some(format!("{path} has {count} words of {most}"))
        }
        _ => None,
    }
}

fn is_bare(sentence: &str) -> bool {
    let mut words = sentence
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let of = ["of", "the"];
    let is_one_of = words.by_ref().take(2).eq(of);
    BARE.split(' ').any(|bare| bare == first) && !is_one_of
}

fn is_long(sentence: &str) -> bool {
    words(sentence) > WORDS
}

/// The old words that a text has in it.
fn old_words(text: &str) -> Vec<&'static str> {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let text = text.to_lowercase();
    let words: Vec<_> = text
        .split(|c: char| !is_of_word(c))
        .filter(|word| !word.is_empty())
        .collect();
    let all = format!(" {} ", words.join(" "));
    OLD.split('|')
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
    parts.iter().any(|part| {
        NOT_IN_NAMES
            .split(' ')
            .any(|not| not == part.trim_end_matches('s'))
    })
}

#[test]
fn the_pages_and_the_documentation_have_the_projects_words() {
    let found: Vec<_> = pages()
        .into_iter()
        .map(|(path, text)| (path, old_words(&text)))
        .filter(|(_, words)| !words.is_empty())
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn public_items_have_the_projects_words() {
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
fn each_page_keeps_to_its_budget_and_all_of_them_to_that_of_the_book() {
    let book = book();
    let path = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    let beyond = book.iter().filter_map(|(at, text)| beyond(&path(at), text));
    assert_eq!(Vec::from_iter(beyond), [""; 0]);
    let all: usize = book.iter().map(|(_, text)| words(text)).sum();
    assert!(all <= BOOK, "{all} words");
    let pages: Vec<_> = book.iter().map(|(at, _)| path(at)).collect();
    let gone = BUDGETS
        .iter()
        .filter(|(page, _)| !pages.iter().any(|it| it == page));
    assert_eq!(Vec::from_iter(gone), [&("", 0); 0]);
}

#[test]
fn paragraphs_and_cells_are_short() {
    let found = book().into_iter().flat_map(|(path, text)| {
        let fat = fat(&text).into_iter();
        fat.map(move |it| (path.clone(), it))
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{found:#?}");
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

#[test]
fn planted_pages_that_are_too_long_are_found() {
    let of = |count| "word ".repeat(count);
    assert_eq!(fat(&format!("{}\n\n- {}\n", of(80), of(79))), [""; 0]);
    assert_eq!(fat(&format!("{}\n{}", of(40), of(41))).len(), 1);
    assert_eq!(fat(&format!("- {}\n- {}", of(79), of(80))).len(), 1);
    assert_eq!(fat(&format!("| a | {} |\n", of(41))).len(), 1);
    assert_eq!(fat(&format!("| a | {} |\n", of(40))), [""; 0]);
    assert_eq!(fat(&format!("```\n{}\n```\n", of(200))), [""; 0]);
    assert!(beyond("README.md", &of(1_251)).is_some() && beyond("README.md", &of(1_250)).is_none());
    assert!(beyond("docs/planted.md", "word").is_some());
}
