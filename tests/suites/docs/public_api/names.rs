//! What a name in the sources stands for, through imports and re-exports of any depth.

use std::collections::BTreeMap;

use syn::{Item, Type, UseTree, Visibility};

use super::sources::{ModulePath, Sources};

/// What a path leads to.
pub(super) enum Target<'a> {
    Item(&'a Item),
    /// A whole crate, which has a listing of its own.
    Crate,
    /// Something of a crate whose sources are not read.
    Foreign,
}

/// The items of a module that those who can see the module can use, by name.
pub(super) fn exported<'a>(
    sources: &'a Sources,
    module: &ModulePath,
) -> BTreeMap<String, (Vec<String>, Target<'a>)> {
    let mut names = BTreeMap::new();
    for item in &sources.modules[module] {
        if !is_public(item) {
            continue;
        }
        let paths = match item {
            Item::Use(item) => flatten(&item.tree, &[]),
            item => name_of(item)
                .map(|name| (name.clone(), vec![name]))
                .into_iter()
                .collect(),
        };
        for (name, path) in paths {
            let target = sources.resolve(module, &path);
            let is_module = matches!(target, Target::Item(Item::Mod(_)));
            // Its items would be in no listing.
            assert!(
                path.len() == 1 || !is_module,
                "{name} is a module: declare it where it is public"
            );
            names.insert(name, (path, target));
        }
    }
    names
}

/// The modules that those who use a crate can name, its root included.
pub(super) fn public_modules(sources: &Sources, root: &str) -> Vec<ModulePath> {
    let mut found = vec![vec![root.to_owned()]];
    let mut next = 0;
    // Each module is found once, and modules have an end.
    while let Some(module) = found.get(next).cloned() {
        for item in &sources.modules[&module] {
            if let (Item::Mod(_), true, Some(name)) = (item, is_public(item), name_of(item)) {
                found.push([module.clone(), vec![name]].concat());
            }
        }
        next += 1;
    }
    found
}

impl Sources {
    /// What a path means in a module.
    pub(super) fn resolve(&self, module: &[String], path: &[String]) -> Target<'_> {
        let (name, rest) = path.split_first().expect("a path has a name");
        let (at, path) = match name.as_str() {
            "crate" => (&module[..1], rest),
            "self" => (module, rest),
            "super" => return self.resolve(&module[..module.len() - 1], rest),
            _ => (module, path),
        };
        self.look_up(at, path)
    }

    fn look_up(&self, at: &[String], path: &[String]) -> Target<'_> {
        let (name, rest) = path.split_first().expect("a path has a name");
        let items = &self.modules[at];
        let within = [at, std::slice::from_ref(name)].concat();
        if !rest.is_empty() && self.modules.contains_key(&within) {
            return self.look_up(&within, rest);
        }
        let named = |item: &&Item| name_of(item).as_ref() == Some(name);
        if rest.is_empty()
            && let Some(item) = items.iter().find(named)
        {
            return Target::Item(item);
        }
        let imports = items.iter().filter_map(|item| match item {
            Item::Use(item) => Some(flatten(&item.tree, &[])),
            _ => None,
        });
        let import = imports.flatten().find(|(imported, _)| imported == name);
        match import {
            // `use a_crate;` names the crate itself.
            Some((_, path)) if path[0] != *name => {
                self.resolve(at, &[path, rest.to_vec()].concat())
            }
            _ if !self.modules.contains_key(std::slice::from_ref(name)) => Target::Foreign,
            _ if rest.is_empty() => Target::Crate,
            _ => self.look_up(std::slice::from_ref(name), rest),
        }
    }

    /// The item that an implementation is for.
    pub(super) fn self_item(&self, module: &[String], of: &Type) -> Option<&Item> {
        let path = match of {
            Type::Reference(reference) => return self.self_item(module, &reference.elem),
            Type::Path(path) => &path.path,
            _ => return None,
        };
        let names: Vec<_> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        match self.resolve(module, &names) {
            Target::Item(item) => Some(item),
            Target::Crate | Target::Foreign => None,
        }
    }
}

/// The names that an import gives, each with its path.
fn flatten(tree: &UseTree, before: &[String]) -> Vec<(String, Vec<String>)> {
    let with = |name: &dyn ToString| [before, &[name.to_string()]].concat();
    let named = |name: String, path: Vec<String>| match path.split_last() {
        Some((last, module)) if last == "self" => {
            let name = if name == "self" {
                module.last().cloned()
            } else {
                Some(name)
            };
            (name.unwrap_or_default(), module.to_vec())
        }
        _ => (name, path),
    };
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident)),
        UseTree::Name(name) => vec![named(name.ident.to_string(), with(&name.ident))],
        UseTree::Rename(rename) => vec![named(rename.rename.to_string(), with(&rename.ident))],
        UseTree::Group(group) => {
            let names = group.items.iter().flat_map(|tree| flatten(tree, before));
            names.collect()
        }
        UseTree::Glob(_) => panic!("a glob hides what is public: {before:?}"),
    }
}

pub(super) fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Struct(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Const(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Mod(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

fn is_public(item: &Item) -> bool {
    let visibility = match item {
        Item::Struct(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Union(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Const(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Mod(item) => &item.vis,
        Item::Use(item) => &item.vis,
        _ => return false,
    };
    matches!(visibility, Visibility::Public(_))
}
