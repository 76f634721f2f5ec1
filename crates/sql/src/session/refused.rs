//! Values that MySQL refuses for variables that take a text with a form of its own.
//!
//! Neighbours: `set` asks before it stores one; what a kind of variable says by itself is in `variables::value`.
//! **Invariant**: most of these variables have no effect in Esker; a value is refused here where MySQL refuses it.

use esker_sql_catalog::variables::VarId;
use esker_types::{SqlError, SqlResult, errors};

use super::SessionContext;
use crate::infoschema::metrics;

/// Characters of `ft_boolean_syntax`.
const OPERATORS: usize = 14;
/// The two of them, the quotes of a phrase, that may be the same.
const QUOTES: (usize, usize) = (10, 11);
/// Services of the error log that write.
const SINKS: [&str; 2] = ["log_sink_internal", "log_sink_json"];
/// The one that leaves lines out.
const LOG_FILTER: &str = "log_filter_internal";
/// Largest number of a message.
const MAX_MESSAGE: u32 = 999_999;

/// # Errors
/// 1231; 1227 for a folder without FILE; 3026 for a variable that is tracked twice.
pub(super) fn check(ctx: &SessionContext, name: &str, text: &str) -> SqlResult<()> {
    let is_fine = match name {
        "ft_boolean_syntax" => is_syntax(text),
        "innodb_ft_aux_table" => text
            .split_once('/')
            .is_some_and(|(schema, table)| ctx.instance.catalog.resolve(schema, table).is_some()),
        name if metrics::SWITCHES.contains(&name) => metrics::named(text, ctx)?.is_some(),
        "innodb_redo_log_archive_dirs" => {
            let is_place = |place: &str| {
                place
                    .split_once(':')
                    .is_some_and(|(_, dir)| !dir.is_empty())
            };
            text.is_empty() || text.split(';').all(is_place)
        }
        "innodb_tmpdir" => {
            // Whoever may read no file hears of no folder either.
            ctx.require("FILE")?;
            !text.is_empty() && ctx.instance.env.fs.list(text.as_ref()).is_ok()
        }
        "session_track_system_variables" => {
            check_tracked(text)?;
            true
        }
        "log_error_services" => is_pipeline(text),
        "log_error_suppression_list" => {
            text.is_empty() || text.split(',').map(str::trim).all(is_message)
        }
        _ => true,
    };
    match is_fine {
        true => Ok(()),
        false => Err(errors::wrong_value(name, text)),
    }
}

/// No variable is named twice; names that are none do not matter.
fn check_tracked(list: &str) -> SqlResult<()> {
    let names = list.split(',').map(str::trim);
    let names: Vec<&str> = names.filter(|name| VarId::find(name).is_ok()).collect();
    for (nth, name) in names.iter().enumerate() {
        if names[..nth].iter().any(|n| n.eq_ignore_ascii_case(name)) {
            let text = format!("Duplicate entry '{name}'.");
            return Err(SqlError::new(3026, "HY000", text));
        }
    }
    Ok(())
}

/// Operators of full-text search: no letters, none twice but the quotes, a space as the first or second.
fn is_syntax(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_own = |at: usize| {
        let same = bytes.iter().position(|b| *b == bytes[at]).expect("itself");
        same == at || (same, at) == QUOTES
    };
    bytes.len() == OPERATORS
        && bytes
            .iter()
            .all(|b| b.is_ascii() && !b.is_ascii_alphanumeric())
        && (bytes[0] == b' ' || bytes[1] == b' ')
        && (0..OPERATORS).all(is_own)
}

/// Services of the error log, each once and a sink behind the filters: there are no others, and there is no log without
/// one.
fn is_pipeline(text: &str) -> bool {
    let text = text.trim_end();
    let text = text.strip_suffix([';', ',']).unwrap_or(text);
    let named: Vec<String> = text
        .split([';', ','])
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let is_sink = |name: &String| SINKS.contains(&name.as_str());
    let is_known = |name: &String| is_sink(name) || name == LOG_FILTER;
    let is_first = |(nth, name): (usize, &String)| !named[..nth].contains(name);
    named.iter().all(is_known)
        && named.iter().enumerate().all(is_first)
        && named.last().is_some_and(is_sink)
}

/// A message of the error log: its number, `MY-` and its number, or its symbol.
fn is_message(text: &str) -> bool {
    let digits = match text.get(..3) {
        Some(mark) if mark.eq_ignore_ascii_case("MY-") => &text[3..],
        _ => text,
    };
    let is_number = digits.parse().is_ok_and(|n| (1..=MAX_MESSAGE).contains(&n));
    let is_symbol = |rest: &str| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    is_number || text.strip_prefix("ER_").is_some_and(is_symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_refused_as_mysql_does() {
        for (text, is_fine) in [
            ("+ -><()~*:\"\"&|", true),
            (" +-><()~*:\"\"&|", true),
            ("+ -><()~*:\"'&|", true),
            ("+ -><()~*:\"\"&", false),
            ("++-><()~*:\"\"&|", false),
            ("+ -><()~*:aa&|", false),
            ("x", false),
        ] {
            assert_eq!(is_syntax(text), is_fine, "{text}");
        }
        for (text, is_fine) in [
            ("log_filter_internal; log_sink_internal", true),
            (
                "log_sink_json, LOG_FILTER_INTERNAL;log_sink_internal; ",
                true,
            ),
            ("log_sink_json", true),
            ("", false),
            ("log_filter_internal", false),
            ("log_sink_json; log_filter_internal", false),
            ("log_sink_json; log_sink_json", false),
            ("log_filter_internal log_sink_json", false),
            ("; log_sink_json", false),
            ("log_sink_none", false),
        ] {
            assert_eq!(is_pipeline(text), is_fine, "{text}");
        }
        for (text, is_fine) in [
            ("ER_STARTUP", true),
            ("my-010907", true),
            ("10907", true),
            ("er_startup", false),
            ("foo", false),
            ("0", false),
            ("999999999", false),
            ("MY-x", false),
            ("", false),
        ] {
            assert_eq!(is_message(text), is_fine, "{text}");
        }
    }
}
