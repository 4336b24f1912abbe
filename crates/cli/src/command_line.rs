//! Reads the command line, and the environment variables that stand in for flags.
//!
//! An empty variable counts as unset. A flag beats a variable. An error about a contradiction names the flags or variables that the user
//! really gave.

use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, Error, FromArgMatches};
use fairlock::RecordWait;

use crate::args::Args;
use crate::args::commands::Claim;
use crate::location::Location;
use crate::text::quoted;

/// Reads the command line of this process.
pub(crate) fn read() -> Result<Args, Error> {
    let mut words: Vec<_> = std::env::args_os().collect();
    let dashed = without_dashed_lock(&mut words);
    let mut command = without_empty_variables(Args::command());
    let matches = command.try_get_matches_from_mut(&words);
    let matches = matches.or_else(|error| match without_beaten_variables(&error, &words) {
        Some(matches) => Ok(matches),
        None => Err(explained(error, &mut command, &words)),
    })?;
    let mut args = Args::from_arg_matches(&matches)?;
    let given = Given(innermost(&matches));
    if let Some(claim) = args.command.claim() {
        given.wait(&mut command, claim)?;
        claim.lock = dashed.unwrap_or_else(|| std::mem::take(&mut claim.lock));
    }
    if let Some(location) = args.command.location() {
        given.location(&mut command, location)?;
    }
    Ok(args)
}

/// Takes the lock's name out of `run ... -- NAME -- COMMAND`, and leaves another name before the command. That is how a name is said that begins
/// with a dash, but clap takes the first `--` for the one before the command. So it does where a lock was named before it.
fn without_dashed_lock(words: &mut Vec<OsString>) -> Option<String> {
    let at = words.iter().position(|word| word == "--")?;
    let name = words.get(at + 1)?.to_str()?.to_owned();
    let is_run = words.get(1)? == "run" && words.get(at + 2)? == "--";
    if !is_run || !name.starts_with('-') {
        return None;
    }
    let named = |words: &[OsString]| Args::command().try_get_matches_from(words).is_ok();
    if named(words) {
        return None;
    }
    words.drain(at..at + 2);
    words.insert(at, "lock".into());
    Some(name)
}

fn without_empty_variables(command: Command) -> Command {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    without_variables(command, &|arg| arg.get_env().is_some_and(is_empty))
}

/// Returns the same command, in which no variable stands in for the arguments that `are` selects.
fn without_variables(command: Command, are: &impl Fn(&Arg) -> bool) -> Command {
    let unset = |arg: Arg| match are(&arg) {
        true => arg.env(None::<&str>),
        false => arg,
    };
    let command = command.mut_args(unset);
    command.mut_subcommands(|below| without_variables(below, are))
}

/// Parses the command line again, without the variables whose values are invalid. This is allowed only if other flags on the command line
/// replace them: `-n` and `-w` replace the variable of `--wait`, and `--local` replaces that of `--endpoint-url`.
fn without_beaten_variables(error: &Error, words: &[OsString]) -> Option<ArgMatches> {
    let mut command = without_empty_variables(Args::command());
    let (mut word, mut beaten) = (invalid(error)?, Vec::new());
    // Each iteration but the last drops one such variable.
    let matches = loop {
        let next = BEATEN.iter().find(|it| word.starts_with(it.flag))?;
        if beaten.contains(&next) {
            return None;
        }
        beaten.push(next);
        command = without_variables(command, &|arg| arg.get_id() == next.id);
        match command.clone().try_get_matches_from(words) {
            Ok(matches) => break matches,
            Err(next) => word = invalid(&next)?,
        }
    };
    let given = Given(innermost(&matches));
    let is_on_line = |id: &&str| given.by(id) == Some(ValueSource::CommandLine);
    let are_beaten = beaten.iter().all(|it| it.by.iter().any(is_on_line));
    are_beaten.then_some(matches)
}

/// An argument whose variable may be beaten by other flags than its own.
#[derive(PartialEq, Eq)]
struct Beaten {
    id: &'static str,
    flag: &'static str,
    by: &'static [&'static str],
}

