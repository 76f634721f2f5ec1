//! Values of system variables: checks, conversions, how they print.
//!
//! Neighbours: `table` defines what a variable takes, `blocks` which sizes are whole numbers of blocks.
//! **Invariants**: integers out of range are clamped (MySQL warns 1292), wrong types are 1232, words
//! that are not in an enumeration are 1231.

use std::sync::{Arc, OnceLock};

use esker_types::collation::{Charset, Collation};
use esker_types::temporal::zone::{offset_name, parse_time_zone};
use esker_types::{SqlError, SqlMode, SqlResult, Value, errors};

use crate::catalog::{EngineChoice, engine_choice};

use super::blocks::fit;
use super::table::{VarDef, VarKind};

/// A checked value.
#[derive(Debug, Clone, PartialEq)]
pub enum VarValue {
    /// ON or OFF.
    Bool(bool),
    /// Number.
    UInt(u64),
    /// Number that may be below zero.
    Int(i64),
    /// Seconds and the like.
    Double(f64),
    /// Text, enumerations and lists.
    Text(Arc<str>),
    /// NULL.
    Null,
}

impl VarValue {
    /// As SHOW VARIABLES prints it.
    pub fn print(&self) -> String {
        match self {
            Self::Bool(b) => if *b { "ON" } else { "OFF" }.to_owned(),
            Self::UInt(n) => n.to_string(),
            Self::Int(n) => n.to_string(),
            Self::Double(d) => format!("{d:.6}"),
            Self::Text(t) => t.to_string(),
            Self::Null => String::new(),
        }
    }

    /// As an expression sees it: booleans are 0 and 1.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Bool(b) => Value::bool(*b),
            Self::UInt(n) => Value::UInt(*n),
            Self::Int(n) => Value::Int(*n),
            Self::Double(d) => Value::Double(*d),
            Self::Text(t) => Value::str(t.as_bytes()),
            Self::Null => Value::Null,
        }
    }

    /// Is it ON?
    pub fn is_on(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// The number, or 0.
    pub fn as_u64(&self) -> u64 {
        match self {
            Self::UInt(n) => *n,
            Self::Int(n) => u64::try_from(*n).unwrap_or(0),
            Self::Bool(b) => u64::from(*b),
            Self::Double(d) => *d as u64,
            Self::Text(_) | Self::Null => 0,
        }
    }

    /// The number with its sign, or 0.
    pub fn as_i64(&self) -> i64 {
        match self {
            Self::Int(n) => *n,
            other => i64::try_from(other.as_u64()).unwrap_or(i64::MAX),
        }
    }

    /// The text, or nothing.
    pub fn as_text(&self) -> &str {
        match self {
            Self::Text(t) => t,
            _ => "",
        }
    }
}

/// The compiled-in default.
///
/// # Panics
/// When the table's default is not valid, which a test excludes.
pub fn default_of(def: &VarDef) -> VarValue {
    let of_machine = MACHINE_DEFAULTS.iter().find(|d| d.name == def.name);
    if let (Some(default), Some(memory)) = (of_machine, machine_memory()) {
        return VarValue::UInt(default.bytes(memory));
    }
    match from_text(def, def.default) {
        Ok((value, _)) => value,
        Err(e) => panic!("{}: {e}", def.name),
    }
}

/// A default that depends on the machine's memory.
struct MachineDefault {
    name: &'static str,
    /// The memory is divided by this ...
    part: u64,
    /// ... and the default lies between these, in bytes.
    bounds: (u64, u64),
}

/// The variables whose defaults depend on the machine.
const MACHINE_DEFAULTS: [MachineDefault; 4] = [
    // The rest is for connections, the page cache, and others.
    MachineDefault {
        name: "esker_memory_limit",
        part: 2,
        bounds: (256 << 20, 1 << 44),
    },
    // The same by MySQL's name.
    MachineDefault {
        name: "innodb_buffer_pool_size",
        part: 2,
        bounds: (256 << 20, 1 << 44),
    },
    // Memory is taken as rows come, and what the server has not left goes to disk: these only keep one operator from
    // all of it.
    MachineDefault {
        name: "join_buffer_size",
        part: 32,
        bounds: (64 << 20, 1 << 30),
    },
    MachineDefault {
        name: "tmp_table_size",
        part: 32,
        bounds: (64 << 20, 1 << 30),
    },
];

