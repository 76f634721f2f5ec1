//! The procedures of the schema `sys`.
//!
//! Neighbours: CALL, GRANT and SHOW CREATE PROCEDURE look here for what the catalog does not have; bodies are compiled
//! and run like those of users, with the rights of whoever calls. The files beside have them in words of our own.
//! **Invariant**: every procedure can be compiled (a script calls each); names are those of MySQL.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use esker_sql_catalog::catalog::{ProgramSettings, RoutineDef, RoutineKey};
use esker_types::func;
use esker_types::program::{DataAccess, RoutineKind};

/// What their comment says.
const COMMENT: &str = "Part of Esker";

static PROCEDURES: LazyLock<HashMap<RoutineKey, Arc<RoutineDef>>> = LazyLock::new(|| {
    let files = [include_str!("procedures.sql"), include_str!("reports.sql")];
    let blocks = files.map(|file| file.split("\nprocedure ").skip(1));
    let made = blocks.into_iter().flatten().map(|block| {
        let (head, body) = block.split_once('\n').expect("a body behind the head");
        let (name, parameters) = head.split_once('(').expect("parameters");
        let parameters = parameters.strip_suffix(')').expect("the end of parameters");
        let def = define(name, parameters, body.trim());
        (def.key(), Arc::new(def))
    });
    made.collect()
});

/// A procedure of `sys`.
pub(crate) fn find(schema: &str, key: &RoutineKey) -> Option<Arc<RoutineDef>> {
    let found = PROCEDURES
        .get(key)
        .filter(|_| schema.eq_ignore_ascii_case("sys"));
    found.cloned()
}

/// Is there such a procedure of `sys`, or such a function, which are built in?
pub(crate) fn is_of_sys(kind: RoutineKind, schema: &str, name: &str) -> bool {
    let is_function = || func::lookup(&format!("sys.{}", name.to_ascii_lowercase())).is_some();
    schema.eq_ignore_ascii_case("sys")
        && match kind {
            RoutineKind::Procedure => PROCEDURES.contains_key(&RoutineKey::new(kind, name)),
            RoutineKind::Function => is_function(),
        }
}

fn define(name: &str, parameters: &str, body: &str) -> RoutineDef {
    RoutineDef {
        kind: RoutineKind::Procedure,
        schema: "sys".into(),
        name: name.into(),
        parameters: parameters.into(),
        returns: "".into(),
        body: body.into(),
        deterministic: false,
        access: DataAccess::ModifiesSqlData,
        comment: COMMENT.into(),
        settings: ProgramSettings {
            definer: ("mysql.sys".into(), "localhost".into()),
            invoker: true,
            sql_mode: "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
                       NO_ENGINE_SUBSTITUTION"
                .into(),
            charset_client: "utf8mb4".into(),
            collation_connection: "utf8mb4_0900_ai_ci".into(),
            database_collation: "utf8mb4_0900_ai_ci".into(),
        },
        created_micros: 0,
        altered_micros: 0,
    }
}
