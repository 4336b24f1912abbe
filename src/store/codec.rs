//! DynamoDB's attributes as the SDK has them, to and from those of the protocol.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock_protocol::value::{Map, Value};

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn number(n: impl ToString) -> AttributeValue {
    AttributeValue::N(n.to_string())
}

pub(crate) fn text(s: impl Into<String>) -> AttributeValue {
    AttributeValue::S(s.into())
}

/// A value as a request has it.
pub(crate) fn attribute(value: Value) -> AttributeValue {
    match value {
        Value::N(digits) => AttributeValue::N(digits),
        Value::S(text) => AttributeValue::S(text),
        Value::B(bytes) => AttributeValue::B(Blob::new(bytes)),
        Value::M(map) => AttributeValue::M(attributes(map)),
        Value::L(list) => AttributeValue::L(list.into_iter().map(attribute).collect()),
        Value::Null | Value::Other => AttributeValue::Null(true),
    }
}

pub(crate) fn attributes(map: Map) -> Item {
    let each = map.into_iter();
    each.map(|(name, value)| (name, attribute(value))).collect()
}

/// A value as an answer has it.
pub(crate) fn value(attribute: AttributeValue) -> Value {
    match attribute {
        AttributeValue::N(digits) => Value::N(digits),
        AttributeValue::S(text) => Value::S(text),
        AttributeValue::B(bytes) => Value::B(bytes.into_inner()),
        AttributeValue::M(map) => Value::M(values(map)),
        AttributeValue::L(list) => Value::L(list.into_iter().map(value).collect()),
        AttributeValue::Null(_) => Value::Null,
        _ => Value::Other,
    }
}

pub(crate) fn values(item: Item) -> Map {
    let each = item.into_iter();
    each.map(|(name, attribute)| (name, value(attribute)))
        .collect()
}
