//! The slow query log and the general log: statements in MySQL's format, in files, in tables or in both.
//!
//! Neighbours: `session` writes an entry where a command begins (general) or has taken long (slow); `instance` carries
//! the variables over; FLUSH LOGS opens the files anew; `slowlog` has the entries of the slow log, `logtable` keeps the
//! rows of tables; `audit` has a file of its own kind.
//! **Invariants**
//! - A log that is off costs a statement one load.
//! - Statements that name passwords are written with their literals taken out.
//! - Nothing is appended to another file of the server, whatever the variables say.
//! - A log that cannot be written to is switched off and says so in the server's log: statements go on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_binlog::files::Names;
use esker_sql_syntax::digest::digest_without_secrets;
use esker_types::SqlMode;
use esker_vfs::{Env, File, OpenMode, OutsideFile, OutsideKind};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::logtable::{Field, LogTable};
use crate::slowlog::IndexThrottle;

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

/// Files of the tables `mysql.general_log` and `mysql.slow_log`, in the data directory.
const TABLE_FILES: [&str; 2] = ["general_log.csv", "slow_log.csv"];

/// What a name says of the file that a log is to be appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It may be a log.
    Fine,
    /// It is, or could become, another file of the server.
    OfServer,
    /// There is no such folder, or it is no file that can be appended to.
    Nowhere,
    /// It is outside of the data directory, and not called like a log: it may be anything. Whoever starts the server
    /// may want it so.
    Unlike,
}

/// Variables that name files of the server outside of the data directory: logs are named so, or so with an ending.
const OTHERS: [&str; 9] = [
    "caching_sha2_password_private_key_path",
    "caching_sha2_password_public_key_path",
    "log_bin_basename",
    "log_bin_index",
    "pid_file",
    "ssl_ca",
    "ssl_cert",
    "ssl_crl",
    "ssl_key",
];
/// The same of relay logs: a channel's have its name behind a `-`.
const OF_CHANNELS: [&str; 2] = ["relay_log", "relay_log_index"];

/// A file of the server, or what names of several begin with.
pub(crate) struct OtherFile {
    path: PathBuf,
    /// What may stand behind that in a name.
    marks: &'static [char],
}

impl OtherFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            marks: &['.'],
        }
    }

    /// Of a relay log that there is.
    pub(crate) fn of_relay_log(names: &Names) -> [Self; 2] {
        [names.dir().join(names.base()), names.index()].map(Self::new)
    }

    /// Is it the file whose path is the real one?
    fn is(&self, real: &Path) -> bool {
        let name = |path: &Path| {
            path.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let Ok(own) = OutsideFile::real_path(&self.path) else {
            return false;
        };
        let (Some(found), Some(own_name)) = (name(real), name(&own)) else {
            return false;
        };
        let rest = found.strip_prefix(&own_name);
        let is_named_so = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(self.marks));
        real.parent() == own.parent() && is_named_so
    }
}

/// Where those files are.
pub(crate) fn other_files(data_dir: &Path, variable: &dyn Fn(&str) -> String) -> Vec<OtherFile> {
    let set = |name: &&str| Some(variable(name)).filter(|path| !path.is_empty());
    let of_server = OTHERS.iter().filter_map(set);
    let of_server = of_server.map(|path| OtherFile::new(data_dir.join(path)));
    let of_channels = OF_CHANNELS.iter().filter_map(set);
    let of_channels = of_channels.map(|path| OtherFile {
        path: data_dir.join(path.trim_end_matches(".index")),
        marks: &['.', '-'],
    });
    of_server.chain(of_channels).collect()
}

/// Looks at the name of a log's file, which is relative to the data directory; `others` are files of the server that
/// may be elsewhere.
pub(crate) fn place(data_dir: &Path, name: &str, others: &[OtherFile]) -> Place {
    let path = data_dir.join(name);
    let Some(file) = path.file_name().filter(|_| !name.ends_with('/')) else {
        return Place::Nowhere;
    };
    let ends_like_log = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_of_table =
            name.is_some_and(|name| TABLE_FILES.contains(&&*name.replace(".older", "")));
        ending.is_some_and(|ending| ENDINGS.contains(&ending)) && !is_of_table
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
        Ok(real) if others.iter().any(|other| other.is(&real)) => Place::OfServer,
        Ok(real) if real.starts_with(&data) => {
            match real.parent() == Some(&*data) && ends_like_log(&real) {
                true => Place::Fine,
                false => Place::OfServer,
            }
        }
        Ok(real) => match OutsideFile::kind(&real) {
            Ok(OutsideKind::Other) => Place::Nowhere,
            Ok(OutsideKind::Regular) | Err(_) if ends_like_log(&real) => Place::Fine,
            Ok(OutsideKind::Regular) | Err(_) => Place::Unlike,
        },
    }
}

