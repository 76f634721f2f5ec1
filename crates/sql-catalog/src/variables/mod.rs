//! System variables: what exists, global values, session values, and MySQL's rules for setting.
//!
//! Neighbours: `session` sets and reads them and keeps the hot ones typed in [`SessionVars`]; `instance` fills the
//! globals at start; `show` and `information_schema` list them.
//! Parts: [`table`] and `unused` name every variable and say what setting it does, [`value`] checks and converts,
//! `blocks` rounds sizes, `options` reads what an option file says, `log`, `level` (isolation) and [`hot`] have typed
//! copies, `start` keeps those that sessions begin with, [`deprecated`] says what MySQL warns of, this file stores.
//! **Invariants**: a variable is known by its [`VarId`], an index into [`VARS`] that is sorted by
//! name; a stored value has passed its definition's check; unknown names are error 1193. Variables that
//! cannot differ ([`coupled`]) change together.

mod blocks;
pub mod deprecated;
pub mod hot;
mod level;
mod log;
mod options;
mod start;
pub mod table;
mod unused;
pub mod value;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use esker_types::collation::{Charset, Collation};
use esker_types::{SqlError, SqlResult, errors};
use parking_lot::Mutex;

pub use hot::{SessionVars, TraceVars};
pub use level::Level;
pub use log::{GtidsTold, LogVars, RowImage};
pub use options::{Notes, Setting};
pub use start::StartValues;
use table::MEMORY_LIMIT_MAX;
pub use table::{Effect, NOT_PERSISTED, OF_THE_DATA, Scope, VarDef, VarKind};
pub use value::{VarValue, check_client};

/// All variables, sorted by name.
pub static VARS: LazyLock<Vec<&'static VarDef>> = LazyLock::new(|| {
    let mut all: Vec<_> = table::KNOWN.iter().chain(unused::UNUSED).collect();
    all.sort_by_key(|def| def.name);
    all
});

/// Where each variable is in [`VARS`].
static PLACES: LazyLock<HashMap<&'static str, VarId>> = LazyLock::new(|| {
    let ids = VarId::all().map(|id| (id.def().name, id));
    ids.collect()
});

/// Index of a variable in [`VARS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VarId(u16);

impl VarId {
    /// Finds a variable; names are case-insensitive.
    ///
    /// # Errors
    /// 1193 for unknown names.
    pub fn find(name: &str) -> SqlResult<Self> {
        // The program's own names are written as they are stored.
        let lower = match name.bytes().any(|b| b.is_ascii_uppercase()) {
            true => Cow::Owned(name.to_ascii_lowercase()),
            false => Cow::Borrowed(name),
        };
        PLACES.get(&*lower).copied().ok_or_else(|| unknown(name))
    }

    /// The definition.
    pub fn def(self) -> &'static VarDef {
        VARS[usize::from(self.0)]
    }

    /// Every variable in order of names.
    pub fn all() -> impl Iterator<Item = VarId> {
        (0..VARS.len() as u16).map(Self)
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// 1193.
pub fn unknown(name: &str) -> SqlError {
    SqlError::new(1193, "HY000", format!("Unknown system variable '{name}'"))
}

/// A collation of another character set.
pub fn mismatch(collation: Collation, charset: Charset) -> SqlError {
    errors::collation_mismatch(collation.name(), charset.name())
}

fn read_only(def: &VarDef) -> SqlError {
    errors::read_only_variable(def.name, "read only")
}

/// What came of setting a variable, for the warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// The value was out of range; the nearest one was taken.
    pub clamped: bool,
    /// It changes nothing.
    pub idle: bool,
}

impl Taken {
    /// What the warning about an idle setting says.
    pub fn idle_text(def: &VarDef) -> String {
        match def.effect {
            Effect::Stays => format!("Variable '{}' stays '{}' in Esker", def.name, def.default),
            _ => format!("Variable '{}' has no effect in Esker", def.name),
        }
    }
}

