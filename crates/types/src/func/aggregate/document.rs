//! JSON_ARRAYAGG and JSON_OBJECTAGG.
//!
//! Neighbours: `crate::json` encodes the result.
//! **Invariants**: NULL becomes null; of equal keys the value taken last stays.

use std::any::Any;

use super::{AggDef, AggState, AggTypes, same};
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::func::json::build::member_name;
use crate::func::{ArgType, RetCtx, Signature};
use crate::json::{self, Json, object};
use crate::sqltype::{SqlType, TypeKind};
use crate::value::Value;

pub(super) const DEFS: &[AggDef] = &[
    AggDef {
        name: "json_arrayagg",
        min_args: 1,
        max_args: 1,
        ret: ret_document,
        new: array,
    },
    AggDef {
        name: "json_objectagg",
        min_args: 2,
        max_args: 2,
        ret: ret_document,
        new: members,
    },
];

fn ret_document(_: &[ArgType], _: &RetCtx) -> SqlResult<Signature> {
    Ok(Signature::plain(SqlType::new(TypeKind::Json)))
}

/// A document takes about so much more as a tree.
const TREE_FACTOR: u64 = 4;

/// Bytes that a value takes as a part of a document that is being made.
fn kept_bytes(v: &Value) -> u64 {
    let of_text = match v {
        Value::Json(doc) => TREE_FACTOR * doc.len() as u64,
        v => v.text_len() as u64,
    };
    size_of::<Json>() as u64 + of_text
}

struct Array {
    ty: SqlType,
    items: Vec<Json>,
    bytes: u64,
}

fn array(types: &AggTypes) -> Box<dyn AggState> {
    Box::new(Array {
        ty: types.args[0].clone(),
        items: Vec::new(),
        bytes: 0,
    })
}

impl AggState for Array {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        self.items
            .push(json::from_value(args[0].as_ref(), &self.ty));
        self.bytes += kept_bytes(&args[0]);
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        let mut other = same::<Self>(other);
        self.items.append(&mut other.items);
        self.bytes += other.bytes;
        Ok(())
    }

    fn finish(&mut self, ctx: &EvalCtx) -> SqlResult<Value> {
        ctx.session.may_make(self.bytes as usize)?;
        if self.items.is_empty() {
            return Ok(Value::Null);
        }
        json::encode(&Json::Array(self.items.clone())).map(Value::Json)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

struct Members {
    key: SqlType,
    value: SqlType,
    members: Vec<(Vec<u8>, Json)>,
    bytes: u64,
}

fn members(types: &AggTypes) -> Box<dyn AggState> {
    Box::new(Members {
        key: types.args[0].clone(),
        value: types.args[1].clone(),
        members: Vec::new(),
        bytes: 0,
    })
}

impl AggState for Members {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        let key = member_name(&args[0], &self.key)?;
        self.members
            .push((key, json::from_value(args[1].as_ref(), &self.value)));
        self.bytes += kept_bytes(&args[0]) + kept_bytes(&args[1]);
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        let mut other = same::<Self>(other);
        self.members.append(&mut other.members);
        self.bytes += other.bytes;
        Ok(())
    }

    fn finish(&mut self, ctx: &EvalCtx) -> SqlResult<Value> {
        ctx.session.may_make(self.bytes as usize)?;
        if self.members.is_empty() {
            return Ok(Value::Null);
        }
        json::encode(&object(self.members.clone())).map(Value::Json)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
