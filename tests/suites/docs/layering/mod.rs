//! The sources keep the floors of `docs/architecture.md`: imports point down only, and few rooms may name the SDK.

mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::docs::links;
use paths::{Named, paths};

/// The rooms of each floor, from the ground up. `lib` hands out what is in the rooms, and is no room.
const FLOORS: [&str; 8] = [
    "runtime",
    "vocabulary",
    "telemetry",
    "store",
    "counter items queue",
    "agent",
    "lock sweeper",
    "blocking operator",
];

/// The rooms that may name the SDK.
const SDK_DOORS: [&str; 4] = ["store", "operator", "lock", "items"];

#[test]
fn imports_point_down_only() {
    let broken: Vec<_> = sources()
        .iter()
        .flat_map(|(file, text)| broken_imports(file, text))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_sdk_is_named_only_at_its_doors() {
    let sources = sources();
    let named = sources
        .iter()
        .filter(|(file, text)| names_sdk(text) && !SDK_DOORS.contains(&module(file)));
    let named: Vec<_> = named.map(|(file, _)| file).collect();
    assert!(named.is_empty(), "{named:?}");
}

/// Items that clippy's list cannot forbid to the library without forbidding them to tests, and the modules that may name anything in them.
const DOORS: [(&str, &[&str]); 13] = [
    ("fastrand", &["runtime"]),
    ("getrandom", &["runtime"]),
    ("rustix::rand", &[]),
    ("rustix::time", &["runtime"]),
    ("std::thread", &["blocking", "runtime"]),
    ("std::time::Instant", &["runtime"]),
    ("tokio::runtime", &["agent", "blocking", "lock", "runtime"]),
    ("tokio::spawn", &[]),
    ("tokio::task", &["agent", "blocking"]),
    ("tokio::time", &["runtime"]),
    ("tokio_util::context", &[]),
    ("tokio_util::task", &[]),
    ("tokio_util::time", &[]),
];

/// The same for methods.
const METHODS: [(&str, &[&str]); 4] = [
    (".spawn(", &["agent", "blocking", "runtime"]),
    (".spawn_blocking(", &[]),
    (".spawn_local(", &[]),
    (".block_on(", &["blocking"]),
];

#[test]
fn time_randomness_and_work_come_in_by_their_doors_and_every_select_is_in_order() {
    let sources = sources();
    let broken: Vec<_> = sources
        .iter()
        .flat_map(|(file, text)| open_doors(module(file), text))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

fn open_doors(module: &str, text: &str) -> Vec<String> {
    // The doors are for what users run. A module's own tests stand at its end.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let (code, named) = (code(text), paths(text));
    let through = |door: &str| named.iter().any(|path| leads_through(path, door));
    let doors = DOORS.iter().filter(|(door, _)| through(door));
    let methods = METHODS.iter().filter(|(method, _)| code.contains(method));
    let not_its_own = doors
        .chain(methods)
        .filter(|(_, keepers)| !keepers.contains(&module));
    let mut broken: Vec<_> = not_its_own
        .map(|(door, _)| format!("{module}: {door}"))
        .collect();
    let selects = code
        .split("select!")
        .skip(1)
        .map(|after| after.trim_start_matches([' ', '{', '\n']));
    let unordered = selects
        .filter(|after| !after.starts_with("biased;"))
        .count();
    broken
        .extend((unordered > 0).then(|| format!("{module}: {unordered} select! without biased;")));
    broken
}

/// Whether a path leads to the door or beyond it, or imports it without its name, as a part of a parent.
fn leads_through(path: &Named, door: &str) -> bool {
    let mut segments = path.segments.iter().map(String::as_str);
    let mut door = door.split("::");
    loop {
        match (segments.next(), door.next()) {
            (_, None) | (None | Some("*" | "self"), _) => return true,
            (Some(segment), Some(part)) if segment != part => return false,
            _ => {}
        }
    }
}

/// What `cargo build -p fairlock-protocol` builds, beside the crate itself.
#[test]
fn the_protocol_knows_neither_async_nor_the_sdk() {
    let crate_of = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/protocol");
    let manifest = std::fs::read_to_string(crate_of.join("Cargo.toml")).unwrap();
    assert_eq!(
        dependencies(&manifest),
        ["serde", "serde_json", "sha2", "thiserror"]
    );
    for (file, text) in texts(&crate_of.join("src")) {
        assert_eq!(impurity(&text), None, "{file}");
        assert!(text.starts_with("//! "), "{file} does not say what it is");
    }
    assert_eq!(
        dependencies("[dependencies]\nserde = 1\n\n# Time.\ntokio = 1\n[lib]\nbench = false"),
        ["serde", "tokio"]
    );
    assert_eq!(impurity("pub async fn f() {}"), Some("async "));
}

fn dependencies(manifest: &str) -> Vec<&str> {
    let after = manifest.split("[dependencies]").nth(1).unwrap();
    let lines = after.lines().take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split([' ', '.', '=']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

fn impurity(text: &str) -> Option<&'static str> {
    let code = code(text);
    ["async ", "tokio", "aws_", "futures"]
        .into_iter()
        .find(|word| code.contains(word))
}

/// What `cargo build -p fairlock-embedded` builds: an engine for any user of DynamoDB tables.
#[test]
fn the_engine_knows_no_lock() {
    let crate_of = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/embedded");
    let manifest = std::fs::read_to_string(crate_of.join("Cargo.toml")).unwrap();
    let of_ours = |name: &&str| name.starts_with("fairlock");
    assert_eq!(dependencies(&manifest).into_iter().find(of_ours), None);
    for (file, text) in texts(&crate_of.join("src")) {
        assert!(text.starts_with("//! "), "{file} does not say what it is");
        let knows = paths(&text)
            .iter()
            .any(|path| path.segments[0].starts_with("fairlock"));
        assert!(!knows, "{file}");
    }
    let planted =
        "[dependencies]\nserde.workspace = true\nfairlock = { path = \"../..\" }\n[lib]\n";
    assert_eq!(
        dependencies(planted).into_iter().find(of_ours),
        Some("fairlock")
    );
}

#[test]
fn the_modules_of_a_crate_import_each_other_in_no_circle() {
    let crates = ["bench", "cli", "embedded", "protocol", "sim", "testkit"];
    let crates = crates.map(|name| format!("crates/{name}/src"));
    for folder in ["src".to_owned()].into_iter().chain(crates) {
        let sources = texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder));
        assert!(sources.len() > 10, "{}", sources.len());
        assert_eq!(circle(&sources), None, "{folder}");
        for room in rooms(&sources) {
            assert_eq!(circle(&inside(&room, &sources)), None, "{folder}/{room}");
        }
    }
    let planted = [
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "fn f() { super::a::f() }"),
    ];
    let planted = planted.map(|(file, text)| (file.to_owned(), text.to_owned()));
    assert_eq!(
        circle(&planted.clone().into()).unwrap(),
        ["a", "b", "c", "a"]
    );
    assert_eq!(circle(&planted.into_iter().skip(1).collect()), None);

    let planted = [
        ("room/mod.rs", "mod a; mod b; pub use a::A;"),
        ("room/a.rs", "use super::b::B;"),
        ("room/b.rs", "use crate::room::a::A; use crate::c::C;"),
        ("room/c.rs", "use super::b::B;"),
        ("other.rs", "use crate::room::A;"),
    ];
    let planted = planted.map(|(file, text)| (file.to_owned(), text.to_owned()));
    let planted = planted.into();
    assert_eq!(circle(&planted), None);
    let rooms = rooms(&planted);
    assert_eq!(rooms.iter().collect::<Vec<_>>(), ["room"]);
    assert_eq!(circle(&inside("room", &planted)).unwrap(), ["a", "b", "a"]);
}

