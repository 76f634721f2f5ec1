//! The logs of statements as tables (`log_output = TABLE`): rows of `mysql.general_log` and `mysql.slow_log`, kept as
//! lines of comma-separated values, the form of MySQL's CSV engine.
//!
//! Neighbours: `querylog` appends entries; `infoschema::mysql::logs` reads rows; TRUNCATE empties.
//! **Invariants**
//! - A table keeps the newest [`SEGMENT`] to twice as many bytes: a full file becomes the older half, in place of the
//!   one before.
//! - A line that cannot be read (a crash has cut it) is passed over; the others are shown.
//! - Lines are not synced: a log that statements wait for is the audit log.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use esker_vfs::{Env, OpenMode};

use crate::querylog::LogFile;

/// Most bytes of one of the two files of a table.
const SEGMENT: u64 = 8 << 20;
/// Most bytes of a text; what is longer is cut.
const LONGEST: usize = 1 << 20;

/// A table of log entries.
pub(crate) struct LogTable {
    newer: LogFile,
}

/// One field of a row.
pub(crate) enum Field<'a> {
    Text(Cow<'a, str>),
    Number(u64),
}

impl<'a> Field<'a> {
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }
}

impl LogTable {
    /// The table with this file as its newer half.
    pub(crate) fn new(path: PathBuf) -> Self {
        let mut newer = LogFile::default();
        newer.aim(path);
        Self { newer }
    }

    pub(crate) fn path(&self) -> &Path {
        self.newer.path()
    }

    fn older(&self) -> PathBuf {
        self.path().with_extension("older.csv")
    }

    /// Appends a row.
    pub(crate) fn append(&mut self, env: &Env, row: &[Field]) -> io::Result<()> {
        let line = line(row);
        if !self.newer.is_open() {
            self.end_last_line(env)?;
        }
        let bytes = self.newer.open(env)?.1;
        if bytes > 0 && bytes + line.len() as u64 > SEGMENT {
            self.newer.close();
            env.fs.rename(self.path(), &self.older())?;
        }
        self.newer.append(env, &line)
    }

    /// Ends a line that a crash has cut, so that it takes no other with it.
    fn end_last_line(&mut self, env: &Env) -> io::Result<()> {
        let (file, bytes) = self.newer.open(env)?;
        let mut last = [b'\n'];
        if let Some(at) = bytes.checked_sub(1) {
            file.read_exact_at(&mut last, at)?;
        }
        match last {
            [b'\n'] => Ok(()),
            _ => self.newer.append(env, b"\n"),
        }
    }

    /// All rows, oldest first: fields as bytes.
    pub(crate) fn rows(&self, env: &Env) -> io::Result<Vec<Vec<Vec<u8>>>> {
        let mut rows = Vec::new();
        for path in [&*self.older(), self.path()] {
            let bytes = read(env, path)?;
            rows.extend(bytes.split_inclusive(|b| *b == b'\n').filter_map(fields));
        }
        Ok(rows)
    }