impl MachineDefault {
    fn bytes(&self, memory: u64) -> u64 {
        let (least, most) = self.bounds;
        (memory / self.part).clamp(least, most)
    }
}

/// The memory of a database that has the machine to itself; `None` where the machine does not tell.
fn machine_memory() -> Option<u64> {
    static MACHINE: OnceLock<Option<u64>> = OnceLock::new();
    *MACHINE.get_or_init(esker_vfs::machine::memory)
}

pub(super) fn bad_value(def: &VarDef, given: &str) -> SqlError {
    match def.name {
        "lc_time_names" | "lc_messages" if given != NULL => errors::unknown_locale(given),
        name => errors::wrong_value(name, given),
    }
}

fn bad_type(def: &VarDef) -> SqlError {
    errors::wrong_type(def.name)
}

/// From an option file or a flag: the value, and whether it had to be clamped. Numbers may have K, M, G or T.
///
/// # Errors
/// 1231.
pub fn from_text(def: &VarDef, text: &str) -> SqlResult<(VarValue, bool)> {
    let number = match &def.kind {
        VarKind::Bool => parse_bool(text).map(|b| (VarValue::Bool(b), false)),
        VarKind::UInt { min, max } => parse_size(text).map(|n| {
            let fitted = fit(def.name, n, (*min, *max));
            (VarValue::UInt(fitted), fitted != n)
        }),
        VarKind::Int { min, max } => text.trim().parse::<i64>().ok().map(|n| {
            let clamped = n.clamp(*min, *max);
            (VarValue::Int(clamped), clamped != n)
        }),
        VarKind::Double { min, max } => text.trim().parse::<f64>().ok().map(|d| {
            let clamped = d.clamp(*min, *max);
            (VarValue::Double(clamped), clamped != d)
        }),
        // As an option file writes it.
        VarKind::NullableText if text.eq_ignore_ascii_case("NULL") => Some((VarValue::Null, false)),
        _ => {
            let value = check_text(def, text)?;
            let default = VarValue::Text(Arc::from(def.default));
            return Ok((over(def, value, &default), false));
        }
    };
    number.ok_or_else(|| bad_value(def, text))
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "1" | "true" | "yes" => Some(true),
        "off" | "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// From SET: the value, and whether it had to be clamped.
///
/// # Errors
/// 1231 and 1232.
pub fn from_value(def: &VarDef, given: &Value) -> SqlResult<(VarValue, bool)> {
    match &def.kind {
        VarKind::Bool => bool_value(def, given).map(|b| (VarValue::Bool(b), false)),
        VarKind::UInt { min, max } => uint_value(def, given, *min, *max),
        VarKind::Int { min, max } => {
            let n = match given {
                Value::Int(i) => *i,
                Value::UInt(u) => i64::try_from(*u).unwrap_or(i64::MAX),
                _ => return Err(bad_type(def)),
            };
            let clamped = n.clamp(*min, *max);
            Ok((VarValue::Int(clamped), clamped != n))
        }
        VarKind::Double { min, max } => {
            let d = match given {
                Value::Double(d) => *d,
                Value::Int(i) => *i as f64,
                Value::UInt(u) => *u as f64,
                Value::Decimal(d) => d.to_f64(),
                _ => return Err(bad_type(def)),
            };
            if d > *max && def.name == TIMESTAMP {
                return Err(bad_value(def, &d.to_string()));
            }
            Ok((VarValue::Double(d.clamp(*min, *max)), d < *min || d > *max))
        }
        VarKind::Enum(words) => enum_value(def, words, given).map(|v| (v, false)),
        VarKind::SqlMode => match given {
            Value::Int(i) => sql_mode_bits(def, *i as u64).map(|v| (v, false)),
            Value::UInt(u) => sql_mode_bits(def, *u).map(|v| (v, false)),
            _ => text_value(def, given).map(|v| (v, false)),
        },
        VarKind::Text
        | VarKind::FileName
        | VarKind::Words(_)
        | VarKind::Set { .. }
        | VarKind::Flags(_)
        | VarKind::NullableText
        | VarKind::Suites(_)
        | VarKind::Engine
        | VarKind::Charset { .. }
        | VarKind::Collation => text_value(def, given).map(|v| (v, false)),
    }
}

fn bool_value(def: &VarDef, given: &Value) -> SqlResult<bool> {
    let number = match given {
        Value::Int(i) => *i,
        Value::UInt(u) => i64::try_from(*u).unwrap_or(2),
        Value::Str(s) => {
            let text = String::from_utf8_lossy(s);
            return match text.to_ascii_lowercase().as_str() {
                "on" => Ok(true),
                "off" => Ok(false),
                _ => Err(bad_value(def, &text)),
            };
        }
        Value::Null => return Err(bad_value(def, NULL)),
        _ => return Err(bad_type(def)),
    };
    match number {
        0 => Ok(false),
        1 => Ok(true),
        n => Err(bad_value(def, &n.to_string())),
    }
}

fn uint_value(def: &VarDef, given: &Value, min: u64, max: u64) -> SqlResult<(VarValue, bool)> {
    let n = match given {
        Value::Int(i) if *i < 0 => return Ok((VarValue::UInt(min), true)),
        Value::Int(i) => *i as u64,
        Value::UInt(u) => *u,
        _ => return Err(bad_type(def)),
    };
    let fitted = fit(def.name, n, (min, max));
    Ok((VarValue::UInt(fitted), fitted != n))
}

fn enum_value(def: &VarDef, words: &[&str], given: &Value) -> SqlResult<VarValue> {
    let index = match given {
        Value::Int(i) => usize::try_from(*i).ok(),
        Value::UInt(u) => usize::try_from(*u).ok(),
        Value::Null => return Err(bad_value(def, NULL)),
        _ => return text_value(def, given),
    };
    match index.and_then(|i| words.get(i)) {
        Some(word) => Ok(VarValue::Text(Arc::from(*word))),
        None => Err(bad_value(
            def,
            &index.map_or("-1".into(), |i| i.to_string()),
        )),
    }
}

fn text_value(def: &VarDef, given: &Value) -> SqlResult<VarValue> {
    match given {
        Value::Str(s) => check_text(def, &String::from_utf8_lossy(s)),
        Value::Null => match def.kind {
            VarKind::NullableText | VarKind::Suites(_) | VarKind::Charset { nullable: true } => {
                Ok(VarValue::Null)
            }
            _ => Err(bad_value(def, NULL)),
        },
        // A collation or character set may be given by its number.
        Value::Int(i) if def.kind == VarKind::Collation => u16::try_from(*i)
            .ok()
            .and_then(Collation::by_id)
            .map(|c| VarValue::Text(Arc::from(c.name())))
            .ok_or_else(|| errors::unknown_collation(i.to_string())),
        Value::Int(i) if matches!(def.kind, VarKind::Charset { .. }) => u16::try_from(*i)
            .ok()
            .and_then(Collation::by_id)
            .ok_or_else(|| errors::unknown_charset(i.to_string()))
            .and_then(|c| check_text(def, c.charset().name())),
        // The bits of its flags.
        Value::Int(bits) => match def.kind {
            VarKind::Flags(names) if (0..1 << names.len()).contains(bits) => {
                let state = |on: bool| if on { "on" } else { "off" };
                let flag = |(nth, name)| format!("{name}={}", state(bits >> nth & 1 == 1));
                let all: Vec<_> = names.iter().enumerate().map(flag).collect();
                Ok(VarValue::Text(Arc::from(all.join(","))))
            }
            VarKind::Set {
                words,
                may_be_empty,
            } => {
                let is_known = (0..1 << words.len()).contains(bits);
                match is_known && (may_be_empty || *bits != 0) {
                    true => Ok(VarValue::Text(words_of(words, *bits))),
                    false => Err(bad_value(def, &bits.to_string())),
                }
            }
            VarKind::Flags(_) => Err(bad_value(def, &bits.to_string())),
            _ => Err(bad_type(def)),
        },
        _ => Err(bad_type(def)),
    }
}

/// What an error calls the value NULL.
const NULL: &str = "NULL";

/// The variable that a moment beyond its range is an error for, not one that is cut.
const TIMESTAMP: &str = "timestamp";

/// The variable that says in which character set statements are.
const CLIENT: &str = "character_set_client";

/// 1231 for a character set in which no statement can be.
///
/// # Errors
/// That.
pub fn check_client(charset: Charset) -> SqlResult<()> {
    match charset.of_clients() {
        true => Ok(()),
        false => Err(errors::wrong_value(CLIENT, charset.name())),
    }
}

/// What a flag `name=on` makes of its state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlagState {
    On,
    Off,
    /// As it is compiled in.
    Default,
}

