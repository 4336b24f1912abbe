//! Opens a lock client at a `Place`.

use aws_sdk_dynamodb::Client;
use fairlock::{LockClient, LockClientBuilder, TableOptions};

use crate::cloud;
use crate::failure::Failure;
use crate::local::{self, Purpose};
use crate::place::Place;

impl Place {
    /// Returns a client with these flags and the library's defaults.
    pub(crate) async fn locks(&self) -> Result<LockClient, Failure> {
        self.client(Purpose::Inspect, |builder| builder).await
    }

    /// Returns a client with these flags, after `set` has added more settings.
    pub(crate) async fn client(
        &self,
        purpose: Purpose,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> Result<LockClient, Failure> {
        let dynamodb = match &self.local {
            Some(file) => local::open(file, purpose, &self.command("table create")).await?,
            None => self.dynamodb().await?,
        };
        let makes_a_table = match self.local {
            Some(_) if purpose == Purpose::Turn => has_no_tables(&dynamodb).await,
            _ => false,
        };
        let builder = LockClient::builder(dynamodb)
            .table(&self.table)
            .namespace(&self.namespace)
            .key_names(&self.partition_key, &self.sort_key, &self.ttl_attribute);
        let told = |error| Failure::of(&error, self);
        let client = set(builder).build().map_err(told)?;
        if makes_a_table {
            let created = client.create_table(&TableOptions::default()).await;
            created.map_err(told)?;
        }
        Ok(client)
    }

    async fn dynamodb(&self) -> Result<Client, Failure> {
        let (client, way) = cloud::connect(self.endpoint_url.as_deref()).await?;
        self.note_way(way);
        Ok(client)
    }
}

/// Whether the file was just made. A file with other tables belongs to another program, or the table's name is wrong: no table is created
/// there.
async fn has_no_tables(dynamodb: &Client) -> bool {
    let tables = dynamodb.list_tables().send().await;
    tables.is_ok_and(|found| found.table_names().is_empty())
}