/// The folders of a crate, at any depth.
fn rooms(sources: &BTreeMap<String, String>) -> BTreeSet<String> {
    let folders = sources.keys().flat_map(|file| {
        let ends = file.match_indices('/');
        ends.map(|(end, _)| file[..end].to_owned())
    });
    folders.collect()
}

/// The files in a room beside its own `mod.rs`, as if they were a crate.
fn inside(room: &str, sources: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = format!("crate::{}::", room.replace('/', "::"));
    let files = sources.iter().filter_map(|(file, text)| {
        let file = file.strip_prefix(room)?.strip_prefix('/')?;
        let outside = text
            .replace(&own, "self::super::")
            .replace("crate::", "outside::");
        let text = outside.replace("self::super::", "crate::");
        (file != "mod.rs").then(|| (file.to_owned(), text))
    });
    files.collect()
}

/// Finds modules that import each other in a circle, in the files of a crate.
fn circle(sources: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let named = |file: &str, text: &str| {
        let others = paths(text)
            .into_iter()
            .filter_map(|path| leads_to(file, &path));
        let others = others.filter(|other| other != module(file));
        others.collect::<BTreeSet<_>>()
    };
    let mut imports: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (file, text) in sources {
        imports
            .entry(module(file))
            .or_default()
            .extend(named(file, text));
    }
    let mut followed = BTreeSet::new();
    let mut modules = imports.keys();
    modules.find_map(|module| ring(module, &imports, &mut Vec::new(), &mut followed))
}

