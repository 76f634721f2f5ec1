//! JSON Schema, draft 4: is a document what a schema asks for?
//!
//! Neighbours: JSON_SCHEMA_VALID and JSON_SCHEMA_VALIDATION_REPORT.
//! **Invariants**: the first failure ends the check, in the order in which MySQL finds it (a value's own keywords, its
//! members or elements, then `enum` and the combinations); references lead into the schema itself, and as many follow
//! each other as [`MAX_REFERENCES`].

use std::cell::RefCell;
use std::fmt;

use regex::RegexBuilder;

use super::contains::Distinct;
use super::order::compare;
use super::view::{Items, JsonRef, View};
use crate::ctx::Work;
use crate::error::{SqlError, SqlResult};

/// References on the way from the schema's root to a value.
const MAX_REFERENCES: usize = 100;
/// A value checked by one schema is as much work as so many bytes.
const CHECK_BYTES: usize = 64;
/// Bytes of a compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;

/// What a document does not fulfil.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Where in the schema, as a pointer.
    pub schema: String,
    /// Where in the document.
    pub document: String,
    /// Which keyword.
    pub keyword: &'static str,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            schema,
            document,
            keyword,
        } = self;
        write!(
            f,
            "The JSON document location '{document}' failed requirement '{keyword}' at JSON Schema location '{schema}'"
        )
    }
}

/// What is wrong with the document.
///
/// # Errors
/// 1235 for references to other schemas; the statement is killed or out of time.
pub fn validate(
    schema: JsonRef<'_>,
    document: JsonRef<'_>,
    work: Work<'_>,
) -> SqlResult<Option<Failure>> {
    let root = Node {
        work: &RefCell::new(work),
        root: schema,
        schema,
        at: Location {
            schema: "#",
            document: "#",
        },
        references: 0,
    };
    if refers_elsewhere(schema) {
        return Err(no_references());
    }
    match root.check(document) {
        Ok(()) => Ok(None),
        Err(Stop::Failed(failure)) => Ok(Some(failure)),
        Err(Stop::Error(e)) => Err(e),
    }
}

/// Is there a reference to another document anywhere, whether it is asked for or not?
fn refers_elsewhere(schema: JsonRef<'_>) -> bool {
    match schema.view() {
        View::Object(members) => {
            let reference = members.find(b"$ref").and_then(text);
            reference.is_some_and(|r| !r.is_empty() && !r.starts_with('#'))
                || members.members().any(|(_, v)| refers_elsewhere(v))
        }
        View::Array(items) => items.iter().any(refers_elsewhere),
        _ => false,
    }
}

/// 1235
fn no_references() -> SqlError {
    let text = "This version of MySQL doesn't yet support 'references in JSON Schema'";
    SqlError::new(1235, "42000", text)
}

enum Stop {
    Failed(Failure),
    Error(SqlError),
}

type Check = Result<(), Stop>;

#[derive(Clone, Copy)]
struct Location<'a> {
    schema: &'a str,
    document: &'a str,
}

/// A schema within the whole one.
#[derive(Clone, Copy)]
struct Node<'a, 'w> {
    /// What was checked so far: combinations of references are more than the schema is long.
    work: &'a RefCell<Work<'w>>,
    root: JsonRef<'a>,
    schema: JsonRef<'a>,
    at: Location<'a>,
    references: usize,
}

fn number(v: JsonRef<'_>) -> Option<f64> {
    match v.view() {
        View::Int(n) => Some(n as f64),
        View::UInt(n) => Some(n as f64),
        View::Double(d) => Some(d),
        View::Decimal(d) => Some(d.to_f64()),
        _ => None,
    }
}

