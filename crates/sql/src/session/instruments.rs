//! Changes of the tables of `performance_schema` that say what is collected.
//!
//! Role: UPDATE of their switches, INSERT into and DELETE from those that name accounts and objects. The tables are
//! computed, so the rows that are meant are read with a query, and the change is made where they come from.
//! Neighbours: `run` asks for every such statement, `lookup` when one is prepared; [`crate::instruments`] keeps the
//! rows.
//! **Invariant**: a value that is none of its column's changes nothing.

use esker_sql_catalog::accounts::Privileges;
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{InfoText, OkInfo};
use esker_sql_syntax::ast::{
    Call, Delete, Expr, Ident, Insert, InsertSource, Limit, Literal, NamedTable, ObjectName, Query,
    Statement, TableRef, Update,
};
use esker_types::{SqlError, SqlResult, Value, errors};

use super::run::Done;
use super::{Session, SessionContext};
use crate::instruments::{INSTRUMENTED, REMEMBERED, Refused, Row, SwitchTable, TABLES};

/// The threads, which the process list keeps.
static THREADS: SwitchTable = SwitchTable {
    name: "threads",
    keys: &["THREAD_ID"],
    switches: &["INSTRUMENTED", "HISTORY"],
    grows: false,
};
/// What `OBJECT_TYPE` may be.
const OBJECT_TYPES: [&str; 5] = ["EVENT", "FUNCTION", "PROCEDURE", "TABLE", "TRIGGER"];
/// Characters of a cell.
const MAX_CELL: usize = 255;
/// Between cells, and in place of NULL: characters that no name has.
const BETWEEN: char = '\u{1f}';
const NULL: &str = "\u{1e}";

/// A statement that changes what is collected, and the table it changes.
pub(super) struct Switching<'a> {
    statement: Change<'a>,
    name: &'a ObjectName,
    /// Its number in [`TABLES`]; None: the threads.
    table: Option<usize>,
}

enum Change<'a> {
    Update(&'a Update, &'a NamedTable),
    Delete(&'a Delete, &'a NamedTable),
    Insert(&'a Insert),
}

impl Switching<'_> {
    fn table(&self) -> &'static SwitchTable {
        self.table.map_or(&THREADS, |nth| &TABLES[nth])
    }

    /// The privilege it takes.
    fn command(&self) -> &'static str {
        match self.statement {
            Change::Update(..) => "UPDATE",
            Change::Delete(..) => "DELETE",
            Change::Insert(_) => "INSERT",
        }
    }
}

impl SessionContext {
    /// Does the statement change a table with switches?
    pub(super) fn switching<'a>(&self, statement: &'a Statement) -> Option<Switching<'a>> {
        let only = |tables: &'a [TableRef]| match tables {
            [TableRef::Table(table)] => Some(&**table),
            _ => None,
        };
        let (statement, name) = match statement {
            Statement::Update(update) => {
                let table = only(&update.tables)?;
                (Change::Update(update, table), &table.name)
            }
            Statement::Delete(delete) if delete.targets.is_empty() => {
                let table = only(&delete.from)?;
                (Change::Delete(delete, table), &table.name)
            }
            Statement::Insert(insert) => (Change::Insert(insert), &insert.table),
            _ => return None,
        };
        let schema = name.schema.as_ref().map(|schema| &*schema.text);
        let schema = schema.or(self.database.as_deref())?;
        let table = TABLES.iter().position(|table| name.name.is(table.name));
        let is_one = table.is_some() || name.name.is(THREADS.name);
        let is_it = is_one && schema.eq_ignore_ascii_case("performance_schema");
        is_it.then_some(Switching {
            statement,
            name,
            table,
        })
    }
}

