//! What keeps DynamoDB from looking at a request: no connection, no credentials, or a rejected signature.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use fairlock_protocol::failure::Lack;

use crate::vocabulary::error::Source;

/// How long a load may take.
pub(super) const LOAD: Duration = Duration::from_secs(30);

/// Why a request has no identity.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum NoIdentity {
    /// The load goes on, and a later request may have its identity.
    #[error("their provider has not answered yet")]
    Loading,
    #[error("their provider has not answered for {LOAD:?}")]
    TooLong,
    #[error(transparent)]
    Failed(Arc<dyn StdError + Send + Sync>),
}

/// Codes for credentials that DynamoDB rejects; the SDK may have others the next time.
const CREDENTIALS: [&str; 7] = [
    "ExpiredTokenException",
    "ExpiredToken",
    "TokenRefreshRequired",
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "MissingAuthenticationTokenException",
    "MissingAuthenticationToken",
];

/// Codes for a signature that DynamoDB rejects. A wrong secret key gives the same code as a clock that is far off.
const SIGNATURE: [&str; 6] = [
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "IncompleteSignatureException",
    "IncompleteSignature",
    "RequestExpired",
    "RequestTimeTooSkewed",
];

/// What an answer with this code says that the request lacked.
pub(super) fn lack_of_answer(code: &str) -> Option<Lack> {
    if CREDENTIALS.contains(&code) {
        Some(Lack::Credentials)
    } else {
        SIGNATURE.contains(&code).then_some(Lack::Signature)
    }
}

/// What an error says of a request that was handed to the transport.
pub(super) fn lack_of_connecting(error: &(dyn StdError + 'static)) -> Option<Lack> {
    let is_it = |cause: &(dyn StdError + 'static)| {
        let cause = cause.downcast_ref::<hyper_util::client::legacy::Error>();
        cause.is_some_and(|cause| cause.is_connect())
    };
    chain(error).any(is_it).then_some(Lack::Connection)
}

/// What an error says of a request that was not handed to the transport.
pub(super) fn lack_of_preparing(error: &(dyn StdError + 'static)) -> Option<Lack> {
    chain(error).find_map(|cause| match cause.downcast_ref() {
        Some(NoIdentity::Loading) => Some(Lack::Loading),
        Some(NoIdentity::TooLong | NoIdentity::Failed(_)) => Some(Lack::Credentials),
        None => cause.is::<CredentialsError>().then_some(Lack::Credentials),
    })
}

/// The error of a request that lacked something, after words that say what to do.
pub(super) fn explained(lack: Lack, source: Source) -> Source {
    let advice = match lack {
        // The transport's own words say what it was: the address or its name, the network, or the handshake.
        Lack::Connection | Lack::Answer => return source,
        Lack::Loading => "no valid credentials so far",
        Lack::Credentials => {
            "no valid credentials (see whether this process has some, and whether they have expired)"
        }
        Lack::Signature => {
            "its signature was not taken (see whether this host's clock and the secret key are right)"
        }
    };
    Box::new(Advised { advice, source })
}

/// The SDK's error, after words that say what to do.
#[derive(Debug, thiserror::Error)]
#[error("{advice}")]
struct Advised {
    advice: &'static str,
    source: Source,
}

/// Why the SDK makes no request of this client, and will make none, with what to do. It replaces the SDK's error, whose words are
/// for developers of SDKs, or contain the whole request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misconfigured {
    #[error(
        "the DynamoDB client has no credentials provider: make it from `aws_config`, or set `credentials_provider` in its configuration"
    )]
    NoCredentials,
    #[error(
        "the DynamoDB client has no region: set AWS_REGION, or `region` in the client's configuration"
    )]
    NoRegion,
    #[error(
        "the DynamoDB client's endpoint `{0}` is no URL with a scheme, such as `http://localhost:8000`"
    )]
    Endpoint(String),
}

/// The SDK's words for errors that have no public types.
const NO_PROVIDER: &str = "there was no identity resolver";
const NO_REGION: [&str; 2] = ["Missing Region", "missing signing region"];
const BAD_ENDPOINT: &str = "failed to apply endpoint `";

impl Misconfigured {
    /// What an error says of a request that was not handed to the transport.
    pub(super) fn of(error: &(dyn StdError + 'static)) -> Option<Self> {
        chain(error).find_map(|cause| Misconfigured::told_by(&cause.to_string()))
    }

    fn told_by(words: &str) -> Option<Self> {
        if let Some((_, named)) = words.split_once(BAD_ENDPOINT) {
            let (endpoint, _) = named.split_once('`')?;
            return Some(Misconfigured::Endpoint(endpoint.to_owned()));
        }
        if NO_REGION.iter().any(|it| words.contains(it)) {
            return Some(Misconfigured::NoRegion);
        }
        words
            .contains(NO_PROVIDER)
            .then_some(Misconfigured::NoCredentials)
    }
}

/// An error and its causes. Ends because each cause is an error of its own.
pub(super) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_signatures_that_are_not_taken_are_told_apart_and_from_missing_permission() {
        let told = lack_of_answer;
        assert_eq!(told("ExpiredTokenException"), Some(Lack::Credentials));
        assert_eq!(told("InvalidSignatureException"), Some(Lack::Signature));
        assert_eq!(told("AccessDeniedException"), None);
    }

    #[test]
    fn credentials_that_cannot_be_loaded_are_found_below_other_errors_with_words_that_say_what_to_do()
     {
        let cause = CredentialsError::not_loaded("no provider has any");
        let told = explained(Lack::Credentials, Box::new(cause));
        assert!(told.to_string().contains("whether they have expired"));
        assert_eq!(lack_of_preparing(told.as_ref()), Some(Lack::Credentials));
        assert_eq!(lack_of_connecting(told.as_ref()), None);
        let slow = explained(Lack::Loading, Box::new(NoIdentity::Loading));
        assert_eq!(lack_of_preparing(slow.as_ref()), Some(Lack::Loading));
    }
}