fn items_of(v: JsonRef<'_>) -> Option<Items<'_>> {
    match v.view() {
        View::Array(items) => Some(items),
        _ => None,
    }
}

fn text(v: JsonRef<'_>) -> Option<&str> {
    match v.view() {
        View::String(s) => std::str::from_utf8(s).ok(),
        _ => None,
    }
}

/// A pattern; what is none is ignored.
fn pattern(text: &str) -> Option<regex::Regex> {
    RegexBuilder::new(text)
        .size_limit(PATTERN_BYTES)
        .build()
        .ok()
}

fn is_type(name: &str, v: &View<'_>) -> bool {
    match name {
        "null" => matches!(v, View::Null),
        "boolean" => matches!(v, View::Bool(_)),
        "integer" => matches!(v, View::Int(_) | View::UInt(_)),
        "number" => matches!(
            v,
            View::Int(_) | View::UInt(_) | View::Double(_) | View::Decimal(_)
        ),
        "string" => matches!(
            v,
            View::String(_) | View::Date(_) | View::Time(_) | View::DateTime(..) | View::Opaque(..)
        ),
        "array" => matches!(v, View::Array(_)),
        "object" => matches!(v, View::Object(_)),
        _ => false,
    }
}

impl<'a> Node<'a, '_> {
    fn get(&self, keyword: &str) -> Option<JsonRef<'a>> {
        match self.schema.view() {
            View::Object(members) => members.find(keyword.as_bytes()),
            _ => None,
        }
    }

    fn members(&self, keyword: &str) -> Option<Items<'a>> {
        match self.get(keyword)?.view() {
            View::Object(members) => Some(members),
            _ => None,
        }
    }

    fn fail<T>(&self, keyword: &'static str) -> Result<T, Stop> {
        Err(Stop::Failed(Failure {
            schema: self.at.schema.to_owned(),
            document: self.at.document.to_owned(),
            keyword,
        }))
    }

    fn require(&self, holds: bool, keyword: &'static str) -> Check {
        if holds { Ok(()) } else { self.fail(keyword) }
    }

    /// Checks a value by a schema below this one; `part` leads there, `place` to the value.
    fn below(&self, schema: JsonRef<'a>, part: &str, place: &str, v: JsonRef<'_>) -> Check {
        let schema_at = format!("{}{part}", self.at.schema);
        let document_at = format!("{}{place}", self.at.document);
        let node = Node {
            schema,
            at: Location {
                schema: &schema_at,
                document: &document_at,
            },
            root: self.root,
            references: self.references,
            work: self.work,
        };
        node.check(v)
    }

    /// Does the value fulfil a schema below this one?
    fn holds(&self, schema: JsonRef<'a>, v: JsonRef<'_>) -> Result<bool, Stop> {
        match self.below(schema, "", "", v) {
            Ok(()) => Ok(true),
            Err(Stop::Failed(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn check(&self, v: JsonRef<'_>) -> Check {
        let done = self.work.borrow_mut().done(CHECK_BYTES);
        done.map_err(Stop::Error)?;
        if let Some(reference) = self.get("$ref").and_then(text) {
            return self.follow(reference, v);
        }
        let view = v.view();
        let of_type = |ty: JsonRef<'_>| text(ty).is_none_or(|name| is_type(name, &view));
        let holds = self.get("type").is_none_or(|ty| match ty.view() {
            View::Array(types) => types.iter().any(of_type),
            _ => of_type(ty),
        });
        self.require(holds, "type")?;
        match view {
            View::Object(members) => self.object(members)?,
            View::Array(items) => self.array(items)?,
            View::String(s) => self.string(&String::from_utf8_lossy(s))?,
            _ => {
                if let Some(n) = number(v) {
                    self.number(n)?;
                }
            }
        }
        self.combinations(v)
    }

    fn follow(&self, reference: &str, v: JsonRef<'_>) -> Check {
        let target = reference
            .strip_prefix('#')
            .filter(|_| self.references < MAX_REFERENCES);
        let Some(pointer) = target else {
            return Err(Stop::Error(no_references()));
        };
        let mut schema = Some(self.root);
        for part in pointer.split('/').skip(1) {
            let key = part.replace("~1", "/").replace("~0", "~");
            schema = schema.and_then(|s| match s.view() {
                View::Object(members) => members.find(key.as_bytes()),
                View::Array(items) => key
                    .parse()
                    .ok()
                    .filter(|i| *i < items.len())
                    .map(|i| items.get(i)),
                _ => None,
            });
        }
        let Some(schema) = schema else {
            return Ok(());
        };
        let node = Node {
            schema,
            at: Location {
                schema: reference,
                document: self.at.document,
            },
            root: self.root,
            references: self.references + 1,
            work: self.work,
        };
        node.check(v)
    }

    fn limit(&self, keyword: &str) -> Option<f64> {
        self.get(keyword).and_then(number)
    }

    /// At least and at most so many.
    fn count(&self, n: usize, least: &'static str, most: &'static str) -> Check {
        let n = n as f64;
        self.require(self.limit(least).is_none_or(|limit| n >= limit), least)?;
        self.require(self.limit(most).is_none_or(|limit| n <= limit), most)
    }

    fn flag(&self, keyword: &str) -> bool {
        self.get(keyword)
            .is_some_and(|v| matches!(v.view(), View::Bool(true)))
    }

    fn number(&self, n: f64) -> Check {
        if let Some(least) = self.limit("minimum") {
            let holds = n > least || (n == least && !self.flag("exclusiveMinimum"));
            self.require(holds, "minimum")?;
        }
        if let Some(most) = self.limit("maximum") {
            let holds = n < most || (n == most && !self.flag("exclusiveMaximum"));
            self.require(holds, "maximum")?;
        }
        if let Some(unit) = self.limit("multipleOf").filter(|unit| *unit > 0.0) {
            // 19.99 is a multiple of 0.01, as near as doubles are to them.
            let parts = (n / unit).abs();
            let rounding = (parts + parts.round()) * f64::EPSILON;
            let is_near = (parts - parts.round()).abs() <= rounding;
            self.require(is_near, "multipleOf")?;
        }
        Ok(())
    }

    fn string(&self, s: &str) -> Check {
        self.count(s.chars().count(), "minLength", "maxLength")?;
        let pattern = self.get("pattern").and_then(text).and_then(pattern);
        self.require(pattern.is_none_or(|p| p.is_match(s)), "pattern")
    }

    fn array(&self, items: Items<'_>) -> Check {
        let (each, tuple) = match self.get("items") {
            Some(schema) => match items_of(schema) {
                Some(tuple) => (None, Some(tuple)),
                None => (Some(schema), None),
            },
            None => (None, None),
        };
        let mut seen = self.flag("uniqueItems").then(Distinct::default);
        for (i, item) in items.iter().enumerate() {
            let place = format!("/{i}");
            if let Some(each) = each {
                self.below(each, "/items", &place, item)?;
            } else if let Some(tuple) = tuple {
                if i < tuple.len() {
                    self.below(tuple.get(i), &format!("/items/{i}"), &place, item)?;
                } else {
                    self.additional("additionalItems", &place, item)?;
                }
            }
            if let Some(seen) = &mut seen {
                let added = seen.add(item, &mut self.work.borrow_mut());
                if !added.map_err(Stop::Error)? {
                    return Err(self.failed_below(&place, "uniqueItems"));
                }
            }
        }
        self.count(items.len(), "minItems", "maxItems")
    }

    /// A member or element does not fulfil what a keyword says of all of them.
    fn failed_below(&self, place: &str, keyword: &'static str) -> Stop {
        Stop::Failed(Failure {
            schema: self.at.schema.to_owned(),
            document: format!("{}{place}", self.at.document),
            keyword,
        })
    }

    /// What no other keyword names: not allowed at all, or by a schema.
    fn additional(&self, keyword: &'static str, place: &str, v: JsonRef<'_>) -> Check {
        match self.get(keyword) {
            Some(rule) => match rule.view() {
                View::Bool(true) => Ok(()),
                View::Bool(false) => Err(self.failed_below(place, keyword)),
                _ => self.below(rule, &format!("/{keyword}"), place, v),
            },
            None => Ok(()),
        }
    }

    /// A member whose name patterns match. As in MySQL, one that no property names need not be what the patterns want
    /// if it is what additional members are; what is wrong is not told.
    fn patterns(
        &self,
        matching: &[&(regex::Regex, JsonRef<'a>)],
        property: Option<JsonRef<'a>>,
        place: &str,
        v: JsonRef<'_>,
    ) -> Check {
        let mut holds_all = true;
        for (_, schema) in matching {
            holds_all &= self.holds(*schema, v)?;
        }
        let additional = self.get("additionalProperties");
        let additional = additional.filter(|rule| matches!(rule.view(), View::Object(_)));
        let holds_all = match (property, additional) {
            (Some(schema), _) => holds_all && self.holds(schema, v)?,
            (None, Some(schema)) => holds_all || self.holds(schema, v)?,
            (None, None) => holds_all,
        };
        match holds_all {
            true => Ok(()),
            false => Err(self.failed_below(place, "patternProperties")),
        }
    }

    fn object(&self, members: Items<'_>) -> Check {
        let properties = self.members("properties");
        let patterns: Vec<(regex::Regex, JsonRef<'a>)> = self
            .members("patternProperties")
            .map(|p| {
                p.members()
                    .filter_map(|(key, schema)| {
                        let key = std::str::from_utf8(key).ok()?;
                        Some((pattern(key)?, schema))
                    })
                    .collect()
            })
            .unwrap_or_default();
        for (key, v) in members.members() {
            let name = String::from_utf8_lossy(key);
            let place = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            let property = properties.and_then(|p| p.find(key));
            let matching = patterns.iter().filter(|(p, _)| p.is_match(&name));
            let matching: Vec<_> = matching.collect();
            match property {
                Some(schema) if matching.is_empty() => {
                    self.below(schema, &format!("/properties{place}"), &place, v)?;
                }
                None if matching.is_empty() => {
                    self.additional("additionalProperties", &place, v)?;
                }
                _ => self.patterns(&matching, property, &place, v)?,
            }
        }
        let has = |key: JsonRef<'_>| match key.view() {
            View::String(key) => members.find(key).is_some(),
            _ => true,
        };
        let required = self.get("required").and_then(items_of);
        self.require(required.is_none_or(|r| r.iter().all(has)), "required")?;
        self.count(members.len(), "minProperties", "maxProperties")?;
        self.dependencies(members)
    }

    fn dependencies(&self, members: Items<'_>) -> Check {
        let Some(rules) = self.members("dependencies") else {
            return Ok(());
        };
        for (key, rule) in rules.members() {
            if members.find(key).is_none() {
                continue;
            }
            let holds = match rule.view() {
                View::Array(names) => names.iter().all(|name| match name.view() {
                    View::String(name) => members.find(name).is_some(),
                    _ => true,
                }),
                _ => true,
            };
            self.require(holds, "dependencies")?;
        }
        Ok(())
    }

    fn combinations(&self, v: JsonRef<'_>) -> Check {
        if let Some(allowed) = self.get("enum").and_then(items_of) {
            self.require(allowed.iter().any(|a| compare(a, v).is_eq()), "enum")?;
        }
        let mut counts = [0; 3];
        let lists = ["allOf", "anyOf", "oneOf"];
        for (list, count) in lists.iter().zip(&mut counts) {
            let Some(schemas) = self.get(list).and_then(items_of) else {
                continue;
            };
            for schema in schemas.iter() {
                *count += usize::from(self.holds(schema, v)?);
            }
            let holds = match *list {
                "allOf" => *count == schemas.len(),
                "anyOf" => *count > 0,
                _ => *count == 1,
            };
            self.require(holds, list)?;
        }
        if let Some(schema) = self.get("not") {
            self.require(!self.holds(schema, v)?, "not")?;
        }
        Ok(())
    }
}
