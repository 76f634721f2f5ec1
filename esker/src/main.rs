//! The `esker` command: `serve` runs the server, `sql` is a shell, `backup` and `restore` keep copies, `bench`
//! measures, `check` and `inspect` look at files.
//!
//! Neighbours: `esker-server` and `esker-sql` do the work; this crate parses arguments, sets up the
//! log and prints errors for people (`show`; `log`, `log_format` and `recent_log` for the server's log; `bar` for
//! progress); `heap` is the allocator, and `reserve` what it has left where addresses are limited;
//! `server_options` says which server; `generate` makes man pages and completions.

mod backup;
mod bar;
mod bench;
mod check;
mod generate;
mod heap;
mod inspect;
mod log;
mod log_format;
mod recent_log;
mod reserve;
mod restore;
mod serve;
mod server_options;
mod shell;
mod show;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// How options of `serve` begin that are no settings, but may stand among them.
const NO_SETTINGS: [&str; 5] = [
    "--defaults-file=",
    "--defaults-extra-file=",
    "--no-defaults",
    "--print-defaults",
    "--validate-config",
];

/// Version and commit.
pub(crate) const VERSION: &str = env!("ESKER_VERSION");

/// Esker: a transactional database server for people who run MySQL.
#[derive(Parser)]
#[command(name = "esker", version = VERSION, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    ///
    /// Listens on 127.0.0.1:3306 with its data in ./esker-data unless told otherwise. Every system variable can be set
    /// as --name=value (SHOW VARIABLES lists them), as ESKER_NAME in the environment, or in an option file. On the
    /// first start, root gets no password, or the one in ESKER_ROOT_PASSWORD. --force-recovery=point-in-time starts
    /// without the damaged end of a log, --force-recovery=new-accounts without the accounts, see docs/recovery.md.
    Serve {
        /// Read settings from an option file (my.cnf syntax; sections mysqld, server, esker).
        #[arg(long, value_name = "FILE")]
        defaults_file: Option<PathBuf>,
        /// Read this option file after the other.
        #[arg(long, value_name = "FILE")]
        defaults_extra_file: Option<PathBuf>,
        /// Read no option file.
        #[arg(long, conflicts_with_all = ["defaults_file", "defaults_extra_file"])]
        no_defaults: bool,
        /// Print the settings of option files and environment as flags, and exit.
        #[arg(long)]
        print_defaults: bool,
        /// Say whether the server would take the settings, and exit; the data directory is not opened.
        #[arg(long)]
        validate_config: bool,
        /// Settings: --port=N, --bind-address=ADDRESS, --datadir=DIR, --max-connections=N, ...
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "--NAME=VALUE"
        )]
        settings: Vec<String>,
    },
    /// Run statements: on a server, or directly on a data directory that no server uses.
    Sql(shell::Options),
    /// Back up a running server into a directory of its machine, while it goes on; `verify` reads a backup.
    Backup(Box<backup::Options>),
    /// Make a data directory of a backup.
    Restore(restore::Options),
    /// Measure this build on this machine: commit, log, keys and values, restart.
    Bench(bench::Options),
    /// Verify a data directory that no server uses: manifest, every extent, the log, accounts, certificate.
    ///
    /// Nothing is changed. The exit status is 0 if everything is whole, 2 if something is damaged, 1 if it
    /// could not be checked.
    Check(check::Options),
    /// Show what is in the files of a data directory, also damaged ones. Nothing is changed.
    #[command(subcommand)]
    Inspect(inspect::What),
    /// Make man pages and shell completions.
    #[command(subcommand)]
    Generate(generate::What),
}

/// The arguments, those of [`NO_SETTINGS`] before the settings.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|command| command == "serve") {
        let is_setting = |argument: &OsString| {
            let text = argument.to_string_lossy();
            !NO_SETTINGS.iter().any(|name| text.starts_with(name))
        };
        // A stable sort: the others keep their order.
        arguments[2..].sort_by_key(is_setting);
    }
    if arguments
        .get(1)
        .is_some_and(|command| command == "sql" || command == "backup")
    {
        for given in &mut arguments[2..] {
            if let Some(long) = given.to_str().and_then(server_options::argument) {
                *given = long.into();
            }
        }
    }
    arguments
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(arguments());
    let result = match cli.command {
        Command::Serve {
            defaults_file,
            defaults_extra_file,
            no_defaults: _,
            print_defaults,
            validate_config,
            settings,
        } => {
            let files: Vec<_> = [defaults_file, defaults_extra_file]
                .into_iter()
                .flatten()
                .collect();
            if print_defaults {
                serve::print(&files)
            } else if validate_config {
                serve::validate(&files, &settings)
            } else {
                serve::run(&files, &settings)
            }
        }
        Command::Sql(options) => shell::run(&options),
        Command::Backup(options) => backup::run(&options),
        Command::Restore(options) => restore::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Inspect(what) => inspect::run(&what),
        Command::Generate(what) => generate::run(&what),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            #[expect(
                clippy::print_stderr,
                reason = "the one place where the command reports"
            )]
            {
                eprintln!("esker: {message}");
            }
            ExitCode::FAILURE
        }
    }
}
