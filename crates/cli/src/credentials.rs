//! The credentials of this command: what the AWS configuration gives, and what to do where it gives none.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, future};
use aws_sdk_dynamodb::config::ProvideCredentials;
use tokio::time::sleep;

use crate::environment::{profile, set};
use crate::failure::{Failure, deepest};
use crate::ipc;
use crate::trust::Trust;

/// How long a load may take. Single sign-on and programs that give credentials take seconds.
const LOAD: Duration = Duration::from_secs(30);
/// For this long, what was loaded is given to all who ask: the SDK's client, and that of the locks.
const FRESH: Duration = Duration::from_secs(2);
/// For how long a wait goes on where the configuration itself is wrong: it may be being written.
const CORRECTED: Duration = Duration::from_secs(20);

const NONE: &str = "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role gives them";

/// What the AWS configuration is read with.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) url: Option<String>,
    pub(crate) trust: Trust,
}

impl Source {
    /// Reads the variables and files of this process, as they are now.
    pub(crate) async fn load(&self) -> SdkConfig {
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(url) = &self.url {
            loader = loader.endpoint_url(url);
        }
        if let Some(client) = self.trust.http_client() {
            loader = loader.http_client(client);
        }
        loader.load().await
    }
}

/// Gives what the configuration gives when it is asked. The SDK's own chain reads files and variables once.
#[derive(Debug)]
pub(crate) struct Provider {
    source: Source,
    last: Mutex<Option<(Duration, Credentials)>>,
}

impl Provider {
    pub(crate) fn new(source: Source) -> Self {
        Provider {
            source,
            last: Mutex::default(),
        }
    }

    async fn provide(&self) -> provider::Result {
        if let Some(credentials) = self.fresh() {
            return Ok(credentials);
        }
        let config = self.source.load().await;
        let Some(chain) = config.credentials_provider() else {
            return Err(CredentialsError::not_loaded("there is no provider"));
        };
        let loaded = chain.provide_credentials().await.map_err(plain)?;
        *self.last() = Some((ipc::now(), loaded.clone()));
        Ok(loaded)
    }

    fn fresh(&self) -> Option<Credentials> {
        let (then, credentials) = self.last().clone()?;
        (ipc::now().saturating_sub(then) < FRESH).then_some(credentials)
    }

    fn last(&self) -> MutexGuard<'_, Option<(Duration, Credentials)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The credentials, or why there are none.
    pub(crate) async fn load(&self) -> Result<Credentials, Failure> {
        let loaded = tokio::select! {
            biased;
            loaded = self.provide() => loaded,
            () = sleep(LOAD) => Err(CredentialsError::provider_timed_out(LOAD)),
        };
        loaded.map_err(|error| failure(&error))
    }
}

impl ProvideCredentials for Provider {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.provide())
    }
}

fn failure(error: &CredentialsError) -> Failure {
    let why = match error {
        // No provider has credentials. The SDK's error would only list where it searched.
        CredentialsError::CredentialsNotLoaded(_) => profile(),
        CredentialsError::ProviderTimedOut(_) => {
            format!(
                "{}: what gives them has not answered for {LOAD:?}",
                profile()
            )
        }
        error => format!("{}: {}", profile(), deepest(error)),
    };
    let failure = Failure::unavailable(format!("{NONE} ({why})"));
    match error {
        CredentialsError::CredentialsNotLoaded(_) => failure.passing(absence_lasts()),
        CredentialsError::InvalidConfiguration(_) => failure.passing(CORRECTED),
        _ => failure.passing(Duration::MAX),
    }
}

/// For how long it may be that nothing is found: an instance that has just started may not answer yet for its role.
pub(crate) fn absence_lasts() -> Duration {
    let is_off = set("AWS_EC2_METADATA_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
    if is_off { Duration::ZERO } else { CORRECTED }
}

/// The error, in words for users of this command: the SDK's are for those who build a program with it.
fn plain(error: CredentialsError) -> CredentialsError {
    // The only feature that is off. The error itself is text by then.
    let is_login = deepest(&error).to_string().contains("credentials-login");
    match is_login {
        true => {
            let name = set("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
            CredentialsError::invalid_configuration(format!(
                "it signs in by `aws login`, which needs the AWS CLI: make a profile with the line `credential_process = aws configure \
                 export-credentials --profile {name} --format process`, and name it in AWS_PROFILE"
            ))
        }
        false => error,
    }
}
