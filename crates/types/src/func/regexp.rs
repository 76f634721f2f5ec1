//! REGEXP_LIKE, REGEXP_INSTR, REGEXP_SUBSTR, REGEXP_REPLACE (REGEXP and RLIKE are the first).
//!
//! Neighbours: crate `regex` matches; MySQL uses ICU. The two agree on what people write in
//! practice; look-around and back references inside a pattern do not exist here (error 1235), in
//! exchange every match takes linear time: at most the length of the text times the size of the compiled pattern, which
//! regexp_time_limit bounds before the match begins.
//!
//! **Invariants**: positions are characters from 1; a compiled pattern is reused while it stays
//! among the last [`CACHED`] of its thread.

use std::cell::RefCell;

use regex::{Captures, Regex, RegexBuilder};

use crate::ctx::RegexpLimits;

use super::call::{Call, int, string};
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
/// Longest pattern, bytes: reading it takes time, too.
const MAX_PATTERN: usize = 64 * 1024;
/// A pattern is compiled with room for so many bytes first, then for [`GROWTH`] times as many: so its size is known.
const LEAST_COMPILED: u64 = 4 * 1024;
const GROWTH: u64 = 4;
/// Bytes of a compiled pattern that are about one instruction.
const INSTRUCTION: u64 = 40;
/// What regexp_time_limit counts in: bytes of the text times instructions of the pattern, at worst.
const STEP: u128 = 32 << 20;
/// A match that takes more than this is asked about like work on many bytes.
const LONG_MATCH: u128 = 1 << 20;

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

fn error(code: u16, message: &str) -> SqlError {
    SqlError::new(code, "HY000", message)
}

fn out_of_bounds() -> SqlError {
    error(3686, "Index out of bounds in regular expression search.")
}

/// What decides how a pattern is compiled.
#[derive(Clone, PartialEq, Eq, Default)]
struct Key {
    pattern: String,
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
}

/// A compiled pattern.
#[derive(Clone)]
struct Pattern {
    regex: Regex,
    /// Instructions, about.
    size: u64,
}

impl std::ops::Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.regex
    }
}

/// Compiles argument 1 with the match type in argument `match_type`, for a match with argument 0.
fn compile(c: &Call, name: &str, match_type: usize) -> SqlResult<Pattern> {
    let ci = !c.types.collation.is_bin() && !c.types.collation.name().ends_with("_cs");
    let mut key = Key {
        pattern: utf8(c, 1),
        ignore_case: ci,
        ..Key::default()
    };
    if c.has(match_type) {
        for flag in utf8(c, match_type).chars() {
            match flag {
                'c' => key.ignore_case = false,
                'i' => key.ignore_case = true,
                'm' => key.multi_line = true,
                'n' => key.dot_all = true,
                'u' => {}
                _ => {
                    let message = format!("Incorrect arguments to {name}");
                    return Err(error(1210, &message));
                }
            }
        }
    }
    let limits = c.ctx.session.regexp_limits();
    let pattern = cached(key, limits)?;
    let worst = c.text(0).len() as u128 * u128::from(pattern.size);
    if limits.steps > 0 && worst > STEP * u128::from(limits.steps) {
        return Err(error(3699, "Timeout exceeded in regular expression match."));
    }
    if worst > LONG_MATCH {
        c.ctx
            .session
            .go_on(usize::try_from(worst).unwrap_or(usize::MAX))?;
    }
    Ok(pattern)
}

fn cached(key: Key, limits: RegexpLimits) -> SqlResult<Pattern> {
    thread_local! {
        static CACHE: RefCell<Vec<(Key, Pattern)>> = const { RefCell::new(Vec::new()) };
    }
    CACHE.with_borrow_mut(|cache| {
        if let Some(at) = cache.iter().position(|(k, _)| *k == key) {
            cache[..=at].rotate_right(1);
        } else {
            let pattern = build(&key, limits)?;
            cache.truncate(CACHED - 1);
            cache.insert(0, (key, pattern));
        }
        Ok(cache[0].1.clone())
    })
}

fn build(key: &Key, limits: RegexpLimits) -> SqlResult<Pattern> {
    if key.pattern.is_empty() {
        return Err(error(3685, "Illegal argument to a regular expression."));
    }
    if key.pattern.len() > MAX_PATTERN {
        let message = "The regular expression pattern exceeds limits on size or complexity.";
        return Err(error(3700, message));
    }
    let mut room = LEAST_COMPILED.min(limits.bytes);
    loop {
        let built = RegexBuilder::new(&key.pattern)
            .case_insensitive(key.ignore_case)
            .multi_line(key.multi_line)
            .dot_matches_new_line(key.dot_all)
            .size_limit(usize::try_from(room).unwrap_or(usize::MAX))
            .build();
        match built {
            Ok(regex) => {
                let size = room.div_ceil(INSTRUCTION);
                return Ok(Pattern { regex, size });
            }
            Err(regex::Error::CompiledTooBig(_)) if room < limits.bytes => {
                room = room.saturating_mul(GROWTH).min(limits.bytes);
            }
            Err(e) => return Err(syntax_error(&e)),
        }
    }
}

