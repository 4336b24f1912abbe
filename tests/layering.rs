//! The layers of `docs/architecture.md` hold in the sources: imports point down only, and the SDK has few doors.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// From the ground up. A module may use those of its own layer only where `PEERS` says so.
const LAYERS: [(&str, &[&str]); 4] = [
    (
        "vocabulary",
        &[
            "chance", "config", "entry", "error", "item", "lease", "line", "moment", "name",
            "state", "swept", "ticket", "wait",
        ],
    ),
    (
        "port",
        &["background", "clock", "embedded", "look", "store"],
    ),
    (
        "mechanisms",
        &[
            "counter",
            "heartbeat",
            "hold",
            "inspect",
            "passing",
            "queue",
            "seats",
            "sweeper",
            "table",
        ],
    ),
    (
        "facade",
        &[
            "acquire", "builder", "client", "core", "guard", "lock", "reading", "sweeping",
            "upkeep", "lib",
        ],
    ),
];

/// Mechanisms do not import each other, but for these.
const PEERS: [(&str, &str); 3] = [
    ("heartbeat", "hold"),
    ("queue", "passing"),
    ("sweeper", "passing"),
];

/// Vocabulary is not told the time, but for the settings, which carry the clock to where it is used.
const UPWARDS: [(&str, &str); 1] = [("config", "clock")];

/// Where the SDK may be named.
const SDK_DOORS: [&str; 5] = ["store", "table", "client", "builder", "embedded"];

/// Modules that know neither async nor the SDK: the models compile them as they are.
const PURE: [&str; 8] = [
    "entry", "item", "lease", "line", "moment", "name", "ticket", "wait",
];

#[test]
fn imports_point_down_only() {
    let broken: Vec<_> = sources()
        .iter()
        .flat_map(|(module, text)| broken_imports(module, text))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_sdk_is_named_only_at_its_doors() {
    let sources = sources();
    let named = sources
        .iter()
        .filter(|(module, text)| names_sdk(text) && !SDK_DOORS.contains(&module.as_str()));
    let named: Vec<_> = named.map(|(module, _)| module).collect();
    assert!(named.is_empty(), "{named:?}");
}

/// What clippy's list of doors cannot tell apart from tests, or from other methods of the same name.
const DOORS: [(&str, &[&str]); 4] = [
    ("tokio::time", &["clock", "embedded"]),
    ("thread::spawn", &[]),
    (
        ".spawn(",
        &[
            "background",
            "acquire",
            "client",
            "core",
            "guard",
            "lock",
            "sweeping",
            "embedded",
        ],
    ),
    ("fastrand::", &["chance", "embedded"]),
];

#[test]
fn time_chance_and_work_come_in_by_their_doors_and_every_select_is_in_order() {
    let sources = sources();
    let broken: Vec<_> = sources
        .iter()
        .flat_map(|(module, text)| open_doors(module, text))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

fn open_doors(module: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let by_itself = DOORS
        .iter()
        .filter(|(door, keepers)| code.contains(door) && !keepers.contains(&module));
    let mut broken: Vec<_> = by_itself
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

#[test]
fn pure_modules_know_neither_async_nor_the_sdk() {
    for (module, text) in sources()
        .iter()
        .filter(|(module, _)| PURE.contains(&module.as_str()))
    {
        let impure = ["async ", "tokio", "aws_", "futures"]
            .into_iter()
            .find(|word| code(text).contains(word));
        assert_eq!(impure, None, "{module}");
    }
}

#[test]
fn every_module_has_a_layer_and_opens_with_its_promise() {
    for (module, text) in &sources() {
        assert!(layer(module).is_some(), "{module} has no layer");
        assert!(text.starts_with("//! "), "{module} does not say what it is");
    }
}

#[test]
fn the_checks_catch_planted_faults() {
    assert_eq!(broken_imports("line", "use crate::store::Store;").len(), 1);
    assert_eq!(
        broken_imports("seats", "use crate::{queue, name::LockName};").len(),
        1
    );
    assert_eq!(
        broken_imports("seats", "fn f() { crate::lock::g() }").len(),
        1
    );
    assert!(broken_imports("lock", "use crate::{queue, name::LockName};").is_empty());
    assert!(broken_imports("line", "// not crate::store").is_empty());
    assert_eq!(
        open_doors("queue", "tokio::time::sleep(span).await; fastrand::u32(..)").len(),
        2
    );
    assert_eq!(open_doors("queue", "select! { () = a => {} }").len(), 1);
    assert!(open_doors("queue", "select! {\n    biased;\n    () = a => {} }").is_empty());
    assert!(names_sdk("use aws_sdk_dynamodb::Client;") && !names_sdk("//! aws_sdk_dynamodb"));
}

/// Each top-level module with the text of all its files.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = BTreeMap::<String, String>::new();
    for file in files(&root) {
        let path = file.strip_prefix(&root).unwrap().to_owned();
        let module = path
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap()
            .trim_end_matches(".rs");
        sources
            .entry(module.to_owned())
            .or_default()
            .push_str(&std::fs::read_to_string(&file).unwrap());
    }
    sources
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    entries
        .into_iter()
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS
        .iter()
        .position(|(_, modules)| modules.contains(&module))
}

/// Imports of `module` that do not point down.
fn broken_imports(module: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let paths = code
        .match_indices("crate::")
        .flat_map(|(at, found)| imported(&code[at + found.len()..]));
    let others = paths.filter(|other| other != module && layer(other).is_some());
    let broken = others.filter(|other| !may_import(module, other));
    broken
        .map(|other| format!("{module} uses {other}"))
        .collect()
}

fn may_import(module: &str, other: &str) -> bool {
    let pair = (module, other);
    let within = matches!(
        LAYERS[layer(module).unwrap()].0,
        "vocabulary" | "port" | "facade"
    );
    let (from, to) = (layer(module), layer(other));
    to < from || (to == from && within) || PEERS.contains(&pair) || UPWARDS.contains(&pair)
}

/// The modules that a path after `crate::` leads to: one, or those of a group in braces.
fn imported(path: &str) -> Vec<String> {
    let word = |text: &str| {
        text.trim()
            .split(|c: char| c != '_' && !c.is_alphanumeric())
            .next()
            .unwrap_or("")
            .to_owned()
    };
    match path
        .strip_prefix('{')
        .and_then(|group| group.split_once('}'))
    {
        Some((group, _)) => group.split(',').map(word).collect(),
        None => vec![word(path)],
    }
}

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
