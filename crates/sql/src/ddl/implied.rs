//! What a definition leaves to settings of its session, written out.
//!
//! Two settings change what the same words mean: `default_collation_for_utf8mb4` and
//! `explicit_defaults_for_timestamp`. Statements of other servers come with theirs. To MariaDB, the name behind FOREIGN
//! KEY is that of the constraint; to it and to MySQL 9, REFERENCES of a column is a foreign key; and it has collations
//! of its own (`maria_collations`). Neighbours: `session::schema` calls
//! [`written_out`] before a definition runs; the binary log has the words of the client, and the settings beside them.
//! **Invariant**: with the usual settings nothing changes but that REFERENCES of columns are left out, and nothing is
//! copied where there are none.

use esker_sql_syntax::ast::{
    AlterAction, ColumnDef, ColumnDefault, DataType, DatabaseOption, Expr, ForeignKey, Literal,
    Statement, TableOption, TypeName,
};
use esker_types::collation::Collation;

use super::maria_collations;

/// The character set whose default collation is a setting.
const UTF8MB4: &str = "utf8mb4";
/// What a TIMESTAMP is that has no other default, unless defaults are explicit.
const ZERO: &[u8] = b"0000-00-00 00:00:00";

/// The settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Implied {
    /// default_collation_for_utf8mb4.
    pub utf8mb4: Collation,
    /// explicit_defaults_for_timestamp.
    pub explicit_defaults: bool,
    /// The statement is MariaDB's.
    pub is_mariadbs: bool,
    /// REFERENCES of a column is a foreign key, if it names columns.
    pub has_inline_keys: bool,
}

impl Implied {
    /// Those of a client that has set nothing.
    pub const USUAL: Self = Self {
        utf8mb4: Collation::UTF8MB4_0900_AI_CI,
        explicit_defaults: true,
        is_mariadbs: false,
        has_inline_keys: false,
    };
}

/// The statement in words that mean with the usual settings what its own mean with these; `None`: its own do, or it
/// defines nothing.
pub fn written_out(statement: &Statement, settings: Implied) -> Option<Statement> {
    if settings == Implied::USUAL && !has_inline_keys(statement) {
        return None;
    }
    let mut statement = statement.clone();
    match &mut statement {
        Statement::CreateTable(create) => {
            settings.columns(&mut create.columns.iter_mut().collect::<Vec<_>>());
            settings.table_options(&mut create.options);
            create.foreign_keys.retain(|key| settings.counts(key));
            create
                .foreign_keys
                .iter_mut()
                .for_each(|key| settings.name_foreign_key(key));
        }
        Statement::AlterTable(alter) => {
            let mut columns: Vec<_> = alter.actions.iter_mut().filter_map(column_of).collect();
            settings.columns(&mut columns);
            settings.alter_options(&mut alter.actions);
            alter
                .actions
                .retain_mut(|action| match foreign_key_of(action) {
                    Some(key) => settings.counts(key),
                    None => true,
                });
            let keys = alter.actions.iter_mut().filter_map(foreign_key_of);
            keys.for_each(|key| settings.name_foreign_key(key));
        }
        Statement::CreateDatabase { options, .. } | Statement::AlterDatabase { options, .. } => {
            settings.database_options(options);
        }
        _ => return None,
    }
    Some(statement)
}

/// The column that an action defines.
fn column_of(action: &mut AlterAction) -> Option<&mut ColumnDef> {
    match action {
        AlterAction::AddColumn { def, .. }
        | AlterAction::ModifyColumn { def, .. }
        | AlterAction::ChangeColumn { def, .. } => Some(def),
        AlterAction::Conditional(action) => column_of(action),
        _ => None,
    }
}

/// Does a column of the statement have REFERENCES?
fn has_inline_keys(statement: &Statement) -> bool {
    match statement {
        Statement::CreateTable(create) => create.foreign_keys.iter().any(|key| key.is_inline),
        Statement::AlterTable(alter) => alter
            .actions
            .iter()
            .any(|action| matches!(action, AlterAction::AddForeignKey(key) if key.is_inline)),
        _ => false,
    }
}

/// The foreign key that an action adds.
fn foreign_key_of(action: &mut AlterAction) -> Option<&mut ForeignKey> {
    match action {
        AlterAction::AddForeignKey(key) => Some(key),
        AlterAction::Conditional(action) => foreign_key_of(action),
        _ => None,
    }
}

impl Implied {
    fn counts(self, key: &ForeignKey) -> bool {
        !key.is_inline || (self.has_inline_keys && !key.ref_columns.is_empty())
    }

    fn name_foreign_key(self, key: &mut ForeignKey) {
        if self.is_mariadbs && key.name.is_none() {
            key.name.clone_from(&key.index);
        }
    }

    fn collation(self) -> Box<str> {
        self.utf8mb4.name().into()
    }

