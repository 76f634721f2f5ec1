//! Stored programs: what is known while a body is read, and the entries into it.
//!
//! Neighbours: `statement` comes here for CREATE and ALTER of routines, `operand` and `query` for names that may be
//! variables. Parts: `routine` (CREATE PROCEDURE and FUNCTION), `compound` (statements), `declare` (DECLARE), `allowed`
//! (what a body may not contain), `condition` (SIGNAL, RESIGNAL, GET DIAGNOSTICS).
//!
//! **Invariants**: a scope exists exactly while a body is read; names are compared without case, the innermost wins,
//! and what is declared behind a use is not seen by it; a handler sees no label of the blocks around it.

mod allowed;
mod compound;
mod condition;
mod declare;
mod routine;

use esker_types::hex::upper_hex;
use esker_types::trigger::TriggerEvent;
use esker_types::{SqlResult, errors};

use super::ast::{
    Body, BodyTraits, ConditionValue, CursorQuery, DataType, Expr, Formula, Ident, Place, Target,
    TypeName, Variable,
};
use super::lexer::{Lexer, Tok};
use super::parser::{Parser, near};

/// Most variables and parameters of a body: a frame is made for each call.
const MAX_SLOTS: usize = 65_535;

/// Which kind of program a body is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// CREATE PROCEDURE.
    Procedure,
    /// CREATE FUNCTION.
    Function,
    /// CREATE TRIGGER.
    Trigger {
        /// What fires it.
        by: TriggerEvent,
        /// BEFORE.
        before: bool,
    },
    /// CREATE EVENT, ALTER EVENT … DO.
    Event,
}

impl ProgramKind {
    /// May the body neither commit nor give rows to a client?
    fn is_within_statement(self) -> bool {
        !matches!(self, Self::Procedure | Self::Event)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Procedure => "procedure",
            Self::Function => "function",
            Self::Trigger { .. } => "trigger",
            Self::Event => "event",
        }
    }
}

/// What is known of a body while it is read.
#[derive(Debug, Clone)]
pub(super) struct ProgramScope {
    kind: ProgramKind,
    slots: Vec<Variable>,
    cursors: Vec<CursorQuery>,
    /// Names of the blocks around the current place, the innermost last.
    blocks: Vec<Names>,
    labels: Vec<Label>,
    next_label: u32,
    /// What the parameters of the present statement or expression are.
    places: Vec<Place>,
    traits: BodyTraits,
}

/// What a block declares.
#[derive(Debug, Clone, Default)]
struct Names {
    variables: Vec<(Box<str>, u32)>,
    conditions: Vec<(Box<str>, ConditionValue)>,
    cursors: Vec<(Box<str>, u32)>,
    handled: Vec<ConditionValue>,
}

#[derive(Debug, Clone)]
enum Label {
    /// Of a block or a loop.
    Named {
        name: Box<str>,
        id: u32,
        of_loop: bool,
    },
    /// A handler begins: what is before it cannot be left from here.
    Handler,
}

/// Are these the same name?
fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase()
}

fn find<T: Copy>(list: &[(Box<str>, T)], name: &str) -> Option<T> {
    let found = list.iter().find(|(known, _)| same(known, name));
    found.map(|(_, what)| *what)
}

fn is_integer(ty: TypeName) -> bool {
    use TypeName::{BigInt, Bool, Int, MediumInt, Serial, SmallInt, TinyInt};
    matches!(
        ty,
        Bool | TinyInt | SmallInt | MediumInt | Int | BigInt | Serial
    )
}

impl ProgramScope {
    fn new(kind: ProgramKind) -> Self {
        Self {
            kind,
            slots: Vec::new(),
            cursors: Vec::new(),
            blocks: vec![Names::default()],
            labels: Vec::new(),
            next_label: 0,
            places: Vec::new(),
            traits: BodyTraits::default(),
        }
    }

    fn names(&mut self) -> &mut Names {
        self.blocks.last_mut().expect("the outermost block stays")
    }

    fn variable(&self, name: &str) -> Option<u32> {
        let mut blocks = self.blocks.iter().rev();
        blocks.find_map(|names| find(&names.variables, name))
    }

