//! Tables with any keys, made without the library.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose table cannot be made has failed"
)]

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

/// The keys of a table of locks.
pub const OF_LOCKS: [(&str, ScalarAttributeType); 2] = [
    ("pk", ScalarAttributeType::S),
    ("sk", ScalarAttributeType::S),
];

/// Creates a table with these keys, of which the first is the partition key.
pub async fn create_table(client: &Client, name: &str, keys: &[(&str, ScalarAttributeType)]) {
    let mut request = client.create_table().table_name(name);
    for ((name, kind), role) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let key = KeySchemaElement::builder().attribute_name(*name);
        let attribute = AttributeDefinition::builder().attribute_name(*name);
        request = request.key_schema(key.key_type(role).build().unwrap());
        request =
            request.attribute_definitions(attribute.attribute_type(kind.clone()).build().unwrap());
    }
    let request = request.billing_mode(BillingMode::PayPerRequest);
    request.send().await.unwrap();
}
