//! An instance on a simulated machine, and who logs in to it.
//!
//! Parts: `rows` (what statements answer, as text) → `ask` (a client) → `tasks` (a client that asks twice, to compare
//! one thread with several).

pub mod ask;
pub mod rows;
pub mod tasks;

use std::sync::Arc;

use esker_sql::accounts::Account;
use esker_sql::variables::Setting;
use esker_sql::{ClientInfo, Instance, InstanceConfig, PasswordHashing, Session};
use esker_vfs::sim::SimEnv;

/// An instance on this machine, with these variables.
pub fn open(machine: &SimEnv, variables: &[(&str, &str)]) -> Arc<Instance> {
    let setting = |&(name, value): &(&str, &str)| Setting {
        name: name.to_owned(),
        value: value.to_owned(),
        source: "test".to_owned(),
    };
    Instance::open(InstanceConfig {
        env: machine.env(),
        data_dir: "/data".into(),
        settings: variables.iter().map(setting).collect(),
        root_password: None,
        passwords: PasswordHashing {
            hash: |_, password, _| password.to_vec(),
            verify: |_, password, stored| password == stored,
        },
    })
    .unwrap()
}

/// Waits as the server does before it answers: nobody may be told of a commit that is not durable, and plain reads of
/// others need not see it.
pub fn await_durable(session: &Session, seq: u64) {
    if let Some(durable) = session.wait_durable(seq, || false) {
        durable.block().unwrap();
    }
}

/// root, with the right to everything.
pub fn client(id: u64) -> ClientInfo {
    ClientInfo::inside(id, Account::root(Vec::new()))
}
