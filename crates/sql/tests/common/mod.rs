//! An instance on a simulated machine, and who logs in to it.

use std::sync::Arc;

use esker_sql::accounts::{Account, GrantEntry, GrantScope, Plugin, Privileges};
use esker_sql::{ClientInfo, Instance, InstanceConfig};
use esker_vfs::sim::SimEnv;

/// A fresh instance.
pub fn open() -> Arc<Instance> {
    Instance::open(InstanceConfig {
        env: SimEnv::new(7).env(),
        data_dir: "/data".into(),
        settings: Vec::new(),
        root_password: None,
        hash_password: |_, password, _| password.to_vec(),
    })
    .unwrap()
}

/// root, with the right to everything.
pub fn client(id: u64) -> ClientInfo {
    ClientInfo {
        connection_id: id,
        user: "root".into(),
        host: "localhost".into(),
        peer: "test".into(),
        account: Account {
            user: "root".into(),
            host: "localhost".into(),
            plugin: Plugin::CachingSha2,
            auth: Vec::new(),
            locked: false,
            grants: vec![GrantEntry {
                scope: GrantScope::Global,
                privileges: Privileges::ALL,
                grant_option: true,
            }],
        },
        collation: None,
        found_rows: false,
        multi_statements: false,
        interactive: false,
        attributes: Vec::new(),
        tls: None,
        on_kill: Box::new(|| ()),
    }
}
