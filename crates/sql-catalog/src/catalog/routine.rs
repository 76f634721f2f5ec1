//! Stored routines: definitions and their bytes.
//!
//! Neighbours: `store` has the keys and the pieces, [`super::Change`] writes, sessions compile what is here.
//! **Invariants**: parameters, result and body are kept as they were written, with everything that their meaning rests
//! on ([`ProgramSettings`]); two routines of a kind in a database differ in more than case.

use std::sync::Arc;

use esker_types::program::{DataAccess, RoutineKind};
use esker_types::{SqlMode, SqlResult};

use super::bytes::{Reader, Writer};
use super::quotes::Quotes;
use crate::codec::damaged;

const ROUTINE_FORMAT: u8 = 1;

/// What the text of a stored program rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSettings {
    /// DEFINER: user and host.
    pub definer: (Box<str>, Box<str>),
    /// SQL SECURITY INVOKER.
    pub invoker: bool,
    /// sql_mode under which it is read and runs.
    pub sql_mode: Box<str>,
    /// character_set_client of the session that created it.
    pub charset_client: Box<str>,
    /// collation_connection of the session that created it.
    pub collation_connection: Box<str>,
    /// Collation of its database then: that of its character variables.
    pub database_collation: Box<str>,
}

impl ProgramSettings {
    pub(super) fn write(&self, w: &mut Writer) {
        w.text(&self.definer.0);
        w.text(&self.definer.1);
        w.flag(self.invoker);
        w.text(&self.sql_mode);
        w.text(&self.charset_client);
        w.text(&self.collation_connection);
        w.text(&self.database_collation);
    }

    pub(super) fn read(r: &mut Reader<'_>) -> SqlResult<Self> {
        Ok(Self {
            definer: (r.text()?.into(), r.text()?.into()),
            invoker: r.flag()?,
            sql_mode: r.text()?.into(),
            charset_client: r.text()?.into(),
            collation_connection: r.text()?.into(),
            database_collation: r.text()?.into(),
        })
    }
}

/// A stored procedure or function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutineDef {
    /// Which of them.
    pub kind: RoutineKind,
    /// Database.
    pub schema: Arc<str>,
    /// Name as written.
    pub name: Arc<str>,
    /// Parameters as written.
    pub parameters: Box<str>,
    /// RETURNS as written; empty for a procedure.
    pub returns: Box<str>,
    /// Body as written.
    pub body: Box<str>,
    /// DETERMINISTIC.
    pub deterministic: bool,
    /// What it says of the data that it touches.
    pub access: DataAccess,
    /// COMMENT.
    pub comment: Box<str>,
    /// What its text rests on.
    pub settings: ProgramSettings,
    /// When it was created, microseconds since 1970 UTC.
    pub created_micros: i64,
    /// When it was changed last.
    pub altered_micros: i64,
}

/// What routines of a database are found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutineKey {
    kind: RoutineKind,
    name: Box<str>,
}

impl RoutineKey {
    /// Names of routines have no case.
    pub fn new(kind: RoutineKind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_lowercase().into(),
        }
    }
}

impl RoutineDef {
    /// What it is found by.
    pub fn key(&self) -> RoutineKey {
        RoutineKey::new(self.kind, &self.name)
    }

    /// `CREATE DEFINER=… PROCEDURE …`, as SHOW CREATE prints it; `bare`: names have quotes only where they need them,
    /// as those that this finds do.
    pub fn create_text(&self, bare: Option<fn(&str) -> bool>) -> String {
        let quotes = Quotes::of(SqlMode::of_names(&self.settings.sql_mode), bare);
        let (user, host) = &self.settings.definer;
        let mut text = self.head(&format!(" DEFINER={}", quotes.account(user, host)), quotes);
        self.push_characteristics(&mut text);
        text.push_str(&self.body);
        text
    }

    /// The statement that makes it, to be read again: as far as its meaning goes.
    pub fn plain_text(&self) -> String {
        self.head("", Quotes::BACKTICKS) + &self.body
    }

    fn head(&self, definer: &str, quotes: Quotes) -> String {
        let (kind, name) = (self.kind.text(), quotes.name(&self.name));
        let mut text = format!("CREATE{definer} {kind} {name}({})", self.parameters);
        if self.kind == RoutineKind::Function {
            text.push_str(&format!(" RETURNS {}", self.returns));
        }
        text.push('\n');
        text
    }

