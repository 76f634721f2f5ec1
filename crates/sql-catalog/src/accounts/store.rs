//! The file `accounts` in the data directory.
//!
//! Neighbours: `instance` reads it at start and changes it; `record` has the bytes of an account; the catalog keeps the
//! number of the last change.
//! **Invariants**: a change is written to a file of its own and synced ([`prepare`]); the commit record that has its
//! number decides that it counts, and carries its event for the binary log; the file takes the old one's place
//! ([`install`]) before the change takes effect. What a crash leaves between the last two, the start does ([`settle`]).
//! A file ends with a CRC-32C of everything before it. docs/formats/accounts.md describes it.

use std::path::Path;

use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::{Env, OpenMode};

use super::{Account, record};

const FILE: &str = "accounts";
const NEW_FILE: &str = "accounts.new";
/// Largest file read and written, bytes.
const MAX_FILE: u64 = 64 << 20;

/// What a file has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// All accounts.
    pub accounts: Vec<Account>,
    /// The number of the change that has made them so; 0 is the first start.
    pub change: u32,
}

impl Stored {
    /// Accounts that no statement has changed.
    pub fn first(accounts: Vec<Account>) -> Self {
        Self {
            accounts,
            change: 0,
        }
    }
}

fn io_error(what: &str, e: &std::io::Error) -> SqlError {
    errors::storage_failed(format!("cannot {what} the accounts file: {e}"))
}

/// Reads the accounts; None when there is no file yet.
///
/// # Errors
/// I/O errors and damage.
pub fn load(env: &Env, dir: &Path) -> SqlResult<Option<Stored>> {
    read(env, &dir.join(FILE))
}

fn read(env: &Env, path: &Path) -> SqlResult<Option<Stored>> {
    let fail = |e: std::io::Error| io_error("read", &e);
    if !env.fs.exists(path).map_err(fail)? {
        return Ok(None);
    }
    let file = env.fs.open(path, OpenMode::Read).map_err(fail)?;
    let len = file.len().map_err(fail)?;
    if len > MAX_FILE {
        return Err(damaged(path, "it is too long"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(fail)?;
    let (body, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or_else(|| damaged(path, "truncated"))?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(damaged(path, "checksum mismatch"));
    }
    record::decode(body)
        .map(Some)
        .map_err(|what| damaged(path, &what))
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

/// Writes and syncs what a change makes of the accounts, beside the file that counts.
///
/// # Errors
/// I/O errors, and 1114 for a file that would not be read again.
pub fn prepare(env: &Env, dir: &Path, stored: &Stored) -> SqlResult<()> {
    let mut bytes = record::encode(stored);
    if bytes.len() as u64 >= MAX_FILE {
        let text = format!("the accounts are more than {} MiB", MAX_FILE >> 20);
        return Err(errors::no_room_in(text));
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    let write = || {
        let file = env.fs.open(&dir.join(NEW_FILE), OpenMode::CreateOrOpen)?;
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        env.fs.sync_dir(dir)
    };
    write().map_err(|e| io_error("write", &e))
}

/// The accounts that were prepared take the place of the old ones.
///
/// # Errors
/// I/O errors.
pub fn install(env: &Env, dir: &Path) -> SqlResult<()> {
    let install = || {
        env.fs.rename(&dir.join(NEW_FILE), &dir.join(FILE))?;
        env.fs.sync_dir(dir)
    };
    install().map_err(|e| io_error("replace", &e))
}

/// At a start: ends a change that was decided, where the file has an earlier one. `decided` is the number in the
/// catalog.
///
/// # Errors
/// I/O errors.
pub fn settle(env: &Env, dir: &Path, stored: Stored, decided: u32) -> SqlResult<Stored> {
    if stored.change >= decided {
        return Ok(stored);
    }
    match read(env, &dir.join(NEW_FILE)) {
        Ok(Some(prepared)) if prepared.change == decided => {
            install(env, dir)?;
            Ok(prepared)
        }
        Err(e) if e.code != DAMAGED => Err(e),
        _ => {
            tracing::warn!(
                "the accounts are those of change {}, though there was change {decided}: the file is from an earlier time",
                stored.change
            );
            Ok(stored)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(change: u32) -> Stored {
        Stored {
            accounts: vec![Account::named("u", "%"), Account::root(vec![1, 2, 3])],
            change,
        }
    }

    #[test]
    fn round_trip_and_damage() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::os();
        assert_eq!(load(&env, dir.path()).unwrap(), None);
        prepare(&env, dir.path(), &sample(1)).unwrap();
        assert_eq!(load(&env, dir.path()).unwrap(), None);
        install(&env, dir.path()).unwrap();
        assert_eq!(load(&env, dir.path()).unwrap().unwrap(), sample(1));
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

    #[test]
    fn only_a_change_that_was_decided_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (env, dir) = (Env::os(), dir.path());
        prepare(&env, dir, &sample(4)).unwrap();
        install(&env, dir).unwrap();
        prepare(&env, dir, &sample(5)).unwrap();
        // Not decided; of a log that was cut; of another change than the one that waits.
        for decided in [4, 2, 6] {
            assert_eq!(settle(&env, dir, sample(4), decided).unwrap(), sample(4));
            assert_eq!(load(&env, dir).unwrap(), Some(sample(4)));
        }
        assert_eq!(settle(&env, dir, sample(4), 5).unwrap(), sample(5));
        assert_eq!(load(&env, dir).unwrap(), Some(sample(5)));
        // What waits is torn: a change that was decided cannot be.
        prepare(&env, dir, &sample(6)).unwrap();
        let file = env
            .fs
            .open(&dir.join(NEW_FILE), OpenMode::ReadWrite)
            .unwrap();
        file.set_len(9).unwrap();
        assert_eq!(settle(&env, dir, sample(5), 6).unwrap(), sample(5));
    }
}
