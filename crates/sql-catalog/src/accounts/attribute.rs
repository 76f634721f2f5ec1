//! The JSON object of an account: ATTRIBUTE and COMMENT.
//!
//! Neighbours: `session/users` merges into it, SHOW CREATE USER and information_schema print it.
//! **Invariant**: what is stored is an object as MySQL prints JSON: members by length of their names, then by bytes.

use esker_types::{SqlError, SqlResult};
use serde_json::{Map, Value};

/// Longest attribute kept, bytes.
const MAX_BYTES: usize = 1 << 20;

fn bad() -> SqlError {
    SqlError::new(
        3982,
        "HY000",
        "The user attribute must be a valid JSON object",
    )
}

/// The object after ATTRIBUTE: `patch` is merged into what is there, and a member that it sets to null goes.
///
/// # Errors
/// 3982: no JSON object, or too long.
pub fn merge(have: Option<&str>, patch: &[u8]) -> SqlResult<Option<String>> {
    let patch: Map<String, Value> = serde_json::from_slice(patch).map_err(|_| bad())?;
    // What is stored was checked when it was.
    let mut merged = Value::Object(
        have.map_or(Ok(Map::new()), serde_json::from_str)
            .map_err(|_| bad())?,
    );
    merge_into(&mut merged, patch);
    finish(&merged)
}

/// The object after COMMENT.
///
/// # Errors
/// 3982: too long.
pub fn comment(have: Option<&str>, text: &[u8]) -> SqlResult<Option<String>> {
    let text = String::from_utf8_lossy(text).into_owned();
    let patch = Value::Object(Map::from_iter([("comment".to_owned(), Value::from(text))]));
    merge(have, patch.to_string().as_bytes())
}

/// RFC 7396.
fn merge_into(target: &mut Value, patch: Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else {
        return;
    };
    for (name, value) in patch {
        match value {
            Value::Null => {
                members.remove(&name);
            }
            Value::Object(inner) => merge_into(members.entry(name).or_insert(Value::Null), inner),
            other => {
                members.insert(name, other);
            }
        }
    }
}

fn finish(object: &Value) -> SqlResult<Option<String>> {
    let mut out = String::new();
    print(object, &mut out);
    match out.len() {
        0..=2 => Ok(None),
        3..=MAX_BYTES => Ok(Some(out)),
        _ => Err(bad()),
    }
}

fn print(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| (name.len(), name.as_str()));
            out.push('{');
            for (i, (name, value)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push_str(": ");
                print(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                print(item, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_and_printed_as_mysql_does() {
        let one = merge(None, br#"{"bb":[1,2,{"x":null}], "a": {"y":1,"z":2}}"#).unwrap();
        let text = r#"{"a": {"y": 1, "z": 2}, "bb": [1, 2, {"x": null}]}"#;
        assert_eq!(one.as_deref(), Some(text));
        let two = merge(one.as_deref(), br#"{"bb":null,"a":{"y":null}}"#).unwrap();
        assert_eq!(two.as_deref(), Some(r#"{"a": {"z": 2}}"#));
        let three = comment(two.as_deref(), b"it's \"me\"").unwrap();
        assert_eq!(
            three.as_deref(),
            Some(r#"{"a": {"z": 2}, "comment": "it's \"me\""}"#)
        );
        assert_eq!(merge(None, b"{}").unwrap(), None);
        for text in ["nojson", "[1]", "1", "", "{\"a\":1} x"] {
            assert_eq!(
                merge(None, text.as_bytes()).unwrap_err().code,
                3982,
                "{text}"
            );
        }
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_BYTES));
        assert!(merge(None, long.as_bytes()).is_err());
    }
}