/// Both logs.
pub(crate) struct QueryLogs {
    pub(crate) slow: QueryLog,
    pub(crate) general: QueryLog,
    /// `log_slow_extra`.
    pub(crate) slow_extra: AtomicBool,
    pub(crate) index_throttle: IndexThrottle,
}

impl QueryLogs {
    /// Both logs of the server with this data directory, off.
    pub(crate) fn new(data_dir: &Path) -> Self {
        let [general, slow] = TABLE_FILES.map(|name| QueryLog::new(data_dir.join(name)));
        Self {
            slow,
            general,
            slow_extra: AtomicBool::new(false),
            index_throttle: IndexThrottle::default(),
        }
    }
}

/// Where entries go (`log_output`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outputs {
    file: bool,
    table: bool,
}

impl Outputs {
    /// What the variable says; NONE is stronger than the others.
    pub(crate) fn of(variable: &str) -> Self {
        let has = |word| {
            variable
                .split(',')
                .any(|w| w.trim().eq_ignore_ascii_case(word))
        };
        Self {
            file: has("FILE") && !has("NONE"),
            table: has("TABLE") && !has("NONE"),
        }
    }
}

/// One log.
pub(crate) struct QueryLog {
    on: AtomicBool,
    target: Mutex<Target>,
}

/// What the entries of a log are appended to.
struct Target {
    outputs: Outputs,
    file: LogFile,
    table: LogTable,
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

    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// The file and its length; it is opened if it is not.
    pub(crate) fn open(&mut self, env: &Env) -> std::io::Result<&mut (Arc<dyn File>, u64)> {
        Ok(match &mut self.file {
            Some(open) => open,
            none => {
                let file = env.fs.open(&self.path, OpenMode::CreateOrOpen)?;
                let end = file.len()?;
                none.insert((file, end))
            }
        })
    }

    pub(crate) fn append(&mut self, env: &Env, bytes: &[u8]) -> std::io::Result<()> {
        let (file, end) = self.open(env)?;
        file.write_all_at(bytes, *end)?;
        *end += bytes.len() as u64;
        Ok(())
    }
}

impl QueryLog {
    fn new(table: PathBuf) -> Self {
        let target = Target {
            outputs: Outputs::default(),
            file: LogFile::default(),
            table: LogTable::new(table),
        };
        Self {
            on: AtomicBool::new(false),
            target: Mutex::new(target),
        }
    }

