//! SQL statements that a body may not contain, and what it must not do in a function or a trigger.
//!
//! Neighbours: `compound` asks here before and behind each SQL statement.
//! **Invariants**: what is refused is refused when the program is created, with MySQL's number and words; what a
//! procedure has that only functions and triggers may not have is noted in its [`BodyTraits`](super::BodyTraits).

use esker_types::{SqlError, SqlResult, errors};

use super::super::ast::{Commits, MaintainKind, Replication, SetItem, Statement};
use super::super::parser::Parser;

impl Parser<'_> {
    /// Something has to come that begins a statement.
    pub(super) fn refuse_beginning(&self) -> SqlResult<()> {
        match self.at_end() {
            true => self.fail(),
            false => Ok(()),
        }
    }

    /// Routines and triggers are not created in a body.
    ///
    /// # Errors
    /// 1303.
    pub(in super::super) fn refuse_nested_program(&self, kind: &str) -> SqlResult<()> {
        match self.program {
            Some(_) => Err(errors::no_recursive_create(kind)),
            None => Ok(()),
        }
    }

    /// Looks at a statement of the body.
    pub(super) fn admit(&mut self, statement: &Statement) -> SqlResult<()> {
        refuse_anywhere(statement)?;
        let kind = self.scope().kind;
        let traits = &mut self.scope().traits;
        if is_dynamic(statement) {
            traits.dynamic_sql = true;
            if kind.is_within_statement() {
                return Err(errors::not_in_function("Dynamic SQL"));
            }
        }
        if has_result_set(statement) {
            traits.result_sets = true;
            if kind.is_within_statement() {
                return Err(errors::no_result_set(kind.text()));
            }
        }
        if let Some(commits) = commits(statement) {
            traits.commits = traits.commits.max(Some(commits));
            if kind.is_within_statement() {
                return Err(commits.refusal());
            }
        }
        Ok(())
    }
}

/// Refused in every kind of program.
fn refuse_anywhere(statement: &Statement) -> SqlResult<()> {
    let refused = |what: &str| Err(errors::not_in_procedure(what));
    match statement {
        Statement::Unsupported(name) => Err(SqlError::not_supported(name)),
        Statement::DropProgram(drop) if matches!(drop.kind, "PROCEDURE" | "FUNCTION") => {
            Err(errors::no_drop_in_routine(drop.kind))
        }
        Statement::AlterRoutine(alter) => Err(errors::no_drop_in_routine(alter.kind.text())),
        Statement::Use(_) => refused("USE"),
        Statement::LockTables { .. } => refused("LOCK"),
        Statement::UnlockTables => refused("UNLOCK"),
        Statement::LoadData(load) if load.row_tag.is_some() => refused("LOAD XML"),
        Statement::LoadData(_) => refused("LOAD DATA"),
        Statement::Help(_) => refused("HELP"),
        // CHECK TABLE is refused, ALTER TABLE … CHECK PARTITION is not.
        Statement::Maintain(maintain)
            if maintain.kind == MaintainKind::Check && maintain.partitions.is_none() =>
        {
            refused("CHECK")
        }
        Statement::CreateView(view) if view.alter => refused("ALTER VIEW"),
        _ => Ok(()),
    }
}

fn is_dynamic(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Prepare { .. } | Statement::Execute { .. } | Statement::Deallocate(_)
    )
}

fn has_result_set(statement: &Statement) -> bool {
    match statement {
        Statement::Query(query) => query.into.is_none(),
        Statement::Show(_) | Statement::Explain(_) | Statement::Maintain(_) => true,
        _ => false,
    }
}

/// How the statement ends a transaction, or takes a part in that.
fn commits(statement: &Statement) -> Option<Commits> {
    let commits_if = |it: bool| it.then_some(Commits::AtOnce);
    match statement {
        Statement::Flush { .. } => Some(Commits::Flush),
        Statement::SetPassword(_) => Some(Commits::BySet),
        Statement::Set(items) => items.iter().any(is_autocommit).then_some(Commits::BySet),
        Statement::Replication(replication) => match **replication {
            Replication::ResetReplica { .. }
            | Replication::ResetBinlog { .. }
            | Replication::ResetSeveral(_) => Some(Commits::Reset),
            _ => commits_if(replication.commits()),
        },
        Statement::CreateTable(create) => commits_if(!create.temporary),
        Statement::DropTable(drop) => commits_if(!drop.temporary),
        Statement::CreateDatabase { .. }
        | Statement::AlterDatabase { .. }
        | Statement::DropDatabase { .. }
        | Statement::AlterTable(_)
        | Statement::Truncate { .. }
        | Statement::RenameTable(_)
        | Statement::CreateIndex(_)
        | Statement::DropIndex(_)
        | Statement::CreateView(_)
        | Statement::DropView(_)
        | Statement::DropProgram(_)
        | Statement::Tablespace(_)
        | Statement::AlterEvent(_)
        | Statement::Begin(_)
        | Statement::Commit(_)
        | Statement::Rollback(_)
        | Statement::Xa(_)
        | Statement::AlterInstance(_)
        | Statement::DropServer { .. }
        | Statement::CreateUser(_)
        | Statement::AlterUser(_)
        | Statement::DropUser { .. }
        | Statement::RenameUser(_)
        | Statement::CreateRole { .. }
        | Statement::DropRole { .. }
        | Statement::Grant(_)
        | Statement::Revoke(..) => Some(Commits::AtOnce),
        _ => None,
    }
}

fn is_autocommit(item: &SetItem) -> bool {
    matches!(item, SetItem::SysVar { var, .. } if var.name.eq_ignore_ascii_case("autocommit"))
}