/// The word for a flag's default, and alone for those of all flags that are not named.
const ALL_DEFAULTS: &str = "default";

/// The number of a flag `name=on`, and what it becomes.
fn flag_of(names: &[&str], flag: &str) -> Option<(usize, FlagState)> {
    let (name, state) = flag.split_once('=')?;
    let nth = names.iter().position(|n| n.eq_ignore_ascii_case(name))?;
    let state = match state.to_ascii_lowercase().as_str() {
        "on" => FlagState::On,
        "off" => FlagState::Off,
        ALL_DEFAULTS => FlagState::Default,
        _ => return None,
    };
    Some((nth, state))
}

/// 1231 with what is wrong: a flag that is unknown or named twice, and all that follows.
fn check_flags(def: &VarDef, names: &[&str], text: &str) -> SqlResult<()> {
    let mut seen = vec![false; names.len()];
    let mut said_default = false;
    let mut rest = text;
    while !rest.is_empty() {
        let (flag, after) = rest.split_once(',').unwrap_or((rest, ""));
        let is_fine = match flag.eq_ignore_ascii_case(ALL_DEFAULTS) {
            true => !std::mem::replace(&mut said_default, true),
            false => flag_of(names, flag)
                .is_some_and(|(nth, _)| !std::mem::replace(&mut seen[nth], true)),
        };
        if !is_fine {
            return Err(bad_value(def, rest));
        }
        rest = after;
    }
    Ok(())
}