    /// Forgets all rows.
    pub(crate) fn truncate(&mut self, env: &Env) -> io::Result<()> {
        self.newer.close();
        for path in [&*self.older(), self.path()] {
            if env.fs.exists(path)? {
                env.fs.remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// A whole file; none is empty.
fn read(env: &Env, path: &Path) -> io::Result<Vec<u8>> {
    if !env.fs.exists(path)? {
        return Ok(Vec::new());
    }
    let file = env.fs.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A row as a line: texts in double quotes, with a backslash before quotes, backslashes and for ends of lines.
fn line(row: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, field) in row.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match field {
            Field::Number(number) => out.extend(number.to_string().bytes()),
            Field::Text(text) => {
                out.push(b'"');
                for byte in text[..text.floor_char_boundary(LONGEST)].bytes() {
                    match byte {
                        b'"' | b'\\' => out.extend([b'\\', byte]),
                        b'\n' => out.extend(b"\\n"),
                        b'\r' => out.extend(b"\\r"),
                        byte => out.push(byte),
                    }
                }
                out.push(b'"');
            }
        }
    }
    out.push(b'\n');
    out
}

/// The fields of a line; none if it is not whole.
fn fields(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = line.strip_suffix(b"\n")?.iter().copied().peekable();
    let mut row = Vec::new();
    loop {
        let mut field = Vec::new();
        if rest.next_if_eq(&b'"').is_some() {
            loop {
                match rest.next()? {
                    b'"' => break,
                    b'\\' => field.push(match rest.next()? {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        byte => byte,
                    }),
                    byte => field.push(byte),
                }
            }
        } else {
            while let Some(byte) = rest.next_if(|byte| *byte != b',') {
                field.push(byte);
            }
        }
        row.push(field);
        match rest.next() {
            None => return Some(row),
            Some(b',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use esker_vfs::sim::SimEnv;

    use super::*;

    fn table(env: &Env, dir: &Path) -> LogTable {
        env.fs.create_dir_all(dir).expect("folder");
        LogTable::new(dir.join("general_log.csv"))
    }

    #[test]
    fn rows_come_back_as_they_were() {
        let env = SimEnv::new(1).env();
        let mut table = table(&env, Path::new("/data"));
        assert!(table.rows(&env).expect("reads").is_empty());
        let odd = "SELECT 'a\"b\\n'\r\n, 1 -- \u{1F600},";
        table
            .append(&env, &[Field::text(odd), Field::Number(7), Field::text("")])
            .expect("appends");
        table.append(&env, &[Field::text("next")]).expect("appends");
        let expected = vec![
            vec![odd.as_bytes().to_vec(), b"7".to_vec(), Vec::new()],
            vec![b"next".to_vec()],
        ];
        assert_eq!(table.rows(&env).expect("reads"), expected);
        table.truncate(&env).expect("empties");
        assert!(table.rows(&env).expect("reads").is_empty());
        table
            .append(&env, &[Field::text("again")])
            .expect("appends");
        assert_eq!(table.rows(&env).expect("reads").len(), 1);
        // A crash has cut the last line.
        let file = env.fs.open(table.path(), OpenMode::CreateOrOpen);
        let file = file.expect("opens");
        let bytes = file.len().expect("has a length");
        file.write_all_at(b"\"cut", bytes).expect("writes");
        table.newer.close();
        table
            .append(&env, &[Field::text("after")])
            .expect("appends");
        let rows = table.rows(&env).expect("reads");
        assert_eq!(rows, [vec![b"again".to_vec()], vec![b"after".to_vec()]]);
    }

    #[test]
    fn lines_that_are_not_whole_are_passed_over() {
        for cut in [&b"\"abc"[..], b"\"abc\n", b"\"abc\\\n", b"\"a\"b\n", b"1,2"] {
            assert_eq!(fields(cut), None);
        }
        assert_eq!(
            fields(b"1,\"2\"\n"),
            Some(vec![b"1".to_vec(), b"2".to_vec()])
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let env = SimEnv::new(3).env();
        let mut table = table(&env, Path::new("/data"));
        let long = "\u{e9}\"".repeat(1 << 20);
        table
            .append(&env, &[Field::text(&*long), Field::Number(1)])
            .expect("appends");
        let rows = table.rows(&env).expect("reads");
        assert_eq!(rows[0][0], &long.as_bytes()[..LONGEST - 1]);
        assert_eq!(rows[0][1], b"1");
    }

    #[test]
    fn the_newest_rows_are_kept() {
        let env = SimEnv::new(2).env();
        let mut table = table(&env, Path::new("/data"));
        let filler = "x".repeat(1 << 20);
        let last = 40;
        for number in 0..=last {
            if number % 7 == 0 {
                table.newer.close();
            }
            let row = [Field::Number(number), Field::text(&*filler)];
            table.append(&env, &row).expect("appends");
        }
        let rows = table.rows(&env).expect("reads");
        let bytes: usize = rows.iter().map(|row| row[1].len()).sum();
        assert!(bytes as u64 > SEGMENT / 2 && bytes as u64 <= 2 * SEGMENT);
        let first = last + 1 - rows.len() as u64;
        for (row, number) in rows.iter().zip(first..) {
            assert_eq!(row[0], number.to_string().as_bytes());
        }
    }
}
