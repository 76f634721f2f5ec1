//! A session with fixed facts.

use std::cell::Cell;

use esker_types::{EvalCtx, EvalSettings, SessionInfo, SqlError, SqlResult};

/// Answers without a server.
#[derive(Default)]
pub struct Facts {
    insert_id: Cell<u64>,
    random: Cell<u64>,
    looks: Cell<usize>,
    ends_at: Cell<Option<usize>>,
}

impl Facts {
    /// How often it was asked whether the statement may go on.
    pub fn looks(&self) -> usize {
        self.looks.get()
    }

    /// The statement is killed when that was asked so many times.
    pub fn killed_at(looks: usize) -> Self {
        let facts = Facts::default();
        facts.ends_at.set(Some(looks));
        facts
    }
}

impl SessionInfo for Facts {
    fn wall_micros(&self) -> i64 {
        NOW + 1_000_000
    }
    fn connection_id(&self) -> u64 {
        7
    }
    fn database(&self) -> Option<&str> {
        Some("shop")
    }
    fn user(&self) -> String {
        "root@localhost".into()
    }
    fn current_user(&self) -> String {
        "root@%".into()
    }
    fn version(&self) -> &str {
        "8.4.0-esker"
    }
    fn last_insert_id(&self) -> u64 {
        self.insert_id.get()
    }
    fn set_last_insert_id(&self, id: u64) {
        self.insert_id.set(id);
    }
    fn found_rows(&self) -> u64 {
        3
    }
    fn random(&self) -> u64 {
        let next = self
            .random
            .get()
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.random.set(next);
        next
    }
    fn get_lock(&self, name: &str, _: f64) -> SqlResult<Option<bool>> {
        Ok(Some(name == "free"))
    }
    fn go_on(&self, _: usize) -> SqlResult<()> {
        self.looks.set(self.looks.get() + 1);
        match self.ends_at.get() {
            Some(looks) if looks == self.looks.get() => Err(SqlError::new(
                1317,
                "70100",
                "Query execution was interrupted",
            )),
            _ => Ok(()),
        }
    }
    fn lock_holder(&self, name: &str) -> Option<u64> {
        (name != "free").then_some(9)
    }
}

/// 2023-11-14 22:13:20.123456 UTC
pub const NOW: i64 = 1_700_000_000_123_456;

/// Runs with a fresh statement context, zone UTC, default SQL mode.
pub fn with_context<T>(f: impl FnOnce(&EvalCtx) -> T) -> T {
    with_facts(&Facts::default(), f)
}

/// The same in a session.
pub fn with_facts<T>(facts: &Facts, f: impl FnOnce(&EvalCtx) -> T) -> T {
    let settings = EvalSettings {
        now_micros: NOW,
        ..EvalSettings::default()
    };
    f(&EvalCtx::new(settings, facts))
}