/// A value over the one before: flags that it does not name stay as they are.
pub fn over(def: &VarDef, value: VarValue, before: &VarValue) -> VarValue {
    let VarKind::Flags(names) = def.kind else {
        return value;
    };
    let flags = |text: &'_ str| -> Vec<_> {
        let known = text.split(',').filter_map(|flag| flag_of(names, flag));
        known.collect()
    };
    let mut defaults = vec![false; names.len()];
    for (nth, state) in flags(def.default) {
        defaults[nth] = state == FlagState::On;
    }
    let says_default = |flag: &str| flag.eq_ignore_ascii_case(ALL_DEFAULTS);
    let mut states = defaults.clone();
    if !value.as_text().split(',').any(says_default) {
        for (nth, state) in flags(before.as_text()) {
            states[nth] = state == FlagState::On;
        }
    }
    for (nth, state) in flags(value.as_text()) {
        states[nth] = match state {
            FlagState::On => true,
            FlagState::Off => false,
            FlagState::Default => defaults[nth],
        };
    }
    let state = |(name, on): (&&str, &bool)| format!("{name}={}", if *on { "on" } else { "off" });
    let all: Vec<_> = names.iter().zip(&states).map(state).collect();
    VarValue::Text(Arc::from(all.join(",")))
}

fn check_text(def: &VarDef, text: &str) -> SqlResult<VarValue> {
    let stored: Arc<str> = match &def.kind {
        VarKind::Enum(words) => match words.iter().find(|w| w.eq_ignore_ascii_case(text)) {
            Some(word) => Arc::from(*word),
            // An enumeration may be given by its index, also as text.
            None => match text.parse::<usize>().ok().and_then(|i| words.get(i)) {
                Some(word) => Arc::from(*word),
                None => return Err(bad_value(def, text)),
            },
        },
        VarKind::SqlMode => return parse_sql_mode(def, text),
        VarKind::Flags(names) => {
            check_flags(def, names, text)?;
            Arc::from(text)
        }
        VarKind::Charset { .. } => match Charset::by_name(text) {
            Some(c) if def.name == CLIENT && !c.of_clients() => return Err(bad_value(def, text)),
            Some(c) => Arc::from(c.name()),
            None => return Err(errors::unknown_charset(text)),
        },
        VarKind::Collation => match Collation::by_name(text) {
            Some(c) => Arc::from(c.name()),
            None => return Err(errors::unknown_collation(text)),
        },
        VarKind::Words(words) => {
            let known = |word: &str| words.iter().any(|w| w.eq_ignore_ascii_case(word));
            if !text.split(',').all(known) {
                return Err(bad_value(def, text));
            }
            Arc::from(text)
        }
        VarKind::Text if def.name == "time_zone" => written_out(text),
        VarKind::Set {
            words,
            may_be_empty,
        } => set_value(def, words, *may_be_empty, text)?,
        VarKind::Engine => match engine_choice(text) {
            EngineChoice::Own(engine) => Arc::from(engine.name()),
            EngineChoice::Substituted(name) => Arc::from(name),
            EngineChoice::Unknown => {
                return Err(errors::unknown_engine(text));
            }
        },
        VarKind::FileName if text.contains(char::is_control) => return Err(bad_value(def, text)),
        VarKind::NullableText | VarKind::Suites(_) if text == super::table::NULL => {
            return Ok(VarValue::Null);
        }
        VarKind::Suites(names) => {
            let is_known = |name: &str| name.is_empty() || names.contains(&name);
            if !text.split(':').all(is_known) {
                return Err(bad_value(def, text));
            }
            Arc::from(text)
        }
        _ => Arc::from(text),
    };
    Ok(VarValue::Text(stored))
}

