//! Expressions that a table keeps, as they are written: what MySQL refuses in them before it looks up any name.
//!
//! Neighbours: `columns` asks for defaults and generated columns, `draft` for functional key parts and CHECKs, which
//! `printer` then prints; what depends on the columns around is refused by `dml::exprs::validate`.
//! **Invariants**: what passes reads the row, constants, and at most settings of the session; a default may also draw a
//! number or look at the clock. The part that stands first is the one that the error names.

use esker_sql_plan::expr::fold::is_pure;
use esker_sql_syntax::ast::{Call, Expr, PartMut};
use esker_types::func::{self, FuncDef};
use esker_types::{SqlError, SqlResult};

use crate::printer::{expr_text, is_stored};

/// Functions that MySQL keeps out of defaults: they wait, do something, or tell of the session's last statement.
const NOT_IN_DEFAULTS: [&str; 16] = [
    "benchmark",
    "found_rows",
    "get_lock",
    "icu_version",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "load_file",
    "master_pos_wait",
    "release_all_locks",
    "release_lock",
    "row_count",
    "sleep",
    "source_pos_wait",
    "updatexml",
    "version",
];

/// Functions of settings of the session that MySQL lets in everywhere.
const OF_SETTINGS: [&str; 6] = [
    "at_time_zone",
    "convert_tz",
    "extractvalue",
    "from_unixtime",
    "gtid_subset",
    "gtid_subtract",
];

/// What keeps an expression, and its name.
#[derive(Clone, Copy)]
pub(super) enum Keeper<'a> {
    Default(&'a str),
    Generated(&'a str),
    KeyPart(&'a str),
    Check(&'a str),
}

/// What an expression may not have, or be.
enum Refused {
    Variable,
    /// Something that the error does not name, such as a subquery.
    Something,
    Function(String),
    Row,
}

impl Keeper<'_> {
    /// The text under which the expression is kept.
    ///
    /// # Errors
    /// Those of [`Self::check`]; 1111 and 3593 for aggregates and window functions.
    pub(super) fn text(self, expr: &Expr) -> SqlResult<Box<str>> {
        self.check(expr)?;
        expr_text(expr)
    }

    /// # Errors
    /// 3769 to 3772 of defaults, 3102, 3763, 3764 and 3772 of generated columns, 3758, 3772 and 3800 of key parts, 3814
    /// to 3816 of CHECKs.
    pub(super) fn check(self, expr: &Expr) -> SqlResult<()> {
        if matches!(expr, Expr::Row(_)) {
            return Err(self.error(&Refused::Row));
        }
        match self.refused(&mut expr.clone()) {
            Some(refused) => Err(self.error(&refused)),
            None => Ok(()),
        }
    }

    /// What is refused first, operands before what is made of them.
    fn refused(self, expr: &mut Expr) -> Option<Refused> {
        for part in expr.parts_mut() {
            let refused = match part {
                PartMut::Expr(expr) => self.refused(expr),
                PartMut::Query(_) => Some(Refused::Something),
                PartMut::Column(_) => None,
            };
            if refused.is_some() {
                return refused;
            }
        }
        match expr {
            Expr::UserVar(_) | Expr::SysVar(_) | Expr::Assign { .. } | Expr::Param(_) => {
                Some(Refused::Variable)
            }
            Expr::Values(_) => Some(Refused::Function("values".to_owned())),
            Expr::Match { .. } => Some(Refused::Function("match".to_owned())),
            Expr::Default(_) if matches!(self, Self::KeyPart(_)) => Some(Refused::Something),
            Expr::Call(call) => self.refused_call(call),
            _ => None,
        }
    }

    fn refused_call(self, call: &Call) -> Option<Refused> {
        if is_stored(call) {
            let name = &call.name.text;
            return Some(Refused::Function(match &call.schema {
                Some(schema) => format!("`{}`.`{name}`", schema.text),
                None => format!("`{name}`"),
            }));
        }
        let def = func::lookup(&call.name.text)?;
        if def.name == "name_const" {
            return Some(Refused::Something);
        }
        (!self.takes(def)).then(|| Refused::Function(shown_name(def).to_owned()))
    }

    fn takes(self, def: &FuncDef) -> bool {
        match self {
            Self::Default(_) => !NOT_IN_DEFAULTS.contains(&def.name),
            // As in MySQL, which lets no other clock in.
            Self::Check(_) if def.name == "sysdate" => true,
            Self::Check(_) | Self::Generated(_) | Self::KeyPart(_) => {
                (is_pure(def) || OF_SETTINGS.contains(&def.name)) && def.name != "icu_version"
            }
        }
    }

    fn error(self, refused: &Refused) -> SqlError {
        let (whose, [something, function, row]) = match self {
            Self::Default(name) => (
                format!("Default value expression of column '{name}'"),
                [3769, 3770, 3771],
            ),
            Self::Generated(name) => (
                format!("Expression of generated column '{name}'"),
                [3102, 3763, 3764],
            ),
            // Of functions no name is told here.
            Self::KeyPart(name) => (
                format!("Expression of functional index '{name}'"),
                [3758, 3758, 3800],
            ),
            Self::Check(name) => return check_error(name, refused),
        };
        let (code, text) = match refused {
            Refused::Variable => return variable(self.name()),
            Refused::Function(name) if something != function => {
                (function, format!("contains a disallowed function: {name}."))
            }
            Refused::Something | Refused::Function(_) => {
                (something, "contains a disallowed function.".to_owned())
            }
            Refused::Row => (row, "cannot refer to a row value.".to_owned()),
        };
        SqlError::new(code, "HY000", format!("{whose} {text}"))
    }

    fn name(&self) -> &str {
        match self {
            Self::Default(name) | Self::Generated(name) => name,
            Self::KeyPart(name) | Self::Check(name) => name,
        }
    }
}

/// 3772: MySQL's words for all but CHECKs.
fn variable(name: &str) -> SqlError {
    let text = format!(
        "Default value expression of column '{name}' cannot refer user or system variables."
    );
    SqlError::new(3772, "HY000", text)
}

fn check_error(name: &str, refused: &Refused) -> SqlError {
    let (code, what) = match refused {
        Refused::Variable => (
            3816,
            "cannot refer to a user or system variable.".to_owned(),
        ),
        Refused::Function(name) => (3814, format!("contains disallowed function: {name}.")),
        // A row is no condition, which is refused before.
        Refused::Something | Refused::Row => (3815, "contains disallowed function.".to_owned()),
    };
    let text = format!("An expression of a check constraint '{name}' {what}");
    SqlError::new(code, "HY000", text)
}

/// MySQL's name for a function in these errors.
fn shown_name(def: &FuncDef) -> &'static str {
    match def.name {
        "icu_version" => "icu_version()",
        "version" => "version()",
        "master_pos_wait" => "source_pos_wait",
        name => name,
    }
}
