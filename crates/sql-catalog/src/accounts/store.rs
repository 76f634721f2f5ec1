//! The file `accounts` in the data directory.
//!
//! Neighbours: `instance` reads it at start, account statements write it whole; `record` has the bytes of an account.
//! **Invariants**: a change is durable before it takes effect, and atomic: a new file is written,
//! synced and renamed over the old one. The file ends with a CRC-32C of everything before it.
//! docs/formats/accounts.md describes it.

use std::path::Path;

use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::{Env, OpenMode};

use super::{Account, record};

const FILE: &str = "accounts";
const NEW_FILE: &str = "accounts.new";
/// Largest file read and written, bytes.
const MAX_FILE: u64 = 64 << 20;

fn io_error(what: &str, e: &std::io::Error) -> SqlError {
    errors::storage_failed(format!("cannot {what} the accounts file: {e}"))
}

/// Reads the accounts; None when there is no file yet.
///
/// # Errors
/// I/O errors and damage.
pub fn load(env: &Env, dir: &Path) -> SqlResult<Option<Vec<Account>>> {
    let path = dir.join(FILE);
    let fail = |e: std::io::Error| io_error("read", &e);
    if !env.fs.exists(&path).map_err(fail)? {
        return Ok(None);
    }
    let file = env.fs.open(&path, OpenMode::Read).map_err(fail)?;
    let len = file.len().map_err(fail)?;
    if len > MAX_FILE {
        return Err(damaged(&path, "it is too long"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(fail)?;
    let (body, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or_else(|| damaged(&path, "truncated"))?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(damaged(&path, "checksum mismatch"));
    }
    record::decode(body)
        .map(Some)
        .map_err(|what| damaged(&path, &what))
}

/// The error of a file that is there and cannot be used.
pub const DAMAGED: u16 = 1033;

fn damaged(path: &Path, what: &str) -> SqlError {
    SqlError::new(
        DAMAGED,
        "HY000",
        format!("the file {} is damaged: {what}", path.display()),
    )
}

/// Replaces the file.
///
/// # Errors
/// I/O errors, and 1114 for a file that would not be read again; the old file is in force then.
pub fn save(env: &Env, dir: &Path, accounts: &[Account]) -> SqlResult<()> {
    let mut bytes = record::encode(accounts);
    if bytes.len() as u64 >= MAX_FILE {
        let text = format!("the accounts are more than {} MiB", MAX_FILE >> 20);
        return Err(SqlError::new(1114, "HY000", text));
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let fresh = dir.join(NEW_FILE);
    let write = || {
        let file = env.fs.open(&fresh, OpenMode::CreateOrOpen)?;
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        env.fs.rename(&fresh, &dir.join(FILE))?;
        env.fs.sync_dir(dir)
    };
    write().map_err(|e| io_error("write", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let sample = || vec![Account::named("u", "%"), Account::root(vec![1, 2, 3])];
        let dir = tempfile::tempdir().unwrap();
        let env = Env::os();
        assert_eq!(load(&env, dir.path()).unwrap(), None);
        save(&env, dir.path(), &sample()).unwrap();
        assert_eq!(load(&env, dir.path()).unwrap().unwrap(), sample());
        let file = env
            .fs
            .open(&dir.path().join(FILE), OpenMode::ReadWrite)
            .unwrap();
        for at in 0..file.len().unwrap() {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert!(load(&env, dir.path()).is_err(), "flipped byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
    }
}
