//! What sessions begin with, derived once: clients ask for one of a few collations, and global variables change seldom.
//!
//! Neighbours: the instance keeps [`StartValues`]; a session asks at its login and when it is reset.
//! **Invariant**: what is kept was derived from the global values as they are now, and is bounded by [`MAX_KEPT`].

use std::sync::Arc;

use esker_types::SqlResult;
use esker_types::collation::Collation;
use parking_lot::Mutex;

use super::{Globals, SessionValues, SessionVars, VarValue};

/// Collations whose values are kept; there are few that drivers ask for.
const MAX_KEPT: usize = 16;

/// The values of new sessions.
#[derive(Default)]
pub struct StartValues(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The global values that all of it was derived from.
    base: Arc<Vec<VarValue>>,
    by_collation: Vec<(Option<Collation>, SessionValues, SessionVars)>,
}

impl StartValues {
    /// What a session begins with whose client asks for this collation.
    ///
    /// # Errors
    /// As [`SessionVars::derive`].
    pub fn of(
        &self,
        globals: &Globals,
        collation: Option<Collation>,
    ) -> SqlResult<(SessionValues, SessionVars)> {
        let mut values = SessionValues::new(globals);
        let mut kept = self.0.lock();
        if !Arc::ptr_eq(&kept.base, &values.base) {
            kept.base = values.base.clone();
            kept.by_collation.clear();
        }
        let mut all = kept.by_collation.iter();
        if let Some((_, values, vars)) = all.find(|(known, ..)| *known == collation) {
            return Ok((values.clone(), vars.clone()));
        }
        // A client that asks for what no statement can be in has the server's.
        if let Some(collation) = collation.filter(|c| c.charset().of_clients()) {
            values.use_collation(collation);
        }
        let vars = SessionVars::derive(&values)?;
        if kept.by_collation.len() == MAX_KEPT {
            kept.by_collation.clear();
        }
        kept.by_collation
            .push((collation, values.clone(), vars.clone()));
        debug_assert!(kept.by_collation.len() <= MAX_KEPT);
        Ok((values, vars))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::VarId;

    fn put(globals: &Globals, name: &str, value: i64) {
        let id = VarId::find(name).unwrap();
        globals
            .set(id, Some(&esker_types::Value::Int(value)))
            .unwrap();
    }

    #[test]
    fn sessions_begin_with_the_present_globals_and_their_own_collation() {
        let (globals, start) = (Globals::default(), StartValues::default());
        for collation in [
            None,
            Some(Collation::UTF8MB4_0900_AI_CI),
            Some(Collation::BINARY),
        ] {
            for seconds in [7, 9, 9, 7] {
                put(&globals, "lock_wait_timeout", seconds);
                let (values, vars) = start.of(&globals, collation).unwrap();
                assert_eq!(vars.metadata_lock_timeout.as_secs(), seconds as u64);
                assert_eq!(vars, SessionVars::derive(&values).unwrap());
                if let Some(collation) = collation {
                    assert_eq!(vars.collation_connection, collation);
                }
            }
        }
        // More collations than are kept, among them some that no client can have.
        for id in 1..=255 {
            if let Some(collation) = Collation::by_id(id) {
                let (_, vars) = start.of(&globals, Some(collation)).unwrap();
                let own = match collation.charset().of_clients() {
                    true => collation,
                    false => Collation::UTF8MB4_0900_AI_CI,
                };
                assert_eq!(vars.collation_connection, own);
            }
        }
    }
}
