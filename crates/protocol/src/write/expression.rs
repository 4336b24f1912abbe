//! A write in DynamoDB's language.

use crate::entry::Nonce;
use crate::item::At;
use crate::value::Value;

/// What the `:values` of expressions stand for, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values(Vec<(&'static str, Value)>);

impl Values {
    /// Gives a value its name. Clauses and effects of one write that use a name mean the same by it.
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

/// A write as a request has it. A `#name` stands for the attribute of that name, but for the three that the table says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expressions {
    /// Empty if the item is put or deleted.
    pub update: String,
    /// Never empty.
    pub condition: String,
    /// What both take.
    pub values: Values,
}

/// The two parts of an update, while they are collected.
#[derive(Debug, Default)]
pub(super) struct Update {
    sets: Vec<String>,
    removes: Vec<String>,
}

impl Update {
    pub(super) fn set(&mut self, text: impl Into<String>) {
        self.sets.push(text.into());
    }

    pub(super) fn remove(&mut self, path: impl Into<String>) {
        self.removes.push(path.into());
    }

    pub(super) fn text(self) -> String {
        let part = |word: &str, parts: Vec<String>| {
            (!parts.is_empty()).then(|| format!("{word} {}", parts.join(", ")))
        };
        let parts = [part("SET", self.sets), part("REMOVE", self.removes)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// The path of a place on the lock item.
pub(super) fn path(at: At) -> String {
    match at {
        At::Holder => "#holder".to_owned(),
        At::Heir(index) => format!("#heirs[{index}]"),
        At::Sharer(nonce) => format!("#sharers.#{nonce}"),
    }
}

/// Where the ticket of one stands that was drawn by the write which gave it its place.
pub(super) fn drawn(nonce: Nonce) -> String {
    format!("#drawn.#{nonce}")
}
