//! Bodies of stored programs: their trees, their errors, where statements end.

use esker_types::SqlMode;
use esker_types::trigger::{TriggerEvent, TriggerTiming};

use crate::ast::*;
use crate::{ParseOptions, parse, parse_at};

fn body(sql: &str) -> Body {
    match parse(sql.as_bytes(), ParseOptions::default()).map(|p| p.stmt) {
        Ok(Statement::CreateRoutine(create)) => (*create.body).clone(),
        other => panic!("{sql}: {other:?}"),
    }
}

fn block(sql: &str) -> Block {
    match body(&format!("CREATE PROCEDURE p() {sql}")).root {
        Step::Block(block) => *block,
        other => panic!("{sql}: {other:?}"),
    }
}

/// Number and text of the error of a procedure's body.
fn error(body: &str) -> (u16, String) {
    let sql = format!("CREATE PROCEDURE p(a INT) {body}");
    error_of(&sql)
}

fn error_of(sql: &str) -> (u16, String) {
    match parse(sql.as_bytes(), ParseOptions::default()) {
        Ok(parsed) => panic!("{sql}: {:?}", parsed.stmt),
        Err(e) => (e.code, e.message),
    }
}

#[test]
fn a_routine_keeps_what_was_written() {
    let sql = "CREATE DEFINER=`u`@`h` PROCEDURE d.p (IN a INT, OUT `b` VARCHAR(10) , c DATE) \
               COMMENT 'x' READS SQL DATA SQL SECURITY INVOKER LANGUAGE SQL NOT DETERMINISTIC \
               SET b = a";
    let parsed = parse(sql.as_bytes(), ParseOptions::default()).unwrap();
    let Statement::CreateRoutine(create) = parsed.stmt else {
        panic!("{sql}")
    };
    assert_eq!(
        &*create.parameters,
        "IN a INT, OUT `b` VARCHAR(10) , c DATE"
    );
    let modes = [ParameterMode::In, ParameterMode::Out, ParameterMode::In];
    assert_eq!(create.modes, modes);
    assert_eq!(&*create.body.text, "SET b = a");
    let characteristics = Characteristics {
        comment: Some("x".into()),
        deterministic: Some(false),
        access: Some(DataAccess::ReadsSqlData),
        invoker: Some(true),
    };
    assert_eq!(create.characteristics, characteristics);
    let value = Formula {
        expr: Expr::Param(0),
        places: vec![Place::Local(0)],
    };
    let target = Target::Local(1);
    assert_eq!(create.body.root, Step::Assign { target, value });
}

#[test]
fn bytes_that_are_no_text_are_kept_as_digits() {
    let kept = |sql: &[u8]| match parse(sql, ParseOptions::default()).map(|p| p.stmt) {
        Ok(Statement::CreateRoutine(create)) => create.body.text.clone(),
        other => panic!("{other:?}"),
    };
    let sql = b"CREATE PROCEDURE p() SELECT _binary'\xff\\n' 'b' AS a, 'c', _binary'd' /* \xfe */";
    assert_eq!(
        &*kept(sql),
        "SELECT _binary X'FF0A62' AS a, 'c', _binary'd'"
    );
    let text = "CREATE PROCEDURE p() SELECT _binary'\u{e9}', '\u{e9}'";
    assert_eq!(&*kept(text.as_bytes()), "SELECT _binary'\u{e9}', '\u{e9}'");
}

#[test]
fn variables_win_over_columns_and_inner_ones_over_outer_ones() {
    let block = block(
        "BEGIN DECLARE a, b INT DEFAULT 1; BEGIN DECLARE A INT; SELECT a, b, t.a, a FROM t WHERE a < b LIMIT b; END; END",
    );
    let Step::Block(inner) = &block.body[0] else {
        panic!("{block:?}")
    };
    let Step::Sql(sql) = &inner.body[0] else {
        panic!("{inner:?}")
    };
    assert_eq!(sql.places, [Place::Local(2), Place::Local(1)]);
    assert_eq!(&*sql.text, "SELECT a, b, t.a, a FROM t WHERE a < b LIMIT b");
    let Statement::Query(query) = &*sql.statement else {
        panic!("{sql:?}")
    };
    assert_eq!(query.limit.as_ref().unwrap().count, Expr::Param(1));
}

