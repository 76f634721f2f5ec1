//! `esker generate`: man pages and shell completions, made of the same definitions as the command line.
//!
//! Neighbours: `dist/debian/build` puts them into the package.
//! **Invariant**: every command is in them.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::Cli;

/// What to make.
#[derive(Subcommand)]
pub(crate) enum What {
    /// Write man pages, one for each command, into a directory that is there.
    Man {
        /// The directory.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Makes it.
pub(crate) fn run(what: &What) -> Result<ExitCode, String> {
    match what {
        What::Man { dir } => clap_mangen::generate_to(Cli::command(), dir)
            .map_err(|e| format!("cannot write man pages into {}: {e}", dir.display()))?,
        What::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "esker", &mut io::stdout());
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        let command = Cli::command();
        let names = command.get_subcommands().map(|c| c.get_name().to_owned());
        names.collect()
    }

    #[test]
    fn man_pages_and_completions_have_every_command() {
        let dir = tempfile::tempdir().expect("folder");
        let what = What::Man {
            dir: dir.path().to_owned(),
        };
        run(&what).expect("man pages");
        let overview = std::fs::read_to_string(dir.path().join("esker.1")).expect("page");
        assert!(names().len() > 6);
        for name in names() {
            let page = std::fs::read_to_string(dir.path().join(format!("esker-{name}.1")));
            assert!(page.expect("a page").contains(".SH OPTIONS"), "{name}");
            assert!(overview.contains(&format!("esker\\-{name}(1)")), "{name}");
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "esker", &mut out);
            let text = String::from_utf8(out).expect("text");
            for name in names() {
                assert!(text.contains(&name), "{shell}: {name}");
            }
        }
    }
}
