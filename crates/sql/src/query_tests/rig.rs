//! A bench for tests of queries: statements as text, rows as text.
//!
//! Neighbours: `dml::testing` runs the statements that make tables and rows; tests of `bind`, `plan`
//! and `exec` ask through [`Rig`].
//! **Invariant**: a query runs as a session runs it: bound and planned against the catalog, streamed
//! under the bench's transaction.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use esker_engine::{MemoryBudget, View};
use esker_sql_catalog::catalog::{IndexSample, TableDef};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::{ColumnMeta, Mode};
use esker_sql_exec::{ExecCtx, Limits, RowStream, StatementEnv, TempFiles, TempSpace};
use esker_sql_plan::bind::virt::{Pushed, VirtualColumn, VirtualTable};
use esker_sql_plan::bind::{BindEnv, Names, Need, Params, TableSource};
use esker_sql_plan::expr::{EvalEnv, UserVars};
use esker_sql_plan::plan::explain::{self, Explainee, Form};
use esker_sql_plan::plan::{PlanTrace, QueryPlan, TraceFeatures, plan_query};
use esker_sql_syntax::{self as parse, ParseOptions, ast};
use esker_types::cast::write_text;
use esker_types::collation::Collation;
use esker_types::{EvalCtx, SqlError, SqlMode, SqlResult, SqlType, TypeKind, Value, Warning};
use esker_vfs::sim::SimEnv;

use crate::dml::testing::{Bench, SessionContext, eval_settings};

/// User variables of a rig.
#[derive(Default)]
struct Vars(RefCell<HashMap<String, (Value, SqlType)>>);

impl UserVars for Vars {
    fn get(&self, name: &str) -> Option<(Value, SqlType)> {
        self.0.borrow().get(name).cloned()
    }
    fn set(&self, name: &str, value: Value, ty: SqlType) {
        self.0.borrow_mut().insert(name.to_owned(), (value, ty));
    }
}

/// A computed table `v.numbers` with the numbers 1 to 5 and their names; it counts what was pushed.
struct Numbers {
    columns: Vec<VirtualColumn>,
}

impl VirtualTable for Numbers {
    fn schema(&self) -> &str {
        "v"
    }
    fn name(&self) -> &str {
        "numbers"
    }
    fn is_view(&self) -> bool {
        true
    }
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }
    fn rows(&self, _env: &EvalEnv<'_>, pushed: &[Pushed]) -> SqlResult<Vec<Vec<Value>>> {
        let names = ["one", "two", "three", "four", "five"];
        let wanted = |name: &str| {
            pushed
                .iter()
                .all(|p| p.column != 1 || p.value.eq_ignore_ascii_case(name.as_bytes()))
        };
        let numbered = names.iter().enumerate().filter(|(_, n)| wanted(n));
        Ok(numbered
            .map(|(i, n)| vec![Value::Int(i as i64 + 1), Value::str(n)])
            .collect())
    }
}

struct RigNames<'a>(&'a Bench);

impl Names for RigNames<'_> {
    fn table(&self, _need: Need, schema: Option<&str>, name: &str) -> SqlResult<TableSource> {
        if schema == Some("v") {
            let text = SqlType::varchar(10, Collation::UTF8MB4_0900_AI_CI);
            let columns = vec![
                VirtualColumn {
                    name: "n".into(),
                    ty: SqlType::new(TypeKind::Int),
                },
                VirtualColumn {
                    name: "name".into(),
                    ty: text,
                },
            ];
            return Ok(TableSource::Virtual(Arc::new(Numbers { columns })));
        }
        self.0
            .catalog
            .table_or_error(schema.unwrap_or("d"), name)
            .map(TableSource::Base)
    }

    fn sample(&self, table: &TableDef, index: usize, entries: f64) -> Option<Arc<IndexSample>> {
        table.runtime.sample(&self.0.engine, table, index, entries)
    }

    fn system_variable(&self, var: &ast::SysVar) -> SqlResult<(Value, SqlType)> {
        match &*var.name {
            "answer" => Ok((Value::Int(42), SqlType::bigint(false))),
            name => Err(SqlError::new(
                1193,
                "HY000",
                format!("Unknown system variable '{name}'"),
            )),
        }
    }
}

/// Columns and rows of a query.
type Answer = (Arc<[ColumnMeta]>, Vec<Vec<Value>>);

