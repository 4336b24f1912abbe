//! The value of an attribute of an item, in DynamoDB's types.

use std::collections::BTreeMap;
use std::time::Duration;

/// The attributes of an item, or of a map in one, by their names.
pub type Map = BTreeMap<String, Value>;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Value {
    /// A number, as its stored digits.
    N(String),
    /// A string.
    S(String),
    /// Bytes.
    B(Vec<u8>),
    /// A map.
    M(Map),
    /// A list.
    L(Vec<Value>),
    /// Null.
    Null,
    /// A value of a type that no attribute of a lock has.
    Other,
}

impl Value {
    /// A number.
    pub fn number(number: impl ToString) -> Value {
        Value::N(number.to_string())
    }

    /// A string.
    pub fn text(text: impl Into<String>) -> Value {
        Value::S(text.into())
    }

    /// A span, in milliseconds.
    pub fn millis(span: Duration) -> Value {
        Value::number(span.as_millis())
    }

    /// Whether this version can write it as it was read.
    pub fn is_carried(&self) -> bool {
        match self {
            Value::Other => false,
            Value::M(map) => map.values().all(Value::is_carried),
            Value::L(list) => list.iter().all(Value::is_carried),
            Value::N(_) | Value::S(_) | Value::B(_) | Value::Null => true,
        }
    }

    /// The digits, if it is a number.
    pub fn as_n(&self) -> Option<&str> {
        match self {
            Value::N(digits) => Some(digits),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_s(&self) -> Option<&str> {
        match self {
            Value::S(text) => Some(text),
            _ => None,
        }
    }

    /// The bytes, if it is of that type.
    pub fn as_b(&self) -> Option<&[u8]> {
        match self {
            Value::B(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The attributes, if it is a map.
    pub fn as_m(&self) -> Option<&Map> {
        match self {
            Value::M(map) => Some(map),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub fn as_l(&self) -> Option<&[Value]> {
        match self {
            Value::L(list) => Some(list),
            _ => None,
        }
    }
}
