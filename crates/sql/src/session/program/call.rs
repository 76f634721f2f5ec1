//! CALL: which routine, its arguments, and where OUT parameters go.
//!
//! Neighbours: `machine` runs the frame that is made here; `environment` is entered for it.
//! **Invariants**: arguments are evaluated by the caller, with its privileges; a routine is compiled once per session
//! and definition; a procedure runs in itself at most `max_sp_recursion_depth` times.

use std::sync::Arc;

use esker_sql_catalog::catalog::{RoutineDef, RoutineKey};
use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::mdl::{MdlDuration, MdlMode};
use esker_sql_catalog::result::{ColumnMeta, Mode};
use esker_sql_syntax::ast::{BodyTraits, Expr, ObjectName, ParameterMode};
use esker_types::program::RoutineKind;
use esker_types::{SqlError, SqlResult, SqlType, TypeKind, Value, errors};

use super::super::Session;
use super::super::plans::PlanKey;
use super::super::run::Done;
use super::super::set::is_plain;
use super::environment::Environment;
use super::machine::{Flow, Frame, Machine};
use super::{Loaded, MAX_LOADED};
use crate::infoschema::sys::procedures;
use crate::program::{Destination, Formula, Program, Source, Sql, stored};

/// Most programs that call each other.
const MAX_FRAMES: usize = 512;

/// What becomes of an OUT or INOUT parameter.
pub(super) struct OutParameter {
    /// Its slot.
    pub(super) slot: usize,
    to: OutTarget,
}

enum OutTarget {
    /// A variable of the caller.
    Variable(Destination),
    /// A placeholder of a prepared CALL.
    Placeholder(u32, ColumnMeta),
}

/// An argument, evaluated.
struct Argument {
    value: (Value, SqlType),
    to: Option<OutTarget>,
}

impl Session {
    /// CALL as a statement of its own. `prepared`: its parameters can take values.
    pub(in super::super) fn call(
        &mut self,
        (name, args): (&ObjectName, &[Expr]),
        params: &[Value],
        prepared: bool,
        mode: Mode,
    ) -> Result<Done, ExecError> {
        if mode == Mode::Inline {
            return Ok(Done::NeedThread);
        }
        self.hold_procedure(name)?;
        let mut loaded = self.load_procedure(name)?;
        check_count(&loaded, args.len())?;
        let program = loaded.program.clone();
        let mut arguments = Vec::with_capacity(args.len());
        for (nth, (arg, way)) in args.iter().zip(&program.modes).enumerate() {
            let to = match (way, arg) {
                (ParameterMode::In, _) => None,
                (_, Expr::UserVar(name)) => {
                    Some(OutTarget::Variable(Destination::User(name.clone())))
                }
                (_, Expr::Param(param)) if prepared => {
                    let slot = &program.slots[nth];
                    let ty = slot.ty.clone().expect("a parameter has a type");
                    let meta = ColumnMeta::computed(&*slot.name, ty);
                    Some(OutTarget::Placeholder(*param, meta))
                }
                _ => return Err(no_variable(nth, &loaded.def).into()),
            };
            let value = match way {
                ParameterMode::Out => (Value::Null, null_type()),
                _ => self.argument(arg, params)?,
            };
            arguments.push(Argument { value, to });
        }
        let frame = self.frame(&mut loaded, arguments)?;
        Ok(Done::Program(Box::new(Machine::new(frame))))
    }

    /// What is found out when a CALL is prepared: that there is such a procedure, with so many parameters.
    ///
    /// # Errors
    /// 1046, 1305, 1318, 1370.
    pub(in super::super) fn check_call(&mut self, name: &ObjectName, args: usize) -> SqlResult<()> {
        let loaded = self.load_procedure(name)?;
        check_count(&loaded, args)
    }

    fn argument(&mut self, arg: &Expr, params: &[Value]) -> Result<(Value, SqlType), ExecError> {
        let is_plain = is_plain(arg);
        if !is_plain {
            self.use_transaction();
        }
        self.program.strict = self.vars.sql_mode.is_strict();
        let value = self.evaluate(arg, params);
        self.program.strict = false;
        let value = value?;
        if !is_plain {
            self.end_statement(true)?;
        }
        Ok(value)
    }

