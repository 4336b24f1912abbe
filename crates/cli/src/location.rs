//! Where the locks are: in a table of DynamoDB, of a service that speaks its protocol, or in a file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args;
use fairlock_cli::flags;

use crate::local_file::{self, FileSystems};
use crate::table_identity::TableIdentity;
use crate::text::quoted;

const TRUST_OWN_CLOCK: &str = "\
Let this host's clock stand in for the dates that answers do not have, as those of DynamoDB Local. Without it, such an engine has no \
leases. Give it to all commands at the table, on hosts whose clocks agree within 3s. Where answers have dates, it changes nothing";

const ANY_FILESYSTEM: &str = "\
Use the file of --local also on a file system that other machines may share, such as NFS (EFS) and SMB, or that an unknown program serves \
(FUSE). The locks of SQLite may not hold there: then two processes get one lock, or the file is damaged. Insist only where one machine \
has the file at a time, and its locks are known to hold";

/// The flags that say where the locks are.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Where the locks are")]
pub(crate) struct Location {
    /// The table
    #[arg(
        long,
        value_name = "NAME",
        env = "FAIRLOCK_TABLE",
        default_value = "fairlock"
    )]
    pub(crate) table: String,

    /// Another DynamoDB than the one in the AWS configuration, such as http://localhost:8000
    #[arg(long, value_name = "URL", env = "FAIRLOCK_ENDPOINT_URL", value_parser = flags::url)]
    pub(crate) endpoint_url: Option<String>,

    /// Use no DynamoDB, but a file that all processes of this machine share
    #[arg(long, value_name = "FILE", env = "FAIRLOCK_LOCAL")]
    pub(crate) local: Option<PathBuf>,

    /// Use the file of --local also on NFS, SMB or FUSE, where two may get one lock
    #[arg(long, hide_short_help = true, long_help = ANY_FILESYSTEM)]
    pub(crate) any_filesystem: bool,

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

    /// Let this host's clock stand in for the dates that answers do not have, as those of DynamoDB Local
    #[arg(long, hide_short_help = true, long_help = TRUST_OWN_CLOCK)]
    pub(crate) trust_own_clock: bool,

    /// What the user should check if DynamoDB does not answer. Empty until the client is built.
    #[arg(skip)]
    way: OnceLock<String>,

    #[arg(skip)]
    identity: OnceLock<TableIdentity>,

    /// Nothing more is said of credentials that are slow to come.
    #[arg(skip)]
    is_slow: OnceLock<()>,
}

impl Location {
    /// The table, and where it is.
    pub(crate) fn name(&self) -> String {
        let table = &self.table;
        match (&self.local, &self.endpoint_url) {
            (Some(file), _) => format!("table {table} in {}", file.display()),
            (None, Some(url)) => format!("table {table} at {url}"),
            (None, None) => format!("table {table}"),
        }
    }

    /// The name of what answers requests: the file, or DynamoDB.
    pub(crate) fn engine(&self) -> String {
        match &self.local {
            Some(file) => file.display().to_string(),
            None => "DynamoDB".into(),
        }
    }

    /// Which table it is. Returns `None` before the client of a table of DynamoDB is built.
    pub(crate) fn identity(&self) -> Option<TableIdentity> {
        match &self.local {
            Some(file) => Some(TableIdentity::in_file((&self.table, &self.namespace), file)),
            None => self.identity.get().cloned(),
        }
    }

    /// Records which table it is.
    pub(crate) fn note_identity(&self, identity: TableIdentity) {
        let _ = self.identity.set(identity);
    }

    /// Whether to say that credentials are slow to come. Once only, and not after this was asked for a command that is to be quiet.
    pub(crate) fn is_news_that_it_is_slow(&self) -> bool {
        self.is_slow.set(()).is_ok()
    }

    /// On which file systems the file may be.
    pub(crate) fn file_systems(&self) -> FileSystems {
        FileSystems::insisted(self.any_filesystem)
    }

    /// Records what the user should check if nothing answers.
    pub(crate) fn note_way(&self, way: String) {
        let _ = self.way.set(way);
    }

    /// What the user should check if nothing answers.
    pub(crate) fn way_there(&self) -> &str {
        let way = self.way.get().map(String::as_str);
        way.unwrap_or("see who keeps the file busy")
    }

    /// Explains what has become of the file of locks, and what to do about it. Returns `None` if the error has another cause.
    pub(crate) fn explained(&self, said: &str) -> Option<String> {
        let file = self.local.as_ref()?;
        let remedy = local_file::remedy(file, said)?;
        Some(format!("cannot use {}: {remedy}", file.display()))
    }

    /// The flags of this place, for another process of this program.
    pub(crate) fn flags(&self) -> Vec<OsString> {
        let always = [
            ("--table", &self.table),
            ("--namespace", &self.namespace),
            ("--partition-key", &self.partition_key),
            ("--sort-key", &self.sort_key),
            ("--ttl-attribute", &self.ttl_attribute),
        ];
        let url = self
            .endpoint_url
            .as_ref()
            .map(|url| ("--endpoint-url", url));
        let named = always.into_iter().chain(url);
        let mut flags: Vec<_> = named
            .map(|(flag, value)| OsString::from(format!("{flag}={value}")))
            .collect();
        if self.trust_own_clock {
            flags.push("--trust-own-clock".into());
        }
        if let Some(file) = &self.local {
            flags.extend(["--local".into(), file.clone().into()]);
        }
        if self.any_filesystem {
            flags.push("--any-filesystem".into());
        }
        flags
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
        if self.trust_own_clock {
            line.push_str(" --trust-own-clock");
        }
        if self.any_filesystem {
            line.push_str(" --any-filesystem");
        }
        line
    }
}
