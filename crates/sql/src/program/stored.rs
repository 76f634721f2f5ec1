//! Stored routines as text: read again, and what their parameters are.
//!
//! Neighbours: the catalog has the text; sessions compile what is read here, INFORMATION_SCHEMA shows the parameters.
//! **Invariant**: a routine is read under the SQL mode that it was created with.

use esker_sql_catalog::catalog::RoutineDef;
use esker_sql_plan::bind::types::column_type;
use esker_sql_syntax::ast::{CreateRoutine, ParameterMode, Statement};
use esker_sql_syntax::{self as parse, ParseOptions};
use esker_types::collation::Collation;
use esker_types::{SqlMode, SqlResult, SqlType, errors};

/// What a routine takes and gives.
pub(crate) struct Signature {
    pub(crate) parameters: Vec<(ParameterMode, Box<str>, SqlType)>,
    pub(crate) returns: Option<SqlType>,
}

/// The collation of character variables without one of their own.
pub(crate) fn collation_of(def: &RoutineDef) -> Collation {
    Collation::by_name(&def.settings.database_collation).unwrap_or(Collation::UTF8MB4_0900_AI_CI)
}

/// Reads a routine.
///
/// # Errors
/// Of the parser: this version does not know what it says.
pub(crate) fn read(def: &RoutineDef, options: ParseOptions<'_>) -> SqlResult<CreateRoutine> {
    let options = ParseOptions {
        sql_mode: SqlMode::of_names(&def.settings.sql_mode),
        ..options
    };
    match parse::parse(def.plain_text().as_bytes(), options)?.stmt {
        Statement::CreateRoutine(create) => Ok(*create),
        _ => Err(errors::internal("a stored routine cannot be read again")),
    }
}

/// The types of a routine that has been read.
///
/// # Errors
/// Types that there are not.
pub(crate) fn signature(create: &CreateRoutine, collation: Collation) -> SqlResult<Signature> {
    let slots = create.body.slots.iter().zip(&create.modes);
    let parameters = slots.filter_map(|(variable, mode)| {
        let ty = column_type(variable.ty.as_ref()?, &variable.name, collation);
        Some(ty.map(|ty| (*mode, variable.name.clone(), ty)))
    });
    let returns = create.returns.as_ref();
    Ok(Signature {
        parameters: parameters.collect::<SqlResult<_>>()?,
        returns: returns
            .map(|(ty, _)| column_type(ty, "", collation))
            .transpose()?,
    })
}
