//! Values of flags that several programs take.

use std::time::Duration;

use fairlock::RecordWait;

const NOT_AT_ALL: &str = "not to wait at all is called none";
const MORE_THAN_NOTHING: &str = "must be more than nothing, such as 30s";

/// Parses how long to wait: `none`, `infinite` or a duration.
pub fn wait(text: &str) -> Result<RecordWait, String> {
    match text {
        "none" => Ok(RecordWait::NoWait),
        "infinite" => Ok(RecordWait::Infinite),
        _ if is_nothing(text) => Err(NOT_AT_ALL.into()),
        _ if is_number(text) => Err(unit_of(text)),
        _ => match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => Err(NOT_AT_ALL.into()),
            Ok(span) => Ok(RecordWait::Timeout(span)),
            Err(error) => Err(format!(
                "neither none nor infinite nor a duration such as 90s: {error}"
            )),
        },
    }
}

/// Parses a duration that is more than nothing.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err(MORE_THAN_NOTHING.into()),
        _ if is_nothing(text) => Err(MORE_THAN_NOTHING.into()),
        _ if is_number(text) => Err(unit_of(text)),
        Ok(span) => Ok(span),
        Err(error) => Err(format!("not a duration such as 30s: {error}")),
    }
}

/// Parses how long a lease lasts. The library knows the bounds.
pub fn lease(text: &str) -> Result<Duration, String> {
    match duration(text) {
        Err(error) if error == MORE_THAN_NOTHING => {
            Err("a lease lasts for at least 1s, and at most 1day".into())
        }
        parsed => parsed,
    }
}

/// Parses a number of permits. The library knows the bounds.
pub fn permits(text: &str) -> Result<u64, &'static str> {
    let parsed = text.parse();
    parsed.map_err(|_| "not a number of permits: a whole number from 1 to 1000")
}

/// Parses a number of seconds, as `flock` takes it.
pub fn seconds(text: &str) -> Result<RecordWait, String> {
    let seconds = text.parse().ok().filter(|_| is_number(text));
    let span = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match span {
        Some(Duration::ZERO) => Ok(RecordWait::NoWait),
        Some(span) => Ok(RecordWait::Timeout(span)),
        None => Err("not a number of seconds such as 5 or 0.5; --wait takes other waits".into()),
    }
}

/// Parses a tag of a table, whose key ends at the first `=`.
pub fn tag(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text
        .split_once('=')
        .ok_or("not KEY=VALUE such as team=payments")?;
    let begin = key.get(..4).unwrap_or_default();
    let may_be_in_it = |letter: char| letter.is_alphanumeric() || " +-=._:/@".contains(letter);
    match (key.chars().count(), value.chars().count()) {
        (0 | 129.., _) => Err("a key has 1 to 128 characters"),
        (_, 257..) => Err("a value has at most 256 characters"),
        _ if begin.eq_ignore_ascii_case("aws:") => Err("keys that begin with `aws:` are AWS's own"),
        _ if !text.chars().all(may_be_in_it) => {
            Err("a tag consists of letters, digits, blanks and the characters `+ - = . _ : / @`")
        }
        _ => Ok((key.to_owned(), value.to_owned())),
    }
}

/// Whether the text is a number without a unit.
pub fn is_number(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    text.starts_with(is_digit) && text.chars().all(|c| is_digit(c) || c == '.')
}

/// Whether the text is a zero without a unit. Zero is the same in every unit.
pub fn is_nothing(text: &str) -> bool {
    is_number(text) && text.parse() == Ok(0.0)
}

/// The error message for a number without a unit.
pub fn unit_of(text: &str) -> String {
    format!("{text} what? Say {text}s, or {text}m")
}

/// Checks that the address has a scheme and a host.
pub fn url(text: &str) -> Result<String, &'static str> {
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let starts_with_host = |rest: &str| rest.starts_with(|c: char| c == '[' || c.is_alphanumeric());
    match rest {
        Some(rest) if starts_with_host(rest) && !text.contains(char::is_whitespace) => {
            Ok(text.to_owned())
        }
        _ => Err("not a URL such as http://localhost:8000"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_none_infinite_or_a_duration() {
        let second = RecordWait::Timeout(Duration::from_secs(1));
        assert_eq!(wait("none"), Ok(RecordWait::NoWait));
        assert_eq!(wait("infinite"), Ok(RecordWait::Infinite));
        assert_eq!(wait("1s"), Ok(second));
        assert!(wait("0s").is_err() && wait("soon").is_err() && wait("-1s").is_err());
    }

    #[test]
    fn permits_and_leases_are_told_what_they_may_be() {
        assert_eq!((permits("1"), permits("1000")), (Ok(1), Ok(1000)));
        for bad in ["", "abc", "-1", "1.5", "99999999999999999999"] {
            assert!(permits(bad).unwrap_err().contains("1 to 1000"), "{bad}");
        }
        assert_eq!(lease("5m"), Ok(Duration::from_secs(300)));
        for nothing in ["0s", "0", "0ms"] {
            let told = lease(nothing).unwrap_err();
            assert!(told.contains("at least 1s") && told.contains("at most 1day"));
        }
        assert!(lease("soon").unwrap_err().contains("such as 30s"));
    }

    #[test]
    fn urls_have_a_scheme_and_a_host() {
        for good in ["http://localhost:8000", "https://[::1]:1/x"] {
            assert_eq!(url(good), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "localhost:8000",
            "http://",
            "http:///x",
            "ftp://a",
            "http:// a",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_is_seconds_where_flock_takes_them_and_asks_for_its_unit_elsewhere() {
        let half = RecordWait::Timeout(Duration::from_millis(500));
        assert_eq!(seconds("0.5"), Ok(half));
        assert_eq!(seconds("0"), Ok(RecordWait::NoWait));
        for bad in [
            "",
            "5s",
            "-1",
            "1e3",
            "inf",
            "1.2.3",
            "99999999999999999999",
        ] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(wait("5"), Err("5 what? Say 5s, or 5m".to_owned()));
    }
}
