//! Where the locks are: in a file of an engine that several processes share, or at an endpoint.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::path::PathBuf;

use aws_sdk_dynamodb::Client;
use fairlock::embedded::Engine;
use fairlock::{LockClient, LockClientBuilder};
use fairlock_testkit::http;

/// The variables that tell a process its place.
const FILE: &str = "FAIRLOCK_CRASH_FILE";
const URL: &str = "FAIRLOCK_CRASH_URL";
const TABLE: &str = "FAIRLOCK_CRASH_TABLE";

#[derive(Clone, Debug)]
pub(crate) struct Location {
    file: Option<PathBuf>,
    url: String,
    table: String,
}

impl Location {
    pub(crate) fn file(file: PathBuf) -> Location {
        Location {
            file: Some(file),
            url: String::new(),
            table: "fairlock".into(),
        }
    }

    pub(crate) fn endpoint(url: &str, name: &str) -> Location {
        Location {
            file: None,
            url: url.to_owned(),
            table: format!("fairlock-crash-{}-{name}", std::process::id()),
        }
    }

    pub(crate) fn of_environment() -> Location {
        let set = |name| std::env::var(name).unwrap_or_default();
        Location {
            file: std::env::var_os(FILE).map(PathBuf::from),
            url: set(URL),
            table: set(TABLE),
        }
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, &std::ffi::OsStr)> {
        let mut set = vec![(URL, self.url.as_ref()), (TABLE, self.table.as_ref())];
        set.extend(self.file.as_ref().map(|file| (FILE, file.as_os_str())));
        set
    }

    /// The flags that tell `fairlock` the place.
    pub(crate) fn flags(&self) -> Vec<String> {
        let location = match &self.file {
            Some(file) => ["--local".into(), file.to_str().unwrap().to_owned()],
            None => ["--endpoint-url".into(), self.url.clone()],
        };
        [&location[..], &["--table".into(), self.table.clone()]].concat()
    }

    pub(crate) fn locks(&self) -> LockClientBuilder {
        LockClient::builder(self.client()).table(&self.table)
    }

    fn client(&self) -> Client {
        if let Some(file) = &self.file {
            return Engine::file(file).unwrap().client();
        }
        http::client(&http::network(), &self.url)
    }

    pub(crate) fn create_table(&self) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let locks = self.locks().build().unwrap();
            locks.create_table().await.unwrap();
        });
    }
}
