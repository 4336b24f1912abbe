//! The items of a crate's sources, by the module in which they stand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::{Attribute, Item, ItemMod, Meta};

/// A module's path, which begins with the name of its crate.
pub(super) type ModulePath = Vec<String>;

/// All items of some crates, those of tests excepted. A module is an item of its parent, without content.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) modules: BTreeMap<ModulePath, Vec<Item>>,
}

impl Sources {
    /// Adds the crate whose `lib.rs` is in this folder.
    pub(super) fn add(&mut self, name: &str, folder: &Path) {
        self.read(&folder.join("lib.rs"), folder, &[name.to_owned()]);
    }

    /// Every item, and the module in which it stands.
    pub(super) fn all(&self) -> impl Iterator<Item = (&ModulePath, &Item)> {
        let modules = self.modules.iter();
        modules.flat_map(|(module, items)| items.iter().map(move |item| (module, item)))
    }

    fn read(&mut self, file: &Path, folder: &Path, module: &[String]) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        self.take_all(parsed.items, folder, module);
    }

    fn take_all(&mut self, items: Vec<Item>, folder: &Path, module: &[String]) {
        self.modules.entry(module.to_vec()).or_default();
        for item in items {
            match item {
                Item::Mod(inner) if is_for_tests(&inner.attrs) => {}
                Item::Mod(inner) => self.descend(inner, folder, module),
                item => self.push(module, item),
            }
        }
    }

    fn push(&mut self, module: &[String], item: Item) {
        self.modules.entry(module.to_vec()).or_default().push(item);
    }

    fn descend(&mut self, mut inner: ItemMod, folder: &Path, module: &[String]) {
        let name = inner.ident.to_string();
        let within = [module, std::slice::from_ref(&name)].concat();
        let deeper = folder.join(&name);
        match inner.content.take() {
            Some((_, items)) => self.take_all(items, &deeper, &within),
            None => {
                let beside = folder.join(format!("{name}.rs"));
                let file = match beside.exists() {
                    true => beside,
                    false => deeper.join("mod.rs"),
                };
                self.read(&file, &deeper, &within);
            }
        }
        inner.semi = Some(Default::default());
        self.push(module, Item::Mod(inner));
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.contains("doctest")
        }
        _ => false,
    })
}
