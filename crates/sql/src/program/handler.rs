//! Which handler a condition gets.
//!
//! Neighbours: `compile` lays scopes out, the interpreter asks at the instruction where a condition came up.
//! **Invariants**: the innermost scope with a handler for the condition wins; in a scope a number wins over an
//! SQLSTATE, and that over a class. A handler's own code has the handlers of the scopes around its block, not those of
//! the block.

use esker_sql_syntax::ast::ConditionValue;
use esker_types::Level;

/// Handlers that are declared in one place, and the scope around it.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) parent: Option<usize>,
    pub(crate) handlers: Vec<usize>,
}

/// A handler.
#[derive(Debug, Clone)]
pub(crate) struct HandlerDef {
    pub(crate) conditions: Vec<ConditionValue>,
    /// Where its code begins.
    pub(crate) start: usize,
    /// How many handlers its block is inside of.
    pub(crate) depth: usize,
}

/// A condition, as far as handlers look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen<'a> {
    pub(crate) code: u16,
    pub(crate) state: &'a str,
    pub(crate) level: Level,
}

impl Seen<'_> {
    /// How well a handler's condition fits; the lowest is best.
    fn fit(&self, condition: ConditionValue) -> Option<u8> {
        let class = &self.state[..2];
        let (fits, rank) = match condition {
            ConditionValue::Code(code) => (code == self.code, 0),
            ConditionValue::State(state) => (state == self.state.as_bytes(), 1),
            ConditionValue::Warning => (class == "01" || self.level == Level::Warning, 2),
            ConditionValue::NotFound => (class == "02", 2),
            ConditionValue::Exception => {
                let is_exception = !matches!(class, "00" | "01" | "02");
                (is_exception && self.level == Level::Error, 2)
            }
        };
        fits.then_some(rank)
    }
}

/// The handler for a condition that comes up in `scope`.
pub(crate) fn find(
    scopes: &[Scope],
    handlers: &[HandlerDef],
    scope: usize,
    seen: Seen<'_>,
) -> Option<usize> {
    debug_assert!(seen.state.len() == 5);
    let mut at = Some(scope);
    while let Some(scope) = at.map(|at| &scopes[at]) {
        let fits = scope.handlers.iter().filter_map(|&nth| {
            let ranks = handlers[nth].conditions.iter();
            let best = ranks.filter_map(|c| seen.fit(*c)).min()?;
            Some((best, nth))
        });
        // Of two that fit equally well the first one counts.
        if let Some((_, nth)) = fits.min_by_key(|(rank, _)| *rank) {
            return Some(nth);
        }
        at = scope.parent;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handler(conditions: &[ConditionValue]) -> HandlerDef {
        HandlerDef {
            conditions: conditions.to_vec(),
            start: 0,
            depth: 0,
        }
    }

    #[test]
    fn the_innermost_scope_wins_and_in_it_the_most_exact_condition() {
        use ConditionValue::{Code, Exception, NotFound, State, Warning};
        let handlers = [
            handler(&[Exception]),
            handler(&[State(*b"23000"), NotFound]),
            handler(&[Code(1062)]),
            handler(&[Warning]),
        ];
        let scopes = [
            Scope {
                parent: None,
                handlers: vec![2, 3],
            },
            Scope {
                parent: Some(0),
                handlers: vec![0, 1],
            },
        ];
        let ask = |scope, code, state, level| {
            find(&scopes, &handlers, scope, Seen { code, state, level })
        };
        assert_eq!(
            ask(1, 1062, "23000", Level::Error),
            Some(1),
            "SQLSTATE over class"
        );
        assert_eq!(ask(1, 1146, "42S02", Level::Error), Some(0));
        assert_eq!(ask(0, 1062, "23000", Level::Error), Some(2));
        assert_eq!(ask(0, 1146, "42S02", Level::Error), None);
        assert_eq!(ask(1, 1329, "02000", Level::Error), Some(1));
        assert_eq!(ask(1, 1265, "01000", Level::Warning), Some(3));
        assert_eq!(
            ask(1, 1292, "22007", Level::Warning),
            Some(3),
            "by its level"
        );
        assert_eq!(ask(1, 1051, "42S02", Level::Note), None);
    }
}
