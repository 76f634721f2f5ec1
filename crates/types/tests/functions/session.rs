//! A session with fixed facts.

use std::cell::{Cell, RefCell};

use esker_types::collation::Collation;
use esker_types::{EvalCtx, SessionInfo, SqlMode};

/// Answers without a server.
#[derive(Default)]
pub struct Facts {
    insert_id: Cell<u64>,
    random: Cell<u64>,
}

impl SessionInfo for Facts {
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
    fn current_role(&self) -> String {
        "NONE".into()
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
    fn row_count(&self) -> i64 {
        -1
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
    fn killed(&self) -> bool {
        false
    }
    fn get_lock(&self, name: &str, _: f64) -> Option<bool> {
        Some(name == "free")
    }
    fn release_lock(&self, _: &str) -> Option<bool> {
        None
    }
    fn lock_holder(&self, name: &str) -> Option<u64> {
        (name != "free").then_some(9)
    }
}

/// 2023-11-14 22:13:20.123456 UTC
pub const NOW: i64 = 1_700_000_000_123_456;

/// Runs with a fresh statement context, zone UTC, default SQL mode.
pub fn with_context<T>(f: impl FnOnce(&EvalCtx) -> T) -> T {
    let facts = Facts::default();
    let zone = jiff::tz::TimeZone::UTC;
    f(&EvalCtx {
        sql_mode: SqlMode::DEFAULT,
        time_zone: &zone,
        now_micros: NOW,
        wall_micros: &|| NOW + 1_000_000,
        div_precision_increment: 4,
        max_allowed_packet: 64 << 20,
        group_concat_max_len: 1024,
        collation_connection: Collation::UTF8MB4_0900_AI_CI,
        session: &facts,
        strict_write: Cell::new(false),
        warnings: RefCell::new(Vec::new()),
        warning_count: Cell::new(0),
    })
}
