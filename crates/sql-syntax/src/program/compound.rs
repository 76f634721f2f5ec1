//! Compound statements: blocks, branches, loops, cursors, and the SQL statements between them.
//!
//! Neighbours: `declare` reads the head of a block, `allowed` refuses what a body may not contain.
//! **Invariants**: recursion goes through [`Parser::nested`]; a block's names and labels are gone behind its END.

use std::sync::Arc;

use esker_types::{SqlResult, errors};

use super::super::ast::{BinaryOp, Block, Expr, Formula, Place, SqlStep, Statement, Step, Target};
use super::super::keyword::Kw;
use super::super::lexer::Tok;
use super::super::parser::Parser;
use super::super::set::StandingScope;
use super::{Label, Names, ProgramKind, same};

impl Parser<'_> {
    /// One statement of a body; SET of several variables is several.
    pub(super) fn compound_statement(&mut self) -> SqlResult<Step> {
        let mut steps = self.level()?;
        Ok(match steps.len() {
            1 => steps.remove(0),
            _ => Step::Sequence(steps),
        })
    }

    /// One level of a body: it takes as much of the stack as several of an expression, and counts as three.
    fn level(&mut self) -> SqlResult<Vec<Step>> {
        self.nested(|p| p.nested(|p| p.nested(Self::steps)))
    }

    /// Statements up to one of `ends`, each with its `;`.
    fn steps_until(&mut self, ends: &[Kw]) -> SqlResult<Vec<Step>> {
        let mut all = Vec::new();
        while !ends.contains(&self.kw()) {
            all.extend(self.level()?);
            self.expect(Tok::Semicolon)?;
        }
        Ok(all)
    }

    /// The same where there must be one.
    fn some_steps_until(&mut self, ends: &[Kw]) -> SqlResult<Vec<Step>> {
        if ends.contains(&self.kw()) {
            return self.fail();
        }
        self.steps_until(ends)
    }

    fn steps(&mut self) -> SqlResult<Vec<Step>> {
        if self.at_ident() && self.peek().tok == Tok::Colon {
            return self.labelled().map(one);
        }
        Ok(one(match self.kw() {
            Kw::BEGIN => self.block(None)?,
            Kw::LOOP | Kw::WHILE | Kw::REPEAT => self.loop_step(None)?,
            Kw::IF => self.if_step()?,
            Kw::CASE => self.case_step()?,
            Kw::LEAVE => {
                self.advance();
                self.leave()?
            }
            Kw::ITERATE => {
                self.advance();
                self.iterate()?
            }
            Kw::RETURN => self.return_step()?,
            Kw::OPEN => {
                self.advance();
                Step::Open(self.cursor()?)
            }
            Kw::FETCH => self.fetch()?,
            Kw::SET => return self.set_steps(),
            _ if self.eat_word("CLOSE") => Step::Close(self.cursor()?),
            _ => self.sql_step()?,
        }))
    }

    // Labels.

    fn labelled(&mut self) -> SqlResult<Step> {
        let name = self.ident()?;
        self.expect(Tok::Colon)?;
        let of_loop = match self.kw() {
            Kw::BEGIN => false,
            Kw::LOOP | Kw::WHILE | Kw::REPEAT => true,
            _ => return self.fail(),
        };
        let scope = self.scope();
        if scope.find_label(&name.text).is_some() {
            return Err(errors::label_redefined(&name));
        }
        let id = scope.next_label;
        scope.next_label += 1;
        scope.labels.push(Label::Named {
            name: name.text.clone(),
            id,
            of_loop,
        });
        let step = match of_loop {
            true => self.loop_step(Some(id)),
            false => self.block(Some(id)),
        };
        self.scope().labels.pop();
        let step = step?;
        if let Some(end) = self.opt_ident()?
            && !same(&end.text, &name.text)
        {
            return Err(errors::label_without_match(&end));
        }
        Ok(step)
    }

    fn leave(&mut self) -> SqlResult<Step> {
        let name = self.ident()?;
        match self.scope().find_label(&name.text) {
            Some((id, _)) => Ok(Step::Leave(id)),
            None => Err(errors::no_matching_label("LEAVE", &name)),
        }
    }

    fn iterate(&mut self) -> SqlResult<Step> {
        let name = self.ident()?;
        match self.scope().find_label(&name.text) {
            Some((id, true)) => Ok(Step::Iterate(id)),
            _ => Err(errors::no_matching_label("ITERATE", &name)),
        }
    }

    // Blocks and branches.

    fn block(&mut self, label: Option<u32>) -> SqlResult<Step> {
        self.expect_kw(Kw::BEGIN)?;
        self.scope().blocks.push(Names::default());
        let block = self.block_inside(label);
        self.scope().blocks.pop();
        let block = block?;
        self.expect_kw(Kw::END)?;
        Ok(Step::Block(Box::new(block)))
    }

    fn block_inside(&mut self, label: Option<u32>) -> SqlResult<Block> {
        let declared = self.declarations()?;
        Ok(Block {
            label,
            variables: declared.variables,
            cursors: declared.cursors,
            handlers: declared.handlers,
            body: self.steps_until(&[Kw::END])?,
        })
    }

    fn loop_step(&mut self, label: Option<u32>) -> SqlResult<Step> {
        let kw = self.advance().tok;
        let (mut until_not, mut until) = (None, None);
        let body = match kw {
            Tok::Word(Kw::WHILE) => {
                until_not = Some(self.formula()?);
                self.expect_kw(Kw::DO)?;
                self.some_steps_until(&[Kw::END])?
            }
            Tok::Word(Kw::REPEAT) => {
                let body = self.some_steps_until(&[Kw::UNTIL])?;
                self.advance();
                until = Some(self.formula()?);
                body
            }
            _ => self.some_steps_until(&[Kw::END])?,
        };
        self.expect_kw(Kw::END)?;
        self.expect(kw)?;
        Ok(Step::Loop {
            label,
            until_not,
            body,
            until,
        })
    }

    fn if_step(&mut self) -> SqlResult<Step> {
        const ENDS: &[Kw] = &[Kw::ELSEIF, Kw::ELSE, Kw::END];
        self.advance();
        let mut arms = Vec::new();
        loop {
            let condition = self.formula()?;
            self.expect_kw(Kw::THEN)?;
            arms.push((condition, self.some_steps_until(ENDS)?));
            if !self.eat_kw(Kw::ELSEIF) {
                break;
            }
        }
        let otherwise = match self.eat_kw(Kw::ELSE) {
            true => self.some_steps_until(&[Kw::END])?,
            false => Vec::new(),
        };
        self.expect_seq(&[Kw::END, Kw::IF])?;
        Ok(Step::If {
            arms,
            otherwise: Some(otherwise),
        })
    }

    fn case_step(&mut self) -> SqlResult<Step> {
        self.advance();
        let operand = match self.at(Kw::WHEN) {
            true => None,
            false => {
                let operand = self.formula()?;
                Some((self.scope().slot("", None)?, operand))
            }
        };
        let mut arms = Vec::new();
        self.expect_kw(Kw::WHEN)?;
        loop {
            let mut condition = self.formula()?;
            if let Some((slot, _)) = &operand {
                condition = compared_with(*slot, condition);
            }
            self.expect_kw(Kw::THEN)?;
            arms.push((
                condition,
                self.some_steps_until(&[Kw::WHEN, Kw::ELSE, Kw::END])?,
            ));
            if !self.eat_kw(Kw::WHEN) {
                break;
            }
        }
        let otherwise = match self.eat_kw(Kw::ELSE) {
            true => Some(self.some_steps_until(&[Kw::END])?),
            false => None,
        };
        self.expect_seq(&[Kw::END, Kw::CASE])?;
        Ok(match operand {
            Some((slot, operand)) => Step::Case {
                slot,
                operand,
                arms,
                otherwise,
            },
            None => Step::If { arms, otherwise },
        })
    }

    // Simple statements.

    fn return_step(&mut self) -> SqlResult<Step> {
        self.advance();
        if self.scope().kind != ProgramKind::Function {
            return Err(errors::return_outside_function());
        }
        self.scope().traits.returns = true;
        Ok(Step::Return(self.formula()?))
    }

    fn cursor(&mut self) -> SqlResult<u32> {
        let name = self.ident()?;
        self.scope().cursor(&name.text)
    }

    /// `FETCH [[NEXT] FROM] cursor INTO …`
    fn fetch(&mut self) -> SqlResult<Step> {
        self.advance();
        if self.at(Kw::NEXT) && self.peek_is(Kw::FROM) {
            self.advance();
        }
        self.eat_kw(Kw::FROM);
        let cursor = self.cursor()?;
        self.expect_kw(Kw::INTO)?;
        let into = self.list(Self::variable)?;
        Ok(Step::Fetch { cursor, into })
    }

    /// A variable of the body; FETCH knows no others.
    fn variable(&mut self) -> SqlResult<Target> {
        match self.at_ident() {
            true => self.target(),
            false => self.fail(),
        }
    }

    /// SET in a body: variables of the body, and what SET sets elsewhere.
    fn set_steps(&mut self) -> SqlResult<Vec<Step>> {
        let start = self.cur.start;
        let mut ahead = self.clone();
        ahead.advance();
        if !ahead.at_local_target() && ahead.at_other_set() {
            self.scope().places.clear();
            let statement = self.set_statement()?;
            self.admit(&statement)?;
            return Ok(one(self.sql_of(statement, start)));
        }
        *self = ahead;
        let mut scope = StandingScope::default();
        self.list(|p| p.set_step(&mut scope))
    }

    /// Does something come behind SET that is no list of variables?
    fn at_other_set(&self) -> bool {
        let next = self.peek().tok;
        match self.kw() {
            Kw::TRANSACTION | Kw::ROLE => true,
            Kw::PASSWORD => next != Tok::Assign,
            Kw::DEFAULT => next == Tok::Word(Kw::ROLE),
            Kw::RESOURCE => next == Tok::Word(Kw::GROUP),
            Kw::GLOBAL | Kw::SESSION | Kw::LOCAL => next == Tok::Word(Kw::TRANSACTION),
            _ => false,
        }
    }

    fn set_step(&mut self, scope: &mut StandingScope) -> SqlResult<Step> {
        let start = self.cur.start;
        if self.at_local_target() {
            let name = self.ident()?;
            let target = self.local_target(&name)?;
            let target = target.ok_or_else(|| errors::undeclared_variable(&name))?;
            self.expect_assign()?;
            let value = self.formula()?;
            return Ok(Step::Assign { target, value });
        }
        self.scope().places.clear();
        let statement = Statement::Set(vec![self.set_item(scope)?]);
        self.admit(&statement)?;
        let mut step = self.sql_of(statement, start);
        if let Step::Sql(sql) = &mut step {
            let inherited = scope.scope.filter(|_| scope.is_inherited);
            sql.text = match inherited {
                Some(scope) => format!("SET {} {}", scope.word(), sql.text).into(),
                None => format!("SET {}", sql.text).into(),
            };
        }
        Ok(step)
    }

    /// Does a variable of the body, or a column of a row, come next in SET?
    fn at_local_target(&self) -> bool {
        let Some(scope) = &self.program else {
            return false;
        };
        if !self.at_ident() || matches!(self.kw(), Kw::NAMES | Kw::PASSWORD) {
            return false;
        }
        let Ok(name) = self.ident_of(self.cur) else {
            return false;
        };
        match self.peek().tok {
            Tok::Eq | Tok::Assign => scope.variable(&name.text).is_some(),
            Tok::Dot => scope.row_of(&name.text).is_some(),
            _ => false,
        }
    }

    fn sql_step(&mut self) -> SqlResult<Step> {
        let start = self.cur.start;
        self.refuse_beginning()?;
        self.scope().places.clear();
        let statement = self.statement()?;
        self.admit(&statement)?;
        Ok(self.sql_of(statement, start))
    }

    fn sql_of(&mut self, statement: Statement, start: usize) -> Step {
        let text = self.source(start, self.prev_end);
        let places = std::mem::take(&mut self.scope().places);
        Step::Sql(Box::new(SqlStep {
            statement: Arc::new(statement),
            places,
            text,
        }))
    }
}

fn one(step: Step) -> Vec<Step> {
    vec![step]
}

/// An arm of a CASE with an operand, which is in a slot.
fn compared_with(slot: u32, arm: Formula) -> Formula {
    let Formula { expr, mut places } = arm;
    let nth = places.len() as u32;
    places.push(Place::Local(slot));
    Formula {
        expr: Expr::Binary {
            op: BinaryOp::Eq,
            left: Box::new(Expr::Param(nth)),
            right: Box::new(expr),
        },
        places,
    }
}