    fn condition(&self, name: &str) -> SqlResult<ConditionValue> {
        let mut blocks = self.blocks.iter().rev();
        blocks
            .find_map(|names| find(&names.conditions, name))
            .ok_or_else(|| errors::undefined_condition(name))
    }

    fn cursor(&self, name: &str) -> SqlResult<u32> {
        let mut blocks = self.blocks.iter().rev();
        blocks
            .find_map(|names| find(&names.cursors, name))
            .ok_or_else(|| errors::undefined_cursor(name))
    }

    /// A new slot of the frame.
    fn slot(&mut self, name: &str, ty: Option<DataType>) -> SqlResult<u32> {
        if self.slots.len() >= MAX_SLOTS {
            return Err(errors::out_of_memory(
                "too many variables of a stored program",
            ));
        }
        self.slots.push(Variable {
            name: name.into(),
            ty,
        });
        Ok(self.slots.len() as u32 - 1)
    }

    /// The parameter that stands for a place.
    fn param(&mut self, place: Place) -> Expr {
        let known = self.places.iter().position(|p| *p == place);
        let nth = known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        });
        Expr::Param(nth as u32)
    }

    fn find_label(&self, name: &str) -> Option<(u32, bool)> {
        for label in self.labels.iter().rev() {
            match label {
                Label::Handler => return None,
                Label::Named {
                    name: known,
                    id,
                    of_loop,
                } if same(known, name) => {
                    return Some((*id, *of_loop));
                }
                Label::Named { .. } => {}
            }
        }
        None
    }

    /// `NEW` or `OLD`, if that is what `table` means here.
    fn row_of(&self, table: &str) -> Option<RowName> {
        let ProgramKind::Trigger { by, before } = self.kind else {
            return None;
        };
        let is_new = table.eq_ignore_ascii_case("NEW");
        if !is_new && !table.eq_ignore_ascii_case("OLD") {
            return None;
        }
        Some(RowName { is_new, by, before })
    }
}

/// `NEW` or `OLD` in a trigger.
struct RowName {
    is_new: bool,
    by: TriggerEvent,
    before: bool,
}

impl RowName {
    fn exists(&self) -> SqlResult<()> {
        match (self.is_new, self.by) {
            (true, TriggerEvent::Delete) => Err(errors::no_such_row("NEW", self.by.word())),
            (false, TriggerEvent::Insert) => Err(errors::no_such_row("OLD", self.by.word())),
            _ => Ok(()),
        }
    }

    fn place(&self, column: Ident) -> SqlResult<Place> {
        self.exists()?;
        Ok(match self.is_new {
            true => Place::New(column.text),
            false => Place::Old(column.text),
        })
    }

    fn target(&self, column: Ident) -> SqlResult<Target> {
        if !self.is_new {
            return Err(errors::row_not_updatable("OLD", ""));
        }
        self.exists()?;
        match self.before {
            true => Ok(Target::New(column.text)),
            false => Err(errors::row_not_updatable("NEW", "after ")),
        }
    }
}