    /// CALL in a program.
    pub(super) fn call_inside(
        &mut self,
        machine: &mut Machine,
        sql: &Sql,
        (name, args): (&ObjectName, &[Expr]),
    ) -> Result<Flow, ExecError> {
        self.hold_procedure(name)?;
        let mut loaded = self.load_procedure(name)?;
        check_count(&loaded, args.len())?;
        self.check_recursion(machine, &loaded.def)?;
        let program = loaded.program.clone();
        self.check_traits(program.traits)?;
        let mut arguments = Vec::with_capacity(args.len());
        for (nth, (arg, way)) in args.iter().zip(&program.modes).enumerate() {
            let frame = machine.frames.last().expect("its program runs");
            let to = match way {
                ParameterMode::In => None,
                _ => {
                    let to = destination(arg, sql).ok_or_else(|| no_variable(nth, &loaded.def))?;
                    Some(OutTarget::Variable(to))
                }
            };
            let value = match way {
                ParameterMode::Out => (Value::Null, null_type()),
                _ => {
                    let formula = Formula {
                        expr: arg.clone(),
                        sources: sql.sources.clone(),
                        number: None,
                    };
                    self.value_for(frame, &formula)?
                }
            };
            arguments.push(Argument { value, to });
        }
        let frame = self.frame(&mut loaded, arguments)?;
        Ok(Flow::Call(Box::new(frame)))
    }

    /// The frame of a program that is about to run; its environment is entered.
    fn frame(&mut self, loaded: &mut Loaded, arguments: Vec<Argument>) -> SqlResult<Frame> {
        let program = loaded.program.clone();
        let mut values = Vec::with_capacity(program.slots.len());
        let mut outs = Vec::new();
        for (slot, argument) in arguments.into_iter().enumerate() {
            let variable = &program.slots[slot];
            let ty = variable.ty.as_ref().expect("a parameter has a type");
            let (value, from) = argument.value;
            values.push(self.converted(value, &from, (ty, &variable.name))?);
            if let Some(to) = argument.to {
                outs.push(OutParameter { slot, to });
            }
        }
        self.enter_routine(loaded)?;
        self.lift_select_limit()?;
        Ok(Frame::new(loaded, values, outs))
    }

    /// Enters a routine's environment.
    ///
    /// # Errors
    /// 1449.
    pub(super) fn enter_routine(&mut self, loaded: &mut Loaded) -> SqlResult<()> {
        let def = loaded.def.clone();
        self.enter_program(&def.schema, &def.settings, &mut loaded.binding)?;
        if self
            .program
            .outer
            .last()
            .is_some_and(Environment::has_actor)
        {
            // A definer needs what a caller needs.
            if let Err(e) = self.context.require_routine("EXECUTE", &def) {
                self.leave_program();
                return Err(e);
            }
        }
        let key = (def.schema.clone(), def.key());
        self.program.loaded.insert(key, loaded.clone());
        Ok(())
    }

    /// Gives the caller an OUT parameter.
    pub(super) fn give_out(
        &mut self,
        machine: &mut Machine,
        out: OutParameter,
        value: (Value, SqlType),
    ) -> SqlResult<()> {
        match out.to {
            OutTarget::Placeholder(_, meta) => {
                machine.placeholders.push((meta, value.0));
                Ok(())
            }
            OutTarget::Variable(Destination::User(name)) => {
                self.context.set_user_var(&name, value.0, value.1)
            }
            OutTarget::Variable(to) => {
                let caller = machine.frames.last_mut().expect("it has called");
                self.assign(caller, &to, value)
            }
        }
    }

    /// What a procedure has that must not be inside of a statement.
    fn check_traits(&self, traits: BodyTraits) -> SqlResult<()> {
        if !self.program.is_nested() {
            return Ok(());
        }
        match traits {
            BodyTraits {
                dynamic_sql: true, ..
            } => Err(errors::not_in_function("Dynamic SQL")),
            BodyTraits {
                result_sets: true, ..
            } => Err(self.no_result_set()),
            BodyTraits { commits, .. } => commits.map_or(Ok(()), |commits| Err(commits.refusal())),
        }
    }

    pub(super) fn check_recursion(&self, machine: &Machine, def: &RoutineDef) -> SqlResult<()> {
        if machine.frames.len() >= MAX_FRAMES {
            let what = format!("more than {MAX_FRAMES} stored programs call each other");
            return Err(errors::too_deep(what));
        }
        let is_same = |frame: &&Frame| {
            let routine = frame.routine.as_ref();
            routine.is_some_and(|r| r.schema == def.schema && r.key() == def.key())
        };
        let running = machine.frames.iter().filter(is_same).count() as u64;
        let limit = self.values.named("max_sp_recursion_depth").as_u64();
        match running > limit {
            true => Err(errors::recursion_limit(limit, &def.name)),
            false => Ok(()),
        }
    }

