//! Where the locks are: a table of DynamoDB, of something that speaks its language, or of a file.

use std::path::PathBuf;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::ProvideCredentials;
use clap::Args;
use fairlock::{LockClient, LockClientBuilder};

use crate::failure::Failure;
use crate::flags;
use crate::local;

/// The flags that say where the locks are.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where the locks are")]
pub(crate) struct Place {
    /// The table
    #[arg(
        long,
        value_name = "NAME",
        env = "FAIRLOCK_TABLE",
        default_value = "fairlock"
    )]
    pub(crate) table: String,

    /// Another DynamoDB than that of the AWS configuration, such as http://localhost:8000
    #[arg(long, value_name = "URL", env = "FAIRLOCK_ENDPOINT_URL", value_parser = flags::url)]
    pub(crate) endpoint_url: Option<String>,

    /// No DynamoDB: a file that all processes of this machine share
    #[arg(long, value_name = "FILE", env = "FAIRLOCK_LOCAL")]
    pub(crate) local: Option<PathBuf>,

    /// Locks of one name in different namespaces are different locks
    #[arg(
        long,
        value_name = "NAME",
        env = "FAIRLOCK_NAMESPACE",
        default_value = "fairlock"
    )]
    pub(crate) namespace: String,

    /// The table's partition key, a string
    #[arg(
        long,
        value_name = "ATTRIBUTE",
        default_value = "pk",
        hide_short_help = true
    )]
    pub(crate) partition_key: String,

    /// The table's sort key, a string
    #[arg(
        long,
        value_name = "ATTRIBUTE",
        default_value = "sk",
        hide_short_help = true
    )]
    pub(crate) sort_key: String,

    /// The table's TTL attribute
    #[arg(
        long,
        value_name = "ATTRIBUTE",
        default_value = "expires_at",
        hide_short_help = true
    )]
    pub(crate) ttl_attribute: String,
}

/// What to do about a file that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Refuse,
}

impl Place {
    /// A client with these flags and the library's defaults.
    pub(crate) async fn locks(&self) -> Result<LockClient, Failure> {
        self.client(Missing::Refuse, |builder| builder).await
    }

    /// A client with these flags and more settings.
    pub(crate) async fn client(
        &self,
        missing: Missing,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> Result<LockClient, Failure> {
        let dynamodb = match &self.local {
            Some(file) => local::open(file, missing, &self.command("table create"))?,
            None => self.dynamodb().await?,
        };
        let builder = LockClient::builder(dynamodb)
            .table(&self.table)
            .namespace(&self.namespace)
            .key_names(&self.partition_key, &self.sort_key, &self.ttl_attribute);
        set(builder)
            .build()
            .map_err(|error| Failure::of(&error, self))
    }

    async fn dynamodb(&self) -> Result<Client, Failure> {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(url) = &self.endpoint_url {
            loader = loader.endpoint_url(url);
        }
        let config = loader.load().await;
        check(&config).await?;
        Ok(Client::new(&config))
    }

    /// The table, and where it is.
    pub(crate) fn name(&self) -> String {
        let table = &self.table;
        match (&self.local, &self.endpoint_url) {
            (Some(file), _) => format!("table {table} in {}", file.display()),
            (None, Some(url)) => format!("table {table} at {url}"),
            (None, None) => format!("table {table}"),
        }
    }

    /// By what a lock's place is the same as that of another command, as far as the command line and the environment tell.
    pub(crate) fn identity(&self) -> String {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let place = match (&self.local, &self.endpoint_url) {
            (Some(file), _) => {
                let file = file.canonicalize().unwrap_or_else(|_| file.clone());
                file.to_string_lossy().into_owned()
            }
            (None, Some(url)) => url.clone(),
            (None, None) => {
                let names = ["AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"];
                names.map(variable).join(" ")
            }
        };
        format!("{place} {} {}", self.table, self.namespace)
    }

    /// What to look at when nothing answers.
    pub(crate) fn way_there(&self) -> String {
        match (&self.local, &self.endpoint_url) {
            (Some(_), _) => "see who keeps the file busy".into(),
            (None, Some(url)) => format!("see whether {url} is right, and what answers there"),
            (None, None) => "see whether the network is up and the AWS region right".into(),
        }
    }

    /// A command line of this program for the same place, for people to copy.
    pub(crate) fn command(&self, what: &str) -> String {
        let mut line = format!("fairlock {what}");
        let mut add =
            |flag: &str, value: &str| line.push_str(&format!(" {flag} {}", quoted(value)));
        if self.table != "fairlock" {
            add("--table", &self.table);
        }
        if let Some(url) = &self.endpoint_url {
            add("--endpoint-url", url);
        }
        if let Some(file) = &self.local {
            add("--local", &file.to_string_lossy());
        }
        let named = [
            ("--namespace", &self.namespace, "fairlock"),
            ("--partition-key", &self.partition_key, "pk"),
            ("--sort-key", &self.sort_key, "sk"),
            ("--ttl-attribute", &self.ttl_attribute, "expires_at"),
        ];
        named
            .iter()
            .filter(|(_, value, default)| value != default)
            .for_each(|(flag, value, _)| add(flag, value));
        line
    }
}

/// The two things without which nothing can be sent, found out about before anything is.
async fn check(config: &SdkConfig) -> Result<(), Failure> {
    if config.region().is_none() {
        return Err(Failure::unavailable(
            "no AWS region: set AWS_REGION, or `region` in the profile that AWS_PROFILE names",
        ));
    }
    let said = "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role \
                gives them";
    let Some(credentials) = config.credentials_provider() else {
        return Err(Failure::unavailable(said));
    };
    match credentials.provide_credentials().await {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::unavailable(format!("{said} ({error})"))),
    }
}

/// As a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_takes_them() {
        assert_eq!(quoted("a-b/c.db"), "a-b/c.db");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