/// Decides what is stored when a variable is set to `value`.
///
/// # Errors
/// 1231 when it takes its default only.
fn admit(def: &VarDef, value: VarValue) -> SqlResult<(VarValue, bool)> {
    if matches!(def.effect, Effect::Works | Effect::Moot) {
        return Ok((value, false));
    }
    let default = value::default_of(def);
    if value == default {
        return Ok((value, false));
    }
    match def.effect {
        Effect::Fixed => Err(value::bad_value(def, &value.print())),
        Effect::Stays => Ok((default, true)),
        _ => Ok((value, true)),
    }
}

/// Writing one of these changes a character set and its collation together.
const CHARSET_PAIRS: [(&str, &str); 3] = [
    ("character_set_connection", "collation_connection"),
    ("character_set_server", "collation_server"),
    ("character_set_database", "collation_database"),
];

/// Least memory that `innodb_buffer_pool_size` leaves everything, bytes: MySQL has more than its buffer pool.
const LEAST_BY_POOL_SIZE: u64 = 256 << 20;

/// What else a variable changes that has just been set to `value`.
pub fn coupled(id: VarId, value: &VarValue) -> Option<(VarId, VarValue)> {
    let other = |name: &str, value| VarId::find(name).ok().map(|id| (id, value));
    let name = id.def().name;
    match (name, value) {
        // Nobody writes where administrators may not.
        ("super_read_only", VarValue::Bool(true)) => other("read_only", VarValue::Bool(true)),
        ("read_only", VarValue::Bool(false)) => other("super_read_only", VarValue::Bool(false)),
        // As in MySQL: a limit switches the check on, no limit switches it off.
        ("max_join_size", limit) => {
            let unlimited = limit.as_u64() == u64::MAX;
            other("sql_big_selects", VarValue::Bool(unlimited))
        }
        ("innodb_buffer_pool_size", size) => {
            let bytes = size.as_u64().clamp(LEAST_BY_POOL_SIZE, MEMORY_LIMIT_MAX);
            other("esker_memory_limit", VarValue::UInt(bytes))
        }
        ("esker_memory_limit", limit) => other("innodb_buffer_pool_size", limit.clone()),
        _ => CHARSET_PAIRS.iter().find_map(|(charset, collation)| {
            if name == *charset {
                let c = Collation::default_of(Charset::by_name(value.as_text())?);
                other(collation, VarValue::Text(Arc::from(c.name())))
            } else if name == *collation {
                let c = Collation::by_name(value.as_text())?.charset();
                other(charset, VarValue::Text(Arc::from(c.name())))
            } else {
                None
            }
        }),
    }
}

/// A SET GLOBAL: who, from where, when.
#[derive(Debug, Clone)]
pub struct Change {
    /// The user, as the client named itself.
    pub user: String,
    /// The host that the session came from.
    pub host: String,
    /// Microseconds since the epoch.
    pub micros: i64,
}

/// All global values; readers take a snapshot.
pub struct Globals {
    values: ArcSwap<Vec<VarValue>>,
    writer: Mutex<()>,
    /// Who has set what; at most one for each variable.
    changes: Mutex<HashMap<VarId, Change>>,
    /// Copies of the two that every write asks for.
    read_only: AtomicBool,
    super_read_only: AtomicBool,
}

impl Default for Globals {
    fn default() -> Self {
        let values = VARS.iter().map(|def| value::default_of(def)).collect();
        Self {
            values: ArcSwap::from_pointee(values),
            writer: Mutex::new(()),
            changes: Mutex::default(),
            read_only: AtomicBool::new(false),
            super_read_only: AtomicBool::new(false),
        }
    }
}

impl Globals {
    /// The current value.
    pub fn get(&self, id: VarId) -> VarValue {
        self.values.load()[id.index()].clone()
    }

