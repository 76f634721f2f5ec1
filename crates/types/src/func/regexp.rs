//! REGEXP_LIKE, REGEXP_INSTR, REGEXP_SUBSTR, REGEXP_REPLACE (REGEXP and RLIKE are the first).
//!
//! Neighbours: `icu` reads patterns, `pattern` compiles and matches, `backtrack` where look-around and back references
//! need that.
//!
//! **Invariants**: positions are characters from 1; a compiled pattern is reused while it stays among the last
//! [`CACHED`] of its thread.

use std::cell::RefCell;
use std::rc::Rc;

use super::backtrack::{Finder, Found, MOST_TEXT, Matcher};
use super::call::{Call, int, string};
use super::icu::ends_with_terminator;
use super::pattern::{Key, error};
use super::ret::{
    any_nullable, collation_of, compared_in, int as ret_int, string_type, text_chars,
};
use super::{ArgType, FuncDef, PURE, RetCtx, Signature, def};
use crate::collation::{Coercibility, Collation, char_count};
use crate::error::{SqlError, SqlResult};
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[
    def("regexp_like", 2, 3, PURE, ret_like, regexp_like),
    def("regexp_instr", 2, 6, PURE, ret_instr, regexp_instr),
    def("regexp_substr", 2, 5, PURE, ret_substr, regexp_substr),
    def("regexp_replace", 3, 6, PURE, ret_replace, regexp_replace),
];

/// Compiled patterns kept by each thread.
const CACHED: usize = 8;
/// How the pattern is compared; the first `strings` arguments are all text or all bytes.
fn collation(
    args: &[ArgType],
    strings: usize,
    ctx: &RetCtx,
    name: &str,
) -> SqlResult<(Collation, Coercibility)> {
    check_charsets(&args[..strings], name)?;
    let collation = compared_in(&args[..2], ctx, name)?;
    let (_, coercibility) = collation_of(&args[..2], ctx, name)?;
    Ok((collation, coercibility))
}

/// 3995 where bytes and text meet.
fn check_charsets(args: &[ArgType], name: &str) -> SqlResult<()> {
    let (subject, others) = args.split_first().expect("there is a subject");
    let is_at_odds = |other: &&ArgType| {
        subject.ty.is_string()
            && other.ty.is_string()
            && subject.ty.collation.is_binary() != other.ty.collation.is_binary()
    };
    match others.iter().find(is_at_odds) {
        None => Ok(()),
        Some(other) => {
            let (subject, other) = (subject.ty.collation.name(), other.ty.collation.name());
            let message = format!(
                "Character set '{subject}' cannot be used in conjunction with '{other}' in call to {name}."
            );
            Err(SqlError::new(3995, "HY000", message))
        }
    }
}

fn ret_like(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, _) = collation(args, 2, ctx, "regexp_like")?;
    Ok(Signature {
        collation,
        ..ret_int::<1>(args, ctx)?
    })
}

fn ret_instr(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, _) = collation(args, 2, ctx, "regexp_instr")?;
    Ok(Signature {
        collation,
        ..ret_int::<21>(args, ctx)?
    })
}

fn ret_substr(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, coercibility) = collation(args, 2, ctx, "regexp_substr")?;
    let ret = string_type(u64::from(text_chars(&args[0].ty)), collation);
    Ok(Signature {
        collation,
        coercibility,
        ..Signature::plain(ret)
    })
}

fn ret_replace(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let (collation, coercibility) = collation(args, 3, ctx, "regexp_replace")?;
    let chars = ctx.max_allowed_packet / u64::from(collation.charset().max_len());
    let ret = string_type(chars, collation).with_nullable(any_nullable(args));
    Ok(Signature {
        collation,
        coercibility,
        ..Signature::plain(ret)
    })
}

fn utf8(c: &Call, i: usize) -> String {
    String::from_utf8_lossy(&c.text(i)).into_owned()
}

fn out_of_bounds() -> SqlError {
    error(3686, "Index out of bounds in regular expression search.")
}