/// A time zone as it is shown: an offset with all of its digits. One that is unknown is refused elsewhere.
fn written_out(zone: &str) -> Arc<str> {
    const SYSTEM: &str = "SYSTEM";
    match parse_time_zone(zone) {
        Ok(_) if zone.eq_ignore_ascii_case(SYSTEM) => Arc::from(SYSTEM),
        Ok(parsed) if zone.starts_with(['+', '-']) => Arc::from(offset_name(&parsed)),
        _ => Arc::from(zone),
    }
}

/// The words of a set that a list names, in their order; between commas there may be nothing.
fn set_value(def: &VarDef, words: &[&str], may_be_empty: bool, list: &str) -> SqlResult<Arc<str>> {
    let mut bits = 0;
    for name in list.split(',').filter(|name| !name.is_empty()) {
        let place = words
            .iter()
            .position(|word| word.eq_ignore_ascii_case(name));
        bits |= 1 << place.ok_or_else(|| bad_value(def, name))?;
    }
    match bits == 0 && !may_be_empty {
        true => Err(bad_value(def, list)),
        false => Ok(words_of(words, bits)),
    }
}

fn words_of(words: &[&str], bits: i64) -> Arc<str> {
    debug_assert!(bits >> words.len() == 0, "each bit is a word");
    let named = words
        .iter()
        .enumerate()
        .filter(|(nth, _)| bits >> nth & 1 == 1);
    let named: Vec<&str> = named.map(|(_, word)| *word).collect();
    Arc::from(named.join(","))
}

const ANSI_BITS: u64 = SqlMode::REAL_AS_FLOAT.0
    | SqlMode::PIPES_AS_CONCAT.0
    | SqlMode::ANSI_QUOTES.0
    | SqlMode::IGNORE_SPACE.0
    | SqlMode::ONLY_FULL_GROUP_BY.0;
const TRADITIONAL_BITS: u64 = SqlMode::STRICT_TRANS_TABLES.0
    | SqlMode::STRICT_ALL_TABLES.0
    | SqlMode::NO_ZERO_IN_DATE.0
    | SqlMode::NO_ZERO_DATE.0
    | SqlMode::ERROR_FOR_DIVISION_BY_ZERO.0
    | SqlMode::NO_ENGINE_SUBSTITUTION.0;

fn parse_sql_mode(def: &VarDef, text: &str) -> SqlResult<VarValue> {
    let mut bits = 0;
    for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        match SqlMode::ALL
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(word))
        {
            Some((mode, _)) => bits |= mode.0,
            None => return Err(bad_value(def, word)),
        }
    }
    sql_mode_bits(def, bits)
}

fn sql_mode_bits(def: &VarDef, mut bits: u64) -> SqlResult<VarValue> {
    let known = SqlMode::ALL.iter().fold(0, |acc, (m, _)| acc | m.0);
    if bits & !known != 0 {
        return Err(bad_value(def, &bits.to_string()));
    }
    if bits & SqlMode::ANSI.0 != 0 {
        bits |= ANSI_BITS;
    }
    if bits & SqlMode::TRADITIONAL.0 != 0 {
        bits |= TRADITIONAL_BITS;
    }
    let words: Vec<&str> = SqlMode::ALL
        .iter()
        .filter(|(m, _)| bits & m.0 != 0)
        .map(|(_, name)| *name)
        .collect();
    Ok(VarValue::Text(Arc::from(words.join(","))))
}
