//! Edits of JSON documents, which row events of `binlog_row_value_options = PARTIAL_JSON` have in place of documents.
//!
//! Neighbours: the applier has the document of the row; `esker_types::json` changes it. **Invariant**: an edit that
//! does not find what it is about is an error, for the document is not the one that the source had.

use esker_binlog::event::rows::{JsonEdit, JsonEditKind};
use esker_types::json::{self, Edit, Json, JsonRef, Leg};
use esker_types::{SqlError, SqlResult, Value};

/// ER_COULD_NOT_APPLY_JSON_DIFF.
const NOT_APPLIED: u16 = 3648;
/// ER_CORRUPTED_JSON_DIFF.
const CORRUPTED: u16 = 3649;

/// The document with the edits, in their order.
///
/// # Errors
/// 3648: it cannot be so edited; 3649: an edit makes no sense.
pub(super) fn edited(
    document: &Value,
    edits: &[JsonEdit],
    (table, column): (&str, &str),
) -> SqlResult<Value> {
    let unfit = || {
        let text = format!("Could not apply JSON diff in table {table}, column {column}.");
        SqlError::new(NOT_APPLIED, "HY000", text)
    };
    let Value::Json(bytes) = document else {
        return Err(unfit());
    };
    let mut document = JsonRef::new(bytes).to_json();
    for edit in edits {
        let path = json::parse_path(&edit.path)
            .ok()
            .filter(|path| !path.many());
        let path = path.ok_or_else(|| {
            let text = format!("Corrupted JSON diff for table {table}, column {column}.");
            SqlError::new(CORRUPTED, "HY000", text)
        })?;
        let value = match edit.kind {
            JsonEditKind::Remove => Json::Null,
            _ => JsonRef::new(&edit.value).to_json(),
        };
        if !apply(&mut document, &path.legs, edit.kind, value) {
            return Err(unfit());
        }
    }
    Ok(Value::Json(json::encode(&document)?))
}

/// False: the document is not as the edit wants it.
fn apply(document: &mut Json, legs: &[Leg], kind: JsonEditKind, value: Json) -> bool {
    let is_there = json::holds(document, legs);
    match (kind, legs.last()) {
        (JsonEditKind::Replace, _) if is_there => {
            json::edit(document, legs, value, Edit::Replace);
            true
        }
        (JsonEditKind::Remove, Some(_)) if is_there => {
            json::remove(document, legs);
            true
        }
        (JsonEditKind::Insert, Some(Leg::Member(_))) if !is_there => {
            json::edit(document, legs, value, Edit::Insert);
            json::holds(document, legs)
        }
        (JsonEditKind::Insert, Some(Leg::Cell(_))) => {
            json::array_insert(document, legs, value);
            json::holds(document, &legs[..legs.len() - 1])
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Vec<u8> {
        let parsed = json::parse(text.as_bytes(), &esker_types::ctx::NoSession);
        json::encode(&parsed.unwrap_or(Json::Null)).expect("document")
    }

    fn run(text: &str, edits: &[(JsonEditKind, &str, &str)]) -> Result<String, u16> {
        let edits = edits.iter().map(|(kind, path, value)| JsonEdit {
            kind: *kind,
            path: path.as_bytes().to_vec(),
            value: match kind {
                JsonEditKind::Remove => Vec::new(),
                _ => document(value),
            },
        });
        let edits: Vec<_> = edits.collect();
        let done = edited(&Value::Json(document(text)), &edits, ("t", "c")).map_err(|e| e.code)?;
        let Value::Json(bytes) = done else {
            return Err(0);
        };
        let mut out = Vec::new();
        json::print(JsonRef::new(&bytes), &mut out);
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn parts_are_replaced_added_and_removed_in_order() {
        use JsonEditKind::{Insert, Remove, Replace};
        let text = r#"{"a": 1, "b": [1, 2]}"#;
        let done = run(
            text,
            &[
                (Insert, "$.new", r#"{"q": 1}"#),
                (Remove, "$.b[1]", ""),
                (Insert, "$.b[0]", "5"),
                (Replace, "$.a", "\"x\""),
            ],
        );
        assert_eq!(
            done.as_deref(),
            Ok(r#"{"a": "x", "b": [5, 1], "new": {"q": 1}}"#)
        );
        assert_eq!(run(text, &[]).as_deref(), Ok(text));
        assert_eq!(run(text, &[(Replace, "$", "7")]).as_deref(), Ok("7"));
    }

    #[test]
    fn another_document_is_an_error() {
        use JsonEditKind::{Insert, Remove, Replace};
        for edit in [
            (Replace, "$.x", "1"),
            (Remove, "$.x", ""),
            (Remove, "$", ""),
            (Insert, "$.a", "1"),
            (Insert, "$.x.y", "1"),
        ] {
            assert_eq!(run(r#"{"a": 1}"#, &[edit]), Err(NOT_APPLIED), "{edit:?}");
        }
        assert_eq!(run("{}", &[(Remove, "$.*", "")]), Err(CORRUPTED));
    }
}
