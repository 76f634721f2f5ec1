//! What a statement of another server depends on, as SET statements for the session that runs it.
//!
//! Neighbours: `worker` runs them before the statement. **Invariants**: every setting that statements can change is
//! set, so nothing is left over from the statement before; values that this server does not have are left out.

use std::fmt::Write;

use esker_binlog::event::query::{self, Query, Settings};
use esker_types::SqlMode;
use esker_types::collation::Collation;

/// auto_increment_increment and auto_increment_offset where the event does not say.
const DEFAULT_STEP: (u16, u16) = (1, 1);

/// The settings of a statement that began at `time`, seconds since the epoch.
pub(super) fn set_statement(query: &Query<'_>, time: u32) -> esker_binlog::Result<String> {
    let settings = Settings::parse(query.settings)?;
    let flags = settings.flags2.unwrap_or(0);
    let is_on = |off: u32| u8::from(flags & off == 0);
    let known = SqlMode::ALL.iter().fold(0, |all, (mode, _)| all | mode.0);
    let sql_mode = settings.sql_mode.unwrap_or(SqlMode::DEFAULT.0) & known;
    let (increment, offset) = settings.auto_increment.unwrap_or(DEFAULT_STEP);
    let mut sql = format!(
        "SET sql_mode = {sql_mode}, foreign_key_checks = {}, unique_checks = {}, \
         auto_increment_increment = {increment}, auto_increment_offset = {offset}, timestamp = {time}.{:06}",
        is_on(query::NO_FOREIGN_KEY_CHECKS),
        is_on(query::RELAXED_UNIQUE_CHECKS),
        settings.micros.unwrap_or(0),
    );
    if let Some((client, connection, server)) = settings.charset {
        let known = |id: u16| Collation::by_id(id).unwrap_or(Collation::UTF8MB4_0900_AI_CI);
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
    let zone = settings.time_zone.as_deref().unwrap_or("SYSTEM");
    let _ = write!(sql, ", time_zone = '{}'", zone.replace(['\'', '\\'], ""));
    Ok(sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_statement_are_set_and_others_are_as_usual() {
        let mut bytes = Vec::new();
        Settings {
            flags2: Some(query::NO_FOREIGN_KEY_CHECKS),
            sql_mode: Some(SqlMode::ANSI_QUOTES.0 | 1 << 28),
            charset: Some((8, 8, 9999)),
            time_zone: Some("+02:00".to_owned()),
            micros: Some(5),
            ..Settings::default()
        }
        .write(&mut bytes);
        let query = |settings| Query {
            thread_id: 1,
            seconds: 0,
            error: 0,
            schema: b"",
            settings,
            text: b"",
        };
        let set = set_statement(&query(&bytes), 7).expect("settings");
        for part in [
            "sql_mode = 4,",
            "foreign_key_checks = 0",
            "unique_checks = 1",
            "timestamp = 7.000005",
            "character_set_client = latin1",
            "collation_server = utf8mb4_0900_ai_ci",
            "time_zone = '+02:00'",
        ] {
            assert!(set.contains(part), "{part} in {set}");
        }
        let usual = set_statement(&query(&[]), 7).expect("settings");
        assert!(usual.contains("time_zone = 'SYSTEM'") && !usual.contains("collation_server"));
    }
}
