//! System variables that SET PERSIST keeps over a restart: the file `mysqld-auto.cnf` of the data directory.
//!
//! Neighbours: `session::set` changes it, [`Starting`](crate::Starting) reads it, PERFORMANCE_SCHEMA lists it.
//! **Invariants**: the file is replaced as a whole, so a crash leaves the old one or the new one; its form is MySQL's.
//! A value that is no longer accepted is left out with a line in the log, and does not stop the start.

use std::collections::BTreeMap;
use std::path::Path;

use esker_sql_catalog::variables::{Change, Setting, VarId};
use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::{Env, OpenMode};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

const FILE: &str = "mysqld-auto.cnf";
const NEW_FILE: &str = "mysqld-auto.cnf.new";

/// Longest file that is read, bytes.
const MAX_FILE: u64 = 16 << 20;

/// Kinds of variables, as the file divides them.
const DYNAMIC: &str = "mysql_dynamic_variables";
const STATIC: &str = "mysql_static_variables";

/// A value that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The value as SHOW prints it.
    pub(crate) value: String,
    /// Whoever set it.
    pub(crate) user: String,
    /// From where.
    pub(crate) host: String,
    /// When, microseconds since the epoch.
    pub(crate) micros: u64,
}

impl Kept {
    /// Who has set it.
    pub(crate) fn change(&self) -> Change {
        Change {
            user: self.user.clone(),
            host: self.host.clone(),
            micros: self.micros as i64,
        }
    }
}

/// All values that are kept, by the name of their variable.
#[derive(Debug, Default)]
pub(crate) struct Persisted(Mutex<BTreeMap<String, Kept>>);

fn failed(what: &str, e: impl std::fmt::Display) -> SqlError {
    errors::storage_failed(format!("cannot {what} {FILE}: {e}"))
}

impl Persisted {
    /// Reads the file; nothing is kept when there is none.
    ///
    /// # Errors
    /// It cannot be read, or is not JSON of this form.
    pub(crate) fn load(env: &Env, dir: &Path) -> SqlResult<Self> {
        let path = dir.join(FILE);
        let read = || {
            if !env.fs.exists(&path)? {
                return Ok(None);
            }
            let file = env.fs.open(&path, OpenMode::Read)?;
            let mut bytes = vec![0; file.len()?.min(MAX_FILE) as usize];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(Some(bytes))
        };
        let bytes = read().map_err(|e: std::io::Error| failed("read", e))?;
        let Some(bytes) = bytes else {
            return Ok(Self::default());
        };
        let whole: Value = serde_json::from_slice(&bytes).map_err(|e| failed("read", e))?;
        let mut all = BTreeMap::new();
        for kind in [DYNAMIC, STATIC] {
            let Some(members) = whole.get(kind).and_then(Value::as_object) else {
                continue;
            };
            for (name, entry) in members {
                let value = entry.get("Value").and_then(Value::as_str);
                let value = value.ok_or_else(|| failed("read", "a value is missing"))?;
                let about = |key| entry.get("Metadata").and_then(|m| m.get(key));
                let text = |key| about(key).and_then(Value::as_str).unwrap_or_default();
                let kept = Kept {
                    value: value.to_owned(),
                    user: text("User").to_owned(),
                    host: text("Host").to_owned(),
                    micros: about("Timestamp").and_then(Value::as_u64).unwrap_or(0),
                };
                all.insert(name.clone(), kept);
            }
        }
        Ok(Self(Mutex::new(all)))
    }

    /// What is kept, as settings of the start.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let all = self.0.lock();
        let setting = |(name, kept): (&String, &Kept)| Setting {
            name: format!("loose_{name}"),
            value: kept.value.clone(),
            source: FILE.to_owned(),
        };
        all.iter().map(setting).collect()
    }

    /// Every value, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Kept> {
        self.0.lock().clone()
    }

    /// Keeps a value.
    ///
    /// # Errors
    /// The file cannot be written; nothing has changed then.
    pub(crate) fn keep(&self, env: &Env, dir: &Path, name: &str, kept: Kept) -> SqlResult<()> {
        let mut all = self.0.lock();
        let mut changed = all.clone();
        changed.insert(name.to_owned(), kept);
        write(env, dir, &changed)?;
        *all = changed;
        Ok(())
    }

    /// Forgets a value, or all of them. False: there is none of this name.
    ///
    /// # Errors
    /// The file cannot be written; nothing has changed then.
    pub(crate) fn forget(&self, env: &Env, dir: &Path, name: Option<&str>) -> SqlResult<bool> {
        let mut all = self.0.lock();
        let mut changed = all.clone();
        match name {
            None => changed.clear(),
            Some(name) if changed.remove(name).is_none() => return Ok(false),
            Some(_) => (),
        }
        write(env, dir, &changed)?;
        *all = changed;
        Ok(true)
    }
}

fn write(env: &Env, dir: &Path, all: &BTreeMap<String, Kept>) -> SqlResult<()> {
    let (mut dynamic, mut fixed) = (Map::new(), Map::new());
    for (name, kept) in all {
        let entry = json!({
            "Value": kept.value,
            "Metadata": {"Timestamp": kept.micros, "User": kept.user, "Host": kept.host},
        });
        let is_dynamic = VarId::find(name).is_ok_and(|id| id.def().dynamic);
        let kind = if is_dynamic { &mut dynamic } else { &mut fixed };
        kind.insert(name.clone(), entry);
    }
    let whole = json!({"Version": 2, DYNAMIC: dynamic, STATIC: fixed});
    let bytes = whole.to_string().into_bytes();
    let fresh = dir.join(NEW_FILE);
    let replace = || {
        let file = env.fs.open(&fresh, OpenMode::CreateOrOpen)?;
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)?;
        file.sync_all()?;
        env.fs.rename(&fresh, &dir.join(FILE))?;
        env.fs.sync_dir(dir)
    };
    replace().map_err(|e: std::io::Error| failed("write", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_damage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::os();
        let persisted = Persisted::load(&env, dir.path()).unwrap();
        let kept = |value: &str| Kept {
            value: value.to_owned(),
            user: "root".to_owned(),
            host: "localhost".to_owned(),
            micros: 5,
        };
        persisted
            .keep(&env, dir.path(), "max_connections", kept("7"))
            .unwrap();
        persisted.keep(&env, dir.path(), "port", kept("1")).unwrap();
        assert!(!persisted.forget(&env, dir.path(), Some("nothing")).unwrap());
        let again = Persisted::load(&env, dir.path()).unwrap();
        assert_eq!(again.all(), persisted.all());
        assert_eq!(again.settings()[0].name, "loose_max_connections");
        assert!(again.forget(&env, dir.path(), Some("port")).unwrap());
        assert!(again.forget(&env, dir.path(), None).unwrap());
        assert!(Persisted::load(&env, dir.path()).unwrap().all().is_empty());
        let file = env
            .fs
            .open(&dir.path().join(FILE), OpenMode::ReadWrite)
            .unwrap();
        file.write_all_at(b"x", 0).unwrap();
        assert!(Persisted::load(&env, dir.path()).is_err());
    }
}
