//! What a running statement keeps: the states of its subqueries, shared tables, and what memory it holds.
//!
//! Neighbours: `stream` and `dml` have one per statement; `subquery` and `recursive` keep their states here, `memory`
//! charges through it.
//! **Invariant**: what is reserved of the server's memory covers what is held, but for less than one step.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use esker_engine::{EngineError, MemoryBudget, Reservation};
use esker_sql_plan::expr::CallStates;
use esker_sql_plan::plan::profile::Profile;

use super::SharedRows;
use super::subquery::SubqueryState;

/// States of a statement's subqueries by number, and its memory account. Lives as long as the
/// statement runs (in the row stream, or on the stack of a DML statement).
#[derive(Default)]
pub struct SubqueryStates {
    states: RefCell<Vec<Option<Box<SubqueryState>>>>,
    /// Rows of common table expressions: computed once, or a recursive one's last round.
    tables: RefCell<HashMap<u32, SharedRows>>,
    /// Bytes held by sorts, hash tables and materialised rows.
    pub memory: Cell<u64>,
    /// The same in the account of the whole server, where it is more than a little.
    reserved: RefCell<Reserved>,
    /// What operators did, when the statement is measured.
    pub profile: Option<Box<Profile>>,
    /// What calls in expressions keep from row to row.
    pub calls: CallStates,
}

impl SubqueryStates {
    /// Takes a state out for use (nested evaluation may use others meanwhile).
    pub fn take(&self, id: u32) -> Option<Box<SubqueryState>> {
        self.states
            .borrow_mut()
            .get_mut(id as usize)
            .and_then(Option::take)
    }

    /// Puts a state back.
    pub fn put(&self, id: u32, state: Box<SubqueryState>) {
        let mut all = self.states.borrow_mut();
        if all.len() <= id as usize {
            all.resize_with(id as usize + 1, || None);
        }
        debug_assert!(
            all[id as usize].is_none(),
            "a state is taken by one evaluation at a time"
        );
        all[id as usize] = Some(state);
    }

    /// Rows of a common table expression, when they are there.
    pub fn table(&self, id: u32) -> Option<SharedRows> {
        self.tables.borrow().get(&id).cloned()
    }

    /// Sets the rows of a common table expression.
    pub fn put_table(&self, id: u32, rows: SharedRows) {
        self.tables.borrow_mut().insert(id, rows);
    }

    /// Forgets everything, for another execution of the same plan.
    pub fn clear(&self) {
        self.states.borrow_mut().clear();
        self.calls.clear();
        self.tables.borrow_mut().clear();
        self.set_memory(0);
    }

    /// The statement holds this many bytes now, less than before.
    pub fn set_memory(&self, bytes: u64) {
        debug_assert!(
            bytes <= self.memory.get(),
            "memory is raised by asking for it"
        );
        self.memory.set(bytes);
        self.reserved.borrow_mut().lower(bytes);
    }

    /// The statement is about to hold this many bytes: are they there?
    ///
    /// # Errors
    /// All transactions and statements together would have more than the server may give them.
    pub fn raise_memory(&self, bytes: u64, budget: &Arc<MemoryBudget>) -> Result<(), EngineError> {
        self.reserved.borrow_mut().raise(bytes, budget)?;
        self.memory.set(bytes);
        debug_assert!(self.reserved.borrow().covers(bytes));
        Ok(())
    }

    /// Whether the statement could hold this many bytes, and leave enough to those that cannot spill.
    pub(crate) fn has_room(&self, bytes: u64, budget: &MemoryBudget) -> bool {
        self.reserved.borrow().covers(bytes) || budget.has_room(RESERVATION_STEP as usize)
    }
}

/// What is reserved of the server's memory for something that grows and shrinks.
#[derive(Default)]
pub struct Reserved(Option<Reservation>);

impl Reserved {
    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, Reservation::bytes)
    }

    fn covers(&self, bytes: u64) -> bool {
        reserved_for(bytes) <= self.bytes()
    }

    /// Reserves what is missing to this many bytes.
    pub fn raise(&mut self, bytes: u64, budget: &Arc<MemoryBudget>) -> Result<(), EngineError> {
        let (needed, held) = (reserved_for(bytes), self.bytes());
        if needed <= held {
            return Ok(());
        }
        match &mut self.0 {
            Some(reservation) => reservation.grow(needed - held)?,
            None => self.0 = Some(budget.reserve(needed)?),
        }
        debug_assert_eq!(self.bytes(), needed);
        Ok(())
    }

    /// Gives back what is much more than this many bytes.
    pub fn lower(&mut self, bytes: u64) {
        let needed = reserved_for(bytes);
        let surplus = self.bytes().saturating_sub(needed);
        if needed == 0 {
            self.0 = None;
        } else if surplus > RESERVATION_STEP as usize
            && let Some(reservation) = &mut self.0
        {
            reservation.shrink(surplus);
        }
        debug_assert!(self.bytes() <= needed + RESERVATION_STEP as usize);
    }
}

/// Statements reserve memory in pieces of this size; less than one piece is part of what a connection costs.
pub const RESERVATION_STEP: u64 = 1 << 20;

/// What a statement that holds this many bytes reserves.
fn reserved_for(bytes: u64) -> usize {
    match bytes < RESERVATION_STEP {
        true => 0,
        false => {
            let whole = bytes.next_multiple_of(RESERVATION_STEP);
            debug_assert!(whole >= bytes && whole - bytes < RESERVATION_STEP);
            whole as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use esker_engine::MemoryUse;

    use super::*;

    #[test]
    fn a_statement_reserves_what_is_more_than_a_little() {
        const MIB: usize = 1 << 20;
        let budget = MemoryBudget::new(64 * MIB);
        let states = SubqueryStates::default();
        let reserved = || budget.used(MemoryUse::Statements);
        states.raise_memory(1000, &budget).unwrap();
        assert_eq!((states.memory.get(), reserved()), (1000, 0));
        states.raise_memory(5_000_000, &budget).unwrap();
        assert_eq!((states.memory.get(), reserved()), (5_000_000, 5 * MIB));
        // Half of the memory is for all statements and transactions.
        let refused = states.raise_memory(33 << 20, &budget);
        assert!(matches!(refused, Err(EngineError::OutOfMemory { .. })));
        assert_eq!((states.memory.get(), reserved()), (5_000_000, 5 * MIB));
        // Whoever can spill leaves a quarter of that to who cannot.
        assert!(states.has_room(5 << 20, &budget) && states.has_room(20 << 20, &budget));
        let others = budget.reserve(20 * MIB).unwrap();
        assert!(states.has_room(5 << 20, &budget) && !states.has_room(6 << 20, &budget));
        drop(others);
        // A little less is kept, much less is given back.
        states.set_memory(4_500_000);
        assert_eq!(reserved(), 5 * MIB);
        states.set_memory(2_000_000);
        assert_eq!(reserved(), 2 * MIB);
        states.clear();
        assert_eq!((states.memory.get(), reserved()), (0, 0));
        states.raise_memory(5_000_000, &budget).unwrap();
        drop(states);
        assert_eq!(reserved(), 0);
    }
}
