//! The slow query log and the general log: files of statements, in MySQL's format.
//!
//! Neighbours: `session` writes an entry where a command begins (general) or has taken long (slow); `instance` carries
//! the variables over; FLUSH LOGS opens the files anew; `audit` has a file of its own kind.
//! **Invariants**
//! - A log that is off costs a statement one load.
//! - Statements that name passwords are written with their literals taken out.
//! - Nothing is appended to another file of the server, whatever the variables say.
//! - A file that cannot be written to switches its log off and says so in the server's log: statements go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_sql_syntax::digest::digest_without_secrets;
use esker_types::SqlMode;
use esker_vfs::{Env, File, OpenMode, OutsideFile, OutsideKind};
use jiff::Timestamp;
use parking_lot::Mutex;

/// Statements with these words may hold a password, words with an error in them, too.
const SECRET_WORDS: [&str; 4] = ["identif", "passw", "pasw", "master_user"];

/// Variables that name files of logs.
pub(crate) const FILES: [&str; 3] = [
    "esker_audit_log_file",
    "general_log_file",
    "slow_query_log_file",
];
/// Endings of names of logs in the data directory: every other file there may be one of the server's own.
const ENDINGS: [&str; 6] = ["csv", "err", "json", "log", "out", "txt"];

/// What a name says of the file that a log is to be appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It may be a log.
    Fine,
    /// It is, or could become, another file of the server.
    OfServer,
    /// There is no such folder, or it is no file that can be appended to.
    Nowhere,
}

/// Looks at the name of a log's file, which is relative to the data directory.
pub(crate) fn place(data_dir: &Path, name: &str) -> Place {
    let path = data_dir.join(name);
    let Some(file) = path.file_name().filter(|_| !name.ends_with('/')) else {
        return Place::Nowhere;
    };
    let ends_like_log = |path: &Path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| ENDINGS.contains(&ending))
    };
    let found = OutsideFile::kind(data_dir).and_then(|_| OutsideFile::real_path(data_dir));
    let Ok(data) = found else {
        // No disk of the system has the data directory.
        return match Path::new(name) == Path::new(file) && ends_like_log(&path) {
            true => Place::Fine,
            false => Place::Nowhere,
        };
    };
    match OutsideFile::real_path(&path) {
        Err(_) => Place::Nowhere,
        Ok(real) if real.starts_with(&data) => {
            match real.parent() == Some(&*data) && ends_like_log(&real) {
                true => Place::Fine,
                false => Place::OfServer,
            }
        }
        Ok(real) => match OutsideFile::kind(&real) {
            Ok(OutsideKind::Other) => Place::Nowhere,
            Ok(OutsideKind::Regular) | Err(_) => Place::Fine,
        },
    }
}

/// Both logs.
#[derive(Default)]
pub(crate) struct QueryLogs {
    pub(crate) slow: QueryLog,
    pub(crate) general: QueryLog,
}

/// One log.
#[derive(Default)]
pub(crate) struct QueryLog {
    on: AtomicBool,
    file: Mutex<LogFile>,
}

/// A file that lines are appended to.
#[derive(Default)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// Open, and how long.
    file: Option<(Arc<dyn File>, u64)>,
}

impl LogFile {
    /// Appends to this file from now on.
    pub(crate) fn aim(&mut self, path: PathBuf) {
        if path != self.path {
            *self = Self { path, file: None };
        }
    }

    /// The next bytes open the file anew.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn append(&mut self, env: &Env, bytes: &[u8]) -> std::io::Result<()> {
        let (file, end) = match &mut self.file {
            Some(open) => open,
            none => {
                let file = env.fs.open(&self.path, OpenMode::CreateOrOpen)?;
                let end = file.len()?;
                none.insert((file, end))
            }
        };
        file.write_all_at(bytes, *end)?;
        *end += bytes.len() as u64;
        Ok(())
    }
}