/// Queries over the tables of a bench.
pub(crate) struct Rig {
    pub bench: Bench,
    pub sql_mode: SqlMode,
    /// The connection's.
    pub collation: Collation,
    pub memory_bytes: u64,
    /// Bytes that each operator may keep in memory before it goes to disk; `None`: it never does.
    pub budget: Option<u64>,
    /// The machine and the files for that.
    pub machine: SimEnv,
    pub temp: TempFiles,
    /// Looks at the kill flag until the statement is killed.
    pub killed_after: Cell<Option<u32>>,
    vars: Vars,
    pub warnings: RefCell<Vec<Warning>>,
}

impl Rig {
    /// A new database after some statements.
    pub fn new(setup: &[&str]) -> Self {
        let mut bench = Bench::new();
        for sql in setup {
            bench.ok(sql);
        }
        let machine = SimEnv::new(12);
        let fs = machine.env().fs;
        let space = TempSpace::open(fs, Path::new("/db"), &MemoryBudget::unlimited())
            .expect("the simulated disk has room");
        Self {
            bench,
            sql_mode: SqlMode::DEFAULT,
            collation: Collation::UTF8MB4_0900_AI_CI,
            memory_bytes: 64 << 20,
            budget: None,
            temp: TempFiles::new(space),
            machine,
            killed_after: Cell::new(None),
            vars: Vars::default(),
            warnings: RefCell::default(),
        }
    }

