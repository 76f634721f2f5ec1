//! Variance and standard deviation.
//!
//! Neighbours: `number` sums.
//! **Invariant**: one pass, numerically stable (Welford), as MySQL computes it.

use std::any::Any;

use super::{AggDef, AggState, AggTypes, same};
use crate::cast;
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::errors;
use crate::func::ret::double_null;
use crate::value::Value;

const fn def(name: &'static str, new: fn(&AggTypes) -> Box<dyn AggState>) -> AggDef {
    AggDef {
        name,
        min_args: 1,
        max_args: 1,
        ret: double_null,
        new,
    }
}

pub(super) const DEFS: &[AggDef] = &[
    def("std", |_| Spread::boxed(false, true)),
    def("stddev", |_| Spread::boxed(false, true)),
    def("stddev_pop", |_| Spread::boxed(false, true)),
    def("stddev_samp", |_| Spread::boxed(true, true)),
    def("variance", |_| Spread::boxed(false, false)),
    def("var_pop", |_| Spread::boxed(false, false)),
    def("var_samp", |_| Spread::boxed(true, false)),
];

struct Spread {
    rows: u64,
    mean: f64,
    /// Sum of squares of differences from the mean.
    squares: f64,
    sample: bool,
    root: bool,
}

impl Spread {
    fn boxed(sample: bool, root: bool) -> Box<dyn AggState> {
        Box::new(Self {
            rows: 0,
            mean: 0.0,
            squares: 0.0,
            sample,
            root,
        })
    }
}

impl AggState for Spread {
    fn update(&mut self, ctx: &EvalCtx, args: &[Value]) -> SqlResult<()> {
        if args[0].is_null() {
            return Ok(());
        }
        let v = cast::to_f64(ctx, &args[0])?;
        self.rows += 1;
        let before = v - self.mean;
        self.mean += before / self.rows as f64;
        self.squares += before * (v - self.mean);
        Ok(())
    }

    fn merge(&mut self, _: &EvalCtx, other: Box<dyn AggState>) -> SqlResult<()> {
        let other = same::<Self>(other);
        let rows = self.rows + other.rows;
        if other.rows > 0 {
            let apart = other.mean - self.mean;
            let share = other.rows as f64 / rows as f64;
            self.squares += other.squares + apart * apart * self.rows as f64 * share;
            self.mean += apart * share;
            self.rows = rows;
        }
        Ok(())
    }

    fn finish(&mut self, _: &EvalCtx) -> SqlResult<Value> {
        let degrees = self.rows.saturating_sub(u64::from(self.sample));
        if degrees == 0 {
            return Ok(Value::Null);
        }
        let variance = self.squares / degrees as f64;
        if !variance.is_finite() {
            let name = match (self.sample, self.root) {
                (false, false) => "variance",
                (true, false) => "var_samp",
                (false, true) => "std",
                (true, true) => "stddev_samp",
            };
            return Err(errors::out_of_range("DOUBLE", name));
        }
        Ok(Value::Double(if self.root {
            variance.sqrt()
        } else {
            variance
        }))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
