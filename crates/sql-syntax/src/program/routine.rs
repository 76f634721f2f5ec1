//! CREATE and ALTER of procedures and functions.
//!
//! Neighbours: `statement` has read CREATE, DEFINER and the kind; `compound` reads the body.
//! **Invariants**: the text of parameters, result and body is kept as written; a function has a RETURN.

use std::sync::Arc;

use esker_types::names::check_length;
use esker_types::{SqlResult, errors};

use super::super::ast::{
    Account, AlterRoutine, Characteristics, CreateRoutine, DataAccess, DataType, Ident, ObjectName,
    ParameterMode, RoutineKind, Statement,
};
use super::super::keyword::Kw;
use super::super::lexer::Tok;
use super::super::parser::Parser;
use super::{ProgramKind, ProgramScope, find};

/// A parameter as written.
struct Parameter {
    mode: ParameterMode,
    name: Ident,
    ty: DataType,
}

impl Parser<'_> {
    /// Behind `CREATE [DEFINER = …]`, at the kind.
    pub(in super::super) fn create_routine(
        &mut self,
        kind: RoutineKind,
        definer: Option<Account>,
    ) -> SqlResult<Statement> {
        self.advance();
        self.refuse_nested_program(kind.text())?;
        let if_not_exists = self.if_not_exists()?;
        let name = self.routine_name()?;
        // A loadable function has no parameters.
        if kind == RoutineKind::Function && !self.is(Tok::LParen) {
            return Ok(self.unsupported("CREATE FUNCTION"));
        }
        self.expect(Tok::LParen)?;
        let start = self.cur.start;
        let list = match self.is(Tok::RParen) {
            true => Vec::new(),
            false => self.list(|p| p.parameter(kind))?,
        };
        let parameters = self.source(start, self.cur.start);
        self.expect(Tok::RParen)?;
        let returns = match kind {
            RoutineKind::Function => Some(self.returns()?),
            RoutineKind::Procedure => None,
        };
        let characteristics = self.characteristics(true)?;
        let program = match kind {
            RoutineKind::Function => ProgramKind::Function,
            RoutineKind::Procedure => ProgramKind::Procedure,
        };
        let modes = list.iter().map(|p| p.mode).collect();
        let body = self.program_body(program, |scope| declare(scope, list))?;
        Ok(Statement::CreateRoutine(Box::new(CreateRoutine {
            kind,
            if_not_exists,
            definer,
            name,
            modes,
            parameters,
            returns,
            characteristics,
            body: Arc::new(body),
        })))
    }

    fn parameter(&mut self, kind: RoutineKind) -> SqlResult<Parameter> {
        let mode = match kind {
            RoutineKind::Procedure => self.eat_any(&[Kw::IN, Kw::OUT, Kw::INOUT]),
            RoutineKind::Function => None,
        };
        Ok(Parameter {
            mode: match mode {
                Some(Kw::OUT) => ParameterMode::Out,
                Some(Kw::INOUT) => ParameterMode::InOut,
                _ => ParameterMode::In,
            },
            name: self.ident()?,
            ty: self.variable_type()?,
        })
    }

    fn returns(&mut self) -> SqlResult<(DataType, Box<str>)> {
        if !self.eat_word("RETURNS") {
            return self.fail();
        }
        let start = self.cur.start;
        let ty = self.variable_type()?;
        Ok((ty, self.source(start, self.prev_end)))
    }

    /// A type with its COLLATE.
    pub(super) fn variable_type(&mut self) -> SqlResult<DataType> {
        let mut ty = self.data_type()?;
        if self.eat_kw(Kw::COLLATE) {
            ty.collation = Some(self.collation_name()?);
        }
        Ok(ty)
    }

    fn characteristics(&mut self, creates: bool) -> SqlResult<Characteristics> {
        let mut out = Characteristics::default();
        loop {
            match self.kw() {
                Kw::COMMENT => {
                    self.advance();
                    out.comment = Some(self.comment_text()?);
                }
                Kw::LANGUAGE => {
                    self.advance();
                    if !self.eat_kw(Kw::SQL) {
                        let language = self.ident()?;
                        return Err(errors::unsupported_language(&language));
                    }
                }
                Kw::NO => {
                    self.advance();
                    self.expect_kw(Kw::SQL)?;
                    out.access = Some(DataAccess::NoSql);
                }
                Kw::READS | Kw::MODIFIES => {
                    out.access = Some(match self.advance().tok {
                        Tok::Word(Kw::READS) => DataAccess::ReadsSqlData,
                        _ => DataAccess::ModifiesSqlData,
                    });
                    self.expect_seq(&[Kw::SQL, Kw::DATA])?;
                }
                Kw::SQL => {
                    self.advance();
                    self.expect_kw(Kw::SECURITY)?;
                    let who = self.expect_any(&[Kw::DEFINER, Kw::INVOKER])?;
                    out.invoker = Some(who == Kw::INVOKER);
                }
                Kw::NOT if creates && self.peek_is(Kw::DETERMINISTIC) => {
                    self.advance();
                    self.advance();
                    out.deterministic = Some(false);
                }
                Kw::DETERMINISTIC if creates => {
                    self.advance();
                    out.deterministic = Some(true);
                }
                _ if self.eat_word("CONTAINS") => {
                    self.expect_kw(Kw::SQL)?;
                    out.access = Some(DataAccess::ContainsSql);
                }
                _ => return Ok(out),
            }
        }
    }

    /// Behind ALTER, at the kind.
    pub(in super::super) fn alter_routine(&mut self, kind: RoutineKind) -> SqlResult<Statement> {
        self.advance();
        let name: ObjectName = self.routine_name()?;
        let characteristics = self.characteristics(false)?;
        Ok(Statement::AlterRoutine(Box::new(AlterRoutine {
            kind,
            name,
            characteristics,
        })))
    }
}

/// Parameters are the first slots of the frame.
fn declare(scope: &mut ProgramScope, list: Vec<Parameter>) -> SqlResult<()> {
    for parameter in list {
        if find(&scope.names().variables, &parameter.name.text).is_some() {
            return Err(errors::duplicate_parameter(&parameter.name));
        }
        let name = parameter.name.text;
        check_length(&name)?;
        let slot = scope.slot(&name, Some(parameter.ty))?;
        scope.names().variables.push((name, slot));
    }
    Ok(())
}