    /// On or off, and where to: `name` is that of the file, relative to the data directory.
    pub(crate) fn switch(&self, on: bool, outputs: Outputs, data_dir: &Path, name: &str) {
        let mut target = self.target.lock();
        target.file.aim(data_dir.join(name));
        target.outputs = Outputs {
            file: outputs.file && !name.is_empty(),
            ..outputs
        };
        let some = target.outputs.file || target.outputs.table;
        self.on.store(on && some, Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// The next entry opens the file anew, which was renamed to begin another.
    pub(crate) fn reopen(&self) {
        self.target.lock().file.close();
    }

    /// Appends an entry.
    pub(crate) fn write(&self, env: &Env, entry: &impl Entry) {
        let mut target = self.target.lock();
        if let Err((path, e)) = target.append(env, entry) {
            self.on.store(false, Ordering::Relaxed);
            tracing::error!("cannot write {}: {e}; the log is off now", path.display());
        }
    }

    /// The rows of the log's table, oldest first.
    pub(crate) fn rows(&self, env: &Env) -> std::io::Result<Vec<Vec<Vec<u8>>>> {
        self.target.lock().table.rows(env)
    }

    /// Forgets the rows of the log's table.
    pub(crate) fn truncate(&self, env: &Env) -> std::io::Result<()> {
        self.target.lock().table.truncate(env)
    }
}

impl Target {
    fn append(&mut self, env: &Env, entry: &impl Entry) -> Result<(), (PathBuf, std::io::Error)> {
        if self.outputs.file {
            let done = self.file.append(env, entry.print().as_bytes());
            done.map_err(|e| (self.file.path().to_owned(), e))?;
        }
        if self.outputs.table {
            let done = self.table.append(env, &entry.row());
            done.map_err(|e| (self.table.path().to_owned(), e))?;
        }
        Ok(())
    }
}

/// An entry of a log.
pub(crate) trait Entry {
    /// As it stands in the file.
    fn print(&self) -> String;

    /// The columns of the table.
    fn row(&self) -> Vec<Field<'_>>;
}

/// The session that an entry is about.
#[derive(Clone, Copy)]
pub(crate) struct Whose<'a> {
    pub(crate) user: &'a str,
    pub(crate) host: &'a str,
    /// Without the port; empty where there is none.
    pub(crate) address: &'a str,
    pub(crate) connection: u64,
    pub(crate) server_id: u64,
}

impl Whose<'_> {
    /// As the column user_host has it.
    pub(crate) fn account(&self) -> String {
        format!("{0}[{0}] @ {1} [{2}]", self.user, self.host, self.address)
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

/// A moment as a column of a table has it, in UTC.
pub(crate) fn instant(micros: i64) -> String {
    let moment = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// What the general log says of a command.
pub(crate) struct GeneralEntry<'a> {
    pub(crate) begun: i64,
    pub(crate) whose: Whose<'a>,
    pub(crate) command: &'a str,
    pub(crate) text: &'a str,
}

impl Entry for GeneralEntry<'_> {
    fn print(&self) -> String {
        let Self { command, text, .. } = self;
        let connection = self.whose.connection;
        format!(
            "{}\t{connection:>5} {command}\t{text}\n",
            moment(self.begun)
        )
    }

    fn row(&self) -> Vec<Field<'_>> {
        vec![
            Field::text(instant(self.begun)),
            Field::text(self.whose.account()),
            Field::Number(self.whose.connection),
            Field::Number(self.whose.server_id),
            Field::text(self.command),
            Field::text(self.text),
        ]
    }
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
        let variable = |name: &str| match name {
            "log_bin_basename" => outside.path().join("binlog").display().to_string(),
            "relay_log_index" => outside.path().join("relay.index").display().to_string(),
            _ => String::new(),
        };
        let others = other_files(&data, &variable);
        for (name, found) in [
            ("general.log", Place::Fine),
            ("new.err", Place::Fine),
            ("../new.err", Place::Fine),
            ("../mine", Place::Unlike),
            ("../mine.cnf", Place::Unlike),
            ("../binlog.000001", Place::OfServer),
            ("../binlog.index", Place::OfServer),
            ("../binlogs.txt", Place::Fine),
            ("../binlog-1.txt", Place::Fine),
            ("../relay.index", Place::OfServer),
            ("../relay-one.index", Place::OfServer),
            ("../relays.index", Place::Unlike),
            (&*elsewhere, Place::Unlike),
            ("accounts", Place::OfServer),
            ("general_log.csv", Place::OfServer),
            ("slow_log.older.csv", Place::OfServer),
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
            assert_eq!(place(&data, name, &others), found, "{name}");
        }
        let nowhere = outside.path().join("no data");
        assert_eq!(place(&nowhere, "general.log", &[]), Place::Fine);
        assert_eq!(place(&nowhere, "accounts", &[]), Place::Nowhere);
    }

    #[test]
    fn entries_are_those_of_mysql() {
        let entry = GeneralEntry {
            begun: 1_700_000_000_000_000,
            whose: Whose {
                user: "app",
                host: "localhost",
                address: "",
                connection: 12,
                server_id: 1,
            },
            command: "Query",
            text: "SELECT 2",
        };
        let line = entry.print();
        assert_eq!(line, "2023-11-14T22:13:20.000000Z\t   12 Query\tSELECT 2\n");
        assert_eq!(entry.whose.account(), "app[app] @ localhost []");
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
