//! From the tree of a body to instructions.
//!
//! Neighbours: `code` has the instructions, `session::program` asks for a routine's program when it is first called.
//! **Invariants**: every jump that is not known when it is written is patched before the program is given out; a block
//! that is left in any way closes its cursors, and those of all blocks inside.

use std::sync::Arc;

use esker_sql_catalog::catalog::{ColumnDef, same_name};
use esker_sql_catalog::variables::VarId;
use esker_sql_plan::bind::types::column_type;
use esker_sql_syntax::ast::{
    self, Block, Body, DiagnosticsItems, Handler, Into as IntoClause, ParameterMode, Place,
    SetItem, Statement, Step, Target,
};
use esker_types::collation::Collation;
use esker_types::{SqlResult, SqlType, errors};

use super::code::{Destination, Formula, Instruction, Op, Program, Slot, Source, Sql};
use super::handler::{HandlerDef, Scope};

/// A jump that is patched later.
const LATER: usize = usize::MAX;

impl Program {
    /// Compiles a body. `modes` are the ways of its parameters, `returns` the result of a function; `columns` are those
    /// of a trigger's table; `collation` is that of character variables without one of their own.
    ///
    /// # Errors
    /// Types that no variable can have; 1054 for columns of NEW and OLD that are not there; 1193.
    pub(crate) fn compile(
        body: &Body,
        modes: Vec<ParameterMode>,
        returns: Option<SqlType>,
        columns: &[ColumnDef],
        collation: Collation,
    ) -> SqlResult<Arc<Self>> {
        let slots = body.slots.iter().map(|variable| {
            let ty = variable.ty.as_ref();
            let ty = ty.map(|ty| column_type(ty, &variable.name, collation));
            Ok(Slot {
                name: variable.name.clone(),
                ty: ty.transpose()?,
            })
        });
        let program = Self {
            code: Vec::new(),
            slots: slots.collect::<SqlResult<_>>()?,
            modes,
            returns,
            cursors: Vec::new(),
            scopes: vec![Scope {
                parent: None,
                handlers: Vec::new(),
            }],
            handlers: Vec::new(),
            plans: 0,
            traits: body.traits,
        };
        let mut compiler = Compiler {
            program,
            columns,
            scope: 0,
            depth: 0,
            labels: Vec::new(),
        };
        for cursor in &body.cursors {
            let sql = compiler.sql(&cursor.query)?;
            compiler.program.cursors.push(sql);
        }
        compiler.step(&body.root)?;
        compiler.program.validate();
        Ok(Arc::new(compiler.program))
    }
}

/// A block or a loop that is being written.
struct Label {
    id: u32,
    /// Where ITERATE goes on.
    start: usize,
    /// Jumps of LEAVE, to be patched.
    leaves: Vec<usize>,
    /// How many cursors there were before it.
    cursors: Vec<usize>,
}

struct Compiler<'a> {
    program: Program,
    columns: &'a [ColumnDef],
    scope: usize,
    depth: usize,
    labels: Vec<Label>,
}

