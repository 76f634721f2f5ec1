//! Which files the server may read and write for its users: `secure_file_priv`.
//!
//! Neighbours: `session::load`, `session::export` and LOAD_FILE have checked the FILE privilege.
//!
//! **Invariants**
//! - Without `secure_file_priv` (the default, NULL) no file is touched; with a directory only files in it, links and
//!   `..` seen through.
//! - A file that exists is never written to.

use std::io;
use std::path::{Path, PathBuf};

use esker_sql_catalog::variables::{Globals, VarValue};
use esker_types::{SessionInfo, SqlError, SqlResult, errors};
use esker_vfs::{OutsideFile, OutsideKind};

/// Bytes that LOAD_FILE reads before it asks whether it may go on.
const READ_BYTES: usize = 256 << 10;

/// The settings that decide.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// `secure_file_priv`: None for nowhere, empty for everywhere.
    pub(crate) allowed: Option<String>,
    /// Where names without a directory are looked for: that of the database.
    pub(crate) base: PathBuf,
}

/// A system error as MySQL shows it: number and text.
fn os_error(e: &io::Error) -> String {
    let text = e.to_string();
    // "No such file or directory (os error 2)"
    let text = text.split(" (os error").next().unwrap_or_default();
    match e.raw_os_error() {
        Some(number) => format!("(OS errno {number} - {text})"),
        None => format!("({text})"),
    }
}

fn error(code: u16, text: &str, name: &str, e: &io::Error) -> SqlError {
    SqlError::new(
        code,
        "HY000",
        format!("{}{}", text.replace("{}", name), os_error(e)),
    )
}

impl Places {
    /// What the server's settings say.
    pub(crate) fn of(globals: &Globals) -> Self {
        let allowed = match globals.named("secure_file_priv") {
            VarValue::Null => None,
            value => Some(value.as_text().to_owned()),
        };
        let base = PathBuf::from(globals.named("datadir").as_text());
        Self { allowed, base }
    }

    fn full(&self, name: &[u8]) -> PathBuf {
        self.base.join(String::from_utf8_lossy(name).as_ref())
    }

    /// 1290 unless the file may be touched.
    pub(crate) fn check(&self, path: &Path) -> SqlResult<()> {
        let allowed = match self.allowed.as_deref() {
            Some("") => true,
            None => false,
            Some(dir) => match OutsideFile::real_path(Path::new(dir)) {
                Ok(dir) => OutsideFile::real_path(path).is_ok_and(|path| path.starts_with(dir)),
                Err(_) => false,
            },
        };
        if allowed {
            return Ok(());
        }
        Err(errors::option_prevents("secure-file-priv"))
    }
}

/// Why a file is not read.
enum Refusal {
    /// It may not be touched.
    Place(SqlError),
    /// It is not there.
    Missing(io::Error),
    /// It is no file.
    Kind,
    /// It cannot be opened.
    Closed(io::Error),
}

/// Opens a file for reading, if it may be touched: nothing is told of others, not even whether they are there.
fn open_at(places: &Places, path: &Path) -> Result<OutsideFile, Refusal> {
    places.check(path).map_err(Refusal::Place)?;
    match OutsideFile::kind(path).map_err(Refusal::Missing)? {
        OutsideKind::Regular => OutsideFile::open(path).map_err(Refusal::Closed),
        _ => Err(Refusal::Kind),
    }
}

/// Opens a file of the server's machine for reading.
///
/// # Errors
/// 1290; 13 for a file that is not there, 1085 for what is no file, 29 for one that cannot be opened.
pub(crate) fn open_file(places: &Places, name: &[u8]) -> SqlResult<OutsideFile> {
    let path = places.full(name);
    open_at(places, &path).map_err(|refusal| {
        let shown = path.display().to_string();
        match refusal {
            Refusal::Place(e) => e,
            Refusal::Missing(e) => error(13, "Can't get stat of '{}' ", &shown, &e),
            Refusal::Kind => errors::text_file_not_readable(shown),
            Refusal::Closed(e) => error(29, "File '{}' not found ", &shown, &e),
        }
    })
}