    /// Calls `f` with what a statement's evaluation needs.
    fn with_ctx<T>(&self, f: impl FnOnce(&EvalCtx<'_>) -> T) -> T {
        let mut settings = eval_settings(self.sql_mode, &self.bench.zone);
        settings.collation_connection = self.collation;
        let ctx = EvalCtx::new(settings, &SessionContext);
        let result = f(&ctx);
        *self.warnings.borrow_mut() = ctx.diagnostics.take().kept;
        result
    }

    fn parse(&self, sql: &str) -> SqlResult<ast::Query> {
        let options = ParseOptions {
            sql_mode: self.sql_mode,
            params: true,
            ..ParseOptions::default()
        };
        match parse::parse(sql.as_bytes(), options)?.stmt {
            ast::Statement::Query(query) => Ok(*query),
            other => panic!("not a query: {other:?}"),
        }
    }

    /// Plans a query with parameters.
    pub fn plan(&self, sql: &str, params: &[Value]) -> SqlResult<Arc<QueryPlan>> {
        let query = self.parse(sql)?;
        self.with_ctx(|ctx| {
            let names = RigNames(&self.bench);
            let env = BindEnv::new(ctx, &self.vars, &names, Params::Values(params));
            plan_query(&env, &query)
        })
    }

    /// How many blocks were planned for a query, those that were given up with them.
    pub fn blocks_planned(&self, sql: &str) -> usize {
        let query = self.parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let trace = PlanTrace::new(TraceFeatures {
            greedy_search: false,
            range_optimizer: false,
        });
        self.with_ctx(|ctx| {
            let names = RigNames(&self.bench);
            let mut env = BindEnv::new(ctx, &self.vars, &names, Params::Values(&[]));
            env.trace = Some(&trace);
            plan_query(&env, &query).unwrap_or_else(|e| panic!("{sql}: {e}"));
        });
        let document = trace.document(None, true);
        document.matches("join_optimization").count()
    }

    /// Runs a query to its end: columns and rows.
    pub fn run(&self, sql: &str, params: &[Value]) -> SqlResult<Answer> {
        match self.execute(sql, params, Mode::Thread) {
            Ok((stream, rows)) => Ok((stream.plan().columns.clone(), rows)),
            Err(ExecError::Sql(e)) => Err(e),
            Err(ExecError::Wait(_)) => panic!("{sql}: waits in thread mode"),
        }
    }

    /// Runs a query that must not block.
    pub fn inline(&self, sql: &str) -> Result<(), ExecError> {
        self.execute(sql, &[], Mode::Inline).map(|_| ())
    }

    /// Rows given, and FOUND_ROWS() after them.
    pub fn found_rows(&self, sql: &str) -> (usize, u64) {
        match self.execute(sql, &[], Mode::Thread) {
            Ok((stream, rows)) => (rows.len(), stream.found_rows()),
            Err(_) => panic!("{sql}: failed"),
        }
    }

    fn limits(&self) -> Limits {
        let budget = self.budget.unwrap_or(u64::MAX);
        Limits {
            memory_bytes: self.memory_bytes,
            sort_bytes: budget,
            join_bytes: budget,
            table_bytes: budget,
            lock_wait: Duration::from_millis(20),
            recursion_depth: 1000,
            read_threads: 1,
            splits: false,
        }
    }

    fn execute(
        &self,
        sql: &str,
        params: &[Value],
        mode: Mode,
    ) -> Result<(RowStream, Vec<Vec<Value>>), ExecError> {
        let query = self.parse(sql)?;
        self.with_ctx(|ctx| {
            let names = RigNames(&self.bench);
            let env = BindEnv::new(ctx, &self.vars, &names, Params::Values(params));
            let plan = plan_query(&env, &query)?;
            let limits = self.limits();
            let check = || match self.killed_after.get() {
                Some(0) => Err(SqlError::new(
                    1317,
                    "70100",
                    "Query execution was interrupted",
                )),
                left => {
                    self.killed_after.set(left.map(|n| n - 1));
                    Ok(())
                }
            };
            let txn = &self.bench.txn;
            let exec = ExecCtx::new(txn, View::Latest, mode, limits, &check)
                .with_temp(self.budget.map(|_| &self.temp));
            let env = StatementEnv {
                ctx,
                params,
                vars: &self.vars,
                exec: &exec,
            };
            let mut stream = RowStream::open(plan.clone());
            let mut rows = Vec::new();
            while let Some(row) = stream.next(&env)? {
                assert_eq!(row.len(), plan.columns.len());
                rows.push(row.to_vec());
            }
            Ok((stream, rows))
        })
    }

    /// Rows as text, values joined by `|`.
    pub fn rows(&self, sql: &str) -> Vec<String> {
        self.rows_with(sql, &[])
    }

    /// Rows as text of a query with parameters.
    pub fn rows_with(&self, sql: &str, params: &[Value]) -> Vec<String> {
        let (columns, rows) = self
            .run(sql, params)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        rows.iter().map(|row| row_text(&columns, row)).collect()
    }

    /// Rows as text, sorted.
    pub fn sorted(&self, sql: &str) -> Vec<String> {
        let mut rows = self.rows(sql);
        rows.sort();
        rows
    }

    /// The only value of a query.
    pub fn value(&self, sql: &str) -> String {
        let rows = self.rows(sql);
        assert_eq!(rows.len(), 1, "{sql}");
        rows.into_iter().next().unwrap_or_default()
    }

    /// Number and text of the error of a query that fails.
    pub fn error(&self, sql: &str) -> (u16, String) {
        match self.run(sql, &[]) {
            Ok((_, rows)) => panic!("{sql}: went well with {} rows", rows.len()),
            Err(e) => (e.code, e.message),
        }
    }

    /// Number of the error of a query that fails.
    pub fn code(&self, sql: &str) -> u16 {
        self.error(sql).0
    }

    /// EXPLAIN ANALYZE.
    pub fn analyze(&self, sql: &str) -> String {
        let query = self.parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        self.with_ctx(|ctx| {
            let names = RigNames(&self.bench);
            let env = BindEnv::new(ctx, &self.vars, &names, Params::Values(&[]));
            let plan = plan_query(&env, &query).unwrap_or_else(|e| panic!("{sql}: {e}"));
            let check = || Ok(());
            let (txn, limits) = (&self.bench.txn, self.limits());
            let exec = ExecCtx::new(txn, View::Latest, Mode::Thread, limits, &check);
            let env = StatementEnv {
                ctx,
                params: &[],
                vars: &self.vars,
                exec: &exec,
            };
            let mut stream = RowStream::measured(plan.clone());
            while let Ok(Some(_)) = stream.next(&env) {}
            let profile = stream.profile().expect("it is measured");
            let (columns, rows) =
                explain::explain_analyzed(Explainee::Query(&plan), profile, false);
            row_text(&columns, &rows[0])
        })
    }

    /// EXPLAIN: `table type key Extra` of every line.
    pub fn explain(&self, sql: &str) -> Vec<String> {
        let plan = self.plan(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let (columns, rows) =
            explain::explain(Explainee::Query(&plan), Form::Traditional, explain::SERIAL);
        let shown = [2, 4, 6, 11];
        let line = |row: &Vec<Value>| {
            let cells = shown.map(|c| row_text(&columns[c..=c], &row[c..=c]));
            cells.join(" ")
        };
        rows.iter().map(line).collect()
    }
}

fn row_text(columns: &[ColumnMeta], row: &[Value]) -> String {
    let field = |(value, column): (&Value, &ColumnMeta)| {
        let mut text = Vec::new();
        match value {
            Value::Null => text.extend_from_slice(b"NULL"),
            value => write_text(value.as_ref(), &column.ty, &mut text),
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    row.iter()
        .zip(columns)
        .map(field)
        .collect::<Vec<_>>()
        .join("|")
}
