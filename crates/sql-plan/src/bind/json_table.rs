//! JSON_VALUE and JSON_TABLE.
//!
//! Neighbours: `json` has the operators; `esker_types::json::table` makes values and rows.
//! **Invariants**: the document of JSON_TABLE sees the tables before it, so such a table is lateral; every column has a
//! place in the row in the order in which it is written, nested or not.

use super::clause::Clause;
use super::errors;
use esker_sql_catalog::exec_error::ExecResult;
use std::sync::Arc;

use esker_sql_catalog::result::{ColumnMeta, StoredAs};
use esker_sql_syntax::ast::{self, JsonColumn, JsonColumns, JsonFallback};
use esker_types::collation::{Coercibility, Collation};
use esker_types::errors::{json_from_binary, wrong_column_name};
use esker_types::func::json::extract::{DEFAULT, ERROR, NULL};
use esker_types::func::json::is_document_type;
use esker_types::func::{FuncTypes, Signature};
use esker_types::json::table::{Column, ColumnKind, Fallback, Level, fitting};
use esker_types::json::{self, JsonRef, Path, default, parse_path};
use esker_types::names::check_column;
use esker_types::{SqlResult, SqlType, TypeKind, Value};

use super::expr::bind_expr;
use super::from::check_distinct;
use super::scope::{Scope, ScopeColumn, ScopeTable, TableKind};
use super::types::{column_type, repeated_labels};
use super::{BindEnv, literal};
use crate::expr::{Expr, ExprKind, FuncCall};

/// Characters of JSON_VALUE without RETURNING.
const DEFAULT_CHARS: u32 = 512;

/// Most paths of rows in a JSON_TABLE: MySQL says that one more is supported.
const MAX_LEVELS: usize = 15;

/// JSON_TABLE in FROM, bound.
#[derive(Debug)]
pub struct JsonTable {
    /// The document.
    pub doc: Expr,
    /// Its rows.
    pub rows: Level,
    /// Columns.
    pub names: Vec<Arc<str>>,
}

/// JSON_VALUE(…).
pub(super) fn bind_json_value(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    call: &ast::JsonValue,
) -> SqlResult<Expr> {
    let doc = bind_expr(env, scope, &call.doc)?;
    check_document(&doc, "json_value")?;
    parse_path(call.path.as_bytes())?;
    let mut ty = match &call.ty {
        Some(ty) => literal::cast_type(env, ty)?,
        None => SqlType::varchar(DEFAULT_CHARS, Collation::UTF8MB4_0900_BIN),
    };
    // Without a character set of its own a text has the order of code points, as in the document.
    let is_open = call.ty.as_ref().is_some_and(|ty| ty.charset.is_none());
    if is_open && ty.is_string() && !ty.collation.is_binary() {
        ty.collation = Collation::UTF8MB4_0900_BIN;
    }
    let ty = ty.with_nullable(true);
    let number = |n| Expr::constant(Value::Int(n), SqlType::bigint(false).with_nullable(false));
    let path_type = SqlType::varchar(call.path.len() as u32, Collation::UTF8MB4_BIN);
    let mut args = vec![
        doc,
        Expr::constant(Value::str(call.path.as_bytes()), path_type),
    ];
    for fallback in [&call.on_empty, &call.on_error] {
        let (how, default) = match fallback {
            None | Some(JsonFallback::Null) => (NULL, Expr::null()),
            Some(JsonFallback::Error) => (ERROR, Expr::null()),
            Some(JsonFallback::Default(e)) => {
                let literal = bind_expr(env, scope, e)?;
                let value = literal
                    .as_const()
                    .ok_or_else(|| errors::syntax("DEFAULT"))?;
                let value = default::fitting(env.ctx, value, &literal.ty, &ty)?;
                (DEFAULT, Expr::constant(value, ty.clone()))
            }
        };
        args.extend([number(how), default]);
    }
    let coer = match ty.is_string() || ty.kind == TypeKind::Json {
        true => Coercibility::Coercible,
        false => Coercibility::Numeric,
    };
    let signature = Signature {
        ret: ty.clone(),
        coercibility: coer,
        collation: ty.collation,
    };
    let kind = ExprKind::Func(Box::new(FuncCall {
        def: super::json::operator("json value"),
        arg_types: args.iter().map(|a| a.ty.clone()).collect(),
        args,
        signature,
    }));
    Ok(Expr { kind, ty, coer })
}

/// 3146 where a type can be no document.
fn check_document(doc: &Expr, function: &str) -> SqlResult<()> {
    match is_document_type(&doc.ty) || matches!(doc.kind, ExprKind::Param(_)) {
        true => Ok(()),
        false => Err(errors::no_json("1", function)),
    }
}

/// JSON_TABLE(…) AS alias.
pub(super) fn bind_json_table(
    env: &BindEnv<'_>,
    scope: &Scope<'_>,
    doc: &ast::Expr,
    rows: &JsonColumns,
    alias: &ast::Ident,
) -> SqlResult<ScopeTable> {
    let clause = scope.clause.replace(Clause::TableFunction);
    let bound = bind_expr(env, scope, doc);
    scope.clause.set(clause);
    let doc = bound?;
    check_document(&doc, "json_table")?;
    let alias: Arc<str> = alias.text.clone().into();
    let mut columns = Columns {
        env,
        alias: alias.clone(),
        found: Vec::new(),
        levels: 0,
    };
    let rows = columns.level(rows)?;
    let found = columns.found;
    check_distinct(found.iter().map(|c| &*c.name))?;
    for column in &found {
        check_column(&column.name).map_err(|_| wrong_column_name(&column.name))?;
    }
    let names = found.iter().map(|c| c.name.clone()).collect();
    let lateral = !matches!(doc.kind, ExprKind::Const(_) | ExprKind::Param(_));
    let kind = TableKind::Json(Arc::new(JsonTable { doc, rows, names }));
    let mut table = ScopeTable::with_columns("".into(), alias, kind, found);
    table.lateral = lateral;
    Ok(table)
}