    /// The current value of a variable that is certain to exist.
    ///
    /// # Panics
    /// On a name that is not in the table: a mistake in this program.
    pub fn named(&self, name: &str) -> VarValue {
        match VarId::find(name) {
            Ok(id) => self.get(id),
            Err(e) => panic!("{e}"),
        }
    }

    /// read_only: only accounts with SUPER may write.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// super_read_only: nobody may write.
    pub fn is_super_read_only(&self) -> bool {
        self.super_read_only.load(Ordering::Acquire)
    }

    /// All values at this moment.
    pub fn snapshot(&self) -> Arc<Vec<VarValue>> {
        self.values.load_full()
    }

    /// Remembers who has set a variable.
    pub fn note(&self, id: VarId, change: Change) {
        self.changes.lock().insert(id, change);
    }

    /// Who has set a variable since the start; None: nobody.
    pub fn change(&self, id: VarId) -> Option<Change> {
        self.changes.lock().get(&id).cloned()
    }

    /// Stores a checked value and what goes with it, for all readers at once.
    fn store(&self, id: VarId, value: VarValue) {
        let _one_writer = self.writer.lock();
        let mut values = Vec::clone(&self.values.load());
        let more = coupled(id, &value);
        for (id, value) in std::iter::once((id, value)).chain(more) {
            match id.def().name {
                "read_only" => self.read_only.store(value.is_on(), Ordering::Release),
                "super_read_only" => self.super_read_only.store(value.is_on(), Ordering::Release),
                _ => {}
            }
            values[id.index()] = value;
        }
        self.values.store(Arc::new(values));
    }

    /// Says what the server knows of itself.
    ///
    /// # Panics
    /// On a name that is not in the table: a mistake in this program.
    pub fn tell(&self, name: &str, value: VarValue) {
        match VarId::find(name) {
            Ok(id) => self.store(id, value),
            Err(e) => panic!("{e}"),
        }
    }

    /// SET GLOBAL.
    ///
    /// # Errors
    /// 1228 for session-only, 1238 for read-only variables, 1231 and 1232 for bad values.
    pub fn set(&self, id: VarId, given: Option<&esker_types::Value>) -> SqlResult<Taken> {
        let def = id.def();
        if !def.dynamic {
            return Err(read_only(def));
        }
        if def.scope == Scope::Session {
            return Err(errors::session_variable(def.name));
        }
        let (value, clamped) = match given {
            None => (value::default_of(def), false),
            Some(v) => value::from_value(def, v)?,
        };
        let value = value::over(def, value, &self.get(id));
        let (value, idle) = admit(def, value)?;
        self.store(id, value);
        Ok(Taken { clamped, idle })
    }
}

/// What SET NAMES and SET CHARACTER SET set.
pub const CLIENT_CHARSETS: [&str; 3] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
];

/// One session's values, cheap to copy: the globals as they were at connect, with what the session changed.
#[derive(Clone)]
pub struct SessionValues {
    base: Arc<Vec<VarValue>>,
    changed: Vec<(VarId, VarValue)>,
}

impl SessionValues {
    /// Starts from the globals.
    pub fn new(globals: &Globals) -> Self {
        Self {
            base: globals.snapshot(),
            changed: Vec::new(),
        }
    }

    /// The session's value (of a global-only variable: the one at connect; ask [`Globals`]).
    pub fn get(&self, id: VarId) -> &VarValue {
        self.changed
            .iter()
            .find(|(changed, _)| *changed == id)
            .map_or(&self.base[id.index()], |(_, value)| value)
    }

    /// The session's value of a variable that is certain to exist.
    ///
    /// # Panics
    /// On a name that is not in the table: a mistake in this program.
    pub fn named(&self, name: &str) -> &VarValue {
        match VarId::find(name) {
            Ok(id) => self.get(id),
            Err(e) => panic!("{e}"),
        }
    }

    /// Stores a value that has been checked.
    pub fn put(&mut self, id: VarId, value: VarValue) {
        match self.changed.iter_mut().find(|(changed, _)| *changed == id) {
            Some(slot) => slot.1 = value,
            None => self.changed.push((id, value)),
        }
    }

