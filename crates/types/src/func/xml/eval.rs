//! Evaluation of XPath expressions over the nodes of a document.
//!
//! Neighbours: `xpath` makes the expressions, `document` the nodes; values are compared in a collation, as SQL's are.
//! **Invariants**: sets of nodes are in the order of the document, each node once; every step of a path asks whether
//! the statement may go on.

use std::cmp::Ordering;

use super::document::{Document, Kind, NodeId, ROOT};
use super::xpath::{Arith, Axis, Compare, Expr, Function, Start, Step};
use crate::cast;
use crate::collation::{Collation, char_count, char_offset};
use crate::ctx::EvalCtx;
use crate::error::SqlResult;
use crate::value::Value;

/// A node that is looked at takes as long as work on so many bytes.
const BYTES_PER_NODE: usize = 8;

/// What an expression says.
pub(super) enum Result {
    Nodes(Vec<NodeId>),
    Text(Vec<u8>),
}

/// A value inside an expression.
#[derive(Clone)]
enum Item {
    Nodes(Vec<NodeId>),
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
}

/// Where a predicate is evaluated.
#[derive(Clone, Copy)]
struct Here {
    node: NodeId,
    position: usize,
    size: usize,
}

/// What an evaluation needs.
pub(super) struct Evaluation<'a> {
    pub(super) document: &'a Document<'a>,
    pub(super) collation: Collation,
    pub(super) ctx: &'a EvalCtx<'a>,
}

fn number_text(number: f64) -> Vec<u8> {
    let mut out = Vec::new();
    cast::write_f64(number, &mut out);
    out
}

fn ordered(op: Compare, order: Ordering) -> bool {
    match op {
        Compare::Eq => order.is_eq(),
        Compare::Ne => order.is_ne(),
        Compare::Lt => order.is_lt(),
        Compare::Le => order.is_le(),
        Compare::Gt => order.is_gt(),
        Compare::Ge => order.is_ge(),
    }
}

