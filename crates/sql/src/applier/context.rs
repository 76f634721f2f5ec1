//! What a statement of another server depends on, as SET statements for the session that runs it.
//!
//! Neighbours: `worker` runs them before the statement, and gives the session its clock. **Invariants**: every setting
//! that statements can change is set, so nothing is left over from the statement before; values that this server does
//! not have are left out.

use std::fmt::Write;

use esker_binlog::apply::PartKind;
use esker_binlog::attachment::is_mariadb;
use esker_binlog::event::query::{self, Settings};
use esker_binlog::event::variables::{UserValue, Variable};
use esker_types::collation::{Charset, Collation};
use esker_types::func::LOCALES;
use esker_types::hex::lower_hex;
use esker_types::{SqlError, SqlMode, SqlResult, errors};

use crate::ddl::maria_collations::nearest_of_uca;

/// auto_increment_increment and auto_increment_offset where the event does not say.
const DEFAULT_STEP: (u16, u16) = (1, 1);

/// What decides whether new tables need a primary key (`REQUIRE_TABLE_PRIMARY_KEY_CHECK`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyCheck {
    /// What the source said.
    #[default]
    Stream,
    /// They do.
    On,
    /// They do not.
    Off,
    /// They are given one.
    Generate,
}

impl KeyCheck {
    const NAMES: [(Self, &str); 4] = [
        (Self::Stream, "STREAM"),
        (Self::On, "ON"),
        (Self::Off, "OFF"),
        (Self::Generate, "GENERATE"),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(check, _)| *check == self);
        found.map_or("STREAM", |(_, name)| name)
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        let mut all = Self::NAMES.iter();
        let found = all.find(|(_, known)| known.eq_ignore_ascii_case(name));
        found.map(|(check, _)| *check)
    }
}

/// The settings of a statement.
pub fn set_statement(settings: &Settings, key_check: KeyCheck) -> String {
    let flags = settings.flags2.unwrap_or(0);
    let is_on = |off: u32| u8::from(flags & off == 0);
    let sql_mode = SqlMode::known(settings.sql_mode.unwrap_or(SqlMode::DEFAULT.0)).0;
    let (increment, offset) = settings.auto_increment.unwrap_or(DEFAULT_STEP);
    let mut sql = format!(
        "SET sql_mode = {sql_mode}, foreign_key_checks = {}, unique_checks = {}, sql_auto_is_null = {}, \
         auto_increment_increment = {increment}, auto_increment_offset = {offset}",
        is_on(query::NO_FOREIGN_KEY_CHECKS),
        is_on(query::RELAXED_UNIQUE_CHECKS),
        u8::from(flags & query::AUTO_IS_NULL != 0),
    );
    if let Some((client, connection, server)) = settings.charset {
        let known = |id: u16| nearest(id).unwrap_or(Collation::UTF8MB4_0900_AI_CI);
        let put = &mut sql;
        // Writing into a String does not fail.
        let _ = write!(
            put,
            ", character_set_client = {}, collation_connection = {}, collation_server = {}",
            known(client).charset().name(),
            known(connection).name(),
            known(server).name(),
        );
    }
    // Servers that do not say had this one: MySQL before 8.0, MariaDB before 11.
    let utf8mb4 = settings.utf8mb4_collation.and_then(Collation::by_id);
    let utf8mb4 = utf8mb4.unwrap_or(Collation::UTF8MB4_GENERAL_CI);
    let explicit = u8::from(settings.explicit_defaults.unwrap_or(true));
    let _ = write!(
        sql,
        ", default_collation_for_utf8mb4 = {}, explicit_defaults_for_timestamp = {explicit}",
        utf8mb4.name(),
    );
    let requires_key = match key_check {
        KeyCheck::Stream => settings.require_primary_key.unwrap_or(false),
        check => check == KeyCheck::On,
    };
    let _ = write!(
        sql,
        ", sql_require_primary_key = {}, sql_generate_invisible_primary_key = {}",
        u8::from(requires_key),
        u8::from(key_check == KeyCheck::Generate),
    );
    let zone = settings.time_zone.as_deref().unwrap_or("SYSTEM");
    let _ = write!(sql, ", time_zone = '{}'", zone.replace(['\'', '\\'], ""));
    let locale = usize::from(settings.lc_time_names.unwrap_or(0));
    let locale = LOCALES.get(locale).unwrap_or(&LOCALES[0]);
    let _ = write!(sql, ", lc_time_names = '{locale}'");
    sql
}

