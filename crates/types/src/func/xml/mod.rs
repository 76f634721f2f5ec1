//! EXTRACTVALUE and UPDATEXML: parts of XML texts, named by XPath 1.0 as far as MySQL knows it.
//!
//! In flow order: this file (the functions), `document` (XML into nodes), `xpath` (expressions into trees), `eval`
//! (which nodes, or what value). Neighbours: `func` registers the functions.
//! **Invariants**: a text that is no XML gives NULL and warning 1525; an expression that is no XPath is error 1105.
//! Entities are not resolved, and nothing outside of the text is read.

mod document;
mod eval;
mod xpath;

use super::call::{Call, string};
use super::ret::compared_in;
use super::{ArgType, FuncDef, FuncFlags, RetCtx, SESSION, Signature, def};
use crate::collation::Collation;
use crate::error::SqlResult;
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;
use document::Document;
use eval::{Evaluation, Result};

/// An expression may name user variables, so a plan never keeps the result.
const NAMES_VARIABLES: FuncFlags = SESSION.with(FuncFlags::NULL_IN_NULL_OUT);

pub(super) const DEFS: &[FuncDef] = &[
    def("extractvalue", 2, 2, NAMES_VARIABLES, ret_xml, extractvalue),
    def("updatexml", 3, 3, NAMES_VARIABLES, ret_xml, updatexml),
];

fn ret_xml(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let collation = match compared_in(args, ctx, "xml")? {
        bytes if bytes.is_binary() => Collation::UTF8MB4_BIN,
        collation => collation,
    };
    let ret = SqlType {
        length: u32::MAX,
        collation,
        ..SqlType::new(TypeKind::LongText)
    };
    Ok(Signature::plain(ret))
}

/// Reads the document in argument 0 and what the expression in argument 1 says of it.
fn evaluate<T>(c: &Call, answer: impl FnOnce(&Document<'_>, Result) -> T) -> SqlResult<Option<T>> {
    let (text, path) = (c.text(0), c.text(1));
    let path = xpath::parse(&path)?;
    c.ctx.session.go_on(text.len())?;
    let document = match Document::parse(&text) {
        Ok(document) => document,
        Err(why) => {
            c.warn(1525, format!("Incorrect XML value: '{why}'"));
            return Ok(None);
        }
    };
    let found = Evaluation {
        document: &document,
        collation: c.types.collation,
        ctx: c.ctx,
    };
    let result = found.result(&path)?;
    Ok(result.map(|result| answer(&document, result)))
}

fn extractvalue(c: &Call) -> SqlResult<Value> {
    let text = evaluate(c, |document, result| match result {
        Result::Nodes(nodes) => document.text_of(&nodes),
        Result::Text(text) => text,
    })?;
    Ok(text.map_or(Value::Null, Value::Str))
}

fn updatexml(c: &Call) -> SqlResult<Value> {
    let replaced = evaluate(c, |document, result| match result {
        Result::Nodes(nodes) => Some(match *nodes {
            [only] => Some(document.place_of(only)),
            _ => None,
        }),
        Result::Text(_) => None,
    })?;
    let text = c.text(0);
    match replaced.flatten() {
        None => Ok(Value::Null),
        Some(None) => string(text),
        Some(Some(place)) => {
            string([&text[..place.start], &*c.text(2), &text[place.end..]].concat())
        }
    }
}