impl Session {
    /// Runs such a statement.
    ///
    /// # Errors
    /// 1142, 1683, 1265, 1048, 1022, 1114; those of its expressions.
    pub(super) fn switch(
        &mut self,
        switching: &Switching<'_>,
        params: &[Value],
    ) -> Result<Done, ExecError> {
        let (table, command) = (switching.table(), switching.command());
        let shown = &switching.name.name.text;
        let have = self.context.access.on_table("performance_schema", shown);
        let is_possible = command == "UPDATE" || table.grows;
        if !is_possible || !have.meets(Privileges::of(&[command])) {
            return Err(self.context.denied(command, shown).into());
        }
        let (matched, changed) = match switching.statement {
            Change::Update(update, of) => self.switch_rows(switching, update, of, params)?,
            Change::Delete(delete, of) => self.forget_rows(switching, delete, of, params)?,
            Change::Insert(insert) => self.add_rows(switching, insert, params)?,
        };
        let counts: &[(&'static str, u64)] = match command {
            "UPDATE" => &[
                ("Rows matched: ", matched),
                ("  Changed: ", changed),
                ("  Warnings: ", 0),
            ],
            _ => &[],
        };
        let info = OkInfo {
            affected_rows: match self.client.found_rows {
                true => matched,
                false => changed,
            },
            info: InfoText::counts(counts),
            ..OkInfo::default()
        };
        Ok(Done::Ok(info, 0))
    }

    /// UPDATE: rows that it has found, and that it has changed.
    fn switch_rows(
        &mut self,
        switching: &Switching<'_>,
        update: &Update,
        of: &NamedTable,
        params: &[Value],
    ) -> Result<(u64, u64), ExecError> {
        let table = switching.table();
        let mut cells: Vec<Expr> = table.keys.iter().map(|key| column(key)).collect();
        for switch in table.switches {
            let assigned = update.assignments.iter().rev();
            let assigned = assigned.clone().find(|a| a.column.name.is(switch));
            cells.push(assigned.map_or_else(|| column(switch), |a| a.value.clone()));
        }
        let is_switch = |name: &Ident| table.switches.iter().any(|switch| name.is(switch));
        if !update.assignments.iter().all(|a| is_switch(&a.column.name)) {
            return Err(errors::invalid_performance_schema_usage().into());
        }
        let mut rows = self.rows_met(of, update.filter.clone(), cells, params)?;
        self.limit_rows(&mut rows, update.limit.as_ref(), params)?;
        for (nth, row) in rows.iter_mut().enumerate() {
            check_row(table, row, nth as u64 + 1)?;
        }
        let changed = match switching.table {
            Some(table) => self.context.instance.instruments.update(table, &rows),
            None => self.switch_threads(&rows),
        };
        if changed > 0 {
            self.context.instance.apply_switches();
        }
        Ok((rows.len() as u64, changed))
    }

    /// UPDATE of threads. How many have changed.
    fn switch_threads(&self, rows: &[Row]) -> u64 {
        let mut changed = 0;
        for row in rows {
            let id = row[0].parse().ok();
            let found = id.and_then(|id: u64| self.context.instance.registry.find(id).ok());
            if let Some(process) = found {
                let bit = |cell: usize, flag: u8| if row[cell] == "YES" { flag } else { 0 };
                let wanted = bit(1, INSTRUMENTED) | bit(2, REMEMBERED);
                changed += u64::from(process.set_measured(wanted) != wanted);
            }
        }
        changed
    }

    /// DELETE: rows that are gone, twice.
    fn forget_rows(
        &mut self,
        switching: &Switching<'_>,
        delete: &Delete,
        of: &NamedTable,
        params: &[Value],
    ) -> Result<(u64, u64), ExecError> {
        let table = switching.table();
        let cells = table.keys.iter().map(|key| column(key)).collect();
        let mut rows = self.rows_met(of, delete.filter.clone(), cells, params)?;
        self.limit_rows(&mut rows, delete.limit.as_ref(), params)?;
        let number = switching.table.expect("threads are not deleted");
        let gone = self
            .context
            .instance
            .instruments
            .remove(number, Some(&rows));
        Ok((gone, gone))
    }

    /// INSERT: rows that are new, twice.
    fn add_rows(
        &mut self,
        switching: &Switching<'_>,
        insert: &Insert,
        params: &[Value],
    ) -> Result<(u64, u64), ExecError> {
        let table = switching.table();
        let all = || table.keys.iter().chain(table.switches);
        let mut places: Vec<usize> = (0..all().count()).collect();
        if !insert.columns.is_empty() {
            let place = |c: &esker_sql_syntax::ast::ColumnRef| {
                let place = all().position(|name| c.name.is(name));
                place.ok_or_else(|| errors::unknown_column(&c.name.text, "field list"))
            };
            places = insert.columns.iter().map(place).collect::<SqlResult<_>>()?;
        }
        let given = self.rows_given(insert, places.len(), params)?;
        let number = switching.table.expect("threads are not inserted");
        let mut added = 0;
        for (nth, cells) in given.into_iter().enumerate() {
            let mut row = defaults(table);
            if !cells.is_empty() && cells.len() != places.len() {
                return Err(errors::value_count(nth as u64 + 1).into());
            }
            for (&place, cell) in places.iter().zip(cells) {
                if let Some(cell) = cell {
                    row[place] = cell;
                }
            }
            check_row(table, &mut row, nth as u64 + 1)?;
            match self.context.instance.instruments.insert(number, row) {
                Ok(()) => added += 1,
                Err(Refused::Duplicate) if insert.ignore => (),
                Err(refused) => return Err(refusal(&refused, table.name).into()),
            }
        }
        Ok((added, added))
    }

    /// The cells of the rows that an INSERT brings; None stands for the default.
    fn rows_given(
        &mut self,
        insert: &Insert,
        columns: usize,
        params: &[Value],
    ) -> Result<Vec<Vec<Option<String>>>, ExecError> {
        let rows = match &insert.source {
            InsertSource::Values(rows) => rows,
            InsertSource::Query(query) => {
                let names: Vec<Ident> = (0..columns)
                    .map(|n| Ident::new(format!("c{n}").as_str()))
                    .collect();
                let cells = names.iter().map(|name| column(&name.text)).collect();
                let from = TableRef::Derived {
                    lateral: false,
                    query: query.clone(),
                    alias: Ident::new("given"),
                    columns: names,
                };
                let rows = self.packed_rows(from, None, cells, params)?;
                let some = |row: Row| row.into_iter().map(Some).collect();
                return Ok(rows.into_iter().map(some).collect());
            }
        };
        let mut given = Vec::with_capacity(rows.len());
        for row in rows {
            let mut cells = Vec::with_capacity(row.len());
            for expr in row {
                cells.push(match expr {
                    Expr::Default(None) => None,
                    expr => {
                        let text = call("CONCAT", vec![expr.clone()]);
                        let text = self.text_of(&text, params)?;
                        Some(text.unwrap_or_else(|| NULL.to_owned()))
                    }
                });
            }
            given.push(cells);
        }
        Ok(given)
    }

    /// Cells of the rows of a table that meet a condition.
    fn rows_met(
        &mut self,
        table: &NamedTable,
        filter: Option<Expr>,
        cells: Vec<Expr>,
        params: &[Value],
    ) -> Result<Vec<Row>, ExecError> {
        let from = TableRef::Table(Box::new(table.clone()));
        self.packed_rows(from, filter, cells, params)
    }

    /// Cells of rows, read as one value: a list of rows in hexadecimal digits.
    fn packed_rows(
        &mut self,
        from: TableRef,
        filter: Option<Expr>,
        cells: Vec<Expr>,
        params: &[Value],
    ) -> Result<Vec<Row>, ExecError> {
        let width = cells.len();
        let mut parts = vec![literal(&BETWEEN.to_string())];
        parts.extend(cells.into_iter().map(|cell| {
            let between = literal(&BETWEEN.to_string());
            let cell = call("REPLACE", vec![cell, between, literal("")]);
            call("IFNULL", vec![cell, literal(NULL)])
        }));
        let packed = call(
            "JSON_ARRAYAGG",
            vec![call("HEX", vec![call("CONCAT_WS", parts)])],
        );
        let query = Query::of_item_from(packed, vec![from], filter);
        let list = call("CONCAT", vec![Expr::Subquery(Box::new(query))]);
        let Some(text) = self.text_of(&list, params)? else {
            return Ok(Vec::new());
        };
        let rows = text.split('"').skip(1).step_by(2).map(|packed| {
            let cells = String::from_utf8_lossy(&unhex(packed)).into_owned();
            let row: Row = cells.split(BETWEEN).map(str::to_owned).collect();
            debug_assert_eq!(row.len(), width);
            row
        });
        Ok(rows.collect())
    }

    /// A text, unless it is NULL.
    fn text_of(&mut self, expr: &Expr, params: &[Value]) -> Result<Option<String>, ExecError> {
        Ok(match self.evaluate(expr, params)?.0 {
            Value::Str(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        })
    }

    /// The first rows, as many as LIMIT says.
    fn limit_rows(
        &mut self,
        rows: &mut Vec<Row>,
        limit: Option<&Limit>,
        params: &[Value],
    ) -> Result<(), ExecError> {
        if let Some(limit) = limit {
            let most = match self.evaluate(&limit.count, params)?.0 {
                Value::Int(n) => usize::try_from(n).unwrap_or(0),
                Value::UInt(n) => usize::try_from(n).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            rows.truncate(most);
        }
        Ok(())
    }
}

/// A new row of which nothing is given.
fn defaults(table: &SwitchTable) -> Row {
    let key = |name: &&str| if *name == "OBJECT_TYPE" { "TABLE" } else { "%" };
    let keys = table.keys.iter().map(key);
    let switches = table.switches.iter().map(|_| "YES");
    keys.chain(switches).map(str::to_owned).collect()
}

/// Are the values of a row some of its columns? Labels become what they are called.
///
/// # Errors
/// 1048, 1265.
fn check_row(table: &SwitchTable, row: &mut [String], number: u64) -> SqlResult<()> {
    let names = table.keys.iter().chain(table.switches);
    for (nth, (name, cell)) in names.zip(row).enumerate() {
        if cell == NULL {
            return Err(errors::null_column(name));
        }
        let labels: &[&str] = match *name {
            "OBJECT_TYPE" => &OBJECT_TYPES,
            _ if nth >= table.keys.len() => &["YES", "NO"],
            _ if cell.chars().count() > MAX_CELL => {
                let place = format!("for column '{name}' at row {number}");
                return Err(errors::data_too_long(place));
            }
            _ => continue,
        };
        let label = labels.iter().find(|label| label.eq_ignore_ascii_case(cell));
        match label {
            Some(label) => *cell = (*label).to_owned(),
            None => return Err(errors::data_truncated(name, number)),
        }
    }
    Ok(())
}

fn refusal(refused: &Refused, table: &str) -> SqlError {
    match refused {
        Refused::Duplicate => {
            let text = format!("Can't write; duplicate key in table '{table}'");
            SqlError::new(1022, "23000", text)
        }
        Refused::Full => errors::no_room_in(format!("The table '{table}' is full")),
    }
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Call(Box::new(Call::plain(Ident::new(name), args)))
}

fn column(name: &str) -> Expr {
    Expr::Column(esker_sql_syntax::ast::ColumnRef {
        schema: None,
        table: None,
        name: Ident::new(name),
    })
}

fn literal(text: &str) -> Expr {
    Expr::Literal(Literal::Str {
        bytes: text.as_bytes().to_vec(),
        charset: None,
    })
}

/// The bytes of hexadecimal digits.
fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    pairs.filter_map(byte).collect()
}