/// `sql_mode` of a source of this version, in our bits.
///
/// # Errors
/// 1235: a mode of MariaDB by which statements mean something else here.
pub(super) fn own_mode(bits: u64, version: u32) -> SqlResult<u64> {
    const FOREIGN: [(u64, &str); 3] = [
        (1 << 9, "ORACLE"),
        (1 << 32, "EMPTY_STRING_IS_NULL"),
        (1 << 33, "SIMULTANEOUS_ASSIGNMENT"),
    ];
    const TIME_ROUND_FRACTIONAL: u64 = 1 << 34;
    if !is_mariadb(version) {
        return Ok(bits);
    }
    if let Some((_, name)) = FOREIGN.iter().find(|(bit, _)| bits & bit != 0) {
        let what = format!("statements with sql_mode {name}");
        return Err(SqlError::not_supported(what));
    }
    // MariaDB cuts fractions unless it is told to round them.
    let cuts = match bits & TIME_ROUND_FRACTIONAL {
        0 => SqlMode::TIME_TRUNCATE_FRACTIONAL.0,
        _ => 0,
    };
    Ok(bits & u64::from(u32::MAX) | cuts)
}

/// A collation, or what comes nearest of those that only MariaDB has: `…_nopad_…` are 1024 above their own, and from
/// 2048 on stand those of UCA 14, by character set (utf8mb3, utf8mb4), language, and what they tell apart: trailing
/// spaces, accents, cases.
fn nearest(id: u16) -> Option<Collation> {
    const NOPAD: std::ops::Range<u16> = 1024..2048;
    const UCA_1400: std::ops::Range<u16> = 2048..2560;
    if NOPAD.contains(&id) {
        return Collation::by_id(id - NOPAD.start);
    }
    if !UCA_1400.contains(&id) {
        return Collation::by_id(id);
    }
    let [by_space, by_accent, by_case] = [4, 2, 1].map(|bit| id & bit != 0);
    Collation::by_name(nearest_of_uca(by_space, by_accent, by_case))
}

/// What an event in front of a statement sets for it.
///
/// # Errors
/// 1610: the event is damaged; 1273: a collation that this server does not have.
pub(super) fn set_variable(kind: PartKind, body: &[u8]) -> SqlResult<Vec<u8>> {
    let variable = match kind {
        PartKind::IntVar => Variable::int(body),
        PartKind::Rand => Variable::seeds(body),
        _ => Variable::user(body),
    };
    let sql = match variable.map_err(errors::corrupt_event)? {
        Variable::LastInsertId(id) => format!("SET last_insert_id = {id}"),
        Variable::InsertId(id) => format!("SET insert_id = {id}"),
        Variable::Seeds(one, two) => format!("SET rand_seed1 = {one}, rand_seed2 = {two}"),
        Variable::User(name, value) => {
            let mut sql = b"SET @`".to_vec();
            let doubled = |byte: &u8| std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'`'));
            sql.extend(name.iter().flat_map(doubled));
            sql.extend_from_slice(b"` = ");
            sql.extend_from_slice(literal(&value)?.as_bytes());
            return Ok(sql);
        }
    };
    Ok(sql.into_bytes())
}