/// Compiles argument 1 with the match type in argument `match_type`, for a match with argument 0.
fn compile(c: &Call, name: &str, match_type: usize) -> SqlResult<Rc<Matcher>> {
    let ci = !c.types.collation.is_bin() && !c.types.collation.name().ends_with("_cs");
    let mut key = Key {
        pattern: utf8(c, 1),
        ignore_case: ci,
        steps: c.ctx.session.regexp_limits().steps,
        ..Key::default()
    };
    if c.has(match_type) {
        for flag in utf8(c, match_type).chars() {
            match flag {
                'c' => key.ignore_case = false,
                'i' => key.ignore_case = true,
                'm' => key.modes.multi_line = true,
                'n' => key.modes.dot_all = true,
                'u' => key.modes.unix_lines = true,
                _ => {
                    let message = format!("Incorrect arguments to {name}");
                    return Err(error(1210, &message));
                }
            }
        }
    }
    if key.pattern.contains(['$', 'Z']) {
        let text = c.text(0);
        key.before_terminator = text.len() <= MOST_TEXT && ends_with_terminator(&text);
    }
    cached(key, c)
}

fn cached(key: Key, c: &Call) -> SqlResult<Rc<Matcher>> {
    thread_local! {
        static CACHE: RefCell<Vec<Rc<Matcher>>> = const { RefCell::new(Vec::new()) };
    }
    let known = CACHE.with_borrow_mut(|cache| {
        let at = cache.iter().position(|known| *known.key() == key)?;
        cache[..=at].rotate_right(1);
        Some(Rc::clone(&cache[0]))
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let made = Rc::new(Matcher::compile(key, c.ctx.session)?);
    CACHE.with_borrow_mut(|cache| {
        cache.truncate(CACHED - 1);
        cache.insert(0, Rc::clone(&made));
    });
    Ok(made)
}

fn regexp_like(c: &Call) -> SqlResult<Value> {
    let pattern = compile(c, "regexp_like", 2)?;
    let text = utf8(c, 0);
    let found = pattern.search(&text, c.ctx.session).end_of_first(0)?;
    Ok(Value::bool(found.is_some()))
}

/// The position in argument `i`, 1 when absent; as in MySQL, of 32 bits.
fn position(c: &Call, i: usize) -> SqlResult<i128> {
    match c.has(i) {
        true => Ok(i128::from(c.integer(i)? as i32)),
        false => Ok(1),
    }
}

/// The same where what is no position is a wrong argument rather than out of bounds.
fn checked_position(c: &Call, i: usize, function: &str) -> SqlResult<i128> {
    match position(c, i)? {
        position if position > 0 => Ok(position),
        _ => Err(crate::errors::wrong_parameters(function)),
    }
}

/// Byte offset of a position, which may be just after the end.
fn start(position: i128, text: &str) -> SqlResult<usize> {
    let chars = usize::try_from(position - 1).map_err(|_| out_of_bounds())?;
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.nth(chars).ok_or_else(out_of_bounds)
}

/// Which occurrence is asked for, from 1.
fn occurrence(c: &Call, i: usize) -> SqlResult<usize> {
    Ok(if c.has(i) { c.count(i)?.max(1) } else { 1 })
}

/// Byte range of an occurrence at or after `from`; behind an empty match at the end there is none.
fn nth(
    search: &mut Finder<'_>,
    from: usize,
    n: usize,
) -> SqlResult<Option<std::ops::Range<usize>>> {
    // Searching from an offset keeps `^` and `\b` aware of what lies before.
    let mut at = from;
    let mut found = None;
    for _ in 0..n {
        if at > search.text().len() {
            return Ok(None);
        }
        let Some(m) = search.first(at)? else {
            return Ok(None);
        };
        at = next_start(search.text(), m.clone());
        found = Some(m);
    }
    Ok(found)
}

/// Where to go on after a match: an empty one advances by a character.
fn next_start(text: &str, m: std::ops::Range<usize>) -> usize {
    if !m.is_empty() {
        return m.end;
    }
    m.end + text[m.end..].chars().next().map_or(1, char::len_utf8)
}

fn regexp_instr(c: &Call) -> SqlResult<Value> {
    let pattern = compile(c, "regexp_instr", 5)?;
    let text = utf8(c, 0);
    let (position, n) = (position(c, 2)?, occurrence(c, 3)?);
    // An empty text may be searched from everywhere.
    let from = match text.is_empty() {
        true => 0,
        false => start(position, &text)?,
    };
    // Unlike in the other functions, just after the end is too far.
    if from > 0 && from == text.len() {
        return Err(out_of_bounds());
    }
    let after = match if c.has(4) { c.integer(4)? } else { 0 } {
        0 => false,
        1 => true,
        _ => {
            let message = "Incorrect arguments to regexp_instr: return_option must be 1 or 0.";
            return Err(error(1210, message));
        }
    };
    // Unlike in the other functions, what is before the position is no part of the text.
    let text = &text[from..];
    let found = nth(&mut pattern.search(text, c.ctx.session), 0, n)?;
    let at = found.map(|m| if after { m.end } else { m.start });
    let at = at.map(|at| position + char_count(&text.as_bytes()[..at]) as i128);
    int(at.map_or(0, |at| at as i64))
}

fn regexp_substr(c: &Call) -> SqlResult<Value> {
    let pattern = compile(c, "regexp_substr", 4)?;
    let text = utf8(c, 0);
    let from = start(checked_position(c, 2, "regexp_substr")?, &text)?;
    let n = occurrence(c, 3)?;
    let found = nth(&mut pattern.search(&text, c.ctx.session), from, n)?;
    Ok(found.map_or(Value::Null, |m| Value::str(&text[m])))
}

/// Occurrence 0 (the default) replaces all.
fn regexp_replace(c: &Call) -> SqlResult<Value> {
    let pattern = compile(c, "regexp_replace", 5)?;
    let (text, replacement) = (utf8(c, 0), utf8(c, 2));
    let from = start(checked_position(c, 3, "regexp_replace")?, &text)?;
    let only = if c.has(4) { c.count(4)? } else { 0 };
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut at, mut n, mut admitted) = (0, from, 0, 0);
    let mut search = pattern.search(&text, c.ctx.session);
    let with_groups = replacement.contains('$');
    while at <= text.len() {
        let Some(m) = search.first(at)? else { break };
        n += 1;
        at = next_start(&text, m.clone());
        if only == 0 || n == only {
            out.push_str(&text[copied..m.start]);
            copied = m.end;
            match with_groups {
                true => expand(&search.groups(m)?, &replacement, &mut out)?,
                false => unescape(&replacement, &mut out),
            }
        }
        if out.len() > admitted {
            if c.too_large("regexp_replace", out.len() as u128)? {
                return Ok(Value::Null);
            }
            // What may be made is not asked for at every match.
            admitted = (2 * out.len()).min(c.ctx.max_allowed_packet as usize);
        }
        if n == only {
            break;
        }
    }
    out.push_str(&text[copied..]);
    string(out)
}

/// The replacement language without groups: a backslash before anything literal.
fn unescape(replacement: &str, out: &mut String) {
    let mut rest = replacement.chars();
    while let Some(ch) = rest.next() {
        match ch {
            '\\' => out.extend(rest.next()),
            _ => out.push(ch),
        }
    }
}

/// ICU's replacement language: `$1`, `${name}`, and a backslash before anything literal.
fn expand(found: &Found<'_>, replacement: &str, out: &mut String) -> SqlResult<()> {
    let mut rest = replacement.chars();
    while let Some(ch) = rest.next() {
        match ch {
            '\\' => out.extend(rest.next()),
            '$' => {
                let (number, len) = group(found, rest.as_str())?;
                out.push_str(found.text_of(number));
                rest = rest.as_str()[len..].chars();
            }
            _ => out.push(ch),
        }
    }
    Ok(())
}

/// Number of the group named after a `$`, and how long its name is.
fn group(found: &Found<'_>, name: &str) -> SqlResult<(usize, usize)> {
    if let Some((name, _)) = name.strip_prefix('{').and_then(|n| n.split_once('}')) {
        let invalid = || error(3887, "A capture group has an invalid name.");
        return found
            .named(name)
            .map(|i| (i, name.len() + 2))
            .ok_or_else(invalid);
    }
    let (mut number, mut len) = (0, 0);
    // More digits belong to the number as long as such a group exists.
    for digit in name.chars().map_while(|ch| ch.to_digit(10)) {
        let longer = number * 10 + digit as usize;
        if len > 0 && longer >= found.count() {
            break;
        }
        number = longer;
        len += 1;
    }
    match len {
        0 => Err(error(3887, "A capture group has an invalid name.")),
        _ if number >= found.count() => Err(out_of_bounds()),
        _ => Ok((number, len)),
    }
}
