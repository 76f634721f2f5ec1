//! Which windows share a sort, and where their values are kept.
//!
//! Neighbours: `bind::window` bound them; `exec::window` runs the plan.
//! **Invariants**: every key and argument is a slot of the kept row, so the executor evaluates each
//! once per row; windows of one sort have keys that are a prefix of the sort's.

use std::collections::HashMap;

use esker_types::SqlType;

use crate::bind::{Block, Bound, Frame, WindowCall, WindowFunc};
use crate::expr::{Expr, ExprKind, walk};

/// The window functions of a block.
#[derive(Debug)]
pub struct WindowPlan {
    /// Slots of a row that windows or what follows them read.
    pub kept: Vec<u32>,
    /// Slots to fill for every row before it is kept.
    pub computed: Vec<(u32, Expr)>,
    /// Sorts in order; the rows leave in the last one's order.
    pub sorts: Vec<SortPlan>,
    /// Slot of the first result.
    pub base: u32,
    /// Results per row.
    pub results: usize,
    /// Slots of the block's row with the computed ones.
    pub width: u32,
}

/// One order of the rows and the windows over it.
#[derive(Debug)]
pub struct SortPlan {
    /// Keys, by position among the kept slots.
    pub keys: Vec<KeyPlan>,
    /// Windows.
    pub windows: Vec<WindowRun>,
}

/// A sort key.
#[derive(Debug, Clone)]
pub struct KeyPlan {
    /// Position among the kept slots.
    pub at: usize,
    /// Type.
    pub ty: SqlType,
    /// DESC.
    pub desc: bool,
}

/// One window.
#[derive(Debug)]
pub struct WindowRun {
    /// Name, for errors.
    pub name: Box<str>,
    /// Leading keys that are its partition.
    pub partition: usize,
    /// Leading keys that are its partition and its order.
    pub ordered: usize,
    /// ROWS or RANGE.
    pub frame: Frame,
    /// Its one order key, if there is but one.
    pub key: Option<KeyPlan>,
    /// The functions over it.
    pub calls: Vec<CallPlan>,
}

/// One call.
#[derive(Debug)]
pub struct CallPlan {
    /// The function.
    pub func: WindowFunc,
    /// Arguments, by position among the kept slots.
    pub args: Vec<usize>,
    /// Their types.
    pub arg_types: Vec<SqlType>,
    /// NTILE, NTH_VALUE, LAG, LEAD: the number, the same for all rows.
    pub number: Option<Expr>,
    /// Type of the result.
    pub ty: SqlType,
    /// Which result of the row it is.
    pub result: usize,
}

impl WindowPlan {
    /// Everything that is evaluated for a row.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.computed.iter().map(|(_, e)| e)
    }
}

/// Hands out positions for expressions.
struct Keeper {
    kept: Vec<u32>,
    position: HashMap<u32, usize>,
    computed: Vec<(u32, Expr)>,
    width: u32,
}

impl Keeper {
    fn slot(&mut self, slot: u32) -> usize {
        *self.position.entry(slot).or_insert_with(|| {
            self.kept.push(slot);
            self.kept.len() - 1
        })
    }

    fn place(&mut self, e: &Expr) -> usize {
        if let ExprKind::Column(slot) = e.kind {
            return self.slot(slot);
        }
        if let Some((slot, _)) = self.computed.iter().find(|(_, c)| walk::same(c, e)) {
            let slot = *slot;
            return self.slot(slot);
        }
        let slot = self.width;
        self.width += 1;
        self.computed.push((slot, e.clone()));
        self.slot(slot)
    }
}

/// Plans the window functions of a block.
pub(super) fn plan(block: &Block) -> Option<Box<WindowPlan>> {
    let windows = &block.windows;
    if windows.calls.is_empty() {
        return None;
    }
    let mut keeper = Keeper {
        kept: Vec::new(),
        position: HashMap::new(),
        computed: Vec::new(),
        width: block.width,
    };
    let results = windows.base..windows.base + windows.calls.len() as u32;
    let after = block
        .output
        .iter()
        .chain(block.order.iter().map(|k| &k.expr));
    for expr in after {
        expr.slots(&mut |slot| {
            if !results.contains(&slot) {
                keeper.slot(slot);
            }
        });
    }
    let mut sorts: Vec<SortPlan> = Vec::new();
    for (nth, window) in windows.specs.iter().enumerate() {
        let own = windows.calls.iter().enumerate();
        let own: Vec<_> = own.filter(|(_, c)| c.window == nth).collect();
        if own.is_empty() {
            continue;
        }
        let mut keys: Vec<KeyPlan> = Vec::new();
        let partition = window.partition.iter().map(|e| (e, false));
        for (expr, desc) in partition.chain(window.order.iter().map(|k| (&k.expr, k.desc))) {
            keys.push(KeyPlan {
                at: keeper.place(expr),
                ty: expr.ty.clone(),
                desc,
            });
        }
        let calls = own
            .into_iter()
            .map(|(result, call)| call_plan(call, result, &mut keeper));
        let run = WindowRun {
            name: window.name.clone(),
            partition: window.partition.len(),
            ordered: keys.len(),
            frame: window.frame.clone(),
            key: match window.order.len() {
                1 => keys.last().cloned(),
                _ => None,
            },
            calls: calls.collect(),
        };
        add(&mut sorts, keys, run);
    }
    Some(Box::new(WindowPlan {
        kept: keeper.kept,
        computed: keeper.computed,
        sorts,
        base: windows.base,
        results: windows.calls.len(),
        width: keeper.width,
    }))
}

fn call_plan(call: &WindowCall, result: usize, keeper: &mut Keeper) -> CallPlan {
    CallPlan {
        func: call.func.clone(),
        args: call.args.iter().map(|a| keeper.place(a)).collect(),
        arg_types: call.args.iter().map(|a| a.ty.clone()).collect(),
        number: call.number.clone(),
        ty: call.ty.clone(),
        result,
    }
}

/// Adds a window to a sort that serves it, if there is one.
fn add(sorts: &mut Vec<SortPlan>, keys: Vec<KeyPlan>, run: WindowRun) {
    let same = |a: &KeyPlan, b: &KeyPlan| a.at == b.at && a.desc == b.desc;
    for sort in sorts.iter_mut() {
        let common = keys.iter().zip(&sort.keys).all(|(a, b)| same(a, b));
        if common {
            if keys.len() > sort.keys.len() {
                sort.keys = keys;
            }
            sort.windows.push(run);
            return;
        }
    }
    sorts.push(SortPlan {
        keys,
        windows: vec![run],
    });
}

impl WindowRun {
    /// Does some function need to know the frame of every row?
    pub fn needs_frames(&self) -> bool {
        self.calls.iter().any(|c| {
            matches!(
                c.func,
                WindowFunc::FirstValue
                    | WindowFunc::LastValue
                    | WindowFunc::NthValue
                    | WindowFunc::Aggregate { .. }
            )
        })
    }

    /// Is every frame the whole partition?
    pub fn is_whole(&self) -> bool {
        let frame = &self.frame;
        let end_of_all = match frame.end {
            Bound::Unbounded => true,
            Bound::Current => frame.range && self.ordered == self.partition,
            _ => false,
        };
        matches!(frame.start, Bound::Unbounded) && end_of_all
    }
}
