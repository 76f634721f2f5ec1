//! The audit log: who logged in, who was refused and what was denied, and statements by class; a line of JSON each.
//!
//! Neighbours: the server tells of logins and refusals, `session::audited` of statements; `instance::switches` carries
//! the variables over; `querylog` takes passwords out of statements and appends to files; FLUSH LOGS opens the file
//! anew.
//! **Invariants**
//! - A class of events that is off costs a statement one load.
//! - Lines that come while another thread writes wait in a queue of about [`QUEUE_BYTES`]. Whoever finds it full waits
//!   for the file: no event is left out for its sake.
//! - No line has a password. Literals of statements that may name one are `?`.
//! - A file that cannot be written to does not stop statements. What is lost is counted, in SHOW STATUS, too, and every
//!   later line tries again.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_types::json::quote;
use esker_vfs::Env;
use parking_lot::Mutex;

use crate::counts::Counter;
use crate::querylog::{LogFile, moment};

/// Bytes that wait while another thread writes.
const QUEUE_BYTES: usize = 1 << 20;

/// Most bytes of a statement's text in a line.
const MOST_TEXT_BYTES: usize = 64 << 10;

/// Errors that say that somebody may not do something.
const DENIED: [u16; 15] = [
    1044, 1045, 1095, 1131, 1142, 1143, 1227, 1345, 1370, 1410, 1698, 1820, 3118, 3530, 3879,
];

/// A class of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Logins, refused logins and ends of sessions.
    Connect,
    /// Statements that were denied, of all classes.
    Denied,
    /// Accounts, roles and privileges.
    Account,
    /// Definitions of schema objects.
    Ddl,
    /// Changes of rows.
    Change,
    /// Queries.
    Read,
    /// All other statements.
    Other,
}

/// The words of `esker_audit_log_events`, in the order of [`Class`].
const CLASSES: [(Class, &str); 7] = [
    (Class::Connect, "connect"),
    (Class::Denied, "denied"),
    (Class::Account, "account"),
    (Class::Ddl, "ddl"),
    (Class::Change, "change"),
    (Class::Read, "read"),
    (Class::Other, "other"),
];

impl Class {
    fn bit(self) -> u64 {
        1 << self as u32
    }

    /// The name that a line has.
    pub(crate) fn name(self) -> &'static str {
        CLASSES[self as usize].1
    }

    /// The class of statements that a counter counts.
    pub(crate) fn of(command: Counter) -> Self {
        use Counter as C;
        match command {
            C::ComAlterUser
            | C::ComCreateRole
            | C::ComCreateUser
            | C::ComDropRole
            | C::ComDropUser
            | C::ComGrant
            | C::ComRenameUser
            | C::ComRevoke
            | C::ComSetPassword
            | C::ComSetRole => Self::Account,
            C::ComAlterDb
            | C::ComAlterTable
            | C::ComAlterTablespace
            | C::ComCreateDb
            | C::ComCreateIndex
            | C::ComCreateTable
            | C::ComCreateTrigger
            | C::ComCreateEvent
            | C::ComAlterEvent
            | C::ComDropEvent
            | C::ComCreateView
            | C::ComDropDb
            | C::ComDropIndex
            | C::ComDropTable
            | C::ComDropTrigger
            | C::ComDropView
            | C::ComRenameTable
            | C::ComTruncate => Self::Ddl,
            C::ComDelete
            | C::ComDeleteMulti
            | C::ComInsert
            | C::ComInsertSelect
            | C::ComLoad
            | C::ComReplace
            | C::ComReplaceSelect
            | C::ComUpdate
            | C::ComUpdateMulti => Self::Change,
            C::ComSelect | C::ComHaRead => Self::Read,
            _ => Self::Other,
        }
    }
}

/// Does this error say that somebody may not do something?
pub(crate) fn is_denied(code: u16) -> bool {
    DENIED.contains(&code)
}

/// The log.
#[derive(Default)]
pub(crate) struct AuditLog {
    /// Bits of the classes that are on.
    classes: AtomicU64,
    queue: Mutex<Vec<u8>>,
    file: Mutex<LogFile>,
    lost: AtomicU64,
}

impl AuditLog {
    /// Which classes are written (words with commas between them), and where to: relative to the data directory.
    pub(crate) fn switch(&self, on: bool, classes: &str, data_dir: &Path, name: &str) {
        self.file.lock().aim(data_dir.join(name));
        let is_named = |name: &str| {
            classes
                .split(',')
                .any(|w| w.trim().eq_ignore_ascii_case(name))
        };
        let named = CLASSES.iter().filter(|(_, name)| is_named(name));
        let bits = named.fold(0, |bits, (class, _)| bits | class.bit());
        let on = on && !name.is_empty();
        self.classes
            .store(if on { bits } else { 0 }, Ordering::Relaxed);
    }

    /// Is anything written?
    pub(crate) fn is_on(&self) -> bool {
        self.classes.load(Ordering::Relaxed) != 0
    }

    /// Are events of this class written?
    pub(crate) fn wants(&self, class: Class) -> bool {
        self.classes.load(Ordering::Relaxed) & class.bit() != 0
    }

    /// The next line opens the file anew, which was renamed to begin another.
    pub(crate) fn reopen(&self) {
        self.file.lock().close();
    }

