//! Which windows share a sort, and where their values are kept.
//!
//! Neighbours: `bind::window` bound them; `exec::window` runs the plan.
//! **Invariants**: every key and argument is a slot of the kept row, so the executor evaluates each
//! once per row; windows of one sort have keys that are a prefix of the sort's.

use std::collections::HashMap;

use esker_types::SqlType;

use super::conds::SlotMap;
use super::pushdown;
use crate::bind::{Block, Bound, Frame, OrderKey, WindowCall, WindowFunc};
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
    /// Leading keys that are its partition. Rows may be sorted by more keys.
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

    fn key(&mut self, e: &Expr, desc: bool) -> KeyPlan {
        KeyPlan {
            at: self.place(e),
            ty: e.ty.clone(),
            desc,
        }
    }
}

/// Are the rows to be in the order of ORDER BY before windows look at them? As in MySQL, where no window wants another
/// order: ROW_NUMBER() OVER () numbers the rows of the result.
pub(super) fn is_ordered_before(block: &Block, order: &[OrderKey]) -> bool {
    let windows = &block.windows;
    let wants_none = |call: &WindowCall| {
        let window = &windows.specs[call.window];
        window.partition.is_empty() && window.order.is_empty()
    };
    let is_plain = block.group.is_none() && !block.distinct && windows.calls.iter().all(wants_none);
    let heeds = |call: &WindowCall| heeds_order(&call.func, &windows.specs[call.window].frame);
    if order.is_empty() || !is_plain || !windows.calls.iter().any(heeds) {
        return false;
    }
    let has_query = |e: &Expr| e.any(&mut |e| matches!(e.kind, ExprKind::Subquery(_)));
    let is_computed_before = |k: &OrderKey| !k.expr.is_volatile() && !has_query(&k.expr);
    order.iter().all(is_computed_before) && is_of_one_table(block, order)
}

/// Do the keys read columns of one table alone, and of none that a join may complement?
fn is_of_one_table(block: &Block, order: &[OrderKey]) -> bool {
    let map = SlotMap::new(&block.tables, block.width);
    let tables = order
        .iter()
        .fold(0, |set, key| set | map.tables_of(&key.expr));
    let is_nulled = |join| pushdown::is_nulled(join, tables.trailing_zeros() as usize);
    let reads_result = |key: &OrderKey| {
        let mut reads = false;
        key.expr
            .slots(&mut |slot| reads |= slot >= block.windows.base);
        reads
    };
    tables.count_ones() == 1
        && !order.iter().any(reads_result)
        && !block.join.as_ref().is_some_and(is_nulled)
}

/// Does a function's value depend on the order in which rows of equal keys come?
fn heeds_order(func: &WindowFunc, frame: &Frame) -> bool {
    let sees_all = matches!(
        (&frame.start, &frame.end),
        (Bound::Unbounded, Bound::Unbounded)
    );
    match func {
        WindowFunc::Aggregate { .. } => !(frame.range || sees_all),
        WindowFunc::Rank
        | WindowFunc::DenseRank
        | WindowFunc::PercentRank
        | WindowFunc::CumeDist => false,
        _ => true,
    }
}

/// Plans the window functions of a block; `before` is what the rows are ordered by before, see [`is_ordered_before`].
pub(super) fn plan(block: &Block, before: &[OrderKey]) -> Option<Box<WindowPlan>> {
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
            keys.push(keeper.key(expr, desc));
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
    if !before.is_empty() {
        debug_assert!(
            sorts.len() == 1 && sorts[0].keys.is_empty(),
            "no other order is wanted"
        );
        let keys = before.iter().map(|key| keeper.key(&key.expr, key.desc));
        sorts[0].keys = keys.collect();
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

/// Adds a window to a sort that serves it, if there is one. Functions of a window without an order see the rows as they
/// come: no later window's sort comes before them.
fn add(sorts: &mut Vec<SortPlan>, keys: Vec<KeyPlan>, run: WindowRun) {
    let same = |a: &KeyPlan, b: &KeyPlan| a.at == b.at && a.desc == b.desc;
    for sort in sorts.iter_mut() {
        let common = keys.iter().zip(&sort.keys).all(|(a, b)| same(a, b));
        let is_as_come = sort.keys.is_empty() && !keys.is_empty();
        if common && !(is_as_come && sort.windows.iter().any(WindowRun::heeds_order)) {
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
    fn heeds_order(&self) -> bool {
        let mut funcs = self.calls.iter().map(|call| &call.func);
        funcs.any(|func| heeds_order(func, &self.frame))
    }

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
