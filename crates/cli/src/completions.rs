//! `fairlock completions` and `fairlock man`: what a shell and `man` know of this command line.

use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;

use crate::args::Args;
use crate::args::commands::{Completions, Pages};
use crate::failure::{Failure, IO};
use crate::json_page;
use crate::output;
use crate::text::shown;

pub(crate) fn completions(options: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    let mut all = visible(&Args::command());
    clap_complete::generate(options.shell, &mut all, "fairlock", &mut script);
    print(&script)
}

pub(crate) fn man(options: &Pages) -> Result<ExitCode, Failure> {
    let mut all = visible(&Args::command()).disable_help_subcommand(true);
    // Names each command after the commands above it.
    all.build();
    let Some(folder) = &options.out else {
        if options.command == [json_page::NAME] {
            return print(&json_page::rendered());
        }
        let page = page(found(all, &options.command)?);
        return print(&rendered(&page)?);
    };
    if !folder.is_dir() {
        return Err(unwritable(
            folder,
            "there is no such directory: make it first",
        ));
    }
    write(&all, folder)?;
    put(&folder.join(json_page::FILE), &json_page::rendered())?;
    Ok(ExitCode::SUCCESS)
}

/// The same command, without the flags and the commands that are not for users: neither a shell nor `man` should offer them.
fn visible(command: &Command) -> Command {
    let arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
        .map(described);
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let mut seen = Command::new(command.get_name().to_owned())
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(command.is_subcommand_required_set())
        .args(arguments)
        .subcommands(below.map(visible));
    if let Some(about) = command.get_about() {
        seen = seen.about(about.clone());
    }
    match command.get_after_help() {
        Some(examples) => seen.after_help(examples.clone()),
        None => seen,
    }
}

/// The same argument, of which a page of the manual says all. Otherwise it says nothing of an argument that only the long help has.
fn described(argument: &Arg) -> Arg {
    let argument = argument.clone();
    match (argument.get_long_help(), argument.get_help()) {
        (None, Some(help)) => {
            let help = help.clone();
            argument.long_help(help)
        }
        _ => argument,
    }
}

/// The command that these words name, below all of them.
fn found(all: Command, words: &[String]) -> Result<Command, Failure> {
    let mut at = all;
    for word in words {
        let below = at.find_subcommand(word).cloned();
        let line = at.get_bin_name().unwrap_or("fairlock").to_owned();
        at = below.ok_or_else(|| {
            let word = shown(word);
            Failure::misuse(format!(
                "{line} has no command `{word}`: `{line} --help` lists its commands"
            ))
        })?;
    }
    Ok(at)
}

/// Writes the page of the command, and those of the commands below it.
fn write(command: &Command, folder: &Path) -> Result<(), Failure> {
    let page = page(command.clone());
    put(&folder.join(page.get_filename()), &rendered(&page)?)?;
    command
        .get_subcommands()
        .try_for_each(|below| write(below, folder))
}

fn put(file: &Path, page: &[u8]) -> Result<(), Failure> {
    let written = std::fs::write(file, page);
    written.map_err(|error| unwritable(file, &error.to_string()))
}

/// The synopsis is the usage of the command's help: it names the values of flags, and the dashes before a command.
fn page(mut command: Command) -> Man {
    let usage = command.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    let command = command.override_usage(usage);
    Man::new(command).source(concat!("fairlock ", env!("CARGO_PKG_VERSION")))
}

fn rendered(page: &Man) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    let done = page.render(&mut text);
    done.map_err(|error| Failure::unwritten(&error))?;
    Ok(text)
}

fn unwritable(path: &Path, why: &str) -> Failure {
    Failure::new(IO, format!("cannot write {}: {why}", path.display()))
}

fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    // A reader that has gone wants no more of it.
    let _ = output::print_bytes(text)?;
    Ok(ExitCode::SUCCESS)
}