impl Compiler<'_> {
    fn here(&self) -> usize {
        self.program.code.len()
    }

    fn push(&mut self, op: Op) -> usize {
        let at = self.here();
        self.program.code.push(Instruction {
            op,
            scope: self.scope,
            resume: at + 1,
        });
        at
    }

    /// Lets a jump lead to the next instruction.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.program.code[jump].op {
            Op::Jump(to) | Op::Branch { otherwise: to, .. } | Op::EndHandler(Some(to)) => {
                debug_assert_eq!(*to, LATER, "patched once");
                *to = here;
            }
            other => unreachable!("{other:?} is no jump"),
        }
    }

    /// Behind the next instruction a CONTINUE handler goes on after a condition at one of `at`.
    fn resume_here(&mut self, at: &[usize]) {
        let here = self.here();
        for &nth in at {
            self.program.code[nth].resume = here;
        }
    }

    fn steps(&mut self, steps: &[Step]) -> SqlResult<()> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> SqlResult<()> {
        match step {
            Step::Block(block) => self.block(block)?,
            Step::Sequence(steps) => self.steps(steps)?,
            Step::Assign { target, value } => {
                let to = self.destination(target)?;
                let value = self.formula(value)?;
                self.push(Op::Assign { to, value });
            }
            Step::Sql(sql) => {
                let sql = Box::new(self.sql(sql)?);
                self.push(Op::Sql(sql));
            }
            Step::If { arms, otherwise } => self.arms(arms, otherwise.as_deref(), Vec::new())?,
            Step::Case {
                slot,
                operand,
                arms,
                otherwise,
            } => {
                let value = self.formula(operand)?;
                let to = Destination::Local(*slot as usize);
                let set = self.push(Op::Assign { to, value });
                self.arms(arms, otherwise.as_deref(), vec![set])?;
            }
            Step::Loop {
                label,
                until_not,
                body,
                until,
            } => self.looped(*label, until_not.as_ref(), body, until.as_ref())?,
            Step::Leave(id) => {
                let cursors = self.cursors_inside(*id);
                self.leave_cursors(cursors);
                let jump = self.push(Op::Jump(LATER));
                self.label(*id).leaves.push(jump);
            }
            Step::Iterate(id) => {
                let cursors = self.cursors_inside(*id);
                self.leave_cursors(cursors);
                let start = self.label(*id).start;
                self.push(Op::Jump(start));
            }
            Step::Return(value) => {
                let value = self.formula(value)?;
                self.push(Op::Return(value));
            }
            Step::Open(cursor) => {
                self.push(Op::Open(*cursor as usize));
            }
            Step::Fetch { cursor, into } => {
                let into = into.iter().map(|target| self.destination(target));
                let into = into.collect::<SqlResult<_>>()?;
                self.push(Op::Fetch {
                    cursor: *cursor as usize,
                    into,
                });
            }
            Step::Close(cursor) => {
                self.push(Op::Close(*cursor as usize));
            }
        }
        Ok(())
    }

    fn arms(
        &mut self,
        arms: &[(ast::Formula, Vec<Step>)],
        otherwise: Option<&[Step]>,
        mut conditions: Vec<usize>,
    ) -> SqlResult<()> {
        let mut ends = Vec::new();
        for (condition, steps) in arms {
            let condition = self.formula(condition)?;
            let branch = self.push(Op::Branch {
                condition,
                otherwise: LATER,
            });
            conditions.push(branch);
            self.steps(steps)?;
            ends.push(self.push(Op::Jump(LATER)));
            self.land(branch);
        }
        match otherwise {
            Some(steps) => self.steps(steps)?,
            None => {
                self.push(Op::CaseNotFound);
            }
        }
        ends.into_iter().for_each(|end| self.land(end));
        self.resume_here(&conditions);
        Ok(())
    }

    fn looped(
        &mut self,
        label: Option<u32>,
        until_not: Option<&ast::Formula>,
        body: &[Step],
        until: Option<&ast::Formula>,
    ) -> SqlResult<()> {
        let start = self.here();
        self.open_label(label);
        let head = match until_not {
            Some(condition) => {
                let condition = self.formula(condition)?;
                Some(self.push(Op::Branch {
                    condition,
                    otherwise: LATER,
                }))
            }
            None => None,
        };
        self.steps(body)?;
        match until {
            Some(condition) => {
                let condition = self.formula(condition)?;
                let branch = self.push(Op::Branch {
                    condition,
                    otherwise: start,
                });
                self.resume_here(&[branch]);
            }
            None => {
                self.push(Op::Jump(start));
            }
        }
        if let Some(head) = head {
            self.land(head);
            self.resume_here(&[head]);
        }
        self.close_label(label);
        Ok(())
    }

    // Labels.

    fn open_label(&mut self, label: Option<u32>) {
        let start = self.here();
        if let Some(id) = label {
            self.labels.push(Label {
                id,
                start,
                leaves: Vec::new(),
                cursors: Vec::new(),
            });
        }
    }

    fn close_label(&mut self, label: Option<u32>) {
        if label.is_some() {
            let label = self.labels.pop().expect("opened before");
            label.leaves.into_iter().for_each(|jump| self.land(jump));
        }
    }

    fn label(&mut self, id: u32) -> &mut Label {
        let mut labels = self.labels.iter_mut();
        labels
            .find(|label| label.id == id)
            .expect("the parser knows which labels enclose a step")
    }

    /// Cursors that were declared inside of a block or loop, up to here.
    fn cursors_inside(&mut self, id: u32) -> Vec<usize> {
        self.label(id).cursors.clone()
    }

    fn leave_cursors(&mut self, cursors: Vec<usize>) {
        if !cursors.is_empty() {
            self.push(Op::Leave(cursors));
        }
    }

    // Blocks.

    fn block(&mut self, block: &Block) -> SqlResult<()> {
        self.open_label(block.label);
        let own: Vec<usize> = block.cursors.iter().map(|&c| c as usize).collect();
        for label in &mut self.labels {
            label.cursors.extend(&own);
        }
        for declaration in &block.variables {
            self.declare(declaration)?;
        }
        let outer = self.scope;
        let mut exits = Vec::new();
        if !block.handlers.is_empty() {
            exits = self.handlers(&block.handlers)?;
        }
        self.steps(&block.body)?;
        self.scope = outer;
        exits.into_iter().for_each(|exit| self.land(exit));
        self.leave_cursors(own);
        self.close_label(block.label);
        Ok(())
    }

    fn declare(&mut self, declaration: &ast::Declaration) -> SqlResult<()> {
        for &slot in &declaration.slots {
            let slot = slot as usize;
            match &declaration.default {
                Some(value) => {
                    let value = self.formula(value)?;
                    let to = Destination::Local(slot);
                    self.push(Op::Assign { to, value });
                }
                None => {
                    self.push(Op::Clear(slot));
                }
            }
        }
        Ok(())
    }

    /// Writes the handlers of a block, which are jumped over. Where EXIT handlers end is patched at the block's end.
    fn handlers(&mut self, handlers: &[Handler]) -> SqlResult<Vec<usize>> {
        let over = self.push(Op::Jump(LATER));
        let mut exits = Vec::new();
        let mut declared = Vec::new();
        self.depth += 1;
        for handler in handlers {
            declared.push(self.program.handlers.len());
            let start = self.here();
            self.program.handlers.push(HandlerDef {
                conditions: handler.conditions.clone(),
                start,
                depth: self.depth - 1,
            });
            // Its code has the scope around the block.
            self.step(&handler.body)?;
            let end = self.push(Op::EndHandler(handler.exit.then_some(LATER)));
            if handler.exit {
                exits.push(end);
            }
        }
        self.depth -= 1;
        self.program.scopes.push(Scope {
            parent: Some(self.scope),
            handlers: declared,
        });
        self.scope = self.program.scopes.len() - 1;
        self.land(over);
        Ok(exits)
    }

    // Operands.

    fn formula(&mut self, formula: &ast::Formula) -> SqlResult<Formula> {
        let sources = self.sources(&formula.places)?;
        let has_type = |source: &Source| match source {
            Source::Local(slot) => self.program.slots[*slot].ty.is_some(),
            Source::New(_) | Source::Old(_) => true,
        };
        let is_kept = sources.iter().all(has_type);
        Ok(Formula {
            expr: formula.expr.clone(),
            sources,
            number: is_kept.then(|| self.next_plan()),
        })
    }

    fn next_plan(&mut self) -> u32 {
        self.program.plans += 1;
        self.program.plans - 1
    }

    fn sql(&mut self, sql: &ast::SqlStep) -> SqlResult<Sql> {
        known_variables(&sql.statement)?;
        let number = self.next_plan();
        let into = targets(&sql.statement);
        let into = into.iter().map(|target| self.destination(target));
        Ok(Sql {
            statement: without_into(&sql.statement),
            sources: self.sources(&sql.places)?,
            into: into.collect::<SqlResult<_>>()?,
            text: sql.text.clone(),
            number,
        })
    }

    fn sources(&self, places: &[Place]) -> SqlResult<Vec<Source>> {
        let source = |place: &Place| {
            Ok(match place {
                Place::Local(slot) => Source::Local(*slot as usize),
                Place::New(column) => Source::New(self.column(column, "NEW")?),
                Place::Old(column) => Source::Old(self.column(column, "OLD")?),
            })
        };
        places.iter().map(source).collect()
    }

    fn destination(&self, target: &Target) -> SqlResult<Destination> {
        Ok(match target {
            Target::User(name) => Destination::User(name.clone()),
            Target::Local(slot) => Destination::Local(*slot as usize),
            Target::New(column) => Destination::New(self.column(column, "NEW")?),
        })
    }

    fn column(&self, name: &str, row: &str) -> SqlResult<usize> {
        let found = self.columns.iter().position(|c| same_name(&c.name, name));
        found.ok_or_else(|| errors::unknown_column(name, row))
    }
}

