//! A write in DynamoDB's expression language.

use std::borrow::Cow;

use crate::entry::Nonce;
use crate::item::At;
use crate::value::Value;

/// Most texts are constants.
pub(super) type Text = Cow<'static, str>;

/// What the `:values` of expressions stand for, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Vec<(&'static str, Value)>);

impl Values {
    /// Gives a value its name. Clauses and effects of one write that use the same name mean the same value.
    pub(super) fn name(&mut self, name: &'static str, value: Value) {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((_, known)) => debug_assert_eq!(*known, value, "{name} has two meanings"),
            None => self.0.push((name, value)),
        }
    }

    /// Names the value of a number.
    pub(super) fn number(&mut self, name: &'static str, number: impl ToString) {
        self.name(name, Value::number(number));
    }
}

impl IntoIterator for Values {
    type Item = (&'static str, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A write as a request carries it. A `#name` stands for the attribute of that name, except for three names that the table's configuration
/// sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expressions {
    /// Empty if the item is put or deleted.
    pub update: String,
    /// Never empty.
    pub condition: String,
    /// The values of both.
    pub values: Values,
}

/// The two parts of an update, while they are collected.
#[derive(Debug, Default)]
pub(super) struct Update {
    sets: String,
    removes: String,
}

impl Update {
    pub(super) fn set(&mut self, text: impl AsRef<str>) {
        append(&mut self.sets, "SET ", ", ", text.as_ref());
    }

    pub(super) fn remove(&mut self, path: impl AsRef<str>) {
        append(&mut self.removes, "REMOVE ", ", ", path.as_ref());
    }

    pub(super) fn text(mut self) -> String {
        append(&mut self.sets, "", " ", &self.removes);
        self.sets
    }
}

/// How many bytes to reserve: most expressions have about as many.
const USUAL: usize = 512;

/// Joins all clauses, in their order.
pub(super) fn all_of(clauses: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut all = String::new();
    clauses.for_each(|clause| append(&mut all, "", " AND ", clause.as_ref()));
    all
}

/// Appends a part behind what is there, or a first part behind `word`. Does nothing if the part is empty.
fn append(text: &mut String, word: &str, between: &str, part: &str) {
    if part.is_empty() {
        return;
    }
    if text.is_empty() {
        text.reserve(USUAL);
    }
    text.push_str(if text.is_empty() { word } else { between });
    text.push_str(part);
}

/// The path of a place on the lock item.
pub(super) fn path(at: At) -> String {
    match at {
        At::Slot(index) => format!("#slots[{index}]"),
        At::Sharer(nonce) => format!("#sharers.#{nonce}"),
    }
}

/// Where the ticket of a place stands whose own write drew it: an attribute of the item, named by the nonce. An attribute of a map could
/// not be set where there is no item yet.
pub(super) fn own_ticket(nonce: Nonce) -> String {
    format!("#{nonce}")
}