/// Follows imports from a module until one leads back to a module on the way. A module that was followed to its end is in no circle.
fn ring(
    module: &str,
    imports: &BTreeMap<&str, BTreeSet<String>>,
    way: &mut Vec<String>,
    followed: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if followed.contains(module) {
        return None;
    }
    let is_on_it = way.iter().position(|before| before == module);
    way.push(module.to_owned());
    let found = match is_on_it {
        Some(begin) => Some(way[begin..].to_vec()),
        None => imports
            .get(module)
            .into_iter()
            .flatten()
            .find_map(|other| ring(other, imports, way, followed)),
    };
    way.pop();
    if found.is_none() {
        followed.insert(module.to_owned());
    }
    found
}

#[test]
fn every_room_has_a_floor_and_every_file_opens_with_its_promise() {
    for (file, text) in &sources() {
        let room = module(file);
        assert!(
            room == "lib" || floor(room).is_some(),
            "{file} has no floor"
        );
        assert!(text.starts_with("//! "), "{file} does not say what it is");
    }
}

/// Shared code is a crate or a module, so that the compiler shows a crate only the public API of another.
#[test]
fn no_crate_compiles_the_files_of_another() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "tests", "benches", "examples", "crates"];
    let files = folders.iter().flat_map(|at| links::sources(&root.join(at)));
    let files: Vec<_> = files.collect();
    let smuggling = files.iter();
    let smuggling = smuggling.filter(|file| smuggles(&std::fs::read_to_string(file).unwrap()));
    let smuggling: Vec<_> = smuggling.collect();
    assert!(smuggling.is_empty(), "{smuggling:?}");
    assert!(files.len() > 300, "{}", files.len());
    assert!(smuggles("#[path = \"../../store/mod.rs\"]\nmod store;"));
    assert!(smuggles("include!(\"../../line.rs\");"));
    assert!(!smuggles(
        "use crate::table::table; use fairlock::LockClient;"
    ));
    assert!(!smuggles("    assert!(smuggles(\"#[path = 1]\"))"));
}

/// Whether the text includes another file, by an attribute or a macro at the beginning of a line.
fn smuggles(text: &str) -> bool {
    let ways = ["#[path", "include!"];
    let lines = text.lines().map(str::trim_start);
    { lines }.any(|line| ways.iter().any(|way| line.starts_with(way)))
}

#[test]
fn the_checks_catch_planted_faults() {
    for (file, planted) in [
        ("counter.rs", "use crate::agent::Held;"),
        ("counter.rs", "use super::agent::Held;"),
        ("counter.rs", "use self::super::agent::Held;"),
        ("counter.rs", "use crate::queue::snapshot::Snapshot;"),
        ("counter.rs", "use crate::LockGuard;"),
        ("counter.rs", "use crate::{LockGuard as G};"),
        ("counter.rs", "use crate::*;"),
        ("counter.rs", "use crate as all; all::agent::f()"),
        ("counter.rs", "mod tests { use super::super::agent::Held; }"),
        (
            "counter.rs",
            "fn f() -> char { '\"' } use crate::agent::Held;",
        ),
        (
            "agent/view.rs",
            "use crate::{lock, vocabulary::name::LockName};",
        ),
        (
            "agent/view.rs",
            "use {crate::lock, crate::vocabulary::name::LockName};",
        ),
        ("agent/view.rs", "fn f() { crate::lock::g() }"),
        (
            "vocabulary/name.rs",
            "use crate::{runtime::clock::Clock, store::Store};",
        ),
        ("store/scan.rs", "use super::super::agent::View;"),
        ("store/scan.rs", "use super::{super::agent::View, Store};"),
        ("store/mod.rs", "use super::agent::View;"),
    ] {
        assert_eq!(broken_imports(file, planted).len(), 1, "{file}: {planted}");
    }
    for (file, sound) in [
        (
            "lock/run.rs",
            "use crate::{store, vocabulary::name::LockName};",
        ),
        ("counter.rs", "// not crate::agent"),
        ("counter.rs", "fn f() {} // not crate::agent"),
        ("counter.rs", "fn f() -> &str { \"crate::agent\" }"),
        (
            "counter.rs",
            "mod tests { use super::*; } use super::vocabulary::error::Error;",
        ),
        ("store/scan.rs", "use super::{Store, codec::{self, Item}};"),
        ("store/mod.rs", "use crate::Clock;"),
        ("lib.rs", "pub use lock::guard::LockGuard;"),
    ] {
        let broken = broken_imports(file, sound);
        assert!(broken.is_empty(), "{sound}: {broken:?}");
    }
    assert!(names_sdk("use aws_sdk_dynamodb::Client;") && !names_sdk("//! aws_sdk_dynamodb"));
}

