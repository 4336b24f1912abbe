//! Every public item with its signature, as the sources have it, stands in a file. So a change of the public API shows in a diff, and is
//! meant. `FAIRLOCK_BLESS=1` writes the files again.
//!
//! The sources are read, not compiled: this knows neither what derives add nor which traits hold by themselves.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{
    Attribute, Fields, ImplItem, Item, ItemImpl, ItemMod, Meta, TraitItem, Type, UseTree,
    Visibility, parse_quote,
};

const BLESS: &str = "FAIRLOCK_BLESS";

/// A crate: its sources, and those of others of which it re-exports items.
struct Crate {
    name: &'static str,
    root: &'static str,
    beside: Option<(&'static str, &'static str)>,
}

const CRATES: [Crate; 2] = [
    Crate {
        name: "fairlock",
        root: "src",
        beside: Some(("fairlock_protocol", "crates/protocol/src")),
    },
    Crate {
        name: "fairlock-embedded",
        root: "crates/embedded/src",
        beside: None,
    },
];

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

// ---------------------------------------------------------------------------------------------------------------
// The items of a crate

/// An item, and the path of the module that it stands in.
struct Placed {
    module: Vec<String>,
    item: Item,
}

/// All items of a crate, those of its tests excepted.
fn items(root: &Path) -> Vec<Placed> {
    let mut found = Vec::new();
    read(&root.join("lib.rs"), root, &[], &mut found);
    found
}

fn read(file: &Path, folder: &Path, module: &[String], found: &mut Vec<Placed>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    for item in parsed.items {
        take(item, folder, module, found);
    }
}

fn take(item: Item, folder: &Path, module: &[String], found: &mut Vec<Placed>) {
    let module = module.to_vec();
    match item {
        Item::Mod(inner) if is_for_tests(&inner.attrs) => {}
        Item::Mod(inner) => {
            let within = [module, vec![inner.ident.to_string()]].concat();
            descend(inner, folder, &within, found);
        }
        item => found.push(Placed { module, item }),
    }
}

fn descend(inner: ItemMod, folder: &Path, within: &[String], found: &mut Vec<Placed>) {
    let name = inner.ident.to_string();
    if let Some((_, items)) = inner.content {
        for item in items {
            take(item, &folder.join(&name), within, found);
        }
        return;
    }
    let beside: PathBuf = folder.join(format!("{name}.rs"));
    let file = if beside.exists() {
        beside
    } else {
        folder.join(&name).join("mod.rs")
    };
    read(&file, &folder.join(&name), within, found);
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("doctest") || condition.contains("doctest")
        }
        _ => false,
    })
}

// ---------------------------------------------------------------------------------------------------------------
// What is public

/// The paths by which the root re-exports items: its public name, and the path.
fn exported(items: &[Placed]) -> BTreeMap<String, Vec<String>> {
    let mut names = BTreeMap::new();
    for placed in items.iter().filter(|placed| placed.module.is_empty()) {
        if let Item::Use(item) = &placed.item
            && matches!(item.vis, Visibility::Public(_))
        {
            flatten(&item.tree, &[], &mut names);
        }
    }
    names
}

fn flatten(tree: &UseTree, before: &[String], names: &mut BTreeMap<String, Vec<String>>) {
    let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident), names),
        UseTree::Name(name) => {
            names.insert(name.ident.to_string(), with(&name.ident));
        }
        UseTree::Rename(rename) => {
            names.insert(rename.rename.to_string(), with(&rename.ident));
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, names);
            }
        }
        UseTree::Glob(_) => panic!("a glob hides what is public: {before:?}"),
    }
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Struct(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Const(item) => &item.ident,
        Item::Static(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The item behind a re-export. Modules re-export what is deeper, so only the beginning of its path is known.
fn definition<'a>(items: &'a [Placed], path: &[String]) -> Option<&'a Placed> {
    let (name, module) = path.split_last()?;
    let module: Vec<_> = module.iter().filter(|part| *part != "crate").collect();
    let is_it = |placed: &&Placed| {
        let begins = module
            .iter()
            .copied()
            .eq(placed.module.iter().take(module.len()));
        begins && is_public(&placed.item) && name_of(&placed.item).as_ref() == Some(name)
    };
    let mut found: Vec<_> = items.iter().filter(is_it).collect();
    // What seals a trait may have its name, in a deeper module.
    found.sort_by_key(|placed| placed.module.len());
    if let [first, second, ..] = &found[..]
        && first.module.len() == second.module.len()
    {
        panic!(
            "{path:?} is in {:?} or in {:?}",
            first.module, second.module
        );
    }
    found.first().copied()
}