#[test]
fn a_default_does_not_see_the_variable_that_it_is_for() {
    let outer = block("BEGIN DECLARE x INT; BEGIN DECLARE x INT DEFAULT x + 1; END; END");
    let Step::Block(inner) = &outer.body[0] else {
        panic!("{outer:?}")
    };
    let default = inner.variables[0].default.as_ref().unwrap();
    assert_eq!(default.places, [Place::Local(0)]);
    assert_eq!(inner.variables[0].slots, [1]);
}

#[test]
fn every_kind_of_statement_is_read() {
    let block = block(
        "x: BEGIN
           DECLARE done, n INT DEFAULT 0;
           DECLARE gone CONDITION FOR SQLSTATE '45000';
           DECLARE c CURSOR FOR SELECT a FROM t WHERE b = n;
           DECLARE CONTINUE HANDLER FOR NOT FOUND, 1051, gone SET done = 1;
           DECLARE EXIT HANDLER FOR SQLEXCEPTION, SQLWARNING BEGIN RESIGNAL; END;
           OPEN c;
           l: LOOP
             FETCH NEXT FROM c INTO n, done;
             IF done THEN LEAVE l; ELSEIF n > 3 THEN ITERATE l; ELSE SET n = n + 1, @v = 2, done = 0; END IF;
           END LOOP l;
           CLOSE c;
           WHILE n > 0 DO SET n = n - 1; END WHILE;
           REPEAT SELECT n INTO done; UNTIL done END REPEAT;
           CASE n WHEN 1 THEN DO 1; WHEN 2 THEN BEGIN END; ELSE DO 2; END CASE;
           CASE WHEN n = 1 THEN DO 1; END CASE;
           SIGNAL gone SET MESSAGE_TEXT = 'x', MYSQL_ERRNO = n;
           GET STACKED DIAGNOSTICS CONDITION 1 n = MYSQL_ERRNO, @t = MESSAGE_TEXT;
           GET DIAGNOSTICS @n = NUMBER, done = ROW_COUNT;
           CALL q(n, @x);
           LEAVE x;
         END x",
    );
    assert_eq!(block.handlers.len(), 2);
    let state = ConditionValue::State(*b"45000");
    let conditions = [ConditionValue::NotFound, ConditionValue::Code(1051), state];
    assert_eq!(block.handlers[0].conditions, conditions);
    assert!(block.handlers[1].exit && !block.handlers[0].exit);
    assert_eq!(block.cursors, [0]);
    assert_eq!(block.body.len(), 12);
    let Step::Loop { label, body, .. } = &block.body[1] else {
        panic!("{block:?}")
    };
    let into = vec![Target::Local(1), Target::Local(0)];
    assert_eq!(body[0], Step::Fetch { cursor: 0, into });
    let Step::If { arms, otherwise } = &body[1] else {
        panic!("{body:?}")
    };
    assert_eq!(arms[0].1, [Step::Leave(label.unwrap())]);
    assert_eq!(arms[1].1, [Step::Iterate(label.unwrap())]);
    // SET of three variables is three statements.
    assert_eq!(otherwise.as_ref().unwrap().len(), 3);
    let Step::Case { slot, arms, .. } = &block.body[5] else {
        panic!("{block:?}")
    };
    assert_eq!(arms[0].0.places, [Place::Local(*slot)]);
    assert!(matches!(
        &block.body[6],
        Step::If {
            otherwise: None,
            ..
        }
    ));
    assert_eq!(block.body[11], Step::Leave(block.label.unwrap()));
}

