//! The keys of a table: which it has, and which it must have.

use std::fmt;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, KeySchemaElement, KeyType, ScalarAttributeType, TableDescription,
};

use crate::vocabulary::config::Names;

use super::finding::Finding;

/// A table's keys, each with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schema {
    partition: Option<Key>,
    sort: Option<Key>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    name: String,
    kind: ScalarAttributeType,
}

impl Schema {
    /// What a table of locks must have.
    pub(super) fn needed(names: &Names) -> Self {
        let text = |name: &String| {
            let (name, kind) = (name.clone(), ScalarAttributeType::S);
            Some(Key { name, kind })
        };
        Schema {
            partition: text(&names.partition_key),
            sort: text(&names.sort_key),
        }
    }

    pub(super) fn of(table: &TableDescription) -> Self {
        Schema {
            partition: key_of(table, &KeyType::Hash),
            sort: key_of(table, &KeyType::Range),
        }
    }

    /// What is wrong with a table whose keys are not those that locks need. Returns `None` if they are.
    pub(super) fn mismatch(table: &TableDescription, names: &Names) -> Option<Finding> {
        let (found, needed) = (Schema::of(table), Schema::needed(names));
        (found != needed).then(|| Finding::WrongKeys {
            found: found.to_string(),
            needed: needed.to_string(),
        })
    }

    fn keys(&self) -> impl Iterator<Item = (&Key, KeyType)> {
        let partition = self.partition.iter().map(|key| (key, KeyType::Hash));
        let sort = self.sort.iter().map(|key| (key, KeyType::Range));
        partition.chain(sort)
    }

    #[expect(
        clippy::expect_used,
        reason = "every required field of the element is set here"
    )]
    pub(super) fn elements(&self) -> Vec<KeySchemaElement> {
        let element = |(key, kind): (&Key, KeyType)| {
            let element = KeySchemaElement::builder().attribute_name(&key.name);
            element.key_type(kind).build().expect("a key with its kind")
        };
        self.keys().map(element).collect()
    }

    #[expect(
        clippy::expect_used,
        reason = "every required field of the definition is set here"
    )]
    pub(super) fn definitions(&self) -> Vec<AttributeDefinition> {
        let definition = |(key, _): (&Key, KeyType)| {
            let definition = AttributeDefinition::builder().attribute_name(&key.name);
            let definition = definition.attribute_type(key.kind.clone());
            definition.build().expect("an attribute with its type")
        };
        self.keys().map(definition).collect()
    }
}

fn key_of(table: &TableDescription, kind: &KeyType) -> Option<Key> {
    let mut elements = table.key_schema().iter();
    let element = elements.find(|element| element.key_type() == kind)?;
    let mut definitions = table.attribute_definitions().iter();
    let definition =
        definitions.find(|definition| definition.attribute_name() == element.attribute_name())?;
    Some(Key {
        name: element.attribute_name().to_owned(),
        kind: definition.attribute_type().clone(),
    })
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.partition {
            Some(key) => write!(f, "partition key {key}")?,
            None => f.write_str("no partition key")?,
        }
        match &self.sort {
            Some(key) => write!(f, ", sort key {key}"),
            None => f.write_str(", no sort key"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.name, self.kind.as_str())
    }
}
