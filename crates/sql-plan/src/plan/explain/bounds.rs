//! The bounds of a range scan as MySQL prints them: `(1 < a <= 3) OR (a = 7)`.
//!
//! Neighbours: `ranges` has the conditions in the form ranges are made of; `tree` prints a scan.
//! **Invariants**: what is printed are the conditions, not the keys that the executor computes from them; key parts
//! behind the first that is not compared with one value are left out, as they bound nothing.

use std::collections::BTreeMap;

use esker_sql_catalog::catalog::{IndexPart, TableDef};

use super::text::Names;
use crate::expr::CmpOp;
use crate::plan::ranges::{PartTest, Pred, RangeSpec};

/// Ranges that are printed one by one.
const SHOWN: usize = 3;
/// Ranges that are counted; beyond, none is printed.
const COUNTED: usize = 1000;

/// What one range says of a key part.
#[derive(Debug, Clone, Default)]
struct Bounds {
    equal: Option<String>,
    lows: Vec<String>,
    highs: Vec<String>,
    /// Conditions that are neither.
    others: Vec<String>,
}

/// Key parts with their bounds.
type Range = BTreeMap<usize, Bounds>;

/// The ranges of these key parts, each in parentheses; empty where they cannot be told apart.
pub(in crate::plan) fn ranges(
    spec: &RangeSpec,
    def: &TableDef,
    parts: &[IndexPart],
    names: &Names<'_>,
) -> Vec<String> {
    let Some(ranges) = alternatives(spec.pred(), names) else {
        return Vec::new();
    };
    let mut shown: Vec<String> = Vec::new();
    for range in &ranges {
        let text = format!("({})", text(range, def, parts));
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    shown
}

/// The ranges in one text.
pub(super) fn joined(ranges: &[String]) -> String {
    let mut text = ranges[..ranges.len().min(SHOWN)].join(" OR ");
    if ranges.len() > SHOWN {
        text += &format!(" OR ({} more)", ranges.len() - SHOWN);
    }
    text
}

fn text(range: &Range, def: &TableDef, parts: &[IndexPart]) -> String {
    let mut texts = Vec::new();
    for (nth, part) in parts.iter().enumerate() {
        let Some(bounds) = range.get(&nth) else { break };
        let column = &def.columns[part.col].name;
        texts.push(bounds.text(column));
        if bounds.equal.is_none() {
            break;
        }
    }
    texts.join(" AND ")
}

impl Bounds {
    fn text(&self, column: &str) -> String {
        if let Some(value) = &self.equal {
            return format!("{column} = {value}");
        }
        // One low and one high bound stand around the column, further ones beside it.
        let sides = self.lows.len().max(self.highs.len());
        let side = |texts: &[String], nth: usize| texts.get(nth).cloned().unwrap_or_default();
        let chain = |nth| side(&self.lows, nth) + column + &side(&self.highs, nth);
        let mut all: Vec<String> = (0..sides).map(chain).collect();
        all.extend(self.others.iter().map(|other| format!("{column} {other}")));
        all.join(" AND ")
    }

    fn of(op: CmpOp, value: &str) -> Self {
        let mut bounds = Self::default();
        match op {
            CmpOp::Eq | CmpOp::NullSafeEq => bounds.equal = Some(value.to_owned()),
            CmpOp::Gt => bounds.lows.push(format!("{value} < ")),
            CmpOp::Ge => bounds.lows.push(format!("{value} <= ")),
            CmpOp::Lt => bounds.highs.push(format!(" < {value}")),
            CmpOp::Le => bounds.highs.push(format!(" <= {value}")),
            CmpOp::Ne => bounds.others.push(format!("<> {value}")),
        }
        bounds
    }

    /// Both hold.
    fn and(&mut self, other: Self) {
        if self.equal.is_none() {
            self.equal = other.equal;
        }
        self.lows.extend(other.lows);
        self.highs.extend(other.highs);
        self.others.extend(other.others);
    }
}

/// Ranges of which a row's key is in one; `None` if they are too many.
fn alternatives(pred: &Pred, names: &Names<'_>) -> Option<Vec<Range>> {
    let one = |part: usize, bounds: Bounds| vec![Range::from([(part, bounds)])];
    Some(match pred {
        Pred::Any => vec![Range::new()],
        Pred::None => Vec::new(),
        Pred::Part(part, test) => match test {
            PartTest::Cmp(op, e, _) => one(*part, Bounds::of(*op, &names.text(e))),
            PartTest::In(members) if members.len() > COUNTED => return None,
            PartTest::In(members) => members
                .iter()
                .flat_map(|(e, _)| one(*part, Bounds::of(CmpOp::Eq, &names.text(e))))
                .collect(),
            PartTest::Null => one(*part, Bounds::of(CmpOp::Eq, "NULL")),
            PartTest::NotNull => one(*part, Bounds::of(CmpOp::Gt, "NULL")),
            PartTest::Like(e, _) => {
                let mut bounds = Bounds::default();
                bounds.others.push(format!("LIKE {}", names.text(e)));
                one(*part, bounds)
            }
        },
        Pred::Or(preds) => {
            let mut all = Vec::new();
            for pred in preds {
                all.extend(alternatives(pred, names)?);
            }
            (all.len() <= COUNTED).then_some(all)?
        }
        Pred::And(preds) => {
            let mut all = vec![Range::new()];
            for pred in preds {
                let more = alternatives(pred, names)?;
                if all.len() * more.len() > COUNTED {
                    return None;
                }
                all = product(&all, &more);
            }
            all
        }
    })
}

/// Every range of one with every range of the other.
fn product(left: &[Range], right: &[Range]) -> Vec<Range> {
    let mut all = Vec::with_capacity(left.len() * right.len());
    for one in left {
        for other in right {
            let mut both = one.clone();
            for (part, bounds) in other {
                both.entry(*part).or_default().and(bounds.clone());
            }
            all.push(both);
        }
    }
    all
}