    /// Lines that could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Writes a line, or leaves it to the thread that is writing.
    pub(crate) fn write(&self, env: &Env, line: Line) {
        let line = line.finish();
        while !self.enqueue(&line) {
            self.drain(env, &mut self.file.lock());
        }
        // Whoever holds the file looks again after it has let go: a line that came meanwhile is not left behind.
        while let Some(mut file) = self.file.try_lock() {
            self.drain(env, &mut file);
            drop(file);
            if self.queue.lock().is_empty() {
                return;
            }
        }
    }

    /// False if the queue is full.
    fn enqueue(&self, line: &[u8]) -> bool {
        let mut queue = self.queue.lock();
        let has_room = queue.len() < QUEUE_BYTES;
        if has_room {
            queue.extend_from_slice(line);
        }
        has_room
    }

    fn drain(&self, env: &Env, file: &mut LogFile) {
        let lines = std::mem::take(&mut *self.queue.lock());
        if lines.is_empty() {
            return;
        }
        debug_assert!(lines.ends_with(b"\n"));
        if let Err(e) = file.append(env, &lines) {
            let lost = lines.iter().filter(|b| **b == b'\n').count() as u64;
            if self.lost.fetch_add(lost, Ordering::Relaxed) == 0 {
                tracing::error!("cannot write the audit log {}: {e}", file.path().display());
            }
            file.close();
        }
    }
}

/// A line that is being made.
pub(crate) struct Line(Vec<u8>);

impl Line {
    /// A line about an event at this moment.
    pub(crate) fn new(micros: i64, event: &str) -> Self {
        let mut line = Self(b"{\"time\":".to_vec());
        quote(moment(micros).as_bytes(), &mut line.0);
        line.text("event", event);
        line
    }

    fn name(&mut self, name: &str) {
        self.0.push(b',');
        quote(name.as_bytes(), &mut self.0);
        self.0.push(b':');
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.name(name);
        quote(text.as_bytes(), &mut self.0);
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        self.0.extend_from_slice(number.to_string().as_bytes());
    }

    /// Adds the text of a statement, without what is too long.
    pub(crate) fn statement(&mut self, text: &str) {
        let mut end = text.len().min(MOST_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text("text", &text[..end]);
        if end < text.len() {
            self.number("text_bytes", text.len() as u64);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_vfs::OpenMode;
    use esker_vfs::sim::SimEnv;

    fn line(n: usize) -> Line {
        let mut line = Line::new(1_700_000_000_000_000, "statement");
        line.statement(&format!("SELECT '\"{n}\n'"));
        line
    }

    #[test]
    fn classes_are_in_order() {
        for (at, (class, name)) in CLASSES.iter().enumerate() {
            assert_eq!((*class as usize, class.name()), (at, *name));
        }
        assert_eq!(Class::of(Counter::ComGrant), Class::Account);
        assert_eq!(Class::of(Counter::ComTruncate), Class::Ddl);
        assert_eq!(Class::of(Counter::ComBegin), Class::Other);
    }

    #[test]
    fn lines_are_json() {
        let text = String::from_utf8(line(1).finish()).unwrap();
        assert_eq!(
            text,
            "{\"time\":\"2023-11-14T22:13:20.000000Z\",\"event\":\"statement\",\
             \"text\":\"SELECT '\\\"1\\n'\"}\n"
        );
        let mut long = Line::new(0, "x");
        long.statement(&"é".repeat(MOST_TEXT_BYTES));
        let long: serde_json::Value = serde_json::from_slice(&long.finish()).unwrap();
        assert_eq!(long["text"].as_str().unwrap().len(), MOST_TEXT_BYTES);
        assert_eq!(long["text_bytes"], 2 * MOST_TEXT_BYTES);
    }

    /// Threads that write at once lose nothing, mix nothing, and leave nothing in the queue.
    #[test]
    fn every_line_is_written_once() {
        const THREADS: usize = 4;
        const LINES: usize = 500;
        let machine = SimEnv::new(7);
        let env = machine.env();
        env.fs.create_dir_all(Path::new("/d")).unwrap();
        let log = AuditLog::default();
        log.switch(true, "READ, ddl", Path::new("/d"), "audit.log");
        assert!(log.wants(Class::Read) && log.wants(Class::Ddl) && !log.wants(Class::Change));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (log, env) = (&log, &env);
                scope.spawn(move || {
                    for n in 0..LINES {
                        log.write(env, line(thread * LINES + n));
                    }
                });
            }
        });
        let file = env
            .fs
            .open(Path::new("/d/audit.log"), OpenMode::CreateOrOpen);
        let file = file.unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let lines = String::from_utf8(bytes).unwrap();
        let mut seen: Vec<&str> = lines.lines().collect();
        seen.sort_unstable();
        let every = (0..THREADS * LINES).map(|n| String::from_utf8(line(n).finish()).unwrap());
        let mut every: Vec<String> = every.map(|line| line.trim_end().to_owned()).collect();
        every.sort_unstable();
        assert_eq!(seen, every);
        assert_eq!(log.lost(), 0);
        // A file that cannot be written to: counted, and tried again.
        log.switch(true, "read", Path::new("/nowhere"), "audit.log");
        log.write(&env, line(0));
        assert_eq!(log.lost(), 1);
        log.switch(true, "read", Path::new("/d"), "audit.log");
        log.write(&env, line(1));
        assert_eq!(log.lost(), 1);
    }
}
