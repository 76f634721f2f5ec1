//! What makes one document of another: replacements, insertions and removals at paths.
//!
//! Members are paired by key, elements of arrays by place, behind what two arrays begin with in common and before what
//! they end with in common. Neighbours: `view` reads both documents in place; the binary log writes what is found here.
//! **Invariants**: done in their order to the old document, the steps give the new one; where both are the same there
//! is none; nothing is found for documents that are no containers of one kind, for only the whole of them can be
//! replaced.

use std::cmp::Ordering;

use super::dom::key_order;
use super::path::push_key;
use super::view::{Items, JsonRef, View};

/// What is done at a path.
#[derive(Debug, Clone, Copy)]
pub enum Step<'a> {
    /// What is there becomes this.
    Replace(JsonRef<'a>),
    /// This is added: a member, or an element before the one that is there.
    Insert(JsonRef<'a>),
    /// What is there goes.
    Remove,
}

/// Hands each step to `take`, with its path, until that says false. False: it has, or one document cannot be made of
/// the other by steps.
pub fn differ<'a>(
    old: JsonRef<'_>,
    new: JsonRef<'a>,
    take: &mut dyn FnMut(&[u8], Step<'a>) -> bool,
) -> bool {
    let mut differ = Differ {
        path: b"$".to_vec(),
        take,
    };
    match (old.view(), new.view()) {
        (View::Object(_), View::Object(_)) | (View::Array(_), View::Array(_)) => {
            differ.values(old, new)
        }
        _ => old.is_same(new),
    }
}

struct Differ<'t, 'a> {
    path: Vec<u8>,
    take: &'t mut dyn FnMut(&[u8], Step<'a>) -> bool,
}

