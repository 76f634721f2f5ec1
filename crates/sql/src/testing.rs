//! For tests of whole sessions: an instance on a simulated machine, and rows as text.
//!
//! Neighbours: `dml::testing` and `query_tests::rig` test the floors below without a session.
//! **Invariant**: log and buffers are small enough for a disk in memory.

use std::sync::Arc;

use esker_sql_catalog::variables::Setting;
use esker_types::cast::write_text;
use esker_types::{SqlType, ValueRef};
use esker_vfs::sim::SimEnv;

use crate::{Instance, InstanceConfig, PasswordHashing, RowSink};

/// An instance on this machine, with these variables. No password fits.
pub(crate) fn open(machine: &SimEnv, variables: &[(&str, &str)]) -> Arc<Instance> {
    let small = [
        ("esker_log_segment_size", "1048576"),
        ("esker_log_buffer_size", "1048576"),
    ];
    let settings = small.iter().chain(variables).map(|(name, value)| Setting {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
        source: "test".to_owned(),
    });
    Instance::open(InstanceConfig {
        env: machine.env(),
        data_dir: "/db".into(),
        settings: settings.collect(),
        root_password: None,
        passwords: PasswordHashing {
            hash: |_, _, _| Vec::new(),
            verify: |_, _, _| false,
        },
    })
    .expect("the instance opens")
}

/// Takes rows as text, NULL as `NULL`.
#[derive(Default)]
pub(crate) struct Rows(pub(crate) Vec<Vec<String>>);

impl RowSink for Rows {
    fn begin_row(&mut self) {
        self.0.push(Vec::new());
    }

    fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        let mut text = Vec::new();
        match v {
            ValueRef::Null => text.extend_from_slice(b"NULL"),
            v => write_text(v, ty, &mut text),
        }
        let row = self.0.last_mut().expect("a row was begun");
        row.push(String::from_utf8_lossy(&text).into_owned());
    }

    fn end_row(&mut self) {}

    fn bytes(&self) -> usize {
        0
    }
}
