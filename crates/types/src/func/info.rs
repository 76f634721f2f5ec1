//! Functions about the session, its locks, and the types of their arguments.
//!
//! Neighbours: [`crate::ctx::SessionInfo`] answers.
//! **Invariant**: none of these is folded into a plan.

use std::time::Duration;

use super::call::{Call, int, string};
use super::ret::{int_never_null, int_null, session_text, system_text, text, uint, uint_null};
use super::{
    ANY_ARGS, ArgType, BLOCKING, FuncDef, FuncFlags, PURE, RetCtx, SESSION, Signature, TOTAL, def,
};
use crate::cast;
use crate::ctx::{GtidFunctions, SourceWait};
use crate::error::{Level, SqlError, SqlResult};
use crate::errors;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("connection_id", 0, 0, SESSION, uint::<21>, connection_id),
    def("database", 0, 0, SESSION, session_text::<64>, database),
    def("schema", 0, 0, SESSION, session_text::<64>, database),
    def("user", 0, 0, SESSION, session_text::<288>, user),
    def("session_user", 0, 0, SESSION, session_text::<288>, user),
    def("system_user", 0, 0, SESSION, session_text::<288>, user),
    def(
        "current_user",
        0,
        0,
        SESSION,
        session_text::<288>,
        current_user,
    ),
    def(
        "current_role",
        0,
        0,
        SESSION,
        session_text::<288>,
        current_role,
    ),
    def("version", 0, 0, SESSION, session_text::<60>, version),
    def("last_insert_id", 0, 1, SESSION, uint::<21>, last_insert_id),
    def("row_count", 0, 0, SESSION, int_never_null::<21>, row_count),
    def(
        "found_rows",
        0,
        0,
        SESSION,
        int_never_null::<21>,
        found_rows,
    ),
    def("charset", 1, 1, TOTAL, system_text::<64>, charset),
    def("collation", 1, 1, TOTAL, system_text::<64>, collation),
    def("coercibility", 1, 1, TOTAL, ret_coercibility, coercibility),
    def("name_const", 2, 2, TOTAL, ret_name_const, second),
    def(
        "benchmark",
        2,
        2,
        BLOCKING.with(FuncFlags::REPEATS),
        int_null::<1>,
        benchmark,
    ),
    def("sleep", 1, 1, BLOCKING, int_never_null::<21>, sleep),
    def("get_lock", 2, 2, BLOCKING, int_null::<1>, get_lock),
    def("release_lock", 1, 1, SESSION, int_null::<1>, release_lock),
    def("is_free_lock", 1, 1, SESSION, int_null::<1>, is_free_lock),
    def("is_used_lock", 1, 1, SESSION, uint_null::<21>, is_used_lock),
    def(
        QUERY_ATTRIBUTE,
        0,
        ANY_ARGS,
        SESSION,
        ret_attribute,
        query_attribute,
    ),
    def("isnull", 1, 1, TOTAL, int_never_null::<1>, isnull),
    def("gtid_subset", 2, 2, GTIDS, int_null::<1>, gtid_subset),
    def("gtid_subtract", 2, 2, GTIDS, text::<65_535>, gtid_subtract),
    def(
        "wait_for_executed_gtid_set",
        1,
        2,
        BLOCKING,
        int_null::<1>,
        wait_for_executed_gtid_set,
    ),
    def(
        "source_pos_wait",
        2,
        4,
        BLOCKING,
        int_null::<21>,
        source_pos_wait,
    ),
    def(
        "master_pos_wait",
        2,
        4,
        BLOCKING,
        int_null::<21>,
        master_pos_wait,
    ),
    def(
        "roles_graphml",
        0,
        0,
        SESSION,
        session_text::<MAX_GRAPH>,
        roles_graphml,
    ),
    def(
        "validate_password_strength",
        1,
        1,
        PURE,
        int_null::<10>,
        password_strength,
    ),
];

/// What MySQL's component for query attributes adds.
const QUERY_ATTRIBUTE: &str = "mysql_query_attribute_string";

/// Most characters of ROLES_GRAPHML().
const MAX_GRAPH: u64 = u32::MAX as u64 / 3;

/// Functions of GTIDs: NULL for NULL.
const GTIDS: FuncFlags = SESSION.with(FuncFlags::NULL_IN_NULL_OUT);

fn connection_id(c: &Call) -> SqlResult<Value> {
    Ok(Value::UInt(c.ctx.session.connection_id()))
}

fn database(c: &Call) -> SqlResult<Value> {
    Ok(c.ctx.session.database().map_or(Value::Null, Value::str))
}

fn user(c: &Call) -> SqlResult<Value> {
    string(c.ctx.session.user())
}

fn current_user(c: &Call) -> SqlResult<Value> {
    string(c.ctx.session.current_user())
}

fn current_role(c: &Call) -> SqlResult<Value> {
    string(c.ctx.session.current_role())
}

fn version(c: &Call) -> SqlResult<Value> {
    string(c.ctx.session.version())
}