#[test]
fn errors_are_those_of_mysql() {
    for (body, code, text) in [
        (
            "BEGIN LEAVE x; END",
            1308,
            "LEAVE with no matching label: x",
        ),
        (
            "x: BEGIN ITERATE x; END",
            1308,
            "ITERATE with no matching label: x",
        ),
        (
            "x: BEGIN x: LOOP LEAVE x; END LOOP; END",
            1309,
            "Redefining label x",
        ),
        ("x: BEGIN END y", 1310, "End-label y without match"),
        ("RETURN 1", 1313, "RETURN is only allowed in a FUNCTION"),
        ("USE test", 1314, "USE is not allowed in stored procedures"),
        (
            "CHECK TABLE t",
            1314,
            "CHECK is not allowed in stored procedures",
        ),
        (
            "LOCK TABLES t READ",
            1314,
            "LOCK is not allowed in stored procedures",
        ),
        (
            "CREATE PROCEDURE q() SELECT 1",
            1303,
            "Can't create a PROCEDURE from within another stored routine",
        ),
        (
            "DROP PROCEDURE q",
            1357,
            "Can't drop or alter a PROCEDURE from within another stored routine",
        ),
        (
            "BEGIN DECLARE EXIT HANDLER FOR x BEGIN END; END",
            1319,
            "Undefined CONDITION: x",
        ),
        (
            "BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '00000' BEGIN END; END",
            1407,
            "Bad SQLSTATE: '00000'",
        ),
        (
            "BEGIN DECLARE EXIT HANDLER FOR 0 BEGIN END; END",
            1525,
            "Incorrect CONDITION value: '0'",
        ),
        (
            "BEGIN DECLARE c CURSOR FOR SELECT 1 INTO @a; END",
            1323,
            "Cursor SELECT must not have INTO",
        ),
        ("BEGIN OPEN c; END", 1324, "Undefined CURSOR: c"),
        ("SELECT 1 INTO x", 1327, "Undeclared variable: x"),
        ("SELECT 1 LIMIT x", 1327, "Undeclared variable: x"),
        ("BEGIN DECLARE b, B INT; END", 1331, "Duplicate variable: B"),
        (
            "BEGIN DECLARE b CONDITION FOR 1; DECLARE b CONDITION FOR 2; END",
            1332,
            "Duplicate condition: b",
        ),
        (
            "BEGIN DECLARE b CURSOR FOR SELECT 1; DECLARE b CURSOR FOR SELECT 1; END",
            1333,
            "Duplicate cursor: b",
        ),
        (
            "BEGIN DECLARE c CURSOR FOR SELECT 1; DECLARE b INT; END",
            1337,
            "Variable or condition declaration after cursor or handler declaration",
        ),
        (
            "BEGIN DECLARE EXIT HANDLER FOR 1 BEGIN END; DECLARE c CURSOR FOR SELECT 1; END",
            1338,
            "Cursor declaration after handler declaration",
        ),
        (
            "BEGIN DECLARE EXIT HANDLER FOR 1 BEGIN END; DECLARE EXIT HANDLER FOR 1 BEGIN END; END",
            1413,
            "Duplicate handler declared in the same block",
        ),
        (
            "BEGIN DECLARE x CONDITION FOR 1051; SIGNAL x; END",
            1646,
            "SIGNAL/RESIGNAL can only use a CONDITION defined with SQLSTATE",
        ),
        (
            "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a', MESSAGE_TEXT = 'b'",
            1641,
            "Duplicate condition information item 'MESSAGE_TEXT'",
        ),
        (
            "x: BEGIN DECLARE EXIT HANDLER FOR 1 LEAVE x; END",
            1308,
            "LEAVE with no matching label: x",
        ),
        (
            "HANDLER t OPEN",
            1314,
            "HANDLER is not allowed in stored procedures",
        ),
    ] {
        assert_eq!(error(body), (code, text.to_owned()), "{body}");
    }
    assert_eq!(
        error_of("CREATE PROCEDURE p(a INT, A INT) BEGIN END").0,
        1330
    );
    for (body, near) in [
        ("BEGIN END x", "near 'x' at line 1"),
        (
            "BEGIN DECLARE c CURSOR FOR SELECT 1; FETCH c INTO @a; END",
            "near '@a; END' at line 1",
        ),
        ("BEGIN SELECT ?; END", "near '?; END' at line 1"),
        ("BEGIN ; END", "near '; END' at line 1"),
        ("BEGIN SELECT 1 END", "near '' at line 1"),
        (
            "BEGIN IF 1 THEN END IF; END",
            "near 'END IF; END' at line 1",
        ),
        (
            "BEGIN SELECT 1; DECLARE x INT; END",
            "near 'DECLARE x INT; END' at line 1",
        ),
        (
            "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = f(1)",
            "near '(1)' at line 1",
        ),
    ] {
        let (code, text) = error(body);
        assert!(
            code == 1064 && text.ends_with(near),
            "{body}: {code} {text}"
        );
    }
}

#[test]
fn functions_neither_commit_nor_give_rows() {
    for (body, code) in [
        ("SELECT 1", 1415),
        ("SHOW TABLES", 1415),
        ("COMMIT", 1422),
        ("CREATE TABLE t (a INT)", 1422),
        ("PREPARE s FROM 'x'", 1336),
        ("FLUSH TABLES", 1336),
        ("RESET REPLICA", 1336),
        ("SET autocommit = 1", 1445),
        ("SET PASSWORD = 'x'", 1445),
    ] {
        let sql = format!("CREATE FUNCTION f() RETURNS INT BEGIN {body}; RETURN 1; END");
        assert_eq!(error_of(&sql).0, code, "{body}");
    }
    let sql = "CREATE FUNCTION f() RETURNS VARCHAR(3) CHARSET latin1 RETURN 'x'";
    assert!(body(sql).traits.returns);
    let traits = body("CREATE PROCEDURE p() BEGIN SELECT 1; COMMIT; EXECUTE s; END").traits;
    assert!(traits.result_sets && traits.dynamic_sql && !traits.returns);
    assert_eq!(traits.commits, Some(Commits::AtOnce));
    let traits = body("CREATE PROCEDURE p() BEGIN RESET REPLICA; FLUSH STATUS; END").traits;
    assert_eq!(traits.commits, Some(Commits::Reset));
}