/// A value as a literal of its type.
fn literal(value: &UserValue<'_>) -> SqlResult<String> {
    Ok(match value {
        UserValue::Null => "NULL".to_owned(),
        UserValue::Int(number) => number.to_string(),
        UserValue::UInt(number) => number.to_string(),
        // With an exponent it is a floating-point number.
        UserValue::Double(number) => format!("{number:e}"),
        UserValue::Decimal(number) => number.to_string(),
        UserValue::Text(text, collation) => {
            let known = u16::try_from(*collation).ok().and_then(nearest);
            let known = known.ok_or_else(|| errors::unknown_collation(format!("#{collation}")))?;
            let mut sql = match known.charset() {
                Charset::Binary => "X'".to_owned(),
                charset => format!("_{} X'", charset.name()),
            };
            sql.push_str(&lower_hex(text));
            sql.push('\'');
            if known.charset() != Charset::Binary {
                sql.push_str(" COLLATE ");
                sql.push_str(known.name());
            }
            sql
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_statement_are_set_and_others_are_as_usual() {
        let settings = Settings {
            flags2: Some(query::NO_FOREIGN_KEY_CHECKS | query::AUTO_IS_NULL),
            sql_mode: Some(SqlMode::ANSI_QUOTES.0 | 1 << 28),
            charset: Some((8, 8, 9999)),
            time_zone: Some("+02:00".to_owned()),
            lc_time_names: Some(4),
            require_primary_key: Some(true),
            ..Settings::default()
        };
        let set = set_statement(&settings, KeyCheck::Stream);
        for part in [
            "sql_mode = 4,",
            "foreign_key_checks = 0",
            "unique_checks = 1",
            "sql_auto_is_null = 1",
            "character_set_client = latin1",
            "collation_server = utf8mb4_0900_ai_ci",
            "time_zone = '+02:00'",
            "lc_time_names = 'de_DE'",
            "default_collation_for_utf8mb4 = utf8mb4_general_ci",
            "explicit_defaults_for_timestamp = 1",
            "sql_require_primary_key = 1, sql_generate_invisible_primary_key = 0",
        ] {
            assert!(set.contains(part), "{part} in {set}");
        }
        let usual = set_statement(&Settings::default(), KeyCheck::default());
        assert!(usual.contains("time_zone = 'SYSTEM'") && !usual.contains("collation_server"));
        assert!(usual.contains("lc_time_names = 'en_US'"));
        for (check, required, generated) in [
            (KeyCheck::On, 1, 0),
            (KeyCheck::Off, 0, 0),
            (KeyCheck::Generate, 0, 1),
        ] {
            let part = format!(
                "sql_require_primary_key = {required}, sql_generate_invisible_primary_key = {generated}"
            );
            assert!(set_statement(&settings, check).contains(&part));
            assert_eq!(KeyCheck::by_name(&check.name().to_lowercase()), Some(check));
        }
    }

    #[test]
    fn modes_of_mariadb_are_ours_or_refused() {
        let (ansi, cut) = (SqlMode::ANSI_QUOTES.0, SqlMode::TIME_TRUNCATE_FRACTIONAL.0);
        assert_eq!(own_mode(ansi | cut, 80_403), Ok(ansi | cut));
        assert_eq!(own_mode(ansi, 101_119), Ok(ansi | cut));
        assert_eq!(own_mode(ansi | 1 << 34, 110_809), Ok(ansi));
        for bit in [9, 32, 33] {
            let code = own_mode(1 << bit, 110_809).map_err(|e| e.code);
            assert_eq!(code, Err(1235));
        }
    }

    #[test]
    fn collations_of_mariadb_become_the_nearest() {
        let name = |id| nearest(id).map_or("none", |collation| collation.name());
        let expected = [
            (45, "utf8mb4_general_ci"),
            // latin1_swedish_nopad_ci
            (1032, "latin1_swedish_ci"),
            // utf8mb4_uca1400_ai_ci, _nopad_ai_ci, _as_ci, _as_cs; utf8mb3_uca1400_ai_ci
            (2304, "utf8mb4_unicode_520_ci"),
            (2308, "utf8mb4_0900_ai_ci"),
            (2306, "utf8mb4_0900_as_ci"),
            (2307, "utf8mb4_0900_as_cs"),
            (2048, "utf8mb4_unicode_520_ci"),
            (9999, "none"),
        ];
        for (id, expected) in expected {
            assert_eq!(name(id), expected, "{id}");
        }
    }

    #[test]
    fn variables_are_literals_of_their_types() {
        let is = |value: &UserValue<'_>, text: &str| {
            assert_eq!(literal(value).expect("literal"), text);
        };
        is(
            &UserValue::Text(b"a'", 8),
            "_latin1 X'6127' COLLATE latin1_swedish_ci",
        );
        is(&UserValue::Text(&[0, 0xff], 63), "X'00ff'");
        is(&UserValue::Double(12.5), "1.25e1");
        is(&UserValue::Int(i64::MIN), "-9223372036854775808");
        assert_eq!(
            literal(&UserValue::Text(b"", 60_000)).map_err(|e| e.code),
            Err(1273)
        );
        let mut body = 2u32.to_le_bytes().to_vec();
        body.extend_from_slice(b"a`\x01");
        let set = set_variable(PartKind::UserVar, &body).expect("set");
        assert_eq!(set, b"SET @`a``` = NULL");
        assert!(set_variable(PartKind::IntVar, &[9]).is_err());
    }
}
