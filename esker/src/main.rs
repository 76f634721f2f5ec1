//! The `esker` command: `serve` runs the server, `sql` is a shell, `bench` measures, `check` and `inspect` look at files.
//!
//! Neighbours: `esker-server` and `esker-sql` do the work; this crate parses arguments, sets up the
//! log and prints errors for people.

mod bar;
mod bench;
mod check;
mod inspect;
mod serve;
mod shell;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

// Many small buffers of many sessions on two or more threads: the system allocator keeps more memory
// and takes longer. Without huge pages: one small thing that is left in one would keep 2 MiB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Esker: a transactional database server for people who run MySQL.
#[derive(Parser)]
#[command(name = "esker", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server.
    ///
    /// Listens on 127.0.0.1:3306 with its data in ./esker-data unless told otherwise. Every system
    /// variable can be set as --name=value (SHOW VARIABLES lists them), as ESKER_NAME in the
    /// environment, or in an option file. On the first start, root gets no password, or the one in
    /// ESKER_ROOT_PASSWORD. --force-recovery=point-in-time starts without the damaged end of a log, --force-recovery=new-accounts
    /// without the accounts, see docs/recovery.md.
    Serve {
        /// Read settings from an option file (my.cnf syntax; sections mysqld, server, esker).
        #[arg(long, value_name = "FILE")]
        defaults_file: Option<PathBuf>,
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
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Serve {
            defaults_file,
            settings,
        } => serve::run(defaults_file.as_deref(), &settings),
        Command::Sql(options) => shell::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Inspect(what) => inspect::run(&what),
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