    fn columns(self, columns: &mut [&mut ColumnDef]) {
        for column in columns.iter_mut() {
            self.type_collation(&mut column.ty);
        }
        if self.explicit_defaults {
            return;
        }
        let timestamps = columns
            .iter_mut()
            .filter(|column| column.ty.name == TypeName::Timestamp);
        for (nth, column) in timestamps.enumerate() {
            implied_timestamp(column, nth == 0);
        }
    }

    /// A collation that only MariaDB has becomes the nearest one.
    fn own_collation(self, name: &mut Box<str>) {
        if self.is_mariadbs
            && let Some(own) = maria_collations::nearest(name)
        {
            *name = own;
        }
    }

    fn type_collation(self, ty: &mut DataType) {
        if let Some(name) = &mut ty.collation {
            self.own_collation(name);
        }
        let is_open = ty.collation.is_none() && !ty.binary;
        if is_open && ty.charset.as_deref() == Some(UTF8MB4) {
            ty.collation = Some(self.collation());
        }
    }

    fn table_options(self, options: &mut Vec<TableOption>) {
        for option in options.iter_mut() {
            if let TableOption::Collate(name) = option {
                self.own_collation(name);
            }
        }
        let is_named = options.iter().any(|o| matches!(o, TableOption::Collate(_)));
        let is_utf8mb4 =
            |o: &TableOption| matches!(o, TableOption::Charset(name) if &**name == UTF8MB4);
        if !is_named && options.iter().any(is_utf8mb4) {
            options.push(TableOption::Collate(self.collation()));
        }
    }

    fn alter_options(self, actions: &mut Vec<AlterAction>) {
        let is_named = |a: &AlterAction| matches!(a, AlterAction::Option(TableOption::Collate(_)));
        let is_utf8mb4 = |a: &AlterAction| matches!(a, AlterAction::Option(TableOption::Charset(name)) if &**name == UTF8MB4);
        if actions.iter().any(is_utf8mb4) && !actions.iter().any(is_named) {
            actions.push(AlterAction::Option(TableOption::Collate(self.collation())));
        }
        for action in actions {
            match action {
                AlterAction::Option(TableOption::Collate(name))
                | AlterAction::ConvertCharset {
                    collation: Some(name),
                    ..
                } => self.own_collation(name),
                _ => {}
            }
            if let AlterAction::ConvertCharset { charset, collation } = action
                && &**charset == UTF8MB4
            {
                collation.get_or_insert_with(|| self.collation());
            }
        }
    }

    fn database_options(self, options: &mut Vec<DatabaseOption>) {
        for option in options.iter_mut() {
            if let DatabaseOption::Collate(name) = option {
                self.own_collation(name);
            }
        }
        let is_named = |o: &DatabaseOption| matches!(o, DatabaseOption::Collate(_));
        let is_utf8mb4 =
            |o: &DatabaseOption| matches!(o, DatabaseOption::Charset(name) if &**name == UTF8MB4);
        if options.iter().any(is_utf8mb4) && !options.iter().any(is_named) {
            options.push(DatabaseOption::Collate(self.collation()));
        }
    }
}

/// Without explicit defaults a TIMESTAMP that does not say NULL is NOT NULL. The first one of a statement that says
/// nothing more has the time of the row's last change, the others zero.
fn implied_timestamp(column: &mut ColumnDef, is_first: bool) {
    if column.not_null == Some(false) || column.generated.is_some() {
        return;
    }
    column.not_null = Some(true);
    if column.default.is_some() || column.on_update_now.is_some() {
        return;
    }
    if is_first {
        let fsp = column.ty.length.unwrap_or(0) as u8;
        column.default = Some(ColumnDefault::Now(fsp));
        column.on_update_now = Some(fsp);
    } else {
        let zero = Expr::Literal(Literal::Str {
            bytes: ZERO.to_vec(),
            charset: None,
        });
        column.default = Some(ColumnDefault::Literal(zero));
    }
}

#[cfg(test)]
mod tests {
    use esker_sql_syntax::{ParseOptions, parse};

    use super::*;

    fn parsed(sql: &str) -> Statement {
        parse(sql.as_bytes(), ParseOptions::default())
            .expect("a statement")
            .stmt
    }

    #[track_caller]
    fn means(sql: &str, settings: Implied, other: &str) {
        assert_eq!(written_out(&parsed(sql), settings), Some(parsed(other)));
    }