    fn push_characteristics(&self, text: &mut String) {
        match self.access {
            DataAccess::ContainsSql => {}
            other => text.push_str(&format!("    {}\n", other.text())),
        }
        if self.deterministic {
            text.push_str("    DETERMINISTIC\n");
        }
        if self.settings.invoker {
            text.push_str("    SQL SECURITY INVOKER\n");
        }
        if !self.comment.is_empty() {
            let comment = self.comment.replace('\\', "\\\\").replace('\'', "\\'");
            text.push_str(&format!("    COMMENT '{comment}'\n"));
        }
    }
}

fn kind_byte(kind: RoutineKind) -> u8 {
    match kind {
        RoutineKind::Procedure => b'P',
        RoutineKind::Function => b'F',
    }
}

/// What follows the prefix in the key of a routine's row; names have no zero byte.
pub(super) fn key_bytes(schema: &str, key: &RoutineKey) -> Vec<u8> {
    let kind = [0, kind_byte(key.kind)];
    [schema.as_bytes(), &kind, key.name.as_bytes()].concat()
}

pub(super) fn value(def: &RoutineDef) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(ROUTINE_FORMAT);
    w.byte(kind_byte(def.kind));
    w.text(&def.schema);
    w.text(&def.name);
    w.text(&def.parameters);
    w.text(&def.returns);
    w.text(&def.body);
    w.flag(def.deterministic);
    w.byte(def.access.to_byte());
    w.text(&def.comment);
    def.settings.write(&mut w);
    w.int(def.created_micros as u64);
    w.int(def.altered_micros as u64);
    w.out
}

pub(super) fn read(bytes: &[u8]) -> SqlResult<RoutineDef> {
    let mut r = Reader::new(bytes);
    if r.byte()? != ROUTINE_FORMAT {
        return Err(damaged("catalog row: unknown format"));
    }
    let kind = match r.byte()? {
        b'P' => RoutineKind::Procedure,
        b'F' => RoutineKind::Function,
        _ => return Err(damaged("catalog row: kind of a routine")),
    };
    let def = RoutineDef {
        kind,
        schema: r.text()?.into(),
        name: r.text()?.into(),
        parameters: r.text()?.into(),
        returns: r.text()?.into(),
        body: r.text()?.into(),
        deterministic: r.flag()?,
        access: DataAccess::from_byte(r.byte()?).ok_or_else(|| damaged("routine"))?,
        comment: r.text()?.into(),
        settings: ProgramSettings::read(&mut r)?,
        created_micros: r.int()? as i64,
        altered_micros: r.int()? as i64,
    };
    r.end()?;
    Ok(def)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routine() -> RoutineDef {
        RoutineDef {
            kind: RoutineKind::Function,
            schema: "d".into(),
            name: "F``1".into(),
            parameters: "a INT, b VARCHAR(10)".into(),
            returns: "int".into(),
            body: "RETURN a".into(),
            deterministic: true,
            access: DataAccess::NoSql,
            comment: "it's".into(),
            settings: ProgramSettings {
                definer: ("u".into(), "%".into()),
                invoker: true,
                sql_mode: "ANSI_QUOTES".into(),
                charset_client: "utf8mb4".into(),
                collation_connection: "utf8mb4_0900_ai_ci".into(),
                database_collation: "latin1_swedish_ci".into(),
            },
            created_micros: 1,
            altered_micros: -2,
        }
    }

    #[test]
    fn a_routine_is_read_as_it_was_written() {
        let def = routine();
        let bytes = value(&def);
        assert_eq!(read(&bytes).unwrap(), def);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "cut off at {end}");
        }
    }

    #[test]
    fn the_text_is_that_of_show_create() {
        let text = "CREATE DEFINER=`u`@`%` FUNCTION `F````1`(a INT, b VARCHAR(10)) RETURNS int\n    NO SQL\n    \
                    DETERMINISTIC\n    SQL SECURITY INVOKER\n    COMMENT 'it\\'s'\nRETURN a";
        let mut def = routine();
        def.settings.sql_mode = "NO_ZERO_DATE".into();
        assert_eq!(def.create_text(None), text);
        def.settings.sql_mode = "PIPES_AS_CONCAT,ANSI_QUOTES".into();
        let begin = "CREATE DEFINER=\"u\"@\"%\" FUNCTION \"F``1\"(a INT";
        assert!(def.create_text(None).starts_with(begin));
        let plain = "CREATE FUNCTION `F````1`(a INT, b VARCHAR(10)) RETURNS int\nRETURN a";
        assert_eq!(def.plain_text(), plain);
        assert_eq!(
            routine().key(),
            RoutineKey::new(RoutineKind::Function, "f``1")
        );
    }
}
