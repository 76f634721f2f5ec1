//! What a statement changes, for filters: its tables, or the database that it is about.
//!
//! Neighbours: `feed` asks for groups with statements. **Invariant**: what cannot be read, or is about neither, touches
//! nothing that rules name: it is asked about by its default database alone.

use esker_binlog::apply::filter::Touched;
use esker_sql_syntax::ast::{ObjectName, Statement, TableRef};
use esker_sql_syntax::{self as parse, ParseOptions};

/// What a statement with this default database changes.
pub(super) fn touched(schema: &str, text: &[u8]) -> Touched {
    let Ok(parsed) = parse::parse(text, ParseOptions::default()) else {
        return Touched::default();
    };
    let named = |names: &[&ObjectName]| {
        let tables = names.iter().map(|name| {
            let database = name.schema.as_ref().map_or(schema, |s| &s.text);
            (database.to_owned(), name.name.text.to_string())
        });
        Touched {
            database: None,
            tables: tables.collect(),
        }
    };
    let about = |name: &str| Touched {
        database: Some(name.to_owned()),
        tables: Vec::new(),
    };
    match &parsed.stmt {
        Statement::CreateDatabase { name, .. } | Statement::DropDatabase { name, .. } => {
            about(&name.text)
        }
        Statement::AlterDatabase {
            name: Some(name), ..
        } => about(&name.text),
        Statement::CreateTable(create) => named(&[&create.name]),
        Statement::AlterTable(alter) => named(&[&alter.name]),
        Statement::DropTable(drop) | Statement::DropView(drop) => {
            named(&drop.names.iter().collect::<Vec<_>>())
        }
        Statement::Truncate { name, .. } => named(&[name]),
        Statement::RenameTable(rename) => named(
            &rename
                .pairs
                .iter()
                .map(|(from, _)| from)
                .collect::<Vec<_>>(),
        ),
        Statement::CreateIndex(create) => named(&[&create.table]),
        Statement::CreateView(create) => named(&[&create.name]),
        Statement::CreateTrigger(create) => named(&[&create.table]),
        Statement::Insert(insert) => named(&[&insert.table]),
        Statement::Update(update) => named(&tables_of(&update.tables)),
        Statement::Delete(delete) => named(&tables_of(&delete.from)),
        Statement::DropIndex(drop) => named(&[&drop.table]),
        _ => Touched::default(),
    }
}

/// The tables of a list, those of joins included.
fn tables_of(list: &[TableRef]) -> Vec<&ObjectName> {
    let mut names = Vec::new();
    let mut left: Vec<&TableRef> = list.iter().collect();
    while let Some(table) = left.pop() {
        match table {
            TableRef::Table(table) => names.push(&table.name),
            TableRef::Join(join) => left.extend([&join.left, &join.right]),
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_tables_or_databases() {
        let tables = |text: &str| {
            let touched = touched("d", text.as_bytes());
            let names = touched.tables.iter().map(|(d, t)| format!("{d}.{t}"));
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(tables("CREATE TABLE t (a INT)"), "d.t");
        assert_eq!(tables("DROP TABLE IF EXISTS x.t, u"), "x.t d.u");
        assert_eq!(tables("RENAME TABLE a TO b, c TO e.f"), "d.a d.c");
        assert_eq!(tables("CREATE INDEX i ON x.t (a)"), "x.t");
        assert_eq!(tables("INSERT INTO x.t VALUES (1)"), "x.t");
        assert_eq!(tables("REPLACE t SELECT * FROM u"), "d.t");
        assert_eq!(
            tables("UPDATE t JOIN x.u ON t.a = u.a SET t.b = 1"),
            "x.u d.t"
        );
        assert_eq!(tables("DELETE FROM t WHERE a = 1"), "d.t");
        assert_eq!(tables("CREATE VIEW w AS SELECT 1"), "d.w");
        assert_eq!(tables("FLUSH STATUS"), "");
        assert_eq!(tables("no statement"), "");
        let database = |text: &str| touched("d", text.as_bytes()).database;
        assert_eq!(database("CREATE DATABASE x").as_deref(), Some("x"));
        assert_eq!(database("TRUNCATE t"), None);
    }
}
