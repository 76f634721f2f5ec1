//! EXPLAIN and DESCRIBE.
//!
//! Neighbours: `statement` dispatches here, and reads what is explained; `show` has SHOW COLUMNS, which DESCRIBE is.
//! **Invariant**: only queries and changes of rows are explained.

use esker_types::{SqlError, SqlResult};

use super::ast::{Explain, ExplainFormat, ExplainWhat, Show, ShowFilter, ShowWhat, Statement};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    pub(super) fn explain(&mut self) -> SqlResult<Statement> {
        self.advance();
        let statement = self.is_explainable()
            || matches!(self.kw(), Kw::ANALYZE | Kw::INTO | Kw::FOR)
            || (self.at(Kw::FORMAT) && self.peek().tok == Tok::Eq);
        if !statement {
            return self.describe();
        }
        let analyze = self.eat_kw(Kw::ANALYZE);
        let mut format = ExplainFormat::Default;
        if self.eat_kw(Kw::FORMAT) {
            self.expect(Tok::Eq)?;
            format = self.explain_format()?;
        }
        let into = match self.eat_kw(Kw::INTO) {
            true => Some(self.user_var()?),
            false => None,
        };
        let mut schema = None;
        let what = match self.eat_kw(Kw::FOR) {
            true if self.eat_kw(Kw::CONNECTION) => ExplainWhat::Connection(self.number()?),
            is_for => {
                if is_for {
                    self.expect_any(&[Kw::SCHEMA, Kw::DATABASE])?;
                    schema = Some(self.schema_name()?);
                }
                ExplainWhat::Statement(Box::new(self.explainable()?))
            }
        };
        Ok(Statement::Explain(Box::new(Explain {
            analyze,
            format,
            into,
            schema,
            what,
        })))
    }

    /// Does a statement begin here that EXPLAIN takes?
    fn is_explainable(&self) -> bool {
        let begins = matches!(
            self.kw(),
            Kw::SELECT
                | Kw::INSERT
                | Kw::REPLACE
                | Kw::UPDATE
                | Kw::DELETE
                | Kw::WITH
                | Kw::TABLE
                | Kw::VALUES
        );
        begins || self.is(Tok::LParen)
    }

    fn explainable(&mut self) -> SqlResult<Statement> {
        match self.is_explainable() {
            true => self.statement(),
            false => self.fail(),
        }
    }

    fn explain_format(&mut self) -> SqlResult<ExplainFormat> {
        let name = self.ident_or_text()?;
        Ok(match &*name.to_ascii_uppercase() {
            "TRADITIONAL" => ExplainFormat::Traditional,
            "JSON" => ExplainFormat::Json,
            "TREE" => ExplainFormat::Tree,
            _ => {
                return Err(SqlError::new(
                    1791,
                    "HY000",
                    format!("Unknown EXPLAIN format name: '{name}'"),
                ));
            }
        })
    }

    /// `DESCRIBE table [column | 'pattern']`: SHOW COLUMNS.
    fn describe(&mut self) -> SqlResult<Statement> {
        let table = self.object_name()?;
        let filter = if self.is(Tok::Str) {
            Some(ShowFilter::Like(self.string()?))
        } else {
            self.opt_ident()?
                .map(|name| ShowFilter::Like(name.text.as_bytes().to_vec()))
        };
        let what = ShowWhat::Columns {
            full: false,
            extended: false,
            table,
        };
        Ok(Statement::Show(Box::new(Show { what, filter })))
    }
}