fn last_insert_id(c: &Call) -> SqlResult<Value> {
    if !c.has(0) {
        return Ok(Value::UInt(c.ctx.session.last_insert_id()));
    }
    if c.null(0) {
        c.ctx.session.set_last_insert_id(0);
        c.ctx.diagnostics.told_insert_id.set(Some(0));
        return Ok(Value::Null);
    }
    let id = c.int(0)? as u64;
    c.ctx.session.set_last_insert_id(id);
    c.ctx.diagnostics.told_insert_id.set(Some(id));
    Ok(Value::UInt(id))
}

fn row_count(c: &Call) -> SqlResult<Value> {
    int(c.ctx.session.row_count())
}

fn found_rows(c: &Call) -> SqlResult<Value> {
    int(i64::try_from(c.ctx.session.found_rows()).unwrap_or(i64::MAX))
}

fn charset(c: &Call) -> SqlResult<Value> {
    string(text_collation(c).charset().name())
}

fn collation(c: &Call) -> SqlResult<Value> {
    string(text_collation(c).name())
}

/// Numbers and dates are `binary`, as their metadata is.
fn text_collation(c: &Call) -> crate::collation::Collation {
    c.ty(0).collation
}

/// The answer is known when the call is bound; it travels as the signature's coercibility.
fn ret_coercibility(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let sig = int_never_null::<10>(args, ctx)?;
    let text =
        args[0].ty.is_string() || matches!(args[0].ty.kind, TypeKind::Enum(_) | TypeKind::Set(_));
    let coercibility = match args[0].ty.kind {
        TypeKind::Null => crate::collation::Coercibility::Ignorable,
        _ if text => args[0].coercibility,
        _ => crate::collation::Coercibility::Numeric,
    };
    Ok(Signature {
        coercibility,
        ..sig
    })
}

fn coercibility(c: &Call) -> SqlResult<Value> {
    int(c.types.coercibility as i64)
}

/// Name and value are constants.
fn ret_name_const(args: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    if args.iter().any(|arg| arg.value.is_none()) {
        return Err(errors::wrong_arguments("NAME_CONST"));
    }
    // It stands for a variable, which may be NULL.
    let mut signature = ret_second(args)?;
    signature.ret.nullable = true;
    Ok(signature)
}

fn ret_second(args: &[ArgType]) -> SqlResult<Signature> {
    let ty: SqlType = args[1].ty.clone();
    Ok(Signature {
        coercibility: args[1].coercibility,
        ..Signature::plain(ty)
    })
}

fn second(c: &Call) -> SqlResult<Value> {
    Ok(c.args[1].clone())
}

/// 0 for a count, NULL for none. The executor has the second argument evaluated that often
/// ([`super::FuncFlags::REPEATS`]) unless this gives NULL.
fn benchmark(c: &Call) -> SqlResult<Value> {
    match c.args[0] {
        Value::Null => Ok(Value::Null),
        Value::UInt(_) => int(0),
        count => {
            let n = cast::to_i64(c.ctx, count)?;
            if n >= 0 {
                return int(0);
            }
            let message = format!("Incorrect count value: '{n}' for function benchmark");
            c.ctx.warn(Level::Warning, 1411, message);
            Ok(Value::Null)
        }
    }
}

/// How often SLEEP looks whether it is killed, or its time over.
const SLEEP_SLICE: Duration = Duration::from_millis(10);

/// 0 after the time, 1 when killed. Blocks its thread: an executor with other sessions on the
/// thread waits by itself instead ([`super::FuncFlags::BLOCKS`]).
fn sleep(c: &Call) -> SqlResult<Value> {
    let seconds = if c.null(0) { -1.0 } else { c.real(0)? };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(errors::wrong_arguments("sleep."));
    }
    let start = c.ctx.session.wall_micros();
    let micros = (seconds * 1e6).min(i64::MAX as f64 / 2.0) as i64;
    let end = start.saturating_add(micros);
    loop {
        if c.ctx.session.killed() {
            return int(1);
        }
        let left = end.saturating_sub(c.ctx.session.wall_micros());
        if left <= 0 {
            return int(0);
        }
        let left = Duration::from_micros(left.unsigned_abs());
        c.ctx.session.pause(SLEEP_SLICE.min(left));
    }
}

/// Most characters in the name of a lock.
const MAX_LOCK_NAME: usize = 64;