/// MySQL's error for what is wrong with a pattern; `regex` says it in words only.
fn syntax_error(e: &regex::Error) -> SqlError {
    let text = match e {
        regex::Error::Syntax(text) => text.as_str(),
        _ => {
            let message = "Overflow in the regular expression backtrack stack.";
            return error(3698, message);
        }
    };
    let says = |words: &str| text.contains(words);
    if says("look-around") || says("backreferences") {
        return SqlError::not_supported("look-around and back references in regular expressions");
    }
    let (code, message) = if says("unclosed group") || says("unopened group") {
        (3691, "Mismatched parenthesis in regular expression.")
    } else if says("unclosed character class") {
        (
            3696,
            "The regular expression contains an unclosed bracket expression.",
        )
    } else if says("invalid character class range") {
        let message =
            "The regular expression contains an [x-y] character range where x comes after y.";
        (3697, message)
    } else if says("invalid repetition count range") {
        (
            3693,
            "The maximum is less than the minumum in a {min,max} interval.",
        )
    } else if says("capture group name") {
        (3887, "A capture group has an invalid name.")
    } else {
        (
            3688,
            "Syntax error in regular expression on line 1, character 1.",
        )
    };
    error(code, message)
}

fn regexp_like(c: &Call) -> SqlResult<Value> {
    let regex = compile(c, "regexp_like", 2)?;
    Ok(Value::bool(regex.is_match(&utf8(c, 0))))
}

/// Byte offset of the position in argument `i` (1 when absent), which may be just after the end.
fn start(c: &Call, i: usize, text: &str) -> SqlResult<usize> {
    let position = if c.has(i) { c.integer(i)? } else { 1 };
    let chars = usize::try_from(position - 1).map_err(|_| out_of_bounds())?;
    let mut places = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    places.nth(chars).ok_or_else(out_of_bounds)
}

/// Which occurrence is asked for, from 1.
fn occurrence(c: &Call, i: usize) -> SqlResult<usize> {
    Ok(if c.has(i) { c.count(i)?.max(1) } else { 1 })
}

/// Byte range of an occurrence at or after `from`.
fn nth(regex: &Regex, text: &str, from: usize, n: usize) -> Option<std::ops::Range<usize>> {
    // Searching from an offset keeps `^` and `\b` aware of what lies before.
    let mut at = from;
    let mut found = None;
    for _ in 0..n {
        let m = regex.find_at(text, at)?;
        at = next_start(text, m.range());
        found = Some(m.range());
        if at > text.len() && n > 1 {
            break;
        }
    }
    found
}

/// Where to go on after a match: an empty one advances by a character.
fn next_start(text: &str, m: std::ops::Range<usize>) -> usize {
    if !m.is_empty() {
        return m.end;
    }
    m.end + text[m.end..].chars().next().map_or(1, char::len_utf8)
}

fn regexp_instr(c: &Call) -> SqlResult<Value> {
    let regex = compile(c, "regexp_instr", 5)?;
    let text = utf8(c, 0);
    let (from, n) = (start(c, 2, &text)?, occurrence(c, 3)?);
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
    let found = nth(&regex, &text, from, n);
    let at = found.map(|m| if after { m.end } else { m.start });
    int(at.map_or(0, |at| char_count(&text.as_bytes()[..at]) as i64 + 1))
}

fn regexp_substr(c: &Call) -> SqlResult<Value> {
    let regex = compile(c, "regexp_substr", 4)?;
    let text = utf8(c, 0);
    let (from, n) = (start(c, 2, &text)?, occurrence(c, 3)?);
    Ok(nth(&regex, &text, from, n).map_or(Value::Null, |m| Value::str(&text[m])))
}

/// Occurrence 0 (the default) replaces all.
fn regexp_replace(c: &Call) -> SqlResult<Value> {
    let regex = compile(c, "regexp_replace", 5)?;
    let (text, replacement) = (utf8(c, 0), utf8(c, 2));
    let from = start(c, 3, &text)?;
    let only = if c.has(4) { c.count(4)? } else { 0 };
    let mut out = String::with_capacity(text.len());
    let (mut copied, mut at, mut n) = (0, from, 0);
    while at <= text.len() {
        let Some(found) = regex.captures_at(&text, at) else {
            break;
        };
        let Some(m) = found.get(0) else { break };
        n += 1;
        at = next_start(&text, m.range());
        if only == 0 || n == only {
            out.push_str(&text[copied..m.start()]);
            expand(&regex, &found, &replacement, &mut out)?;
            copied = m.end();
        }
        if c.too_large("regexp_replace", out.len() as u128)? {
            return Ok(Value::Null);
        }
        if n == only {
            break;
        }
    }
    out.push_str(&text[copied..]);
    string(out)
}

/// ICU's replacement language: `$1`, `${name}`, and a backslash before anything literal.
fn expand(regex: &Regex, found: &Captures, replacement: &str, out: &mut String) -> SqlResult<()> {
    let mut rest = replacement.chars();
    while let Some(ch) = rest.next() {
        match ch {
            '\\' => out.extend(rest.next()),
            '$' => {
                let group = group(regex, found, rest.as_str())?;
                out.push_str(found.get(group.0).map_or("", |m| m.as_str()));
                rest = rest.as_str()[group.1..].chars();
            }
            _ => out.push(ch),
        }
    }
    Ok(())
}

/// Number of the group named after a `$`, and how long its name is.
fn group(regex: &Regex, found: &Captures, name: &str) -> SqlResult<(usize, usize)> {
    if let Some((name, _)) = name.strip_prefix('{').and_then(|n| n.split_once('}')) {
        let number = regex.capture_names().position(|n| n == Some(name));
        let invalid = || error(3887, "A capture group has an invalid name.");
        return number.map(|i| (i, name.len() + 2)).ok_or_else(invalid);
    }
    let (mut number, mut len) = (0, 0);
    // More digits belong to the number as long as such a group exists.
    for digit in name.chars().map_while(|ch| ch.to_digit(10)) {
        let longer = number * 10 + digit as usize;
        if len > 0 && longer >= found.len() {
            break;
        }
        number = longer;
        len += 1;
    }
    match len {
        0 => Err(error(3887, "A capture group has an invalid name.")),
        _ if number >= found.len() => Err(out_of_bounds()),
        _ => Ok((number, len)),
    }
}
