//! The book: every page of `docs/` is in its summary, and every link of a page leads to a file and a heading that are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A page of the book, or another Markdown file of the repository.
pub(crate) struct Page {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources below a folder, in the order of their paths.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let of_path = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false => vec![path],
    };
    let found = paths.into_iter().flat_map(of_path);
    found
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

fn page(path: PathBuf) -> Page {
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    Page { path, text }
}

/// The pages of `docs/`, and those at the top of the repository.
pub(crate) fn pages() -> Vec<Page> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "md");
    let at_the_top = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    docs.filter(is_page).chain(at_the_top).map(page).collect()
}

impl Page {
    /// The lines outside of code blocks.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_code = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
    }

    /// The targets of its links.
    fn links(&self) -> Vec<&str> {
        let of_line = |line| links(line).collect::<Vec<_>>();
        self.prose().flat_map(of_line).collect()
    }

    /// The anchors of its headings, as GitHub and mdBook make them.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        headings
            .map(|line| anchor(line.trim_start_matches('#')))
            .collect()
    }

    /// What is wrong with a link, if anything is.
    fn problem(&self, link: &str) -> Option<String> {
        if link.contains("://") || link.starts_with("mailto:") {
            return None;
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = self.path.parent().unwrap().join(file);
        if !path.exists() {
            return Some(format!("{}: no file `{link}`", self.path.display()));
        }
        let is_there = match file {
            _ if heading.is_empty() => true,
            "" => self.anchors().contains(heading),
            _ => page(path).anchors().contains(heading),
        };
        (!is_there).then(|| format!("{}: no heading `{link}`", self.path.display()))
    }
}

/// Whether a link from a page of `docs/` leads to a file and a heading that are there.
pub(crate) fn leads_somewhere(link: &str) -> bool {
    let (path, text) = (root().join("docs/from.md"), String::new());
    Page { path, text }.problem(link).is_none()
}

/// `[text](target)`, any number on a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        target.split_whitespace().next()
    })
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|sign| match sign {
        ' ' => Some('-'),
        '-' | '_' => Some(sign),
        _ if sign.is_alphanumeric() => Some(sign.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn problems(pages: &[Page]) -> Vec<String> {
    let of_page = |page: &Page| -> Vec<String> {
        let links = page.links();
        links
            .into_iter()
            .filter_map(|link| page.problem(link))
            .collect()
    };
    pages.iter().flat_map(of_page).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let problems = problems(&pages());
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = page(root().join("docs/SUMMARY.md"));
    let listed: BTreeSet<_> = summary.links().into_iter().collect();
    let docs = pages().into_iter().map(|page| page.path);
    let docs = docs.filter(|path| path.parent().unwrap().ends_with("docs"));
    let names = docs.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    let missing: Vec<_> = names
        .filter(|name| name != "SUMMARY.md" && !listed.contains(name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_link_to_nowhere_is_found() {
    let planted = |text: &str| {
        let path = root().join("docs/planted.md");
        let text = text.to_owned();
        problems(&[Page { path, text }]).len()
    };
    assert_eq!(
        planted("# Here it is\n[a](#here-it-is) [b](protocol.md)"),
        0
    );
    assert_eq!(planted("[a](no-such-page.md)"), 1);
    assert_eq!(
        planted("[a](protocol.md#no-such-heading) [b](#nor-this)"),
        2
    );
    assert_eq!(planted("```text\n[a](no-such-page.md)\n```"), 0);
}

const FOLDERS: [&str; 7] = [
    "benches/",
    "crates/",
    "docs/",
    "examples/",
    "scripts/",
    "src/",
    "tests/",
];

/// What a page names in code marks as a file or a folder of the repository.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let marked = text.split('`').skip(1).step_by(2);
    let words = marked.filter_map(|code| code.split_whitespace().next());
    words.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
}

#[test]
fn every_path_that_a_page_names_is_there() {
    let pages = pages();
    let missing = pages.iter().flat_map(|page| {
        let prose: Vec<_> = page.prose().collect();
        let text = prose.join("\n");
        let paths = named(&text).filter(|path| !root().join(path).exists());
        let missing = paths.map(|path| format!("{:?}: {path}", page.path.file_name().unwrap()));
        missing.collect::<Vec<_>>()
    });
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "{missing:#?}");

    let planted = "look at `src/lib.rs` and `scripts/map src/store`, not src/none or `cargo`";
    let found: Vec<_> = named(planted).collect();
    assert_eq!(found, ["src/lib.rs", "scripts/map"]);
}
