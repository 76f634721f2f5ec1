//! `esker serve`.
//!
//! Neighbours: `esker_server::run` is the server; here its settings are gathered and its log is set
//! up.
//! **Invariant**: standard output carries exactly one line, when statements can run.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crate::bar::Bar;
use crate::{heap, log, log_format, recent_log, reserve};
use esker_server::{Config, Hooks};
use esker_sql::Instance;
use rustix::process::{Resource, getrlimit, setrlimit};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

fn gather(files: &[PathBuf], settings: &[String]) -> Result<Config, String> {
    // Others may have put there what is no text; ours is.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = Config::gather(files, environment, settings);
    if config.complaints.is_empty() {
        return Ok(config);
    }
    let mut lines: Vec<String> = config.complaints.iter().map(ToString::to_string).collect();
    // Whatever is wrong with the other settings belongs to the same answer.
    if let Err(e) = esker_server::validate(&config) {
        lines.push(e.to_string());
    }
    Err(lines.join("\n"))
}

/// Prints what option files and environment set, as flags.
pub(crate) fn print(files: &[PathBuf]) -> Result<ExitCode, String> {
    let flags: String = gather(files, &[])?
        .made
        .iter()
        .map(|s| format!("--{}={}\n", s.name, s.value))
        .collect();
    let mut out = std::io::stdout();
    match out.write_all(flags.as_bytes()).and_then(|()| out.flush()) {
        // A closed standard output wants no more.
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {e}"))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Says whether a start would take the settings; what would be warned of goes to the log.
pub(crate) fn validate(files: &[PathBuf], settings: &[String]) -> Result<ExitCode, String> {
    begin_log();
    let config = gather(files, settings)?;
    esker_server::validate(&config).map_err(|e| e.to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the server until it is told to stop.
pub(crate) fn run(files: &[PathBuf], settings: &[String]) -> Result<ExitCode, String> {
    begin_log();
    raise_file_limit();
    // Data and keys are nobody else's business.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o027));
    let config = gather(files, settings)?;
    log_format::use_form(config.log_form());
    if let Some(place) = config.log_error() {
        log::send_to(place, &config.data_dir)?;
    }
    tracing::info!("Esker {} starts", crate::VERSION);
    if !config.ignored.is_empty() {
        tracing::info!(
            "not settings of the server, ignored: {}",
            config.ignored.join(" ")
        );
    }
    reserve::keep();
    let data_dir = config.data_dir.clone();
    let mut bar = Bar::new();
    let progress = Box::new(move |progress: &_| bar.show(progress));
    let hooks = Hooks {
        progress,
        reopen_logs: Arc::new(log::reopen),
        form_log: log_format::use_form,
        recent_log: recent_log::lines,
        heap: heap::HEAP,
        ready: |address, instance: &_| announce(address, instance, &data_dir),
    };
    esker_server::run(config, hooks).map_err(|e| e.to_string())?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

fn begin_log() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_writer(|| log::Sink)
        .event_format(log_format::Lines::new())
        .finish()
        .with(recent_log::Keeper)
        .init();
}

fn announce(address: SocketAddr, instance: &Instance, data_dir: &Path) {
    instance.tell_build(&format!("Esker {}", crate::VERSION));
    if instance.root_has_no_password() && instance.is_first_start() {
        tracing::warn!(
            "created account root@localhost WITHOUT a password; set one with \
             ALTER USER root@localhost IDENTIFIED BY '...'"
        );
    }
    let line = format!(
        "Esker {} is ready for connections on {address}, data in {}\n",
        instance.version(),
        data_dir.display()
    );
    // A closed standard output is no reason to stop serving.
    let _ = std::io::stdout().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
}

/// One descriptor per connection and per open file: take what the system allows.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(e) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("cannot raise the limit of open files: {e}");
    }
}
