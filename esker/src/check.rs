//! `esker check`: is a data directory whole?
//!
//! Neighbours: `esker_engine::check`, `esker_sql::datadir::check` and `esker_server::tls::check` do it; here findings
//! become lines of text or JSON. **Invariant**: the exit status is 2 exactly if something is damaged.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use esker_engine::{Checked, DamagedPart, EngineError, Finding};
use esker_vfs::Env;

use crate::show::{hex, json_text, key};

/// Exit status when something is damaged.
const DAMAGED: u8 = 2;

/// Options of `esker check`.
#[derive(Args)]
pub(crate) struct Options {
    /// The data directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Only say whether this version opens the directory: read its formats, and nothing else.
    #[arg(long)]
    upgrade: bool,
}

/// Checks, and prints what is damaged.
pub(crate) fn run(options: &Options) -> Result<ExitCode, String> {
    if options.upgrade {
        return upgrade(options);
    }
    let mut out = io::stdout().lock();
    let mut written = Ok(());
    let checked = esker_engine::check(&Env::os(), &options.dir, &mut |finding| {
        let line = match options.json {
            true => json(finding),
            false => text(finding),
        };
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    })
    .map_err(|e| e.to_string())?;
    let others = others(&options.dir);
    for (file, what) in &others {
        let line = match options.json {
            true => damage_json(file, what),
            false => format!("damaged: {}: {what}", file.display()),
        };
        written = written.and_then(|()| writeln!(out, "{line}"));
    }
    let findings = checked.findings + others.len() as u64;
    let line = match options.json {
        true => summary_json(&checked, findings),
        false => summary(&checked, findings),
    };
    written
        .and_then(|()| writeln!(out, "{line}"))
        .map_err(|e| format!("cannot print: {e}"))?;
    Ok(match findings {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(DAMAGED),
    })
}

fn damage_json(file: &Path, what: &str) -> String {
    format!(
        "{{\"type\":\"damage\",\"part\":\"file\",\"file\":{},\"what\":{}}}",
        json_text(&file.display().to_string()),
        json_text(what)
    )
}

fn summary_json(checked: &Checked, findings: u64) -> String {
    format!(
        "{{\"type\":\"checked\",\"trees\":{},\"extents\":{},\"extent_bytes\":{},\"segments\":{},\"blocks\":{},\
         \"records\":{},\"log_end\":{},\"replay_bytes\":{},\"prepared\":{},\"torn\":{},\"findings\":{}}}",
        checked.trees,
        checked.extents,
        checked.extent_bytes,
        checked.segments,
        checked.blocks,
        checked.records,
        checked.log_end,
        checked.replay_bytes,
        checked.prepared,
        checked.torn,
        findings,
    )
}

fn summary(checked: &Checked, findings: u64) -> String {
    format!(
        "{} trees, {} extents ({} bytes); log: {} segments, {} blocks, {} records, to LSN {}{}\n\
         the next start replays {} bytes of the log{}\n{}",
        checked.trees,
        checked.extents,
        checked.extent_bytes,
        checked.segments,
        checked.blocks,
        checked.records,
        checked.log_end,
        match checked.torn {
            true => ", behind it the rest of unfinished writes (the next start drops it)",
            false => "",
        },
        checked.replay_bytes,
        match checked.prepared {
            0 => String::new(),
            n => format!("; {n} prepared transactions wait for their decision"),
        },
        match findings {
            0 => "everything is whole".to_owned(),
            n => format!("{n} damaged places"),
        }
    )
}

/// Says which formats there are; those that this version does not read are an error that says what to do.
fn upgrade(options: &Options) -> Result<ExitCode, String> {
    let view =
        esker_engine::inspect::manifest(&Env::os(), &options.dir).map_err(|e| e.to_string())?;
    if let Some((file, what)) = esker_sql::datadir::check(&Env::os(), &options.dir).first() {
        return Err(format!("{}: {what}", file.display()));
    }
    let (manifest, extents) = (view.format, view.extent_format);
    let line = match options.json {
        true => format!(
            "{{\"type\":\"upgrade\",\"manifest_format\":{manifest},\"extent_format\":{extents},\"converts\":false}}\n"
        ),
        false => format!(
            "manifest format {manifest}, extent format {extents}: this version reads them, nothing has to be converted\n"
        ),
    };
    crate::backup::print(&line)?;
    Ok(ExitCode::SUCCESS)
}

/// What a start needs beside the engine's files and could not use: accounts, certificate.
fn others(dir: &Path) -> Vec<(PathBuf, String)> {
    let env = Env::os();
    let mut found = esker_sql::datadir::check(&env, dir);
    if let Err(error) = esker_server::tls::check(&env, dir) {
        found.push((dir.join(esker_server::tls::CERT_FILE), error.to_string()));
    }
    found
}

fn text(finding: &Finding) -> String {
    let part = match &finding.part {
        DamagedPart::Manifest => "the list of trees and extents".to_owned(),
        DamagedPart::Extent {
            tree,
            first,
            last,
            versions,
        } => format!(
            "tree {}, {versions} versions with keys {} to {}",
            tree.0,
            key(first),
            key(last)
        ),
        DamagedPart::Log {
            first,
            resumes,
            trees,
            flushed,
        } => {
            let to = resumes.map_or("the end".to_owned(), |lsn| lsn.to_string());
            let trees = match trees {
                Some(ids) => {
                    let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
                    format!(", trees {}", ids.join(" "))
                }
                None => String::new(),
            };
            let needed = match flushed {
                true => ", not needed any more",
                false => "",
            };
            format!("the log, LSN {first} to {to}{trees}{needed}")
        }
    };
    format!("damaged: {part}: {}", finding.error)
}

fn json(finding: &Finding) -> String {
    let (file, offset, what) = match &finding.error {
        EngineError::Corruption { file, offset, what } => (&**file, *offset, what.to_string()),
        other => ("", 0, other.to_string()),
    };
    let part = match &finding.part {
        DamagedPart::Manifest => "\"part\":\"manifest\"".to_owned(),
        DamagedPart::Extent {
            tree,
            first,
            last,
            versions,
        } => format!(
            "\"part\":\"extent\",\"tree\":{},\"first_key\":\"{}\",\"last_key\":\"{}\",\"versions\":{versions}",
            tree.0,
            hex(first),
            hex(last)
        ),
        DamagedPart::Log {
            first,
            resumes,
            flushed,
            ..
        } => format!(
            "\"part\":\"log\",\"first_lsn\":{first},\"resumes_lsn\":{},\"flushed\":{flushed}",
            resumes.map_or("null".to_owned(), |lsn| lsn.to_string())
        ),
    };
    format!(
        "{{\"type\":\"damage\",{part},\"file\":{},\"offset\":{offset},\"what\":{}}}",
        json_text(file),
        json_text(&what)
    )
}
