//! The file `accounts` in the data directory.
//!
//! Neighbours: `instance` reads it at start, account statements write it whole.
//! **Invariants**: a change is durable before it takes effect, and atomic: a new file is written,
//! synced and renamed over the old one. The file ends with a CRC-32C of everything before it.
//!
//! Layout (little-endian): `"ESKACCT2"`, account count u32, then per account: user, host, plugin name,
//! secret (each u32 length and bytes), locked u8, grant count u32, per grant: scope u8 (0 global,
//! 1 schema, 2 table), schema, table, privileges u64, grant option u8. Last: CRC-32C u32.
//! `"ESKACCT1"` is the same from before XA_RECOVER_ADMIN; who has SUPER gets it, as by MySQL's upgrade.

use std::path::Path;

use esker_types::{SqlError, SqlResult};
use esker_vfs::{Env, OpenMode};

use super::{Account, GrantEntry, GrantScope, Plugin, Privileges};

const MAGIC: &[u8; 8] = b"ESKACCT2";
const MAGIC_1: &[u8; 8] = b"ESKACCT1";
const FILE: &str = "accounts";
const NEW_FILE: &str = "accounts.new";
/// Largest file read, bytes.
const MAX_FILE: u64 = 64 << 20;

fn io_error(what: &str, e: &std::io::Error) -> SqlError {
    SqlError::new(
        1030,
        "HY000",
        format!("cannot {what} the accounts file: {e}"),
    )
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
    let mut r = Reader(body);
    decode(&mut r)
        .map(Some)
        .ok_or_else(|| damaged(&path, "unreadable"))
}

fn damaged(path: &Path, what: &str) -> SqlError {
    SqlError::new(
        1030,
        "HY000",
        format!("the file {} is damaged: {what}", path.display()),
    )
}

/// Replaces the file.
///
/// # Errors
/// I/O errors; the old file is in force then.
pub fn save(env: &Env, dir: &Path, accounts: &[Account]) -> SqlResult<()> {
    let mut bytes = encode(accounts);
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

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn encode(accounts: &[Account]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(accounts.len() as u32).to_le_bytes());
    for a in accounts {
        put(&mut out, a.user.as_bytes());
        put(&mut out, a.host.as_bytes());
        put(&mut out, a.plugin.name().as_bytes());
        put(&mut out, &a.auth);
        out.push(u8::from(a.locked));
        out.extend_from_slice(&(a.grants.len() as u32).to_le_bytes());
        for g in &a.grants {
            let (tag, schema, table) = match &g.scope {
                GrantScope::Global => (0, "", ""),
                GrantScope::Schema(s) => (1, s.as_str(), ""),
                GrantScope::Table(s, t) => (2, s.as_str(), t.as_str()),
            };
            out.push(tag);
            put(&mut out, schema.as_bytes());
            put(&mut out, table.as_bytes());
            out.extend_from_slice(&g.privileges.0.to_le_bytes());
            out.push(u8::from(g.grant_option));
        }
    }
    out
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = u32::from_le_bytes(self.array()?) as usize;
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head.to_vec())
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }
}

fn decode(r: &mut Reader<'_>) -> Option<Vec<Account>> {
    let magic = r.array::<8>()?;
    if magic != *MAGIC && magic != *MAGIC_1 {
        return None;
    }
    let count = u32::from_le_bytes(r.array()?);
    let mut accounts = Vec::new();
    for _ in 0..count {
        let (user, host) = (r.text()?, r.text()?);
        let plugin = Plugin::by_name(&r.text()?)?;
        let auth = r.bytes()?;
        let locked = r.array::<1>()?[0] != 0;
        let mut grants = Vec::new();
        for _ in 0..u32::from_le_bytes(r.array()?) {
            let tag = r.array::<1>()?[0];
            let (schema, table) = (r.text()?, r.text()?);
            let scope = match tag {
                0 => GrantScope::Global,
                1 => GrantScope::Schema(schema),
                2 => GrantScope::Table(schema, table),
                _ => return None,
            };
            let privileges = Privileges(u64::from_le_bytes(r.array()?));
            let grant_option = r.array::<1>()?[0] != 0;
            grants.push(GrantEntry {
                scope,
                privileges,
                grant_option,
            });
        }
        accounts.push(Account {
            user,
            host,
            plugin,
            auth,
            locked,
            grants,
        });
    }
    if magic == *MAGIC_1 {
        upgrade(&mut accounts);
    }
    r.0.is_empty().then_some(accounts)
}

/// Brings accounts of the first format up to date.
fn upgrade(accounts: &mut [Account]) {
    let super_bit = Privileges::named("SUPER").unwrap_or_default();
    let gained = Privileges::named("XA_RECOVER_ADMIN").unwrap_or_default();
    let grants = accounts.iter_mut().flat_map(|a| &mut a.grants);
    for grant in grants.filter(|g| g.scope == GrantScope::Global) {
        if grant.privileges.contains(super_bit) {
            grant.privileges.0 |= gained.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Account> {
        vec![Account {
            user: "u".into(),
            host: "%".into(),
            plugin: Plugin::Native,
            auth: vec![1, 2, 3],
            locked: true,
            grants: vec![GrantEntry {
                scope: GrantScope::Table("s".into(), "t".into()),
                privileges: Privileges(5),
                grant_option: true,
            }],
        }]
    }

    #[test]
    fn who_had_super_before_there_was_xa_recover_admin_gets_it() {
        let mut accounts = sample();
        let named = |name| Privileges::named(name).unwrap().0;
        accounts[0].grants = vec![
            GrantEntry {
                scope: GrantScope::Global,
                privileges: Privileges(named("SUPER") | named("SELECT")),
                grant_option: false,
            },
            GrantEntry {
                scope: GrantScope::Schema("s".into()),
                privileges: Privileges(named("SUPER")),
                grant_option: false,
            },
        ];
        let mut bytes = encode(&accounts);
        assert_eq!(decode(&mut Reader(&bytes)).unwrap(), accounts);
        bytes[..8].copy_from_slice(MAGIC_1);
        let loaded = decode(&mut Reader(&bytes)).unwrap();
        accounts[0].grants[0].privileges.0 |= named("XA_RECOVER_ADMIN");
        assert_eq!(loaded, accounts);
    }

    #[test]
    fn round_trip_and_damage() {
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