const BEATEN: [Beaten; 2] = [
    Beaten {
        id: "wait",
        flag: "--wait",
        by: &["nonblock", "timeout"],
    },
    Beaten {
        id: "endpoint_url",
        flag: "--endpoint-url",
        by: &["local"],
    },
];

/// Returns the argument that an error is about.
fn invalid(error: &Error) -> Option<String> {
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(word) => Some(word.clone()),
        _ => None,
    }
}

/// Returns the matches of the innermost subcommand, which is the one that will run.
fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches
        .subcommand()
        .map_or(matches, |(_, below)| innermost(below))
}

/// Which values came from the command line, and which from variables.
struct Given<'a>(&'a ArgMatches);

impl Given<'_> {
    /// Returns the source of a value. Returns `None` if the value was not given at all.
    fn by(&self, id: &str) -> Option<ValueSource> {
        let is_known = self.0.try_contains_id(id).is_ok_and(|is_there| is_there);
        let source = is_known.then(|| self.0.value_source(id)).flatten();
        source.filter(|source| *source != ValueSource::DefaultValue)
    }

    /// Leaves at most one of `--endpoint-url` and `--local`: the table is in one place only.
    fn location(&self, command: &mut Command, location: &mut Location) -> Result<(), Error> {
        use ValueSource::{CommandLine, EnvVariable};
        match (self.by("endpoint_url"), self.by("local")) {
            (Some(CommandLine), Some(EnvVariable)) => location.local = None,
            (Some(EnvVariable), Some(CommandLine)) => location.endpoint_url = None,
            (Some(CommandLine), Some(CommandLine)) => {
                return Err(conflict(command, "--endpoint-url and --local", "give"));
            }
            (Some(_), Some(_)) => {
                let variables = "the variables FAIRLOCK_ENDPOINT_URL and FAIRLOCK_LOCAL";
                return Err(conflict(command, variables, "set"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the wait from `--wait`, or from the flags that `flock` has.
    fn wait(&self, command: &mut Command, claim: &mut Claim) -> Result<(), Error> {
        let is_said = self.by("wait") == Some(ValueSource::CommandLine);
        let said = [
            (is_said, "--wait"),
            (claim.nonblock, "-n"),
            (claim.timeout.is_some(), "-w"),
        ];
        let said: Vec<_> = said
            .into_iter()
            .filter_map(|(is_said, flag)| is_said.then_some(flag))
            .collect();
        if let [one, other, ..] = said[..] {
            let text = format!("{one} and {other} say two waits: give one of them\n");
            return Err(command.error(ErrorKind::ArgumentConflict, text));
        }
        if claim.nonblock {
            claim.wait = RecordWait::NoWait;
        }
        claim.wait = claim.timeout.unwrap_or(claim.wait);
        Ok(())
    }
}

fn conflict(command: &mut Command, both: &str, give: &str) -> Error {
    let text = format!("{both} say two places of the locks: {give} one of them\n");
    command.error(ErrorKind::ArgumentConflict, text)
}

/// Adds what to do about an error, where the given words tell more than clap knows.
fn explained(mut error: Error, command: &mut Command, words: &[OsString]) -> Error {
    if error.kind() == ErrorKind::InvalidSubcommand {
        suggest(&mut error);
        return error;
    }
    let Some(word) = invalid(&error) else {
        return error;
    };
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => behind_dashes(&word, words),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => by_variable(&word, command, words),
        _ => None,
    };
    if let Some(tip) = tip {
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// What the commands of other lock tools are called here.
const CALLED_HERE: [(&[&str], &str); 9] = [
    (
        &["lock", "exec", "with", "wait", "try"],
        "fairlock run LOCK -- COMMAND runs a command in its turn",
    ),
    (
        &["acquire", "get-lock", "take"],
        "fairlock run and fairlock hold take a lock for as long as they run, fairlock lease acquire takes one for a time",
    ),
    (
        &["release", "unlock", "free", "give-up"],
        "fairlock run and fairlock hold release their lock when they end, fairlock lease release gives a lease back, and fairlock break takes \
         a lock away from another",
    ),
    (
        &["force-unlock", "force", "steal", "kill", "evict"],
        "fairlock break takes a lock away from its owner",
    ),
    (
        &["extend", "renew", "refresh", "heartbeat"],
        "fairlock run and fairlock hold renew their lock by themselves, fairlock lease extend extends a lease",
    ),
    (
        &["list", "status", "inspect", "info"],
        "fairlock show shows a lock, fairlock ls lists all of them",
    ),
    (
        &["create", "init", "create-table"],
        "fairlock table create makes the table",
    ),
    (
        &["remove", "rm", "purge"],
        "fairlock delete deletes a lock that nobody uses",
    ),
    (
        &["get", "put", "set", "clear"],
        "fairlock data get, put and clear are for the bytes that a lock carries",
    ),
];

/// Says what does what the user means by an unknown command, as far as that is known. Of the commands that clap finds similar, only those stay
/// that a typing error makes of the word: another would do something else than was meant.
fn suggest(error: &mut Error) {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return,
    };
    let similar = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(similar)) => similar,
        Some(ContextValue::String(similar)) => vec![similar],
        _ => Vec::new(),
    };
    let known = CALLED_HERE
        .iter()
        .find(|(words, _)| words.contains(&&*word));
    if let Some((_, tip)) = known {
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(*tip)]);
        error.insert(ContextKind::Suggested, tips);
        return;
    }
    let typos = similar.into_iter();
    let typos: Vec<_> = typos.filter(|name| is_typo(&word, name)).collect();
    if !typos.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(typos),
        );
    }
}

