//! Which table a command's locks are in, by what its configuration was resolved to: so two commands can tell whether they use the same locks.

use std::path::Path;

use aws_credential_types::Credentials;
use serde::{Deserialize, Serialize};

use crate::endpoint::Endpoint;
use crate::local_file;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct TableIdentity {
    /// The file, or the region and the endpoint; and the names of the table and the namespace.
    table: String,
    /// The AWS account, where it is known.
    account: Option<String>,
}

impl TableIdentity {
    pub(crate) fn in_file((table, namespace): (&str, &str), file: &Path) -> Self {
        let file = local_file::real(file);
        let table = (file.to_string_lossy(), table, namespace);
        TableIdentity {
            table: format!("{table:?}"),
            account: None,
        }
    }

    pub(crate) fn in_cloud(
        (table, namespace): (&str, &str),
        region: &str,
        endpoint: Option<&Endpoint>,
        credentials: &Credentials,
    ) -> Self {
        // An ARN names more than a table.
        let arn: Vec<_> = table.splitn(6, ':').collect();
        let (region, account, table) = match arn[..] {
            ["arn", _, "dynamodb", region, account, table] => (
                region,
                Some(account.to_owned()),
                table.trim_start_matches("table/"),
            ),
            _ => (region, account(credentials), table),
        };
        // One table has several hosts at AWS: by account, with dual stack, of an interface endpoint.
        let url = endpoint
            .filter(|endpoint| !endpoint.is_of_aws(region))
            .map(Endpoint::url);
        TableIdentity {
            table: format!("{:?}", (region, url, table, namespace)),
            account,
        }
    }

    /// Whether it is the same table, as far as is known.
    pub(crate) fn is_same(&self, other: &TableIdentity) -> bool {
        let accounts = self.account.as_ref().zip(other.account.as_ref());
        self.table == other.table && accounts.is_none_or(|(one, other)| one == other)
    }
}

fn account(credentials: &Credentials) -> Option<String> {
    let told = credentials.account_id().map(|id| id.as_str().to_owned());
    told.or_else(|| account_of_key(credentials.access_key_id()))
}

/// The account in which an access key was made. Keys of the last years tell it. Behind a prefix of four letters they are base 32. The first
/// bit is set, and the next 40 are the account.
fn account_of_key(key: &str) -> Option<String> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u64::from(byte - b'A')),
        b'2'..=b'7' => Some(u64::from(byte - b'2') + 26),
        _ => None,
    };
    let code = key.as_bytes().get(4..14).filter(|_| key.len() == 20)?;
    let bits = code
        .iter()
        .try_fold(0, |bits, byte| Some(bits << 5 | digit(*byte)?));
    // Fifty bits, of which the first 48 count.
    let bits: u64 = bits? >> 2;
    (bits >> 47 == 1).then(|| format!("{:012}", (bits & 0x7fff_ffff_ff80) >> 7))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_account() {
        let told = account_of_key("ASIAQNZGKIQY56JQ7WML");
        assert_eq!(told.as_deref(), Some("029608264753"));
        // A key of old, and what is none.
        for key in ["AKIAIOSFODNN7EXAMPLE", "test", "AKIAQNZGKIQY56JQ7WM1X"] {
            assert_eq!(account_of_key(key), None, "{key}");
        }
    }

    #[test]
    fn tables_of_accounts_that_are_both_known_and_differ_are_different() {
        let of = |account: Option<&str>| TableIdentity {
            table: "t".into(),
            account: account.map(str::to_owned),
        };
        for (one, other, is_same) in [
            (None, None, true),
            (Some("1"), None, true),
            (Some("1"), Some("1"), true),
            (Some("1"), Some("2"), false),
        ] {
            assert_eq!(of(one).is_same(&of(other)), is_same);
        }
    }
}