    /// Stores a value of a variable that is certain to exist.
    ///
    /// # Panics
    /// As [`Self::named`].
    pub fn put_named(&mut self, name: &str, value: VarValue) {
        match VarId::find(name) {
            Ok(id) => self.put(id, value),
            Err(e) => panic!("{e}"),
        }
    }

    /// Client, connection and results in this collation's character set.
    pub fn use_collation(&mut self, collation: Collation) {
        let charset: Arc<str> = Arc::from(collation.charset().name());
        for name in CLIENT_CHARSETS {
            self.put_named(name, VarValue::Text(charset.clone()));
        }
        let collation = Arc::from(collation.name());
        self.put_named("collation_connection", VarValue::Text(collation));
    }

    /// SET SESSION. `given` None is DEFAULT: the global value.
    ///
    /// # Errors
    /// 1229 for global-only, 1238 for read-only variables, 1231 and 1232 for bad values.
    pub fn set(
        &mut self,
        globals: &Globals,
        id: VarId,
        given: Option<&esker_types::Value>,
    ) -> SqlResult<Taken> {
        let def = id.def();
        if def.scope == Scope::Global {
            if !def.dynamic {
                return Err(read_only(def));
            }
            let text = format!(
                "Variable '{}' is a GLOBAL variable and should be set with SET GLOBAL",
                def.name
            );
            return Err(SqlError::new(1229, "HY000", text));
        }
        if !def.dynamic {
            return Err(read_only(def));
        }
        let (value, clamped) = match given {
            None => (globals.get(id), false),
            Some(v) => value::from_value(def, v)?,
        };
        let value = value::over(def, value, self.get(id));
        let (value, idle) = admit(def, value)?;
        if let Some((id, value)) = coupled(id, &value) {
            self.put(id, value);
        }
        self.put(id, value);
        Ok(Taken { clamped, idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::Value;

    #[test]
    fn names_are_sorted_and_defaults_valid() {
        for pair in VARS.windows(2) {
            assert!(
                pair[0].name < pair[1].name,
                "{} before {}",
                pair[0].name,
                pair[1].name
            );
        }
        for def in VARS.iter() {
            value::from_text(def, def.default).unwrap_or_else(|e| panic!("{}: {e}", def.name));
        }
    }

    #[test]
    fn the_rules_of_setting() {
        let globals = Globals::default();
        let mut session = SessionValues::new(&globals);
        let code = |r: SqlResult<Taken>| r.unwrap_err().code;
        let id = |name| VarId::find(name).unwrap();
        assert_eq!(VarId::find("nope").unwrap_err().code, 1193);
        assert_eq!(
            code(session.set(&globals, id("port"), Some(&Value::Int(1)))),
            1238
        );
        assert_eq!(
            code(session.set(&globals, id("max_connections"), Some(&Value::Int(1)))),
            1229
        );
        assert_eq!(
            code(globals.set(id("last_insert_id"), Some(&Value::Int(1)))),
            1228
        );
        assert_eq!(
            code(session.set(&globals, id("sql_mode"), Some(&Value::str("NO")))),
            1231
        );
        assert_eq!(
            code(session.set(&globals, id("wait_timeout"), Some(&Value::str("a")))),
            1232
        );
        assert!(
            session
                .set(&globals, id("wait_timeout"), Some(&Value::Int(0)))
                .unwrap()
                .clamped
        );
        assert_eq!(session.named("wait_timeout"), &VarValue::UInt(1));
        assert!(
            !globals
                .set(id("wait_timeout"), Some(&Value::Int(77)))
                .unwrap()
                .clamped
        );
        assert!(
            !session
                .set(&globals, id("wait_timeout"), None)
                .unwrap()
                .clamped
        );
        assert_eq!(session.named("wait_timeout"), &VarValue::UInt(77));
    }
}