impl<'a> Differ<'_, 'a> {
    fn values(&mut self, old: JsonRef<'_>, new: JsonRef<'a>) -> bool {
        if old.is_same(new) {
            return true;
        }
        match (old.view(), new.view()) {
            (View::Object(old), View::Object(new)) => self.objects(old, new),
            (View::Array(old), View::Array(new)) => self.arrays(old, new),
            _ => (self.take)(&self.path, Step::Replace(new)),
        }
    }

    /// Both are sorted by key.
    fn objects(&mut self, old: Items<'_>, new: Items<'a>) -> bool {
        let (mut here, mut there) = (0, 0);
        while here < old.len() || there < new.len() {
            let order = match (here < old.len(), there < new.len()) {
                (true, true) => key_order(old.key(here), new.key(there)),
                (true, false) => Ordering::Less,
                (false, _) => Ordering::Greater,
            };
            let goes_on = match order {
                Ordering::Less => self.member(old.key(here), |d| d.step(Step::Remove)),
                Ordering::Equal => {
                    let (was, is) = (old.get(here), new.get(there));
                    self.member(old.key(here), |d| d.values(was, is))
                }
                Ordering::Greater => {
                    let is = new.get(there);
                    self.member(new.key(there), |d| d.step(Step::Insert(is)))
                }
            };
            if !goes_on {
                return false;
            }
            here += usize::from(order != Ordering::Greater);
            there += usize::from(order != Ordering::Less);
        }
        true
    }

    fn arrays(&mut self, old: Items<'_>, new: Items<'a>) -> bool {
        let (was, is) = (old.len(), new.len());
        let shorter = was.min(is);
        let front = (0..shorter).take_while(|i| old.get(*i).is_same(new.get(*i)));
        let front = front.count();
        let same_behind = |i: &usize| old.get(was - 1 - i).is_same(new.get(is - 1 - i));
        let back = (0..shorter - front).take_while(same_behind).count();
        let paired = shorter - back;
        (front..paired).all(|i| self.cell(i, |d| d.values(old.get(i), new.get(i))))
            && (paired..was - back)
                .rev()
                .all(|i| self.cell(i, |d| d.step(Step::Remove)))
            && (paired..is - back).all(|i| self.cell(i, |d| d.step(Step::Insert(new.get(i)))))
    }

    fn step(&mut self, step: Step<'a>) -> bool {
        (self.take)(&self.path, step)
    }

    fn member(&mut self, key: &[u8], then: impl FnOnce(&mut Self) -> bool) -> bool {
        let length = self.path.len();
        self.path.push(b'.');
        push_key(key, &mut self.path);
        let goes_on = then(self);
        self.path.truncate(length);
        goes_on
    }

    fn cell(&mut self, nth: usize, then: impl FnOnce(&mut Self) -> bool) -> bool {
        let length = self.path.len();
        self.path.extend_from_slice(format!("[{nth}]").as_bytes());
        let goes_on = then(self);
        self.path.truncate(length);
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Edit, Json, Leg, array_insert, edit, encode, parse, parse_path, remove};
    use super::*;
    use crate::ctx::NoSession;

    fn document(text: &str) -> Vec<u8> {
        encode(&parse(text.as_bytes(), &NoSession).expect("a text")).expect("a document")
    }

    fn steps(old: &str, new: &str) -> Option<Vec<(String, Option<Json>)>> {
        let (old, new) = (document(old), document(new));
        let mut steps = Vec::new();
        let mut tree = JsonRef::new(&old).to_json();
        let is_whole = differ(JsonRef::new(&old), JsonRef::new(&new), &mut |path, step| {
            let parsed = parse_path(path).expect("a path");
            let legs = &parsed.legs;
            let value = match step {
                Step::Replace(value) | Step::Insert(value) => Some(value.to_json()),
                Step::Remove => None,
            };
            match (step, legs.last()) {
                (Step::Remove, _) => remove(&mut tree, legs),
                (Step::Replace(v), _) => edit(&mut tree, legs, v.to_json(), Edit::Replace),
                (Step::Insert(v), Some(Leg::Cell(_))) => {
                    array_insert(&mut tree, legs, v.to_json());
                }
                (Step::Insert(v), _) => edit(&mut tree, legs, v.to_json(), Edit::Insert),
            }
            steps.push((String::from_utf8_lossy(path).into_owned(), value));
            true
        });
        if is_whole {
            assert_eq!(encode(&tree).expect("a document"), new);
        }
        is_whole.then_some(steps)
    }

    #[test]
    fn steps_make_the_new_document_of_the_old_one() {
        let paths = |old: &str, new: &str| -> Vec<String> {
            let steps = steps(old, new).expect("steps");
            steps.into_iter().map(|(path, _)| path).collect()
        };
        assert_eq!(paths(r#"{"a": 1}"#, r#"{"a": 1}"#), [""; 0]);
        assert_eq!(
            paths(r#"{"a": 1, "b": 2}"#, r#"{"a": 3, "c c": [2]}"#),
            ["$.a", "$.b", "$.\"c c\""]
        );
        assert_eq!(paths("[1, 2, 3, 4]", "[1, 9, 4]"), ["$[1]", "$[2]"]);
        assert_eq!(paths("[1, 2]", "[0, 7, 1, 2]"), ["$[0]", "$[1]"]);
        assert_eq!(paths("[1, 2, 3]", "[]"), ["$[2]", "$[1]", "$[0]"]);
        let deep = paths(
            r#"{"a": [{"b": "x", "\"": 1}], "z": null}"#,
            r#"{"a": [{"b": "y", "\"": 2.5}], "z": {}}"#,
        );
        assert_eq!(deep, ["$.a[0].\"\\\"\"", "$.a[0].b", "$.z"]);
        // 1 and 1.0 are equal, and not the same.
        assert_eq!(paths("[1]", "[1.0]"), ["$[0]"]);
    }

    #[test]
    fn only_containers_of_one_kind_have_steps() {
        for (old, new) in [("1", "2"), ("{}", "[]"), ("[1]", "1"), ("null", "{}")] {
            assert!(steps(old, new).is_none(), "{old} {new}");
        }
        assert_eq!(steps("1", "1"), Some(Vec::new()));
    }
}