/// Whether a word is a name with its letters in another order, or with at most two in a row that differ, are missing or are too many.
fn is_typo(word: &str, name: &str) -> bool {
    let same = |pairs: &mut dyn Iterator<Item = (char, char)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let longest = word.chars().count().max(name.chars().count());
    let before = same(&mut word.chars().zip(name.chars()));
    let behind = same(&mut word.chars().rev().zip(name.chars().rev()));
    let sorted = |text: &str| {
        let mut letters: Vec<_> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    before + behind >= longest.saturating_sub(2).max(1) || sorted(word) == sorted(name)
}

/// Suggests `--` if a command follows the lock's name without it.
fn behind_dashes(word: &str, words: &[OsString]) -> Option<String> {
    let run = words.iter().position(|at| at == "run")?;
    if words.iter().any(|at| at == "--") {
        return None;
    }
    let behind = words[run..].iter().skip(2);
    let at = behind.take_while(|at| *at != word).count() + run + 2;
    let part = |words: &[OsString]| {
        let quoted = words.iter().map(|word| quoted(&word.to_string_lossy()));
        quoted.collect::<Vec<_>>().join(" ")
    };
    let (ours, command) = (words.get(run..at)?, words.get(at..)?);
    // `flock` passes `-c` to a shell.
    let shell = match command.first()?.to_str() {
        Some("-c") => "sh ",
        Some(flag) if flag.starts_with('-') => return None,
        _ => "",
    };
    let line = format!("fairlock {} -- {shell}{}", part(ours), part(command));
    Some(format!("put -- before the command: {line}"))
}

/// Names the variable that gave an invalid value, if no flag on the command line gave it.
fn by_variable(flag: &str, command: &Command, words: &[OsString]) -> Option<String> {
    let long = flag.split_whitespace().next()?;
    let is_given = |word: &OsString| word.to_string_lossy().split('=').next() == Some(long);
    if words.iter().any(is_given) {
        return None;
    }
    let name = variable(command, long.strip_prefix("--")?)?;
    Some(format!("{long} is given by the variable {name}"))
}

fn variable(command: &Command, long: &str) -> Option<String> {
    let mut arguments = command.get_arguments();
    let here = arguments.find(|arg| arg.get_long() == Some(long));
    let name = here.and_then(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()));
    let below = || {
        command
            .get_subcommands()
            .find_map(|below| variable(below, long))
    };
    name.or_else(below)
}