/// The columns found so far, which are the places in the row.
struct Columns<'a, 'e> {
    env: &'a BindEnv<'e>,
    alias: Arc<str>,
    found: Vec<ScopeColumn>,
    /// Paths of rows so far, the first one included.
    levels: usize,
}

fn path_of(text: &str) -> SqlResult<Arc<Path>> {
    Ok(Arc::new((*parse_path(text.as_bytes())?).clone()))
}

impl Columns<'_, '_> {
    fn level(&mut self, written: &JsonColumns) -> SqlResult<Level> {
        self.levels += 1;
        if self.levels > MAX_LEVELS {
            return Err(errors::too_many_nested_paths(&self.alias));
        }
        let mut level = Level {
            path: path_of(&written.path)?,
            columns: Vec::new(),
            nested: Vec::new(),
        };
        for column in &written.columns {
            let (name, ty, kind) = match column {
                JsonColumn::Nested(rows) => {
                    level.nested.push(self.level(rows)?);
                    continue;
                }
                JsonColumn::Ordinality(name) => {
                    (name, SqlType::bigint(true), ColumnKind::Ordinality)
                }
                JsonColumn::Exists { name, ty, path } => {
                    let ty = self.column_type(ty, name)?;
                    let path = path_of(path)?;
                    (name, ty.clone(), ColumnKind::Exists { path, ty })
                }
                JsonColumn::Value {
                    name,
                    ty,
                    path,
                    on_empty,
                    on_error,
                } => {
                    let ty = self.column_type(ty, name)?;
                    let kind = ColumnKind::Value {
                        name: name.text.clone().into(),
                        path: path_of(path)?,
                        on_empty: self.fallback(on_empty.as_ref(), &ty, name)?,
                        on_error: self.fallback(on_error.as_ref(), &ty, name)?,
                        ty: ty.clone(),
                    };
                    (name, ty, kind)
                }
            };
            let slot = self.found.len();
            self.found.push(self.scope_column(name, ty));
            level.columns.push(Column { slot, kind });
        }
        Ok(level)
    }

    fn column_type(&self, ty: &ast::DataType, name: &ast::Ident) -> SqlResult<SqlType> {
        let ty = column_type(ty, &name.text, self.env.literal_collation())?;
        match repeated_labels(&ty, &name.text).into_iter().next() {
            Some(e) => Err(e),
            None => Ok(ty.with_nullable(true)),
        }
    }

    fn scope_column(&self, name: &ast::Ident, ty: SqlType) -> ScopeColumn {
        let name: Arc<str> = name.text.clone().into();
        let mut meta = ColumnMeta::computed(name.clone(), ty.clone());
        meta.table = self.alias.clone();
        meta.org_name = name.clone();
        meta.stored_as = StoredAs::Same;
        ScopeColumn {
            name,
            ty,
            meta,
            invisible: false,
        }
    }

    /// A default is a JSON text.
    fn fallback(
        &self,
        written: Option<&JsonFallback>,
        ty: &SqlType,
        name: &ast::Ident,
    ) -> SqlResult<Fallback> {
        Ok(match written {
            None | Some(JsonFallback::Null) => Fallback::Null,
            Some(JsonFallback::Error) => Fallback::Error,
            Some(JsonFallback::Default(ast::Expr::Literal(text))) => {
                let text = literal::bind_literal(self.env, text)?;
                let Some(Value::Str(bytes)) = text.as_const() else {
                    return Err(errors::invalid_default(&name.text));
                };
                if text.ty.collation.is_binary() {
                    return Err(json_from_binary());
                }
                let doc = json::parse(bytes, self.env.ctx.session)
                    .map_err(|e| e.in_argument(1, "JSON_TABLE"))?;
                let doc = json::encode(&doc)?;
                let doc = JsonRef::new(&doc);
                if ty.kind != TypeKind::Json && !doc.is_scalar() {
                    return Err(errors::invalid_default(&name.text));
                }
                Fallback::Default(match ty.kind {
                    // Unlike a value that is found, JSON null as a default stays one.
                    TypeKind::Json => Value::Json(doc.to_document()),
                    _ => fitting(self.env.ctx, doc, ty, &name.text)?,
                })
            }
            Some(JsonFallback::Default(_)) => return Err(errors::invalid_default(&name.text)),
        })
    }
}

impl JsonTable {
    /// Its rows for a row of the tables before it.
    pub fn rows(
        &self,
        row: &[Value],
        env: &crate::expr::EvalEnv<'_>,
    ) -> ExecResult<Vec<Vec<Value>>> {
        let value = self.doc.eval_ref(row, env)?;
        let arg_types = [self.doc.ty.clone()];
        let sig = Signature::plain(SqlType::new(TypeKind::Json));
        let types = FuncTypes::new(&arg_types, &sig);
        let doc = esker_types::func::json::as_document(env.ctx, &value, &types, "json_table")?;
        match doc {
            Some(doc) => Ok(self
                .rows
                .rows(env.ctx, JsonRef::new(&doc), self.names.len())?),
            None => Ok(Vec::new()),
        }
    }
}