/// What is in a file of the server's machine, at most one byte more than `most`; `None` where it may not be read or is
/// not there.
///
/// # Errors
/// 1085 for what is no file, or one that the server may not read; the session may not go on.
pub(crate) fn read_file(
    places: &Places,
    name: &[u8],
    most: u64,
    session: &dyn SessionInfo,
) -> SqlResult<Option<Vec<u8>>> {
    if name.is_empty() {
        return Ok(None);
    }
    let path = places.full(name);
    let mut file = match open_at(places, &path) {
        Ok(file) => file,
        Err(Refusal::Kind | Refusal::Closed(_)) => {
            let shown = String::from_utf8_lossy(name);
            return Err(errors::text_file_not_readable(shown));
        }
        Err(_) => return Ok(None),
    };
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; READ_BYTES]);
    loop {
        let left = most.saturating_add(1) - bytes.len() as u64;
        let wanted = usize::try_from(left).unwrap_or(READ_BYTES).min(READ_BYTES);
        match file.read(&mut chunk[..wanted]) {
            Ok(0) => return Ok(Some(bytes)),
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            Err(_) => return Ok(None),
        }
        session.go_on(READ_BYTES)?;
        session.may_make(bytes.len())?;
    }
}

/// Makes a file on the server's machine; its path, too, so that it can be removed again.
///
/// # Errors
/// 1290, 1086 for a file that exists, 1 for one that cannot be made.
pub(crate) fn create_file(places: &Places, name: &[u8]) -> SqlResult<(OutsideFile, PathBuf)> {
    let path = places.full(name);
    places.check(&path)?;
    match OutsideFile::create(&path) {
        Ok(file) => Ok((file, path)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let text = format!("File '{}' already exists", String::from_utf8_lossy(name));
            Err(SqlError::new(1086, "HY000", text))
        }
        Err(e) => {
            let shown = path.display().to_string();
            Err(error(1, "Can't create/write to file '{}' ", &shown, &e))
        }
    }
}

/// Why a file could not be read to its end (error 2) or written (error 3).
pub(crate) fn io_error(code: u16, name: &[u8], e: &io::Error) -> SqlError {
    let text = match code {
        2 => "Error reading file '{}' ",
        _ => "Error writing file '{}' ",
    };
    error(code, text, &String::from_utf8_lossy(name), e)
}

#[cfg(test)]
mod tests {
    use esker_types::ctx::NoSession;

    use super::*;

    #[test]
    fn only_files_in_the_allowed_directory() {
        let dir = tempfile::tempdir().unwrap();
        let allowed = dir.path().join("in");
        OutsideFile::create(&dir.path().join("secret")).unwrap();
        std::fs::create_dir(&allowed).unwrap();
        std::os::unix::fs::symlink(dir.path(), allowed.join("up")).unwrap();
        let places = |allowed: Option<&Path>| Places {
            allowed: allowed.map(|p| p.display().to_string()),
            base: dir.path().to_path_buf(),
        };
        let inside = places(Some(&allowed));
        let code = |p: &Places, name: &str| open_file(p, name.as_bytes()).unwrap_err().code;
        assert_eq!(code(&places(None), "secret"), 1290);
        assert!(open_file(&places(Some(Path::new(""))), b"secret").is_ok());
        for name in ["secret", "in/../secret", "in/up/secret", "nowhere/x"] {
            assert_eq!(code(&inside, name), 1290, "{name}");
        }
        assert_eq!(code(&inside, "in/missing"), 13);
        assert_eq!(code(&inside, "in"), 1085);
        assert!(create_file(&inside, b"in/new").is_ok());
        assert_eq!(create_file(&inside, b"in/new").unwrap_err().code, 1086);
        assert_eq!(create_file(&inside, b"in/up/new").unwrap_err().code, 1290);
        assert!(open_file(&inside, b"in/new").is_ok());
        // LOAD_FILE tells no more of what it may not read than that.
        let read = |name: &str| read_file(&inside, name.as_bytes(), 10, &NoSession);
        for name in ["secret", ".", "in/../secret", "nowhere/x", "in/missing"] {
            assert_eq!(read(name), Ok(None), "{name}");
        }
        assert_eq!(read("in").unwrap_err().code, 1085);
        // The server may read what others may not: INTO OUTFILE makes such files.
        let own = allowed.join("own");
        std::fs::write(&own, "text").unwrap();
        let for_owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&own, for_owner).unwrap();
        assert_eq!(read("in/own"), Ok(Some(b"text".to_vec())));
    }
}