/// 1193 for a SET of a variable that there is not.
fn known_variables(statement: &Statement) -> SqlResult<()> {
    let Statement::Set(items) = statement else {
        return Ok(());
    };
    for item in items {
        if let SetItem::SysVar { var, .. } = item
            && var.base.is_none()
        {
            VarId::find(&var.name)?;
        }
    }
    Ok(())
}

/// The statement without the INTO of variables: the interpreter takes the row.
fn without_into(statement: &Arc<Statement>) -> Arc<Statement> {
    match &**statement {
        Statement::Query(query) if matches!(query.into, Some(IntoClause::Vars(_))) => {
            let mut query = query.clone();
            query.into = None;
            Arc::new(Statement::Query(query))
        }
        _ => statement.clone(),
    }
}

/// What a statement gives values to.
fn targets(statement: &Statement) -> Vec<Target> {
    match statement {
        Statement::Query(query) => match &query.into {
            Some(IntoClause::Vars(targets)) => targets.clone(),
            _ => Vec::new(),
        },
        Statement::GetDiagnostics(get) => match &get.what {
            DiagnosticsItems::Statement(items) => items.iter().map(|i| i.0.clone()).collect(),
            DiagnosticsItems::Condition(_, items) => items.iter().map(|i| i.0.clone()).collect(),
        },
        _ => Vec::new(),
    }
}