impl Evaluation<'_> {
    /// What an expression says of the document; `None`: NULL.
    pub(super) fn result(&self, expr: &Expr) -> SqlResult<Option<Result>> {
        let here = Here {
            node: ROOT,
            position: 1,
            size: 1,
        };
        Ok(match self.item(expr, here)? {
            Item::Nodes(nodes) => Some(Result::Nodes(nodes)),
            item => self.text(item).map(Result::Text),
        })
    }

    fn item(&self, expr: &Expr, here: Here) -> SqlResult<Item> {
        Ok(match expr {
            Expr::Number(number) => Item::Number(*number),
            Expr::Text(text) => Item::Text(text.to_vec()),
            Expr::Variable(name) => self.variable(name)?,
            Expr::Or(a, b) => Item::Boolean(self.is_true(a, here)? || self.is_true(b, here)?),
            Expr::And(a, b) => Item::Boolean(self.is_true(a, here)? && self.is_true(b, here)?),
            Expr::Compare(op, a, b) => {
                let (a, b) = (self.item(a, here)?, self.item(b, here)?);
                self.compare(*op, a, b)?
            }
            Expr::Arith(op, a, b) => {
                let (a, b) = (self.item(a, here)?, self.item(b, here)?);
                match (self.number(a)?, self.number(b)?) {
                    (Some(a), Some(b)) => arith(*op, a, b),
                    _ => Item::Null,
                }
            }
            Expr::Negative(inner) => {
                let number = self.number(self.item(inner, here)?)?;
                number.map_or(Item::Null, |n| Item::Number(-n))
            }
            Expr::Union(a, b) => Item::Nodes(in_order(
                [self.nodes(a, here)?, self.nodes(b, here)?].concat(),
            )),
            Expr::Path(start, steps) => Item::Nodes(self.path(start, steps, here)?),
            Expr::Call(function, args) => self.call(*function, args, here)?,
        })
    }

    fn variable(&self, name: &str) -> SqlResult<Item> {
        let Some((value, ty)) = self.ctx.session.user_variable(name) else {
            return Ok(Item::Null);
        };
        Ok(match value {
            Value::Null => Item::Null,
            Value::Str(text) => Item::Text(text),
            number @ (Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Decimal(_)) => {
                Item::Number(cast::to_f64(self.ctx, &number)?)
            }
            other => Item::Text(cast::to_str(&other, &ty).into_owned()),
        })
    }

    fn nodes(&self, expr: &Expr, here: Here) -> SqlResult<Vec<NodeId>> {
        match self.item(expr, here)? {
            Item::Nodes(nodes) => Ok(nodes),
            _ => Ok(Vec::new()),
        }
    }

    fn text(&self, item: Item) -> Option<Vec<u8>> {
        Some(match item {
            Item::Nodes(nodes) => self.document.text_of(&nodes),
            Item::Text(text) => text,
            Item::Number(number) => number_text(number),
            Item::Boolean(b) => number_text(f64::from(b)),
            Item::Null => return None,
        })
    }

    fn number(&self, item: Item) -> SqlResult<Option<f64>> {
        Ok(match item {
            Item::Number(number) => Some(number),
            Item::Boolean(b) => Some(f64::from(b)),
            Item::Null => None,
            item => match self.text(item) {
                Some(text) => Some(cast::to_f64(self.ctx, &Value::Str(text))?),
                None => None,
            },
        })
    }

    fn is_true(&self, expr: &Expr, here: Here) -> SqlResult<bool> {
        self.truth(self.item(expr, here)?)
    }

    fn truth(&self, item: Item) -> SqlResult<bool> {
        Ok(match item {
            Item::Nodes(nodes) => !nodes.is_empty(),
            Item::Boolean(b) => b,
            item => self.number(item)?.is_some_and(|n| n != 0.0),
        })
    }

    /// A set of nodes compares as some text in it does.
    fn compare(&self, op: Compare, a: Item, b: Item) -> SqlResult<Item> {
        let texts = |nodes: &[NodeId]| -> Vec<Item> {
            let texts = self.document.texts_of(nodes);
            texts.map(|t| Item::Text(t.to_vec())).collect()
        };
        let pairs: Vec<(Item, Item)> = match (a, b) {
            (Item::Null, _) | (_, Item::Null) => return Ok(Item::Null),
            (Item::Nodes(nodes), b) => texts(&nodes).into_iter().map(|a| (a, b.clone())).collect(),
            (a, Item::Nodes(nodes)) => texts(&nodes).into_iter().map(|b| (a.clone(), b)).collect(),
            both => vec![both],
        };
        for (a, b) in pairs {
            if self.order(a, b)?.is_some_and(|order| ordered(op, order)) {
                return Ok(Item::Boolean(true));
            }
        }
        Ok(Item::Boolean(false))
    }

    fn order(&self, a: Item, b: Item) -> SqlResult<Option<Ordering>> {
        match (a, b) {
            (Item::Text(a), Item::Text(b)) => Ok(Some(self.collation.compare(&a, &b))),
            (a, b) => match (self.number(a)?, self.number(b)?) {
                (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
                _ => Ok(None),
            },
        }
    }

    fn path(&self, start: &Start, steps: &[Step], here: Here) -> SqlResult<Vec<NodeId>> {
        let mut nodes = match start {
            Start::Document => vec![ROOT],
            Start::Here => vec![here.node],
            Start::Of(expr) => self.nodes(expr, here)?,
        };
        for step in steps {
            let mut reached = Vec::new();
            for node in nodes {
                let candidates = self.along(step, node);
                let looked_at = self.document.node(node).end - node;
                self.ctx.session.go_on(looked_at * BYTES_PER_NODE)?;
                reached.extend(self.filtered(candidates, &step.predicates)?);
            }
            nodes = in_order(reached);
        }
        Ok(nodes)
    }

    fn filtered(&self, mut nodes: Vec<NodeId>, predicates: &[Expr]) -> SqlResult<Vec<NodeId>> {
        for predicate in predicates {
            let size = nodes.len();
            let mut kept = Vec::new();
            for (nth, node) in nodes.into_iter().enumerate() {
                let position = nth + 1;
                let here = Here {
                    node,
                    position,
                    size,
                };
                let holds = match self.item(predicate, here)? {
                    Item::Number(wanted) => wanted == position as f64,
                    item => self.truth(item)?,
                };
                if holds {
                    kept.push(node);
                }
            }
            nodes = kept;
        }
        Ok(nodes)
    }

    /// The nodes that a step finds from one node.
    fn along(&self, step: &Step, from: NodeId) -> Vec<NodeId> {
        let document = self.document;
        let named = |id: &NodeId| {
            step.name
                .as_deref()
                .is_none_or(|name| name == document.node(*id).name)
        };
        let is = |kind: Kind| move |id: &NodeId| document.node(*id).kind == kind;
        let ancestors = || {
            let above = |id: &NodeId| Some(document.node(*id).parent).filter(|p| p < id);
            std::iter::successors(above(&from), above).filter(|id| *id != ROOT)
        };
        let itself = |or_self: bool| Some(from).filter(|_| or_self);
        match step.axis {
            Axis::Itself => itself(true).into_iter().filter(named).collect(),
            Axis::Parent => ancestors().take(1).filter(named).collect(),
            Axis::Ancestor { or_self } => {
                let all = itself(or_self).into_iter().chain(ancestors());
                all.filter(named).collect()
            }
            Axis::Attribute => document
                .children(from)
                .filter(is(Kind::Attribute))
                .filter(named)
                .collect(),
            Axis::Child => document
                .children(from)
                .filter(is(Kind::Element))
                .filter(named)
                .collect(),
            Axis::Descendant { or_self } => {
                let below = (from + 1..document.node(from).end).filter(is(Kind::Element));
                itself(or_self)
                    .into_iter()
                    .chain(below)
                    .filter(named)
                    .collect()
            }
        }
    }

    fn call(&self, function: Function, args: &[Expr], here: Here) -> SqlResult<Item> {
        let number_of = |nth: usize| match args.get(nth) {
            Some(arg) => self.number(self.item(arg, here)?),
            None => self.number(Item::Nodes(vec![here.node])),
        };
        let text_of = |nth: usize| match args.get(nth) {
            Some(arg) => Ok(self.text(self.item(arg, here)?)),
            None => Ok(self.text(Item::Nodes(vec![here.node]))),
        };
        let rounded = |round: fn(f64) -> f64| -> SqlResult<Item> {
            Ok(number_of(0)?.map_or(Item::Null, |n| Item::Number(round(n))))
        };
        Ok(match function {
            Function::True => Item::Boolean(true),
            Function::False => Item::Boolean(false),
            Function::Boolean => Item::Boolean(self.is_true(&args[0], here)?),
            Function::Not => Item::Boolean(!self.is_true(&args[0], here)?),
            Function::Last => Item::Number(here.size as f64),
            Function::Position => Item::Number(here.position as f64),
            Function::Count => Item::Number(self.nodes(&args[0], here)?.len() as f64),
            Function::Sum => {
                let nodes = self.nodes(&args[0], here)?;
                let mut sum = 0.0;
                for text in self.document.texts_of(&nodes) {
                    sum += cast::to_f64(self.ctx, &Value::Str(text.to_vec()))?;
                }
                Item::Number(sum)
            }
            Function::Number => number_of(0)?.map_or(Item::Null, Item::Number),
            Function::Ceiling => rounded(f64::ceil)?,
            Function::Floor => rounded(f64::floor)?,
            Function::Round => rounded(f64::round)?,
            Function::StringLength => {
                text_of(0)?.map_or(Item::Null, |t| Item::Number(char_count(&t) as f64))
            }
            Function::Contains => match (text_of(0)?, text_of(1)?) {
                (Some(text), Some(part)) => {
                    let found = self.collation.find(&text, &part, 0, self.ctx.session)?;
                    Item::Boolean(found.is_some())
                }
                _ => Item::Null,
            },
            Function::Concat => {
                let mut all = Vec::new();
                for nth in 0..args.len() {
                    match text_of(nth)? {
                        Some(text) => all.extend(text),
                        None => return Ok(Item::Null),
                    }
                }
                Item::Text(all)
            }
            Function::Substring => {
                let length = if args.len() > 2 {
                    number_of(2)?
                } else {
                    Some(f64::MAX)
                };
                match (text_of(0)?, number_of(1)?, length) {
                    (Some(text), Some(from), Some(length)) => {
                        Item::Text(substring(&text, from, length))
                    }
                    _ => Item::Null,
                }
            }
        })
    }
}

/// SQL's SUBSTRING.
fn substring(text: &[u8], from: f64, length: f64) -> Vec<u8> {
    let chars = char_count(text) as f64;
    let start = if from < 0.0 { chars + from } else { from - 1.0 };
    if start < 0.0 || start >= chars || length < 1.0 {
        return Vec::new();
    }
    let end = (start + length).min(chars);
    let place = char_offset(text, start as usize)..char_offset(text, end as usize);
    text[place].to_vec()
}

fn arith(op: Arith, a: f64, b: f64) -> Item {
    Item::Number(match op {
        Arith::Add => a + b,
        Arith::Subtract => a - b,
        Arith::Multiply => a * b,
        Arith::Divide | Arith::Modulo if b == 0.0 => return Item::Null,
        // As SQL's DIV.
        Arith::Divide => (a / b).trunc(),
        Arith::Modulo => a % b,
    })
}

fn in_order(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
