//! Queries in the form MySQL prints them.
//!
//! Neighbours: `canonical` has shaped them, `expr` prints the expressions; names have been written out where a view
//! was created.
//! **Invariant**: what is not printed is refused, never left out, but for locks and words about caches.

use std::fmt::Write;

use esker_sql_catalog::catalog::type_text;
use esker_sql_plan::bind::types::column_type;
use esker_sql_syntax::ast::{
    Cte, DataType, Ident, IndexHint, IndexHintKind, IndexHintScope, Join, JoinKind, JoinOn,
    JsonColumn, JsonColumns, NamedTable, OrderItem, Query, QueryBody, Select, SelectItem, SetOp,
    SetOpStep, TableRef, With,
};
use esker_types::collation::Charset;
use esker_types::{SqlResult, TypeKind};

use super::Style;
use super::expr::{Printer, refused};

/// The text of a canonical query.
pub(super) fn text(query: &Query, style: Style<'_>) -> SqlResult<Box<str>> {
    let mut printer = Printer::new(style);
    printer.query(query)?;
    Ok(printer.out.into())
}

impl Printer<'_> {
    pub(super) fn query(&mut self, query: &Query) -> SqlResult<()> {
        if let Some(with) = &query.with {
            self.with(with)?;
        }
        self.body(&query.body)?;
        if !query.order_by.is_empty() {
            self.push(" order by ");
            self.order(&query.order_by)?;
        }
        if let Some(limit) = &query.limit {
            self.push(" limit ");
            if let Some(offset) = &limit.offset {
                self.expr(offset)?;
                self.push(",");
            }
            self.expr(&limit.count)?;
        }
        Ok(())
    }

    pub(super) fn order(&mut self, items: &[OrderItem]) -> SqlResult<()> {
        self.each(items, ",", |p, item| {
            p.expr(&item.expr)?;
            if item.desc {
                p.push(" desc");
            }
            Ok(())
        })
    }

    fn with(&mut self, with: &With) -> SqlResult<()> {
        self.push(if with.recursive {
            "with recursive "
        } else {
            "with "
        });
        self.each(&with.ctes, ", ", |p, cte: &Cte| {
            p.name(&cte.name.text);
            p.columns(&cte.columns)?;
            p.push(" as (");
            p.query(&cte.query)?;
            p.push(")");
            Ok(())
        })?;
        self.push(" ");
        Ok(())
    }

    /// A list of column names, if there is one.
    fn columns(&mut self, names: &[Ident]) -> SqlResult<()> {
        if names.is_empty() {
            return Ok(());
        }
        self.push(" (");
        self.each(names, ",", |p, name| {
            p.name(&name.text);
            Ok(())
        })?;
        self.push(")");
        Ok(())
    }

    fn body(&mut self, body: &QueryBody) -> SqlResult<()> {
        match body {
            QueryBody::Select(select) => self.select(select),
            QueryBody::SetOps { first, rest } => self.set_ops(first, rest),
            QueryBody::Values(rows) => {
                self.push("values ");
                self.each(rows, ",", |p, row| {
                    p.push("row(");
                    p.list(row)?;
                    p.push(")");
                    Ok(())
                })
            }
            QueryBody::Table(name) => {
                self.push("table ");
                if let Some(schema) = &name.schema {
                    self.database(&schema.text);
                }
                self.name(&name.name.text);
                Ok(())
            }
            QueryBody::Nested(query) => {
                self.push("(");
                self.query(query)?;
                self.push(")");
                Ok(())
            }
        }
    }

    /// Operations of one kind stand side by side; before another kind, those so far are in parentheses.
    fn set_ops(&mut self, first: &QueryBody, rest: &[SetOpStep]) -> SqlResult<()> {
        let start = self.out.len();
        self.operand(first)?;
        for (nth, step) in rest.iter().enumerate() {
            if nth > 0 && (rest[nth - 1].op, rest[nth - 1].all) != (step.op, step.all) {
                self.out.insert(start, '(');
                self.push(")");
            }
            self.push(match step.op {
                SetOp::Union => " union ",
                SetOp::Except => " except ",
                SetOp::Intersect => " intersect ",
            });
            if step.all {
                self.push("all ");
            }
            self.operand(&step.right)?;
        }
        Ok(())
    }

    fn operand(&mut self, body: &QueryBody) -> SqlResult<()> {
        let apart = matches!(body, QueryBody::SetOps { .. });
        self.push(if apart { "(" } else { "" });
        self.body(body)?;
        self.push(if apart { ")" } else { "" });
        Ok(())
    }

    fn select(&mut self, select: &Select) -> SqlResult<()> {
        if select.hints.is_some() {
            return Err(refused("a hint"));
        }
        self.push("select ");
        let options = &select.options;
        for (given, word) in [
            (options.straight_join, "straight_join "),
            (options.high_priority, "high_priority "),
            (select.distinct, "distinct "),
            (options.small_result, "sql_small_result "),
            (options.big_result, "sql_big_result "),
            (options.buffer_result, "sql_buffer_result "),
        ] {
            if given {
                self.push(word);
            }
        }
        self.each(&select.items, ",", |p, item| p.item(item))?;
        if !select.from.is_empty() {
            self.push(" from ");
            self.from(&select.from)?;
        } else if select.filter.is_some() {
            self.push(" from DUAL ");
        }
        if let Some(filter) = &select.filter {
            self.push(" where ");
            self.expr(filter)?;
        }
        if !select.group_by.is_empty() {
            self.push(" group by ");
            self.list(&select.group_by)?;
            if select.rollup {
                self.push(" with rollup");
            }
        }
        if let Some(having) = &select.having {
            self.push(" having ");
            self.expr(having)?;
        }
        if !select.windows.is_empty() {
            self.push(" window ");
            self.each(&select.windows, ", ", |p, (name, window)| {
                p.name(&name.text);
                p.push(" AS ");
                p.window(window)?;
                p.push(" ");
                Ok(())
            })?;
        }
        Ok(())
    }

    fn item(&mut self, item: &SelectItem) -> SqlResult<()> {
        match item {
            SelectItem::Wildcard => self.push("*"),
            SelectItem::TableWildcard { schema, table } => {
                if let Some(schema) = schema {
                    self.database(&schema.text);
                }
                self.name(&table.text);
                self.push(".*");
            }
            SelectItem::Expr { expr, alias, .. } => {
                self.expr(expr)?;
                if let Some(alias) = alias {
                    self.push(" AS ");
                    self.name(&alias.text);
                }
            }
        }
        Ok(())
    }

    /// Entries that commas separated.
    fn from(&mut self, entries: &[TableRef]) -> SqlResult<()> {
        if self.style.pairs {
            self.pairs(entries)
        } else {
            self.each(entries, " join ", |p, entry| p.table(entry))
        }
    }

    fn pairs(&mut self, entries: &[TableRef]) -> SqlResult<()> {
        let start = self.out.len();
        for (nth, entry) in entries.iter().enumerate() {
            if nth > 0 {
                self.out.insert(start, '(');
                self.push(" join ");
            }
            self.table(entry)?;
            if nth > 0 {
                self.push(")");
            }
        }
        Ok(())
    }

    fn table(&mut self, entry: &TableRef) -> SqlResult<()> {
        match entry {
            TableRef::Table(table) => self.named(table),
            TableRef::Derived {
                lateral,
                query,
                alias,
                columns,
            } => {
                self.push(if *lateral { "lateral (" } else { "(" });
                self.query(query)?;
                self.push(") ");
                self.name(&alias.text);
                self.columns(columns)
            }
            TableRef::Json { doc, rows, alias } => {
                self.push("json_table(");
                self.expr(doc)?;
                self.push(", ");
                self.json_columns(rows)?;
                self.push(") ");
                self.name(&alias.text);
                Ok(())
            }
            TableRef::Join(join) => self.join(join),
            TableRef::List(members) => self.pairs(members),
        }
    }

    fn named(&mut self, table: &NamedTable) -> SqlResult<()> {
        if let Some(schema) = &table.name.schema {
            self.database(&schema.text);
        }
        self.name(&table.name.name.text);
        if !table.partitions.is_empty() {
            self.push(" PARTITION (");
            for (at, partition) in table.partitions.iter().enumerate() {
                self.push(if at > 0 { "," } else { "" });
                self.name(&partition.text);
            }
            self.push(")");
        }
        if let Some(alias) = &table.alias {
            self.push(" ");
            self.name(&alias.text);
        }
        table
            .hints
            .iter()
            .try_for_each(|hint| self.index_hint(hint))
    }

    fn index_hint(&mut self, hint: &IndexHint) -> SqlResult<()> {
        self.push(match hint.kind {
            IndexHintKind::Use => " USE INDEX",
            IndexHintKind::Force => " FORCE INDEX",
            IndexHintKind::Ignore => " IGNORE INDEX",
        });
        self.push(match hint.scope {
            None => " (",
            Some(IndexHintScope::Join) => " FOR JOIN (",
            Some(IndexHintScope::OrderBy) => " FOR ORDER BY (",
            Some(IndexHintScope::GroupBy) => " FOR GROUP BY (",
        });
        self.each(&hint.indexes, ",", |p, name| {
            if name.is("PRIMARY") {
                p.push("PRIMARY");
            } else {
                p.name(&name.text);
            }
            Ok(())
        })?;
        self.push(")");
        Ok(())
    }

    fn join(&mut self, join: &Join) -> SqlResult<()> {
        self.push("(");
        self.table(&join.left)?;
        if join.natural {
            self.push(" natural");
        }
        self.push(match join.kind {
            JoinKind::Inner => " join ",
            JoinKind::Straight => " straight_join ",
            JoinKind::Left => " left join ",
            JoinKind::Right => " right join ",
        });
        self.table(&join.right)?;
        match &join.on {
            None => {}
            Some(JoinOn::On(on)) => {
                self.push(" on(");
                self.expr(on)?;
                self.push(")");
            }
            Some(JoinOn::Using(names)) => {
                self.push(" using");
                self.columns(names)?;
            }
        }
        self.push(")");
        Ok(())
    }

    fn json_columns(&mut self, rows: &JsonColumns) -> SqlResult<()> {
        self.quoted(rows.path.as_bytes());
        self.push(" columns (");
        self.each(&rows.columns, ", ", |p, column| p.json_column(column))?;
        self.push(")");
        Ok(())
    }

    fn json_column(&mut self, column: &JsonColumn) -> SqlResult<()> {
        match column {
            JsonColumn::Ordinality(name) => {
                self.name(&name.text);
                self.push(" for ordinality");
            }
            JsonColumn::Exists { name, ty, path } => {
                self.json_value_column(name, ty)?;
                self.push(" exists path ");
                self.quoted(path.as_bytes());
            }
            JsonColumn::Value {
                name,
                ty,
                path,
                on_empty,
                on_error,
            } => {
                self.json_value_column(name, ty)?;
                self.push(" path ");
                self.quoted(path.as_bytes());
                self.fallback(on_empty.as_ref(), "empty")?;
                self.fallback(on_error.as_ref(), "error")?;
            }
            JsonColumn::Nested(rows) => {
                self.push("nested path ");
                self.json_columns(rows)?;
            }
        }
        Ok(())
    }

    fn json_value_column(&mut self, name: &Ident, ty: &DataType) -> SqlResult<()> {
        self.name(&name.text);
        let charset = Charset::by_name(self.style.charset).unwrap_or(Charset::Utf8mb4);
        let mut typed = column_type(ty, &name.text, charset.default_collation())?;
        // MySQL does not keep it.
        typed.zerofill = false;
        let _ = write!(self.out, " {}", type_text(&typed));
        let is_text =
            (typed.is_string() && !matches!(typed.kind, TypeKind::Geometry(_))) || typed.is_label();
        if is_text && !typed.collation.is_binary() {
            let charset = typed.collation.charset();
            let _ = write!(self.out, " character set {}", charset.name());
            if typed.collation != charset.default_collation() {
                let _ = write!(self.out, " collate {}", typed.collation.name());
            }
        }
        Ok(())
    }
}