    /// Keeps others from changing a procedure until the transaction that calls it ends; what commits at its end keeps
    /// nothing.
    fn hold_procedure(&mut self, name: &ObjectName) -> Result<(), ExecError> {
        if self.commits_at_end() {
            return Ok(());
        }
        let (schema, routine) = self.context.full_name(name)?;
        let locks = self.context.instance.catalog.locks();
        let object = locks.routine(RoutineKind::Procedure, schema, routine);
        let (mode, until) = (MdlMode::SharedRead, MdlDuration::Transaction);
        self.locks.acquire(&object, mode, until)
    }

    /// A procedure by name, compiled, which the account may run.
    ///
    /// # Errors
    /// 1046, 1305, 1370.
    fn load_procedure(&mut self, name: &ObjectName) -> SqlResult<Loaded> {
        let kind = RoutineKind::Procedure;
        let (schema, routine) = match &name.schema {
            Some(schema) => (&*schema.text, &*name.name.text),
            None => (self.context.current_schema()?, &*name.name.text),
        };
        let key = RoutineKey::new(kind, routine);
        let catalog = &self.context.instance.catalog;
        let found = catalog.routine(schema, &key);
        let found = found.or_else(|| procedures::find(schema, &key));
        // Whoever may not call it does not hear whether it is there.
        let (context, name) = (&self.context, (kind, schema, routine));
        context.admit_routine(&context.access, "EXECUTE", name)?;
        let def = found
            .ok_or_else(|| errors::does_not_exist(kind.text(), format!("{schema}.{routine}")))?;
        self.loaded(&def)
    }

    /// A routine, compiled.
    pub(super) fn loaded(&mut self, def: &Arc<RoutineDef>) -> SqlResult<Loaded> {
        let key = (def.schema.clone(), def.key());
        if let Some(known) = self.program.loaded.get(&key)
            && Arc::ptr_eq(&known.def, def)
        {
            return Ok(known.clone());
        }
        let program = self.compile_routine(def)?;
        if self.program.loaded.len() >= MAX_LOADED {
            self.forget_programs();
        }
        Ok(Loaded {
            first_plan: self.prepared.reserve_ids(program.plans),
            def: def.clone(),
            program,
            binding: None,
        })
    }

    fn forget_programs(&mut self) {
        for loaded in std::mem::take(&mut self.program.loaded).into_values() {
            for number in 0..loaded.program.plans {
                let id = loaded.first_plan.wrapping_add(number);
                self.plans.forget(PlanKey::Prepared(id));
            }
        }
    }

    /// Compiles a routine from its stored text.
    pub(super) fn compile_routine(&self, def: &RoutineDef) -> SqlResult<Arc<Program>> {
        let create = stored::read(def, self.parse_options())?;
        let collation = stored::collation_of(def);
        let returns = stored::signature(&create, collation)?.returns;
        Program::compile(&create.body, create.modes, returns, &[], collation)
    }
}

impl Machine {
    /// EXECUTE … USING: placeholders stand for user variables.
    pub(in super::super) fn use_variables(&mut self, names: &[Box<str>]) {
        let outs = self.frames.iter_mut().flat_map(|frame| &mut frame.outs);
        for out in outs {
            if let OutTarget::Placeholder(nth, _) = &out.to
                && let Some(name) = names.get(*nth as usize)
            {
                out.to = OutTarget::Variable(Destination::User(name.clone()));
            }
        }
    }
}

/// The variable that an argument is.
fn destination(arg: &Expr, sql: &Sql) -> Option<Destination> {
    match arg {
        Expr::UserVar(name) => Some(Destination::User(name.clone())),
        Expr::Param(nth) => match sql.sources.get(*nth as usize)? {
            Source::Local(slot) => Some(Destination::Local(*slot)),
            Source::New(column) => Some(Destination::New(*column)),
            Source::Old(_) => None,
        },
        _ => None,
    }
}

fn null_type() -> SqlType {
    SqlType::new(TypeKind::Null)
}

fn check_count(loaded: &Loaded, given: usize) -> SqlResult<()> {
    let wanted = loaded.program.modes.len();
    match given == wanted {
        true => Ok(()),
        false => {
            let name = format!("{}.{}", loaded.def.schema, loaded.def.name);
            Err(errors::wrong_argument_count(
                "PROCEDURE",
                name,
                wanted,
                given,
            ))
        }
    }
}

fn no_variable(nth: usize, def: &RoutineDef) -> SqlError {
    errors::argument_is_no_variable(nth + 1, format!("{}.{}", def.schema, def.name))
}
