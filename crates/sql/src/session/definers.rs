//! Accounts that are made, renamed or dropped while views, stored routines, triggers or events name them as their
//! definers.
//!
//! Neighbours: `users` and `roles` ask before they change accounts; whatever makes such an object ends here.
//! **Invariant**: without ALLOW_NONEXISTENT_DEFINER nobody takes the account away that one of these acts as, nor makes
//! one that it then acts as.

use esker_sql_catalog::catalog::Snapshot;
use esker_types::{Level, SqlError, SqlResult, errors};

use super::Session;

impl Session {
    /// A note that an object acts as an account that there is not.
    pub(super) fn note_missing_definer(&mut self, (user, host): (&str, &str)) {
        if self.context.instance.accounts().exact(user, host).is_none() {
            let missing = errors::no_such_definer(user, host);
            self.warn(Level::Note, missing.code, missing.message);
        }
    }

    /// 4006 for the first of these accounts that is a definer; where that is allowed a warning (4005) for each, and for
    /// each kind of what it defines.
    pub(super) fn check_definers<'n>(
        &mut self,
        operation: &str,
        names: impl IntoIterator<Item = &'n (String, String)>,
    ) -> SqlResult<()> {
        let snapshot = self.context.instance.catalog.snapshot();
        let is_allowed = self.context.require("ALLOW_NONEXISTENT_DEFINER").is_ok();
        for name in names {
            let (user, host) = name;
            for kind in defined_by(&snapshot, name) {
                let why = format!("referenced as a definer account in a {kind}.");
                if !is_allowed {
                    let text = format!(
                        "Operation {operation} failed for '{user}'@'{host}' as it is {why}"
                    );
                    return Err(SqlError::new(4006, "HY000", text));
                }
                let text = format!("User '{user}'@'{host}' is {why}");
                self.warn(Level::Warning, 4005, text);
            }
        }
        Ok(())
    }
}

/// What an account is the definer of.
fn defined_by(snapshot: &Snapshot, (user, host): &(String, String)) -> Vec<&'static str> {
    let is_it = |definer: &(Box<str>, Box<str>)| *definer.0 == **user && *definer.1 == **host;
    let mut triggers = snapshot.tables().flat_map(|table| &table.triggers);
    let kinds = [
        ("view", snapshot.views().any(|view| is_it(&view.definer))),
        (
            "stored routine",
            snapshot.routines().any(|r| is_it(&r.settings.definer)),
        ),
        ("trigger", triggers.any(|t| is_it(&t.settings.definer))),
        (
            "event",
            snapshot.events().any(|e| is_it(&e.settings.definer)),
        ),
    ];
    let named = kinds.into_iter().filter(|(_, is)| *is);
    named.map(|(kind, _)| kind).collect()
}