/// Semicolons of a body do not end its statement, whatever the client may send behind it.
#[test]
fn a_body_is_not_cut() {
    let multi = ParseOptions {
        multi: true,
        ..ParseOptions::default()
    };
    let sql = b"CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END; SELECT 3";
    let first = parse(sql, multi).unwrap();
    assert_eq!(first.span.end, 50);
    let rest = parse_at(sql, first.rest.unwrap(), multi).unwrap();
    assert!(matches!(rest.stmt, Statement::Query(_)) && rest.rest.is_none());
    assert!(parse(&sql[..51], ParseOptions::default()).is_ok());
}

#[test]
fn depth_of_bodies_is_bounded() {
    let n = 5_000;
    for (open, close) in [
        ("BEGIN ", " END;"),
        ("IF 1 THEN ", " END IF;"),
        ("LOOP ", " END LOOP;"),
    ] {
        let sql = format!("CREATE PROCEDURE p() {}{}", open.repeat(n), close.repeat(n));
        assert_eq!(error_of(&sql).0, 1436, "{open}");
    }
    let wide = format!("CREATE PROCEDURE p() BEGIN {} END", "SET @a = 1;".repeat(n));
    assert!(parse(wide.as_bytes(), ParseOptions::default()).is_ok());
}

#[test]
fn names_of_variables_may_be_words_and_quoted() {
    let options = ParseOptions {
        sql_mode: SqlMode(SqlMode::default().0 | SqlMode::ANSI_QUOTES.0),
        ..ParseOptions::default()
    };
    let sql = "CREATE PROCEDURE p() BEGIN DECLARE status, \"from\" INT; SET status = \"from\" + status; END";
    assert!(parse(sql.as_bytes(), options).is_ok());
}

#[test]
fn heads_of_triggers() {
    let made = |sql: &str| match parse(sql.as_bytes(), ParseOptions::default()).map(|p| p.stmt) {
        Ok(Statement::CreateTrigger(create)) => *create,
        other => panic!("{sql}: {other:?}"),
    };
    let create = made(
        "CREATE DEFINER = u@h TRIGGER IF NOT EXISTS d.follows BEFORE UPDATE ON t FOR EACH ROW PRECEDES follows \
         SET NEW.a = OLD.a",
    );
    assert!(create.if_not_exists && create.definer.is_some());
    assert_eq!(create.name.to_string(), "d.follows");
    assert_eq!(
        (create.timing, create.event),
        (TriggerTiming::Before, TriggerEvent::Update)
    );
    let place = create.place.expect("PRECEDES");
    assert!(place.precedes && place.other.is("follows"));
    assert_eq!(&*create.body.text, "SET NEW.a = OLD.a");
    assert!(create.text.starts_with("TRIGGER IF NOT") && create.text.ends_with("OLD.a"));
    // As dumps write it.
    let create = made(
        "/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `b` AFTER INSERT ON `t` FOR EACH ROW \
         BEGIN SET @a = 1; END */",
    );
    assert_eq!(&*create.body.text, "BEGIN SET @a = 1; END");
    assert!(create.definer.is_some() && create.place.is_none());
    for (sql, code) in [
        (
            "CREATE TRIGGER b AFTER INSERT ON t FOR EACH ROW SET NEW.a = 1",
            1362,
        ),
        (
            "CREATE TRIGGER b BEFORE DELETE ON t FOR EACH ROW SET @a = NEW.a",
            1363,
        ),
        ("CREATE OR REPLACE TRIGGER", 1064),
        ("CREATE TRIGGER b BEFORE INSERT ON t SET @a = 1", 1064),
        (
            "CREATE TRIGGER b BEFORE SELECT ON t FOR EACH ROW SET @a = 1",
            1064,
        ),
        (
            "CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW FOLLOWS SET @a = 1",
            1064,
        ),
    ] {
        assert_eq!(error_of(sql).0, code, "{sql}");
    }
}
