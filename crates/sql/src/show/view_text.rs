//! The text of a view as SHOW CREATE VIEW prints it.
//!
//! Neighbours: `objects` answers SHOW CREATE VIEW and SHOW CREATE TABLE with it; `session::views` stores the text,
//! which names every table with its database.
//! **Invariant**: in the view's own database its tables stand without a database, so a dump can be restored under
//! another name; everywhere else view and tables stand with theirs.

use esker_sql_catalog::catalog::{ViewDef, same_name, show_create_view};
use esker_sql_catalog::variables::value::sql_mode_of;
use esker_sql_syntax::lexer::{Lexer, Tok, Token};
use esker_types::SqlMode;

/// The CREATE VIEW statement, for a session whose current database is `current`.
pub(super) fn create_view_text(view: &ViewDef, current: Option<&str>) -> String {
    let at_home = current.is_some_and(|c| *c == *view.schema);
    let mode = sql_mode_of(&view.sql_mode);
    let local = at_home.then(|| without_database(&view.text, &view.schema, mode));
    let text = local.flatten();
    show_create_view(view, at_home, text.as_deref().unwrap_or(&view.text))
}

/// The text without `database` in front of names; None when something else has the database's name, a table's alias
/// for example, so that it cannot be told which of the two is meant.
fn without_database(text: &str, database: &str, mode: SqlMode) -> Option<String> {
    let tokens = tokens(text, mode);
    let is_name = |t: &Token| match t.tok {
        Tok::Quoted => text[t.start + 1..t.end - 1].replace("``", "`") == database,
        Tok::Word(_) => same_name(&text[t.start..t.end], database),
        _ => false,
    };
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (nth, token) in tokens.iter().enumerate().filter(|(_, t)| is_name(t)) {
        let leads = nth == 0 || tokens[nth - 1].tok != Tok::Dot;
        let dot = tokens.get(nth + 1).filter(|t| t.tok == Tok::Dot);
        let (true, Some(dot)) = (leads, dot) else {
            return None;
        };
        out.push_str(&text[copied..token.start]);
        copied = dot.end;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

fn tokens(text: &str, mode: SqlMode) -> Vec<Token> {
    let mut lexer = Lexer::new(text.as_bytes(), 0, mode);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token();
        if matches!(token.tok, Tok::Eof | Tok::Bad) {
            return tokens;
        }
        tokens.push(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_go_where_they_lead_a_name_only() {
        let bare = |text: &str| without_database(text, "d", SqlMode::default());
        assert_eq!(
            bare("SELECT `d`.t.a, 'd.x' FROM `d`.t JOIN `e`.`u` ON `d`.t.a = u.b").as_deref(),
            Some("SELECT t.a, 'd.x' FROM t JOIN `e`.`u` ON t.a = u.b")
        );
        for text in [
            "SELECT d.a FROM `d`.t AS d",
            "SELECT t.d FROM `d`.t",
            "SELECT 1 AS `d`",
        ] {
            assert_eq!(bare(text), None, "{text}");
        }
        assert_eq!(bare("SELECT 1").as_deref(), Some("SELECT 1"));
    }
}
