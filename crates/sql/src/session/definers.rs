//! Accounts that are made, renamed or dropped while views name them as their definers.
//!
//! Neighbours: `users` and `roles` ask before they change accounts.
//! **Invariant**: without ALLOW_NONEXISTENT_DEFINER nobody takes the account away that a view acts as, nor makes one
//! that a view then acts as.

use esker_types::{Level, SqlError, SqlResult};

use super::Session;

impl Session {
    /// 4006 for the first of these accounts that is a view's definer; a warning (4005) for each where that is allowed.
    pub(super) fn check_definers<'n>(
        &mut self,
        operation: &str,
        names: impl IntoIterator<Item = &'n (String, String)>,
    ) -> SqlResult<()> {
        let snapshot = self.context.instance.catalog.snapshot();
        let is_definer = |(user, host): &(String, String)| {
            let mut views = snapshot.views();
            views.any(|v| *v.definer.0 == **user && *v.definer.1 == **host)
        };
        let is_allowed = self.context.require("ALLOW_NONEXISTENT_DEFINER").is_ok();
        for name in names {
            if !is_definer(name) {
                continue;
            }
            let (user, host) = name;
            let why = "referenced as a definer account in a view.";
            if !is_allowed {
                let text =
                    format!("Operation {operation} failed for '{user}'@'{host}' as it is {why}");
                return Err(SqlError::new(4006, "HY000", text));
            }
            let text = format!("User '{user}'@'{host}' is {why}");
            self.warn(Level::Warning, 4005, text);
        }
        Ok(())
    }
}
