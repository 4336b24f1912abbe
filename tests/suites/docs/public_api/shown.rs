//! What a caller can see of an item.

use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Visibility, parse_quote};

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
pub(super) fn bare(mut item: Item) -> Item {
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
        Item::Mod(item) => shown(&mut item.attrs),
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
pub(super) fn implemented(mut item: ItemImpl) -> Option<ItemImpl> {
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