impl Parser<'_> {
    /// Reads a body. `declare` makes the parameters of a routine known first.
    pub(super) fn program_body(
        &mut self,
        kind: ProgramKind,
        declare: impl FnOnce(&mut ProgramScope) -> SqlResult<()>,
    ) -> SqlResult<Body> {
        let mut scope = ProgramScope::new(kind);
        declare(&mut scope)?;
        let (params, lift) = (self.opts.params, self.opts.lift);
        (self.opts.params, self.opts.lift) = (false, None);
        let accounts = self.accounts.clone();
        let start = self.cur.start;
        self.program = Some(Box::new(scope));
        let root = self.compound_statement();
        let scope = self.program.take().expect("set above");
        (self.opts.params, self.opts.lift) = (params, lift);
        // Accounts in a body are not those of the statement that stores it.
        self.accounts = accounts;
        Ok(Body {
            root: root?,
            slots: scope.slots,
            cursors: scope.cursors,
            text: self.kept_source(start, self.prev_end),
            traits: scope.traits,
        })
    }

    /// The source text of a body, which is kept as text: introduced literals with bytes that are none become
    /// hexadecimal.
    fn kept_source(&self, start: usize, end: usize) -> Box<str> {
        if std::str::from_utf8(&self.src[start..end]).is_ok() {
            return self.source(start, end);
        }
        let mut lexer = Lexer::new(&self.src[..end], start, self.opts.sql_mode);
        let (mut out, mut copied) = (String::new(), start);
        let mut token = lexer.next_token();
        while token.tok != Tok::Eof {
            let is_introducer = token.tok == Tok::Introducer;
            token = lexer.next_token();
            let (begin, mut value, mut behind) = (token.start, Vec::new(), token.start);
            while is_introducer && token.tok == Tok::Str {
                value.extend(self.unescape(&self.src[token.start..token.end]));
                behind = token.end;
                token = lexer.next_token();
            }
            if std::str::from_utf8(&value).is_err() {
                out.push_str(&String::from_utf8_lossy(&self.src[copied..begin]));
                out.push_str(&format!(" X'{}'", upper_hex(&value)));
                copied = behind;
            }
        }
        out.push_str(&String::from_utf8_lossy(&self.src[copied..end]));
        out.trim_ascii().into()
    }

    fn scope(&mut self) -> &mut ProgramScope {
        self.program.as_mut().expect("a body is being read")
    }

    /// Does the body have a variable of this name here?
    pub(super) fn has_variable(&self, name: &str) -> bool {
        let scope = self.program.as_ref();
        scope.is_some_and(|scope| scope.variable(name).is_some())
    }

    /// A name without a table that is a variable of the body.
    pub(super) fn local_operand(&mut self, name: &Ident) -> Option<Expr> {
        let scope = self.program.as_mut()?;
        if self.cur.tok == Tok::Dot {
            return None;
        }
        let slot = scope.variable(&name.text)?;
        Some(scope.param(Place::Local(slot)))
    }

    /// A name that is a variable of the body, whose type has to be that of an integer.
    ///
    /// # Errors
    /// 1064.
    pub(super) fn integer_operand(&mut self) -> SqlResult<(Ident, Option<Expr>)> {
        let start = self.cur.start;
        let name = self.ident()?;
        let slot = self.program.as_ref().and_then(|scope| {
            let slot = scope.variable(&name.text)?;
            scope.slots.get(slot as usize)
        });
        if let Some(ty) = slot.and_then(|slot| slot.ty.as_ref())
            && !is_integer(ty.name)
        {
            let (near, line) = near(&self.src[self.begin..], start - self.begin);
            return Err(errors::no_integer_variable(&name, near, line));
        }
        let local = self.local_operand(&name);
        if local.is_some() {
            self.note_variable();
        }
        Ok((name, local))
    }

    /// `NEW.column` or `OLD.column`, of which the first word is read.
    pub(super) fn row_operand(&mut self, table: &Ident) -> SqlResult<Option<Expr>> {
        let Some(row) = self.program.as_ref().and_then(|s| s.row_of(&table.text)) else {
            return Ok(None);
        };
        if !self.eat(Tok::Dot) {
            return Ok(None);
        }
        let place = row.place(self.ident()?)?;
        Ok(Some(self.scope().param(place)))
    }

    /// A variable that a value goes to: `@name`, a variable of the body, `NEW.column`.
    pub(super) fn target(&mut self) -> SqlResult<Target> {
        if let Some(name) = self.opt_assigned_var()? {
            return Ok(Target::User(name));
        }
        let name = self.ident()?;
        match self.local_target(&name)? {
            Some(target) => Ok(target),
            None => Err(errors::undeclared_variable(&name)),
        }
    }

    fn local_target(&mut self, name: &Ident) -> SqlResult<Option<Target>> {
        let Some(scope) = &self.program else {
            return Ok(None);
        };
        if !self.is(Tok::Dot) {
            return Ok(scope.variable(&name.text).map(Target::Local));
        }
        let Some(row) = scope.row_of(&name.text) else {
            return Ok(None);
        };
        self.advance();
        row.target(self.ident()?).map(Some)
    }

    /// An expression of the body, with the places that it reads.
    fn formula(&mut self) -> SqlResult<Formula> {
        self.scope().places.clear();
        let expr = self.expr()?;
        Ok(Formula {
            expr,
            places: std::mem::take(&mut self.scope().places),
        })
    }
}
