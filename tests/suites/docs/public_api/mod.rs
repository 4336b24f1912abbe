//! Every public item with its signature, as the sources have it, stands in a file: those of a crate's root in one, those of each public
//! module in one of its own. So a change of the public API shows in a diff, and is meant. `FAIRLOCK_BLESS=1` writes the files again.
//!
//! The sources are read, not compiled: this knows neither what derives and macros add nor which traits hold by themselves.

mod names;
mod shown;
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use syn::Item;

use names::{Target, exported, public_modules};
use shown::{bare, implemented};
use sources::{ModulePath, Sources};

const BLESS: &str = "FAIRLOCK_BLESS";

/// The crates that are read, and the listing of each that users depend on.
const CRATES: [(&str, &str, Option<&str>); 3] = [
    ("fairlock", "src", Some("fairlock")),
    (
        "fairlock_embedded",
        "crates/embedded/src",
        Some("fairlock-embedded"),
    ),
    ("fairlock_protocol", "crates/protocol/src", None),
];

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All items of a module, each with what implements it.
fn listed(sources: &Sources, module: &ModulePath) -> String {
    let mut text = String::new();
    for (name, (path, target)) in exported(sources, module) {
        text.push_str(&format!("// {name}\n\n"));
        match target {
            Target::Item(item) => {
                text.push_str(&text_of(bare(item.clone())));
                text.extend(implementations(sources, item));
            }
            Target::Crate | Target::Foreign => {
                text.push_str(&format!("pub use {} as {name};\n", path.join("::")));
            }
        }
        text.push('\n');
    }
    text
}

fn implementations(sources: &Sources, of: &Item) -> BTreeSet<String> {
    let shown = sources.all().filter_map(|(module, item)| match item {
        Item::Impl(item) => {
            let is_for = sources.self_item(module, &item.self_ty)?;
            let shown = std::ptr::eq(is_for, of).then(|| implemented(item.clone()));
            shown.flatten().map(|item| text_of(Item::Impl(item)))
        }
        _ => None,
    });
    shown.collect()
}

fn text_of(item: Item) -> String {
    let (shebang, attrs) = (None, Vec::new());
    let file = syn::File {
        shebang,
        attrs,
        items: vec![item],
    };
    prettyplease::unparse(&file).replace(" {}\n", ";\n")
}

/// The file of a module's listing: that of a crate, or of a module of one.
fn snapshot(of: &str, module: &[String]) -> PathBuf {
    let name = match &module[1..] {
        [] => of.to_owned(),
        within => within.join("-"),
    };
    home().join("tests/public_api").join(format!("{name}.txt"))
}

/// The first line in which two texts differ.
fn difference(expected: &str, found: &str) -> Option<String> {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    loop {
        match (expected.next(), found.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => return Some(format!("expected {one:?}, found {other:?}")),
        }
    }
}

#[test]
fn the_public_api_is_as_it_stands_in_its_files() {
    let mut sources = Sources::default();
    for (name, root, _) in CRATES {
        sources.add(name, &home().join(root));
    }
    for (name, _, listing) in CRATES {
        let modules = public_modules(&sources, name).into_iter();
        for (module, listing) in modules.filter_map(|module| Some((module, listing?))) {
            compare(&snapshot(listing, &module), &listed(&sources, &module));
        }
    }
}

fn compare(file: &Path, found: &str) {
    if std::env::var_os(BLESS).is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, found).unwrap();
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    if let Some(difference) = difference(&expected, found) {
        panic!(
            "the public API is not as in {}: {difference}. If that is meant, `{BLESS}=1 cargo test --test suites \
             public_api::` writes the file again",
            file.display()
        );
    }
}

/// The listings of all public modules of a crate.
fn listing_of(source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lib.rs"), source).unwrap();
    let mut sources = Sources::default();
    sources.add("own", folder.path());
    let modules = public_modules(&sources, "own").into_iter();
    let listings = modules.map(|module| listed(&sources, &module));
    listings.collect()
}

const SOURCE: &str = "
mod inner {
    /// Words.
    #[derive(Clone)]
    pub struct Thing { pub size: u8, hidden: u8 }
    impl Thing {
        /// Words.
        pub fn grow(&mut self, by: u8) -> u8 { self.hidden += by; self.hidden }
        fn secret(&self) {}
    }
    impl From<u8> for Thing { fn from(size: u8) -> Self { Thing { size, hidden: 0 } } }
}
mod other { struct Thing; impl Thing { pub fn unseen(&self) {} } }
mod problem { pub enum Kind { Small { by: i8 }, Large } }
mod error { pub use super::problem::Kind as Cause; }
pub mod open {
    pub struct Thing;
    impl Thing { pub fn shrink(&self) {} }
    impl Iterator for &Thing { type Item = i16; fn next(&mut self) -> Option<i16> { None } }
    pub mod deep { pub use super::super::inner::Thing as Same; pub const MOST: i32 = 1; fn private() {} }
}
pub use error::Cause;
pub use inner::Thing;
";

#[test]
fn a_listing_shows_each_change_that_a_caller_can_notice_and_no_other() {
    let before = listing_of(SOURCE);
    for planted in [
        ("by: u8", "by: u16"),
        ("-> u8 {", "-> u16 {"),
        ("&mut self, by", "&self, by"),
        ("pub fn grow", "fn grow"),
        ("fn secret", "pub fn secret"),
        ("pub size: u8", "pub size: u16"),
        ("pub size: u8", "size: u8"),
        ("derive(Clone)", "derive(Clone, Debug)"),
        ("From<u8>", "From<u16>"),
        ("pub struct", "#[non_exhaustive] pub struct"),
        ("by: i8", "by: u8"),
        (", Large", ""),
        ("pub mod open", "mod open"),
        ("pub mod deep", "mod deep"),
        ("fn shrink(&self)", "fn shrink(self)"),
        ("type Item = i16", "type Item = u16"),
        ("MOST: i32", "MOST: u32"),
        ("fn private", "pub fn private"),
        ("Thing as Same", "Thing as Other"),
    ] {
        assert!(SOURCE.contains(planted.0), "{planted:?}");
        let after = listing_of(&SOURCE.replacen(planted.0, planted.1, 1));
        assert_ne!(before, after, "{planted:?}");
    }
    for harmless in [
        ("/// Words.", "/// Other words."),
        ("self.hidden += by;", ""),
        ("hidden: u8 }", "hidden: u8, more: u8 }"),
        ("fn secret(&self)", "fn secret(&self, more: u8)"),
        ("pub fn unseen", "fn unseen"),
        ("fn private()", "fn private(more: u8)"),
    ] {
        assert!(SOURCE.contains(harmless.0), "{harmless:?}");
        let after = listing_of(&SOURCE.replacen(harmless.0, harmless.1, 1));
        assert_eq!(before, after, "{harmless:?}");
    }
}
