//! UPDATE of the tables of `performance_schema` that say what is collected. Programs switch instruments and consumers
//! on before they read them; here nothing can be switched, so the rows are found, none is changed, and a note says so.
//!
//! Neighbours: `run` asks for every UPDATE that it has no plan for, `lookup` when one is prepared; `infoschema`
//! computes the tables.
//! **Invariant**: what the tables show afterwards is what they showed before.

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{InfoText, OkInfo};
use esker_sql_syntax::ast::{
    BinaryOp, Call, ColumnRef, Expr, Ident, Literal, NamedTable, Query, TableRef, Update,
};
use esker_types::{Level, SqlError, Value, errors};

use super::run::Done;
use super::{Session, SessionContext};

const UPDATE: Privileges = Privileges::of(&["UPDATE"]);

/// The tables with switches, and the columns that are some.
const SWITCHES: [(&str, [&str; 2]); 6] = [
    ("setup_actors", ["ENABLED", "HISTORY"]),
    ("setup_consumers", ["ENABLED", "ENABLED"]),
    ("setup_instruments", ["ENABLED", "TIMED"]),
    ("setup_objects", ["ENABLED", "TIMED"]),
    ("setup_threads", ["ENABLED", "HISTORY"]),
    ("threads", ["INSTRUMENTED", "HISTORY"]),
];

impl Session {
    /// UPDATE of such a table.
    pub(super) fn switch(
        &mut self,
        table: &NamedTable,
        update: &Update,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let name = &table.name.name;
        let have = self
            .context
            .access
            .on_table("performance_schema", &name.text);
        if !have.meets(UPDATE) {
            return Err(self.context.denied("UPDATE", &name.text).into());
        }
        let switches = SWITCHES.iter().find(|(known, _)| name.is(known));
        let mut others = Vec::new();
        for assignment in &update.assignments {
            let column = &assignment.column;
            if !switches.is_some_and(|(_, all)| all.iter().any(|s| column.name.is(s))) {
                return Err(errors::invalid_performance_schema_usage().into());
            }
            others.push(differs(column, &assignment.value));
        }
        self.check_values(table, update, params)?;
        let matched = self.count_met(table, update.filter.clone(), params)?;
        let mut both = vec![Expr::Or(others)];
        both.extend(update.filter.clone());
        if self.count_met(table, Some(Expr::And(both)), params)? > 0 {
            let note = SqlError::not_supported("switching instruments and consumers");
            self.warn(Level::Note, note.code, note.message);
        }
        let found_rows = self.client.found_rows;
        Ok(Done::Ok(
            OkInfo {
                affected_rows: if found_rows { matched } else { 0 },
                info: InfoText::counts(&[
                    ("Rows matched: ", matched),
                    ("  Changed: ", 0),
                    ("  Warnings: ", 0),
                ]),
                ..OkInfo::default()
            },
            0,
        ))
    }

    /// Refuses values that some row which is found would get, and that are none of an `ENUM('YES','NO')`.
    ///
    /// # Errors
    /// 1265.
    fn check_values(
        &mut self,
        table: &NamedTable,
        update: &Update,
        params: &[Value],
    ) -> Result<(), ExecError> {
        for assignment in &update.assignments {
            let mut both = vec![is_no_switch(&assignment.value)];
            both.extend(update.filter.clone());
            if self.count_met(table, Some(Expr::And(both)), params)? > 0 {
                return Err(errors::data_truncated(&assignment.column.name.text, 1).into());
            }
        }
        Ok(())
    }

    /// How many rows of the table meet a condition.
    fn count_met(
        &mut self,
        table: &NamedTable,
        filter: Option<Expr>,
        params: &[Value],
    ) -> Result<u64, ExecError> {
        let call = Call {
            star: true,
            ..Call::plain(Ident::new("COUNT"), Vec::new())
        };
        let from = vec![TableRef::Table(Box::new(table.clone()))];
        let query = Query::of_item_from(Expr::Call(Box::new(call)), from, filter);
        let (value, _) = self.evaluate(&Expr::Subquery(Box::new(query)), params)?;
        Ok(match value {
            Value::Int(count) => count.unsigned_abs(),
            _ => 0,
        })
    }
}

impl SessionContext {
    /// The table of `performance_schema` that the statement changes, if it is one with switches.
    pub(super) fn switched_table<'a>(&self, update: &'a Update) -> Option<&'a NamedTable> {
        let [TableRef::Table(table)] = update.tables.as_slice() else {
            return None;
        };
        let schema = table.name.schema.as_ref().map(|schema| &*schema.text);
        let current = || self.database.as_deref();
        schema
            .or_else(current)
            .is_some_and(|s| s.eq_ignore_ascii_case("performance_schema"))
            .then_some(&**table)
            .filter(|table| SWITCHES.iter().any(|(name, _)| table.name.name.is(name)))
    }
}

/// `NOT column <=> value`.
fn differs(column: &ColumnRef, value: &Expr) -> Expr {
    Expr::Not(Box::new(Expr::Binary {
        op: BinaryOp::NullSafeEq,
        left: Box::new(Expr::Column(column.clone())),
        right: Box::new(value.clone()),
    }))
}

/// `value NOT IN ('YES', 'NO')`.
fn is_no_switch(value: &Expr) -> Expr {
    let text = |text: &str| {
        Expr::Literal(Literal::Str {
            bytes: text.as_bytes().to_vec(),
            charset: None,
        })
    };
    Expr::InList {
        expr: Box::new(value.clone()),
        list: vec![text("YES"), text("NO")],
        negated: true,
    }
}