fn lock_name(c: &Call) -> SqlResult<String> {
    let name = if c.null(0) {
        Vec::new()
    } else {
        c.text(0).into_owned()
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    if name.chars().count() > MAX_LOCK_NAME {
        let message =
            format!("User-level lock name '{name}' should not exceed {MAX_LOCK_NAME} characters.");
        return Err(SqlError::new(4163, "42000", message));
    }
    if name.is_empty() {
        let shown = if c.null(0) { "NULL" } else { &name };
        let message = format!(
            "Incorrect user-level lock name '{shown}'. The name is empty, NULL, or can not be \
             expressed in the current character-set."
        );
        return Err(SqlError::new(3057, "42000", message));
    }
    // Names of locks do not distinguish case.
    Ok(name.to_lowercase())
}

fn get_lock(c: &Call) -> SqlResult<Value> {
    let name = lock_name(c)?;
    let timeout = if c.null(1) { 0.0 } else { c.real(1)? };
    let taken = c.ctx.session.get_lock(&name, timeout)?;
    Ok(taken.map_or(Value::Null, Value::bool))
}

fn release_lock(c: &Call) -> SqlResult<Value> {
    Ok(c.ctx
        .session
        .release_lock(&lock_name(c)?)
        .map_or(Value::Null, Value::bool))
}

fn is_free_lock(c: &Call) -> SqlResult<Value> {
    Ok(Value::bool(
        c.ctx.session.lock_holder(&lock_name(c)?).is_none(),
    ))
}

fn is_used_lock(c: &Call) -> SqlResult<Value> {
    Ok(c.ctx
        .session
        .lock_holder(&lock_name(c)?)
        .map_or(Value::Null, Value::UInt))
}

fn gtids<'c>(c: &'c Call) -> SqlResult<&'c dyn GtidFunctions> {
    let functions = c.ctx.session.gtids();
    functions.ok_or_else(|| SqlError::not_supported("GTID functions here"))
}

fn gtid_text(c: &Call, arg: usize) -> String {
    String::from_utf8_lossy(&c.text(arg)).into_owned()
}

fn gtid_subset(c: &Call) -> SqlResult<Value> {
    let (a, b) = (gtid_text(c, 0), gtid_text(c, 1));
    Ok(Value::bool(gtids(c)?.is_subset(&a, &b)?))
}

fn gtid_subtract(c: &Call) -> SqlResult<Value> {
    let (a, b) = (gtid_text(c, 0), gtid_text(c, 1));
    Ok(Value::str(gtids(c)?.subtract(&a, &b)?))
}

fn wait_for_executed_gtid_set(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Err(errors::malformed_gtid_set("NULL"));
    }
    let wrong = || errors::wrong_arguments("WAIT_FOR_EXECUTED_GTID_SET.");
    let seconds = match c.has(1) {
        true if c.null(1) => return Err(wrong()),
        true => c.real(1)?,
        false => 0.0,
    };
    if seconds < 0.0 {
        return Err(wrong());
    }
    let at_most = (seconds > 0.0).then_some(seconds);
    let is_there = gtids(c)?.wait_for_executed(&gtid_text(c, 0), at_most)?;
    Ok(Value::bool(!is_there))
}

fn source_pos_wait(c: &Call) -> SqlResult<Value> {
    let file = (!c.null(0)).then(|| String::from_utf8_lossy(&c.text(0)).into_owned());
    // The time counts only where there is a file to wait for.
    let Some(file) = file.filter(|file| !file.is_empty()) else {
        return Ok(Value::Null);
    };
    let seconds = match c.has(2) && !c.null(2) {
        true => c.real(2)?,
        false => 0.0,
    };
    if seconds < 0.0 {
        return Err(errors::wrong_arguments("SOURCE_POS_WAIT."));
    }
    if c.null(3) {
        return Ok(Value::Null);
    }
    let position = match c.null(1) {
        true => 0,
        false => c.int(1)?,
    };
    let wait = SourceWait {
        file,
        position,
        at_most_secs: (seconds > 0.0).then_some(seconds),
        channel: c
            .has(3)
            .then(|| String::from_utf8_lossy(&c.text(3)).into_owned()),
    };
    let advanced = c.ctx.session.wait_for_source(&wait)?;
    Ok(advanced.map_or(Value::Null, Value::Int))
}

fn master_pos_wait(c: &Call) -> SqlResult<Value> {
    let message = "'MASTER_POS_WAIT' is deprecated and will be removed in a future release. Please use \
                   SOURCE_POS_WAIT instead";
    c.warn(1287, message);
    source_pos_wait(c)
}

fn roles_graphml(c: &Call) -> SqlResult<Value> {
    string(c.ctx.session.roles_graphml())
}

/// The errors are those of a loadable function, which MySQL's is.
fn ret_attribute(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let wrong = |expected| {
        Err(errors::function_cannot_begin(
            QUERY_ATTRIBUTE,
            format_args!("{QUERY_ATTRIBUTE}() {expected}"),
        ))
    };
    match args {
        [name] if name.ty.is_string() || name.ty.kind == TypeKind::Null => (),
        [_] => return wrong("expects a string argument"),
        _ => return wrong("expects 1 argument"),
    }
    Ok(Signature::plain(SqlType {
        collation: ctx.collation_connection,
        ..SqlType::new(TypeKind::Text)
    }))
}

fn query_attribute(c: &Call) -> SqlResult<Value> {
    if c.null(0) {
        return Ok(Value::Null);
    }
    let value = c.ctx.session.query_attribute(&c.text(0));
    Ok(value.map_or(Value::Null, Value::Str))
}

/// 0, as in MySQL without the component that judges passwords.
fn password_strength(_: &Call) -> SqlResult<Value> {
    int(0)
}

fn isnull(c: &Call) -> SqlResult<Value> {
    Ok(Value::bool(c.null(0)))
}