impl QueryLog {
    /// On or off, and where to: `name` is relative to the data directory.
    pub(crate) fn switch(&self, on: bool, data_dir: &Path, name: &str) {
        self.file.lock().aim(data_dir.join(name));
        self.on.store(on && !name.is_empty(), Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// The next entry opens the file anew, which was renamed to begin another.
    pub(crate) fn reopen(&self) {
        self.file.lock().close();
    }

    /// Appends an entry.
    pub(crate) fn write(&self, env: &Env, entry: &str) {
        let mut file = self.file.lock();
        if let Err(e) = file.append(env, entry.as_bytes()) {
            self.on.store(false, Ordering::Relaxed);
            tracing::error!(
                "cannot write {}: {e}; the log is off now",
                file.path().display()
            );
        }
    }
}

/// A statement's text as it may be written.
pub(crate) fn without_secrets(text: &str, mode: SqlMode) -> String {
    let lower = text.to_ascii_lowercase();
    if !SECRET_WORDS.iter().any(|word| lower.contains(word)) {
        return text.to_owned();
    }
    masked(text, mode)
}

/// A statement's text without literals, and without names where a password may stand.
pub(crate) fn masked(text: &str, mode: SqlMode) -> String {
    // Whether it was read in the mode that it sets is not known, nor what its quotes are then.
    if text.to_ascii_lowercase().contains("sql_mode") {
        let first = text.split_whitespace().next().unwrap_or_default();
        return format!("{first} ...");
    }
    digest_without_secrets(text.as_bytes(), mode)
}

/// A moment as MySQL writes it with `log_timestamps = UTC`.
pub(crate) fn moment(micros: i64) -> String {
    let moment = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// What the slow query log says of a statement.
pub(crate) struct SlowEntry<'a> {
    pub(crate) ended: i64,
    pub(crate) user: &'a str,
    pub(crate) host: &'a str,
    pub(crate) connection: u64,
    pub(crate) query_micros: i64,
    pub(crate) lock_micros: u64,
    pub(crate) rows_sent: u64,
    pub(crate) rows_examined: u64,
    pub(crate) database: Option<&'a str>,
    pub(crate) text: &'a str,
}

impl SlowEntry<'_> {
    pub(crate) fn print(&self) -> String {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let Self {
            user,
            host,
            connection,
            ..
        } = self;
        let database = self
            .database
            .map_or_else(String::new, |name| format!("use {name};\n"));
        format!(
            "# Time: {}\n# User@Host: {user}[{user}] @ {host} []  Id: {connection:>5}\n\
             # Query_time: {:.6}  Lock_time: {:.6} Rows_sent: {}  Rows_examined: {}\n{database}SET timestamp={};\n{};\n",
            moment(self.ended),
            seconds(self.query_micros.max(0) as u64),
            seconds(self.lock_micros),
            self.rows_sent,
            self.rows_examined,
            (self.ended - self.query_micros) / 1_000_000,
            self.text.trim_end().trim_end_matches(';'),
        )
    }
}

/// A line of the general log.
pub(crate) fn general_line(micros: i64, connection: u64, command: &str, text: &str) -> String {
    format!("{}\t{connection:>5} {command}\t{text}\n", moment(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_no_other_file_of_the_server() {
        let outside = tempfile::tempdir().expect("folder");
        let data = outside.path().join("data");
        std::fs::create_dir_all(data.join("wal")).expect("folders");
        std::fs::create_dir(data.join("folder.log")).expect("folder");
        std::fs::write(data.join("accounts"), "all of them").expect("write");
        std::os::unix::fs::symlink(data.join("accounts"), outside.path().join("link.log"))
            .expect("link");
        let elsewhere = outside.path().join("mine").display().to_string();
        for (name, found) in [
            ("general.log", Place::Fine),
            ("new.err", Place::Fine),
            ("../mine", Place::Fine),
            (&*elsewhere, Place::Fine),
            ("accounts", Place::OfServer),
            ("auto.cnf", Place::OfServer),
            ("wal/000.log", Place::OfServer),
            ("wal/../accounts", Place::OfServer),
            ("../data/accounts", Place::OfServer),
            ("../link.log", Place::OfServer),
            ("nowhere/x.log", Place::Nowhere),
            ("accounts/x.log", Place::Nowhere),
            ("../data", Place::OfServer),
            ("..", Place::Nowhere),
            ("x.log/", Place::Nowhere),
            ("", Place::OfServer),
        ] {
            assert_eq!(place(&data, name), found, "{name}");
        }
        let nowhere = outside.path().join("no data");
        assert_eq!(place(&nowhere, "general.log"), Place::Fine);
        assert_eq!(place(&nowhere, "accounts"), Place::Nowhere);
    }

    #[test]
    fn entries_are_those_of_mysql() {
        let entry = SlowEntry {
            ended: 1_700_000_001_500_000,
            user: "app",
            host: "localhost",
            connection: 8,
            query_micros: 1_250_000,
            lock_micros: 500,
            rows_sent: 3,
            rows_examined: 40,
            database: Some("shop"),
            text: "SELECT 1;",
        };
        let expected = "# Time: 2023-11-14T22:13:21.500000Z\n# User@Host: app[app] @ localhost []  Id:     8\n\
                        # Query_time: 1.250000  Lock_time: 0.000500 Rows_sent: 3  Rows_examined: 40\nuse shop;\n\
                        SET timestamp=1700000000;\nSELECT 1;\n";
        assert_eq!(entry.print(), expected);
        let line = general_line(1_700_000_000_000_000, 12, "Query", "SELECT 2");
        assert_eq!(line, "2023-11-14T22:13:20.000000Z\t   12 Query\tSELECT 2\n");
    }

    #[test]
    fn passwords_are_taken_out() {
        let mode = SqlMode::default();
        let text = without_secrets("CREATE USER a IDENTIFIED BY 'secret'", mode);
        assert!(
            !text.contains("secret") && text.contains("IDENTIFIED BY"),
            "{text}"
        );
        for hidden in [
            "CREATE USER u IDENTIFED BY 'secret'",
            "SET PASWORD = 'secret'",
            "SET PASSWORD = secret",
            "CREATE USER u IDENTIFIED BY `secret`",
            "ALTER USER u IDENTIFIED BY old REPLACE secret",
            "CREATE USER u IDENTIFIED BY x secret'",
            "CREATE USER u IDENTIFIED BY 'a' secret",
            "SET sql_mode = 'ANSI_QUOTES', @p = \"password secret\"",
        ] {
            let text = without_secrets(hidden, mode);
            assert!(!text.contains("secret"), "{text}");
        }
        let ansi = "CREATE USER u IDENTIFIED BY \"secret\"";
        let text = without_secrets(ansi, SqlMode::ANSI_QUOTES);
        assert!(!text.contains("secret") && text.contains("`u`"), "{text}");
        let open = without_secrets("CREATE USER a IDENTIFIED BY 'secret", mode);
        assert!(!open.contains("secret"), "{open}");
        assert_eq!(without_secrets("SELECT 'x'", mode), "SELECT 'x'");
    }
}
