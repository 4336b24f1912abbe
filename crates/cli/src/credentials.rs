//! The credentials of this command: what the AWS configuration gives, and what to do where it gives none.

use std::error::Error as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::environment::{
    EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider,
};
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::profile::region::ProfileFileRegionProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::web_identity_token::WebIdentityTokenCredentialsProvider;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, future};
use aws_sdk_dynamodb::config::ProvideCredentials;
use tokio::time::sleep;

use crate::environment::{profile, set};
use crate::failure::{Failure, deepest};
use crate::ipc;
use crate::metadata::Metadata;
use crate::trust::Trust;

/// How long a load may take. Single sign-on and programs that give credentials take seconds.
const LOAD: Duration = Duration::from_secs(30);
/// For this long, what was loaded is given to all who ask: the SDK's client, and that of the locks.
const FRESH: Duration = Duration::from_secs(2);
/// For how long a wait goes on where the configuration itself is wrong, or where there is none: it may be being written.
pub(crate) const CORRECTED: Duration = Duration::from_secs(20);

const NONE: &str = "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role gives them";

/// What the AWS configuration is read with.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) url: Option<String>,
    pub(crate) trust: Trust,
}

impl Source {
    /// Reads the variables and files of this process, as they are now. Also returns the metadata service, if it is to be asked.
    pub(crate) async fn load(&self) -> (SdkConfig, Option<Metadata>) {
        let metadata = Metadata::new(&self.base());
        let regions = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
            .or_else(ProfileFileRegionProvider::new());
        let regions = match &metadata {
            Some(metadata) => regions.or_else(metadata.clone()),
            None => regions,
        };
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .no_credentials()
            .http_client(self.trust.http_client())
            .region(regions);
        if let Some(url) = &self.url {
            loader = loader.endpoint_url(url);
        }
        (loader.load().await, metadata)
    }

    /// What providers begin with.
    fn base(&self) -> ProviderConfig {
        let base = ProviderConfig::without_region();
        let base = base.with_behavior_version(Some(BehaviorVersion::latest()));
        base.with_http_client(self.trust.http_client())
    }

    /// Asks the providers of the SDK's default chain in its order, with more patience for the metadata service. The SDK's own chain would not
    /// say why none gave anything.
    async fn credentials(&self) -> provider::Result {
        let (config, metadata) = self.load().await;
        let mut base = self
            .base()
            .with_region(config.region().cloned())
            .with_use_fips(config.use_fips())
            .with_use_dual_stack(config.use_dual_stack());
        if let Some(retries) = config.retry_config() {
            base = base.with_retry_config(retries.clone());
        }
        if let Some(timeouts) = config.timeout_config() {
            base = base.with_timeout_config(timeouts.clone());
        }
        let environment = EnvironmentVariableCredentialsProvider::new();
        let mut profile = ProfileFileCredentialsProvider::builder().configure(&base);
        if let Some(metadata) = &metadata {
            profile = profile.with_custom_provider("Ec2InstanceMetadata", metadata.clone());
        }
        let profile = profile.build();
        let token = WebIdentityTokenCredentialsProvider::builder();
        let token = token.configure(&base).build();
        let container = EcsCredentialsProvider::builder().configure(&base).build();
        let providers: [&dyn ProvideCredentials; 4] = [&environment, &profile, &token, &container];
        // Whether it is news that one has nothing.
        let news = [false, set("AWS_PROFILE").is_some(), false, false];
        let metadata = metadata.as_ref().map(|it| it as &dyn ProvideCredentials);
        let metadata = metadata.map(|it| (it, true));
        let mut told = None;
        for (provider, is_news) in providers.into_iter().zip(news).chain(metadata) {
            match provider.provide_credentials().await {
                Err(error @ CredentialsError::CredentialsNotLoaded(_)) => {
                    told = told.or(is_news.then_some(error));
                }
                loaded => return loaded,
            }
        }
        Err(told.unwrap_or_else(CredentialsError::not_loaded_no_source))
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
        let loaded = self.source.credentials().await.map_err(plain)?;
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
        // No provider has credentials.
        CredentialsError::CredentialsNotLoaded(_) => match error.source() {
            Some(source) => format!("{}: {}", profile(), deepest(source)),
            None => profile(),
        },
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
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            failure.passing(CORRECTED)
        }
        _ => failure.passing(Duration::MAX),
    }
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