#[test]
fn the_checks_catch_planted_doors() {
    for planted in [
        "async fn f() { tokio::time::sleep(span).await }",
        "use tokio::{sync::Notify, time::sleep};",
        "use tokio::*;",
        "use tokio as t;",
        "use ::tokio::{self as t};",
        "fn f() { rustix::time::clock_gettime(id) }",
        "fn f() { tokio::task::spawn_blocking(work) }",
        "fn f() { Handle::current().spawn_blocking(work) }",
        "fn f() { std::thread::spawn(work) }",
        "use std::time::Instant;",
        "fn f() { fastrand::u32(..) }",
        "use fastrand as f;",
        "fn f() { getrandom::u64() }",
        "async fn f() { select! { () = a => {} } }",
    ] {
        assert!(!open_doors("queue", planted).is_empty(), "{planted}");
    }
    for sound in [
        "async fn f() { select! {\n    biased;\n    () = a => {} } }",
        "use std::time::{Duration, SystemTime};",
        "use tokio::sync::{Notify, oneshot};",
        "fn f() { self.clock.time::<u64>() }",
    ] {
        let broken = open_doors("queue", sound);
        assert!(broken.is_empty(), "{sound}: {broken:?}");
    }
}

/// Each file of the library, by its path under `src`, with its text.
fn sources() -> BTreeMap<String, String> {
    texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

/// The same for any folder.
fn texts(root: &Path) -> BTreeMap<String, String> {
    let text = |file: PathBuf| {
        let path = file.strip_prefix(root).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        (path.to_str().unwrap().to_owned(), text)
    };
    links::sources(root).into_iter().map(text).collect()
}

/// The position of a file in the tree of modules.
fn place(file: &str) -> Vec<&str> {
    let path = file.trim_end_matches(".rs");
    let place = path
        .split('/')
        .filter(|name| !["mod", "lib"].contains(name));
    place.collect()
}

/// The top-level module that a file belongs to.
fn module(file: &str) -> &str {
    place(file).first().copied().unwrap_or("lib")
}

fn floor(room: &str) -> Option<usize> {
    FLOORS
        .iter()
        .position(|rooms| rooms.split_whitespace().any(|it| it == room))
}

/// What a file names that is not on a floor below it.
fn broken_imports(file: &str, text: &str) -> Vec<String> {
    let from = module(file);
    let others = paths(text)
        .into_iter()
        .filter_map(|path| leads_to(file, &path));
    let broken = others.filter(|other| from != other && !may_import(from, other));
    broken.map(|other| format!("{file} uses {other}")).collect()
}

fn may_import(room: &str, other: &str) -> bool {
    let floors = (floor(room), floor(other));
    matches!(floors, (Some(from), Some(to)) if to < from) || room == "lib" && floors.1.is_some()
}

/// The top-level module that a path leads to from a file. Returns `None` if the path stays within the file's module or leaves the library.
/// A path to anything but a module, such as the library under another name, is returned as it is written.
fn leads_to(file: &str, path: &Named) -> Option<String> {
    let inside = path.inside.iter().map(String::as_str);
    let mut place: Vec<_> = place(file).into_iter().chain(inside).collect();
    let mut segments = path.segments.iter().map(String::as_str).peekable();
    match segments.peek()? {
        &"crate" => place.clear(),
        &"self" | &"super" => {}
        _ => return None,
    }
    while let Some(step) = segments.next_if(|step| ["crate", "self", "super"].contains(step)) {
        if step == "super" {
            place.pop();
        }
    }
    if !place.is_empty() {
        return None;
    }
    let name = segments.next().unwrap_or("crate");
    let defined = REEXPORTS.get(name).map_or(name, String::as_str);
    Some(defined.to_owned())
}

/// The names that `lib.rs` re-exports, each with the module that defines it.
static REEXPORTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let named = paths(&sources()["lib.rs"]);
    let ours = named
        .into_iter()
        .filter(|path| floor(&path.segments[0]).is_some());
    ours.map(|path| (path.name, path.segments[0].clone()))
        .collect()
});

fn names_sdk(text: &str) -> bool {
    code(text).contains("aws_sdk_dynamodb")
}

/// The text without comments.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}
