//! Connects to DynamoDB: reads the AWS configuration, and tells the user which of its variables and files decided.

use std::path::PathBuf;
use std::time::SystemTime;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::ProvideCredentials;

use crate::failure::{Failure, deepest};

const REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
const ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"];
const PROFILE: &str = "AWS_PROFILE";

/// The AWS configuration of this process.
pub(crate) struct Cloud {
    url: Option<String>,
    config: SdkConfig,
}

/// Returns a client for that URL, or for the configured endpoint, and a hint what to check when nothing answers there.
pub(crate) async fn connect(url: Option<&str>) -> Result<(Client, String), Failure> {
    let cloud = Cloud::load(url).await?;
    // Before the first request: nothing can be sent without them.
    cloud.region()?;
    cloud.credentials().await?;
    Ok(cloud.client())
}

impl Cloud {
    pub(crate) async fn load(url: Option<&str>) -> Result<Cloud, Failure> {
        // With an empty URL the SDK would panic at the first request.
        let is_empty = |name: &&str| std::env::var_os(name).is_some_and(|value| value.is_empty());
        if let Some(name) = ENDPOINTS.into_iter().find(is_empty) {
            let text = format!("the variable {name} is empty: unset it, or give it a URL");
            return Err(Failure::unavailable(text));
        }
        let mut loader = aws_config::defaults(BehaviorVersion::latest());
        if let Some(url) = url {
            loader = loader.endpoint_url(url);
        }
        Ok(Cloud {
            url: url.map(str::to_owned),
            config: loader.load().await,
        })
    }

    pub(crate) fn client(&self) -> (Client, String) {
        let way = way(self.url.as_deref(), &self.config);
        (Client::new(&self.config), way)
    }

    /// The region, and what gives it.
    pub(crate) fn region(&self) -> Result<(String, String), Failure> {
        let named = REGIONS
            .into_iter()
            .find(|name| std::env::var_os(name).is_some());
        let named = named.map_or_else(profile, str::to_owned);
        match self.config.region().map(AsRef::as_ref) {
            Some(region) if is_region(region) => Ok((region.to_owned(), named)),
            Some(region) => Err(Failure::unavailable(format!(
                "{region:?}, given by {named}, is no AWS region: one is eu-west-1"
            ))),
            None => Err(Failure::unavailable(format!(
                "no AWS region: set AWS_REGION, or `region` in {}",
                profile()
            ))),
        }
    }

    /// Until when the credentials are valid. Returns `None` if they do not expire.
    pub(crate) async fn credentials(&self) -> Result<Option<SystemTime>, Failure> {
        let said = "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role \
                    gives them";
        let Some(credentials) = self.config.credentials_provider() else {
            return Err(Failure::unavailable(said));
        };
        let why = match credentials.provide_credentials().await {
            Ok(credentials) => return Ok(credentials.expiry()),
            // No provider has credentials. The SDK's error would only list where it searched.
            Err(CredentialsError::CredentialsNotLoaded(_)) => profile(),
            Err(error) => format!("{}: {}", profile(), deepest(&error)),
        };
        Err(Failure::unavailable(format!("{said} ({why})")))
    }
}

/// The region becomes a part of a host's name.
fn is_region(name: &str) -> bool {
    let is_of_a_host = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !name.is_empty() && name.bytes().all(is_of_a_host)
}

fn way(url: Option<&str>, config: &SdkConfig) -> String {
    let set =
        |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, set(name)?)));
    let (url, named) = match (url, set(ENDPOINTS), config.endpoint_url()) {
        (Some(url), _, _) => (url.to_owned(), String::new()),
        (None, Some((name, url)), _) => (url, format!(", given by {name},")),
        (None, None, Some(url)) => (url.to_owned(), format!(", given by {},", profile())),
        (None, None, None) => {
            let region = config.region().map(AsRef::as_ref).unwrap_or_default();
            let named = set(REGIONS).map_or_else(profile, |(name, _)| name.to_owned());
            return format!(
                "see whether the network is up, and whether {region}, given by {named}, is the right AWS region: \
                 its DynamoDB is dynamodb.{region}.amazonaws.com"
            );
        }
    };
    format!("see whether {url}{named} is right, and what answers there")
}

/// Describes the profile in use: which variable names it, and whether any file has it.
fn profile() -> String {
    let Some(name) = set(PROFILE) else {
        return "profile `default`".into();
    };
    let files = [
        ("AWS_CONFIG_FILE", "config"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
    ];
    let files =
        files.map(|(variable, file)| set(variable).map(PathBuf::from).or_else(|| in_home(file)));
    let texts = files.into_iter().flatten().map(std::fs::read_to_string);
    let is_there = texts.flatten().any(|text| has_profile(&text, &name));
    let missing = if is_there { "" } else { ", which no file has" };
    format!("profile `{name}` of {PROFILE}{missing}")
}

/// Finds `[profile NAME]` or `[NAME]`.
fn has_profile(text: &str, name: &str) -> bool {
    let sections = text.lines().filter_map(|line| {
        let line = line.trim().strip_prefix('[')?;
        let section = line.split(']').next()?.trim();
        Some(match section.split_once(char::is_whitespace) {
            Some(("profile", name)) => name.trim(),
            _ => section,
        })
    });
    { sections }.any(|section| section == name)
}

fn in_home(file: &str) -> Option<PathBuf> {
    Some(PathBuf::from(set("HOME")?).join(".aws").join(file))
}

/// Returns the variable's value. An empty variable counts as unset.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_by_its_section() {
        let text = "[default]\nregion = x\n [ profile ci ] \n[profile other]\n[plain]\n[profiles]\n# [profile no]\n";
        for (name, is_there) in [
            ("default", true),
            ("ci", true),
            ("other", true),
            ("plain", true),
            ("no", false),
            ("c", false),
            ("s", false),
            ("profile ci", false),
        ] {
            assert_eq!(has_profile(text, name), is_there, "{name}");
        }
    }
}
