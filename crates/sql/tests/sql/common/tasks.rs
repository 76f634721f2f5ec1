//! Questions that one thread answers, or tasks.

use crate::common::ask::{Answer, Client};

impl Client {
    /// The answer with one thread, without tasks.
    pub fn serial(&mut self, sql: &str) -> Answer {
        self.ok("SET esker_parallel_scan_rows = 18446744073709551615");
        self.ask(sql)
    }

    /// The answer of tasks, however few rows there are.
    pub fn parallel(&mut self, sql: &str) -> Answer {
        self.ok("SET esker_parallel_scan_rows = 0, parallel_read_threads = 8");
        self.ask(sql)
    }

    /// Both must be the same.
    pub fn same(&mut self, sql: &str) {
        let (parallel, serial) = (self.parallel(sql), self.serial(sql));
        assert_eq!(parallel, serial, "{sql}");
    }
}
