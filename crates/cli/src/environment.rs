//! The variables and files that AWS configurations are made of, as far as messages name them.

use std::path::PathBuf;

const PROFILE: &str = "AWS_PROFILE";

/// Describes the profile in use: which variable names it, and whether any file has it.
pub(crate) fn profile() -> String {
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
    text.lines().any(|line| section(line) == Some(name))
}

/// The profile whose section begins with this line.
fn section(line: &str) -> Option<&str> {
    let line = line.trim().strip_prefix('[')?;
    let section = line.split(']').next()?.trim();
    Some(match section.split_once(char::is_whitespace) {
        Some(("profile", name)) => name.trim(),
        _ => section,
    })
}

/// What the profile in use says for this key in its file of configuration.
pub(crate) fn in_profile(key: &str) -> Option<String> {
    let file = set("AWS_CONFIG_FILE").map(PathBuf::from);
    let text = std::fs::read_to_string(file.or_else(|| in_home("config"))?).ok()?;
    value(
        &text,
        &set(PROFILE).unwrap_or_else(|| "default".into()),
        key,
    )
}

fn value(text: &str, profile: &str, key: &str) -> Option<String> {
    let mut current = None;
    text.lines().find_map(|line| {
        current = section(line).or(current);
        let (name, value) = line.split_once('=')?;
        (current == Some(profile) && name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn in_home(file: &str) -> Option<PathBuf> {
    Some(PathBuf::from(set("HOME")?).join(".aws").join(file))
}

/// Returns the variable's value. An empty variable counts as unset.
pub(crate) fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The first of these variables that is set.
pub(crate) fn set_of(names: [&'static str; 2]) -> Option<&'static str> {
    names.into_iter().find(|name| set(name).is_some())
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

    #[test]
    fn a_value_is_that_of_its_own_profile() {
        let text = "[default]\na = 1\n[profile ci]\na=2\n b = 3 = 4\n[other]\nc = 5\n";
        for (profile, key, found) in [
            ("default", "a", Some("1")),
            ("ci", "a", Some("2")),
            ("ci", "b", Some("3 = 4")),
            ("ci", "c", None),
            ("no", "a", None),
        ] {
            assert_eq!(
                value(text, profile, key).as_deref(),
                found,
                "{profile} {key}"
            );
        }
    }
}