fn is_public(item: &Item) -> bool {
    let visibility = match item {
        Item::Struct(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Const(item) => &item.vis,
        Item::Static(item) => &item.vis,
        _ => return false,
    };
    matches!(visibility, Visibility::Public(_))
}

// ---------------------------------------------------------------------------------------------------------------
// What is shown of an item

/// What a caller can see of attributes: no documentation, no lints.
fn shown(attributes: &mut Vec<Attribute>) {
    let kept = ["cfg", "derive", "non_exhaustive", "must_use", "deprecated"];
    attributes.retain(|attribute| kept.iter().any(|kept| attribute.path().is_ident(kept)));
    for attribute in attributes {
        // The text of a warning is no promise.
        if attribute.path().is_ident("must_use") {
            *attribute = parse_quote!(#[must_use]);
        }
    }
}

/// The item without bodies, documentation and what is private.
fn bare(mut item: Item) -> Item {
    match &mut item {
        Item::Struct(item) => {
            shown(&mut item.attrs);
            fields(&mut item.fields);
        }
        Item::Enum(item) => {
            shown(&mut item.attrs);
            for variant in &mut item.variants {
                shown(&mut variant.attrs);
                each(&mut variant.fields, |field| shown(&mut field.attrs));
            }
        }
        Item::Trait(item) => {
            shown(&mut item.attrs);
            item.items.iter_mut().for_each(bare_of_trait);
        }
        Item::Fn(item) => {
            shown(&mut item.attrs);
            *item.block = parse_quote!({});
        }
        Item::Type(item) => shown(&mut item.attrs),
        Item::Const(item) => shown(&mut item.attrs),
        Item::Static(item) => shown(&mut item.attrs),
        _ => {}
    }
    item
}

fn bare_of_trait(item: &mut TraitItem) {
    match item {
        TraitItem::Fn(method) => {
            shown(&mut method.attrs);
            // A default body means that implementors need not write it.
            if method.default.is_some() {
                method.default = Some(parse_quote!({}));
            }
        }
        TraitItem::Type(item) => shown(&mut item.attrs),
        TraitItem::Const(item) => shown(&mut item.attrs),
        _ => {}
    }
}

/// Private fields are one field without a name that a caller could use.
fn fields(all: &mut Fields) {
    let is_private = |field: &syn::Field| !matches!(field.vis, Visibility::Public(_));
    let hides = all.iter().any(is_private);
    each(all, |field| shown(&mut field.attrs));
    match all {
        Fields::Named(named) => {
            let public = named
                .named
                .clone()
                .into_iter()
                .filter(|field| !is_private(field));
            named.named = public.collect();
            if hides {
                named.named.push(parse_quote!(private: ()));
            }
        }
        Fields::Unnamed(unnamed) => {
            for field in unnamed.unnamed.iter_mut().filter(|field| is_private(field)) {
                field.ty = parse_quote!(());
            }
        }
        Fields::Unit => {}
    }
}

fn each(all: &mut Fields, mut change: impl FnMut(&mut syn::Field)) {
    all.iter_mut().for_each(&mut change);
}

/// What an implementation adds: public methods, or a trait with its types. Returns `None` if that is nothing.
fn implemented(mut item: ItemImpl) -> Option<ItemImpl> {
    shown(&mut item.attrs);
    let of_a_trait = item.trait_.is_some();
    let kept = item.items.into_iter().filter_map(|inner| match inner {
        ImplItem::Fn(mut method) if !of_a_trait && matches!(method.vis, Visibility::Public(_)) => {
            shown(&mut method.attrs);
            method.block = parse_quote!({});
            Some(ImplItem::Fn(method))
        }
        ImplItem::Const(mut item) if matches!(item.vis, Visibility::Public(_)) => {
            shown(&mut item.attrs);
            Some(ImplItem::Const(item))
        }
        ImplItem::Type(item) if of_a_trait => Some(ImplItem::Type(item)),
        _ => None,
    });
    item.items = kept.collect();
    (of_a_trait || !item.items.is_empty()).then_some(item)
}

fn self_name(item: &ItemImpl) -> Option<String> {
    let Type::Path(path) = &*item.self_ty else {
        return None;
    };
    Some(path.path.segments.last()?.ident.to_string())
}

/// Every implementation for the type that stands at this place.
fn implementations(items: &[Placed], of: &Placed) -> Vec<Item> {
    let name = name_of(&of.item);
    let defines = |module: &[String]| {
        let same = |placed: &Placed| placed.module == module && name_of(&placed.item) == name;
        module != of.module && items.iter().any(same)
    };
    let mut found = Vec::new();
    for placed in items {
        // Another module may have a private type of the same name.
        if let Item::Impl(item) = &placed.item
            && self_name(item) == name
            && !defines(&placed.module)
        {
            found.extend(implemented(item.clone()).map(Item::Impl));
        }
    }
    found
}

// ---------------------------------------------------------------------------------------------------------------
// The listing

fn listed(of: &Crate) -> String {
    let own = items(&home().join(of.root));
    let beside = of
        .beside
        .map(|(name, root)| (name, items(&home().join(root))));
    let mut text = String::new();
    for (name, path) in exported(&own) {
        let (placed, all) = match &beside {
            Some((other, items)) if path[0] == *other => (definition(items, &path[1..]), items),
            _ => (definition(&own, &path), &own),
        };
        let mut shown = vec![match placed {
            Some(placed) => bare(placed.item.clone()),
            // A whole crate, which has a listing of its own.
            None => syn::parse_str(&format!("pub use {} as {name};", path.join("::"))).unwrap(),
        }];
        let implementations = placed.map_or(Vec::new(), |placed| implementations(all, placed));
        let text_of = |item: Item| {
            let (shebang, attrs) = (None, Vec::new());
            let file = syn::File {
                shebang,
                attrs,
                items: vec![item],
            };
            prettyplease::unparse(&file).replace(" {}\n", ";\n")
        };
        let implementations: BTreeSet<_> = implementations.into_iter().map(text_of).collect();
        text.push_str(&format!("// {name}\n\n{}", text_of(shown.remove(0))));
        text.extend(implementations);
        text.push('\n');
    }
    text
}

fn snapshot(of: &Crate) -> PathBuf {
    home()
        .join("tests/public_api")
        .join(format!("{}.txt", of.name))
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
fn the_public_api_is_as_it_stands_in_its_file() {
    for of in &CRATES {
        let (file, found) = (snapshot(of), listed(of));
        if std::env::var_os(BLESS).is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &found).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if let Some(difference) = difference(&expected, &found) {
            panic!(
                "the public API of {} is not as in {}: {difference}. If that is meant, `{BLESS}=1 cargo test --test suites \
                 public_api::` writes the file again, and docs/changelog.md says what changed",
                of.name,
                file.display()
            );
        }
    }
}

fn listing_of(source: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lib.rs"), source).unwrap();
    let own = items(folder.path());
    let names = exported(&own);
    let shown = names.values().filter_map(|path| definition(&own, path));
    let mut text = String::new();
    for placed in shown {
        let items = [
            vec![bare(placed.item.clone())],
            implementations(&own, placed),
        ]
        .concat();
        let (shebang, attrs) = (None, Vec::new());
        text += &prettyplease::unparse(&syn::File {
            shebang,
            attrs,
            items,
        });
    }
    text
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
    ] {
        assert!(SOURCE.contains(harmless.0), "{harmless:?}");
        let after = listing_of(&SOURCE.replacen(harmless.0, harmless.1, 1));
        assert_eq!(before, after, "{harmless:?}");
    }
}
