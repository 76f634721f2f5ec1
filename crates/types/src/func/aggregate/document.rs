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

struct Array {
    ty: SqlType,
    items: Vec<Json>,
}

fn array(types: &AggTypes) -> Box<dyn AggState> {
    Box::new(Array {
        ty: types.args[0].clone(),
        items: Vec::new(),
    })
}

impl AggState for Array {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        self.items
            .push(json::from_value(args[0].as_ref(), &self.ty));
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        self.items.append(&mut same::<Self>(other).items);
        Ok(())
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        if self.items.is_empty() {
            return Ok(Value::Null);
        }
        json::encode(&Json::Array(self.items.clone())).map(Value::Json)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

struct Members {
    key: SqlType,
    value: SqlType,
    members: Vec<(Vec<u8>, Json)>,
}

fn members(types: &AggTypes) -> Box<dyn AggState> {
    Box::new(Members {
        key: types.args[0].clone(),
        value: types.args[1].clone(),
        members: Vec::new(),
    })
}

impl AggState for Members {
    fn update(&mut self, _: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        let key = member_name(&args[0], &self.key)?;
        self.members
            .push((key, json::from_value(args[1].as_ref(), &self.value)));
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        self.members.append(&mut same::<Self>(other).members);
        Ok(())
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        if self.members.is_empty() {
            return Ok(Value::Null);
        }
        json::encode(&object(self.members.clone())).map(Value::Json)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
