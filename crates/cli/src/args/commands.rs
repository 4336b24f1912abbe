//! The flags of the commands that look after the command itself.

use std::path::PathBuf;

use clap_complete::Shell;

pub(crate) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  fairlock completions bash > /etc/bash_completion.d/fairlock
  fairlock completions zsh > ~/.zfunc/_fairlock
  fairlock completions fish > ~/.config/fish/completions/fairlock.fish";

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  fairlock man | man -l -
  fairlock man run | man -l -
  fairlock man --out /usr/local/share/man/man1";

/// `fairlock completions`
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `fairlock man`
#[derive(Debug, clap::Args)]
pub(crate) struct Pages {
    /// Write all pages into this directory, which must be there, in place of printing one
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,

    /// The command whose page to print, such as `table create` [default: that of fairlock itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
