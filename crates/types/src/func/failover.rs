//! `asynchronous_connection_failover_…`: which sources channels of a replica may go over to.
//!
//! Neighbours: [`crate::ctx::SessionInfo`] changes the lists. **Invariants**: arguments are checked as MySQL's loadable
//! functions check them (1123); what is then refused is error 3200.

use super::call::{Call, is_int, string};
use super::ret::session_text;
use super::{ANY_ARGS, BLOCKING, FuncDef, def};
use crate::ctx::{ListedSource, SourceChange};
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::value::Value;

const ADD: &str = "asynchronous_connection_failover_add_source";
const DELETE: &str = "asynchronous_connection_failover_delete_source";
const RESET: &str = "asynchronous_connection_failover_reset";

/// The weight of a source where none is said.
const USUAL_WEIGHT: u8 = 50;
/// Longest name of a channel, characters.
const MAX_CHANNEL: usize = 64;
/// Longest name of a host, characters of ASCII.
const MAX_HOST: usize = 255;
/// The highest weight.
const MAX_WEIGHT: i64 = 100;

pub(super) const DEFS: &[FuncDef] = &[
    def(ADD, 0, ANY_ARGS, BLOCKING, session_text::<1024>, add),
    def(DELETE, 0, ANY_ARGS, BLOCKING, session_text::<1024>, delete),
    def(RESET, 0, ANY_ARGS, BLOCKING, session_text::<1024>, reset),
];

fn wrong(function: &str, why: &str) -> SqlError {
    errors::function_cannot_begin(function, format_args!("Wrong arguments: {why}"))
}

/// Channel, host, port and network namespace, of which there is one.
fn listed(c: &Call, function: &str, most: usize) -> SqlResult<ListedSource> {
    if c.argc() < 3 {
        return Err(wrong(
            function,
            "You need to specify all mandatory arguments.",
        ));
    }
    if c.argc() > most {
        return Err(wrong(
            function,
            &format!("You must specify max {most} arguments."),
        ));
    }
    let word = |at: usize| String::from_utf8_lossy(&c.text(at)).into_owned();
    if is_int(c.ty(0)) {
        return Err(wrong(function, "You need to specify channel name."));
    }
    if c.null(1) || c.text(1).is_empty() {
        return Err(wrong(function, "You need to specify hostname."));
    }
    let port = match !c.null(2) && is_int(c.ty(2)) {
        true => u16::try_from(c.int(2)?).ok(),
        false => None,
    };
    let port = port.ok_or_else(|| wrong(function, "You need to specify value for port."))?;
    let channel = match c.null(0) {
        true => String::new(),
        false => word(0).to_lowercase(),
    };
    let host = word(1);
    for (field, fits) in [
        ("channel", channel.chars().count() <= MAX_CHANNEL),
        ("host", host.is_ascii() && host.len() <= MAX_HOST),
    ] {
        if !fits {
            let text = format!(
                "Error saving {field} field of mysql.replication_asynchronous_connection_failover."
            );
            return Err(errors::function_failed(function, text));
        }
    }
    Ok(ListedSource {
        channel,
        host,
        port,
    })
}

fn weight(c: &Call) -> SqlResult<u8> {
    if c.argc() < 5 {
        return Ok(USUAL_WEIGHT);
    }
    let wanted = match !c.null(4) && is_int(c.ty(4)) {
        true => Some(c.int(4)?).filter(|weight| (1..=MAX_WEIGHT).contains(weight)),
        false => None,
    };
    let text = "The weight argument value should be integer value between 1-100.";
    wanted
        .map(|weight| weight as u8)
        .ok_or_else(|| wrong(ADD, text))
}

fn done(c: &Call, function: &str, (change, otherwise): (&SourceChange, &str)) -> SqlResult<Value> {
    match c.ctx.session.change_sources(change)? {
        true => string(format!("The UDF {function}() executed successfully.")),
        false => Err(errors::function_failed(function, otherwise)),
    }
}

fn add(c: &Call) -> SqlResult<Value> {
    let source = listed(c, ADD, 5)?;
    let change = SourceChange::Add(source, weight(c)?);
    let otherwise = "Error inserting row to the table.";
    done(c, ADD, (&change, otherwise))
}

fn delete(c: &Call) -> SqlResult<Value> {
    let change = SourceChange::Delete(listed(c, DELETE, 4)?);
    let otherwise = "Error no matching row was found to be deleted.";
    done(c, DELETE, (&change, otherwise))
}

fn reset(c: &Call) -> SqlResult<Value> {
    if c.argc() > 0 {
        return Err(wrong(RESET, "The function takes no arguments."));
    }
    done(c, RESET, (&SourceChange::Reset, ""))
}