    #[test]
    fn utf8mb4_has_the_collation_of_the_setting_unless_one_is_named() {
        let settings = Implied {
            utf8mb4: Collation::UTF8MB4_GENERAL_CI,
            ..Implied::USUAL
        };
        means(
            "CREATE TABLE t (a VARCHAR(9) CHARACTER SET utf8mb4, b CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, \
             c TEXT CHARACTER SET latin1, d TEXT) DEFAULT CHARSET = utf8mb4",
            settings,
            "CREATE TABLE t (a VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, \
             b CHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, c TEXT CHARACTER SET latin1, d TEXT) \
             DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci",
        );
        means(
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, ADD e TEXT CHARACTER SET utf8mb4",
            settings,
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, \
             ADD e TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        );
        means(
            "CREATE DATABASE d CHARACTER SET utf8mb4",
            settings,
            "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        );
        assert_eq!(
            written_out(&parsed("CREATE TABLE t (a INT)"), Implied::USUAL),
            None
        );
    }

    #[test]
    fn collations_of_mariadb_become_the_nearest_ones() {
        let settings = Implied {
            is_mariadbs: true,
            ..Implied::USUAL
        };
        means(
            "CREATE TABLE t (a TEXT COLLATE utf8mb4_uca1400_ai_ci, b TEXT COLLATE utf8mb4_bin) COLLATE utf8mb4_nopad_bin",
            settings,
            "CREATE TABLE t (a TEXT COLLATE utf8mb4_unicode_520_ci, b TEXT COLLATE utf8mb4_bin) COLLATE utf8mb4_bin",
        );
        means(
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE uca1400_as_cs, COLLATE utf8mb4_uca1400_ai_ci, \
             MODIFY COLUMN IF EXISTS a TEXT COLLATE utf8mb3_uca1400_ai_ci",
            settings,
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs, \
             COLLATE utf8mb4_unicode_520_ci, MODIFY COLUMN IF EXISTS a TEXT COLLATE utf8mb3_unicode_520_ci",
        );
        means(
            "CREATE DATABASE d COLLATE utf8mb4_uca1400_ai_ci",
            settings,
            "CREATE DATABASE d COLLATE utf8mb4_unicode_520_ci",
        );
    }

    #[test]
    fn references_of_columns_are_foreign_keys_where_they_are_to_the_source() {
        let create =
            "CREATE TABLE t (a INT REFERENCES p (id) ON DELETE CASCADE, b INT REFERENCES p)";
        let add = "ALTER TABLE t ADD c INT REFERENCES p (id), ADD (d INT REFERENCES p (id), e INT)";
        let usual = Implied::USUAL;
        means(create, usual, "CREATE TABLE t (a INT, b INT)");
        means(add, usual, "ALTER TABLE t ADD c INT, ADD (d INT, e INT)");
        let settings = Implied {
            has_inline_keys: true,
            ..usual
        };
        let columns = |sql: &str| -> Vec<String> {
            let mut written = written_out(&parsed(sql), settings).expect("a definition");
            let keys: Vec<&mut ForeignKey> = match &mut written {
                Statement::CreateTable(create) => create.foreign_keys.iter_mut().collect(),
                Statement::AlterTable(alter) => alter
                    .actions
                    .iter_mut()
                    .filter_map(foreign_key_of)
                    .collect(),
                other => panic!("{other:?}"),
            };
            let first = |key: &mut ForeignKey| key.columns[0].0.text.to_string();
            keys.into_iter().map(first).collect()
        };
        assert_eq!(columns(create), ["a"]);
        assert_eq!(columns(add), ["c", "d"]);
    }

    #[test]
    fn mariadb_names_foreign_keys_by_what_stands_behind_them() {
        let settings = Implied {
            is_mariadbs: true,
            ..Implied::USUAL
        };
        let references = "REFERENCES p (id)";
        means(
            &format!(
                "CREATE TABLE t (a INT, FOREIGN KEY f (a) {references}, FOREIGN KEY (a) {references})"
            ),
            settings,
            &format!(
                "CREATE TABLE t (a INT, CONSTRAINT f FOREIGN KEY f (a) {references}, FOREIGN KEY (a) {references})"
            ),
        );
        means(
            &format!(
                "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY f (a) {references}, ADD FOREIGN KEY IF NOT EXISTS g (a) {references}"
            ),
            settings,
            &format!(
                "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY f (a) {references}, ADD CONSTRAINT g FOREIGN KEY IF NOT EXISTS g (a) {references}"
            ),
        );
    }

    #[test]
    fn timestamps_have_defaults_that_are_not_written() {
        let settings = Implied {
            explicit_defaults: false,
            ..Implied::USUAL
        };
        means(
            "CREATE TABLE t (a TIMESTAMP(3), b TIMESTAMP, c TIMESTAMP NULL, d TIMESTAMP DEFAULT '2020-01-01 00:00:00')",
            settings,
            "CREATE TABLE t (a TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), \
             b TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00', c TIMESTAMP NULL, \
             d TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00')",
        );
        means(
            "CREATE TABLE t (a TIMESTAMP NULL, b TIMESTAMP)",
            settings,
            "CREATE TABLE t (a TIMESTAMP NULL, b TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00')",
        );
    }
}
