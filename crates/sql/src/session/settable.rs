//! Variables that a transaction, a stored function or a trigger must not change: what they say of a transaction in the
//! binary log holds for all of it.
//!
//! Neighbours: [`super::set`] asks for every variable, behind the privileges; `temporary` knows the session's tables.
//! **Invariants**: a decision is made before anything is set.

use esker_types::{SqlError, SqlResult};

use super::Session;

/// What a variable refuses inside a transaction, and inside a function or trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refuses {
    Nothing,
    /// 1766.
    InTransaction,
    /// 1766, 1765.
    InBoth,
    /// Errors of its own: in a function or trigger, and in a transaction.
    AsItself([(u16, &'static str); 2]),
}

impl Refuses {
    fn of(name: &str, is_global: bool) -> Self {
        match (name, is_global) {
            ("binlog_format", false) => Self::AsItself([
                (
                    1560,
                    "Cannot change the binary logging format inside a stored function or trigger",
                ),
                (
                    1679,
                    "Cannot modify @@session.binlog_format inside a transaction",
                ),
            ]),
            ("binlog_direct_non_transactional_updates", false) => Self::AsItself([
                (
                    1686,
                    "Cannot change the binlog direct flag inside a stored function or trigger",
                ),
                (
                    1685,
                    "Cannot modify @@session.binlog_direct_non_transactional_updates inside a transaction",
                ),
            ]),
            ("sql_log_bin", false) => Self::AsItself([
                (
                    1695,
                    "Cannot change the sql_log_bin inside a stored function or trigger",
                ),
                (
                    1694,
                    "Cannot modify @@session.sql_log_bin inside a transaction",
                ),
            ]),
            ("gtid_next", false)
            | ("enforce_gtid_consistency" | "gtid_mode" | "gtid_purged" | "gtid_slave_pos", true)
            | ("binlog_row_value_options" | "xa_detach_on_prepare", _) => Self::InBoth,
            (
                "binlog_transaction_compression"
                | "binlog_transaction_compression_level_zstd"
                | "pseudo_replica_mode"
                | "pseudo_slave_mode",
                false,
            )
            | ("binlog_checksum", true)
            | ("session_track_gtids", _) => Self::InTransaction,
            _ => Self::Nothing,
        }
    }
}

impl Session {
    /// May the variable be set where the session is?
    ///
    /// # Errors
    /// 1765, 1766 and those of its own: in a function or trigger, or in a transaction. 3745: temporary tables.
    pub(super) fn admit_setting_here(&self, name: &str, is_global: bool) -> SqlResult<()> {
        if name == "binlog_format" && !is_global {
            self.context.admit_binlog_format()?;
        }
        let is_within = self.is_firing();
        let is_open = self.shows_transaction();
        let refused = |code: u16, text: &str| Err(SqlError::new(code, "HY000", text));
        match Refuses::of(name, is_global) {
            Refuses::AsItself([(code, text), _]) if is_within => refused(code, text),
            Refuses::AsItself([_, (code, text)]) if is_open => refused(code, text),
            Refuses::InBoth if is_within => {
                let text = format!(
                    "The system variable {name} cannot be set in stored functions or triggers."
                );
                refused(1765, &text)
            }
            Refuses::InTransaction | Refuses::InBoth if is_open => {
                let text = format!(
                    "The system variable {name} cannot be set when there is an ongoing transaction."
                );
                refused(1766, &text)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn global_values_are_for_other_transactions() {
        for name in [
            "binlog_format",
            "sql_log_bin",
            "binlog_transaction_compression",
        ] {
            assert_ne!(Refuses::of(name, false), Refuses::Nothing, "{name}");
            assert_eq!(Refuses::of(name, true), Refuses::Nothing, "{name}");
        }
        assert_eq!(Refuses::of("sql_mode", false), Refuses::Nothing);
    }
}
