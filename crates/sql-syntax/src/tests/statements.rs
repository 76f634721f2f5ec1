//! What the parts of statements become.

use super::{ok, parsed, query, select};
use crate::ast::*;

fn names(table: &TableRef) -> String {
    match table {
        TableRef::Table(t) => t.name.to_string(),
        TableRef::Derived { alias, .. } => format!("derived {alias}"),
        TableRef::Json { alias, rows, .. } => format!("json {alias} {}", rows.columns.len()),
        TableRef::List(list) => {
            format!(
                "[{}]",
                list.iter().map(names).collect::<Vec<_>>().join(", ")
            )
        }
        TableRef::Join(join) => {
            let on = match &join.on {
                None => "",
                Some(JoinOn::On(_)) => " on",
                Some(JoinOn::Using(_)) => " using",
            };
            let natural = if join.natural { "natural " } else { "" };
            let (left, right) = (names(&join.left), names(&join.right));
            format!("({left} {natural}{:?} {right}{on})", join.kind).to_lowercase()
        }
    }
}

#[track_caller]
fn from(sql: &str, wanted: &str) {
    let from = select(&format!("SELECT * FROM {sql}")).from;
    assert_eq!(
        from.iter().map(names).collect::<Vec<_>>().join("; "),
        wanted,
        "{sql}"
    );
}

#[test]
fn joins() {
    from("a, b", "a; b");
    from("a JOIN b ON 1 JOIN c ON 2", "((a inner b on) inner c on)");
    from("a JOIN b JOIN c ON 1 ON 2", "(a inner (b inner c on) on)");
    from("a JOIN b JOIN c ON 1", "((a inner b) inner c on)");
    from("a JOIN b LEFT JOIN c ON 1", "((a inner b) left c on)");
    from(
        "a LEFT JOIN b JOIN c ON 1 ON 2",
        "(a left (b inner c on) on)",
    );
    from(
        "a LEFT JOIN (b CROSS JOIN c) ON 1",
        "(a left [(b inner c)] on)",
    );
    from("(a, b) LEFT JOIN c ON 1", "([a, b] left c on)");
    from("a JOIN (b JOIN c ON 1)", "(a inner [(b inner c on)])");
    from("a NATURAL LEFT JOIN b", "(a natural left b)");
    from("a STRAIGHT_JOIN b ON 1", "(a straight b on)");
    from("a RIGHT OUTER JOIN b USING (x)", "(a right b using)");
    from("{OJ a LEFT OUTER JOIN b ON 1}", "(a left b on)");
    from("((SELECT 1) UNION (SELECT 2)) x", "derived x");
    from(
        "((SELECT 1) x JOIN (SELECT 2) y)",
        "[(derived x inner derived y)]",
    );
    from("DUAL", "");
    let table =
        select("SELECT * FROM d.t PARTITION (p, q) AS x FORCE INDEX FOR ORDER BY (i, PRIMARY)");
    let [TableRef::Table(table)] = &table.from[..] else {
        panic!()
    };
    assert_eq!(
        (table.partitions.len(), table.hints[0].indexes.len()),
        (2, 2)
    );
    assert_eq!(table.hints[0].scope, Some(IndexHintScope::OrderBy));
    assert!(table.alias.as_ref().is_some_and(|a| a.is("x")));
}

#[test]
fn set_operations() {
    let body = query("SELECT 1 UNION SELECT 2 EXCEPT ALL SELECT 3 INTERSECT SELECT 4").body;
    let QueryBody::SetOps { rest, .. } = body else {
        panic!("{body:?}")
    };
    let steps: Vec<_> = rest.iter().map(|s| (s.op, s.all)).collect();
    assert_eq!(steps, [(SetOp::Union, false), (SetOp::Except, true)]);
    let QueryBody::SetOps { rest, .. } = &rest[1].right else {
        panic!()
    };
    assert_eq!(rest[0].op, SetOp::Intersect);

    let q = query("(SELECT a FROM t ORDER BY a LIMIT 1) UNION ALL (SELECT a FROM u) LIMIT 3");
    assert!(q.limit.is_some() && q.order_by.is_empty());
    let QueryBody::SetOps { first, rest } = q.body else {
        panic!()
    };
    assert!(matches!(*first, QueryBody::Nested(ref q) if q.limit.is_some()));
    assert!(matches!(rest[0].right, QueryBody::Select(_)));
    assert!(matches!(
        query("((SELECT 1 LIMIT 1))").body,
        QueryBody::Select(_)
    ));
    assert!(matches!(
        query("(SELECT 1 LIMIT 1) LIMIT 2").body,
        QueryBody::Nested(_)
    ));
}

/// Names that MySQL gives to columns without alias.
#[test]
fn column_names() {
    for (item, wanted) in [
        ("true", "true"),
        ("null", "NULL"),
        ("'a' 'b'", "a"),
        ("_latin1'x'", "x"),
        ("-1", "-1"),
        ("date'2020-01-01'", "date'2020-01-01'"),
        ("x'41'", "x'41'"),
        ("(1)", "1"),
        ("+ 1", "1"),
        ("+ +1.5e3", "1.5e3"),
        ("+'a'", "a"),
        ("+null", "NULL"),
        ("-(+3)", "-(+3)"),
        ("+a", "+a"),
        ("(  'q' )", "q"),
        ("1.50", "1.50"),
        ("@@Session.Autocommit", "@@Session.Autocommit"),
        ("'it''s'", "it's"),
        ("' lead'", "lead"),
        ("'trail  '", "trail  "),
        ("now( )", "now( )"),
        ("(select 5)", "(select 5)"),
        ("1 /* c */ + 2", "1 /* c */ + 2"),
        ("( 1 + 1 )", "( 1 + 1 )"),
        ("COUNT(*)  ", "COUNT(*)"),
    ] {
        let items = select(&format!("SELECT {item}, 2")).items;
        let SelectItem::Expr {
            text, alias: None, ..
        } = &items[0]
        else {
            panic!("{items:?}")
        };
        assert_eq!(&**text, wanted);
    }
    let items = select("SELECT a x, b AS 'y z', c \"w\", t.*, d.t.*").items;
    let alias = |i: usize| match &items[i] {
        SelectItem::Expr { alias: Some(a), .. } => a.text.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (alias(0), alias(1), alias(2)),
        ("x".into(), "y z".into(), "w".into())
    );
    assert!(matches!(
        &items[3],
        SelectItem::TableWildcard { schema: None, .. }
    ));
    assert!(matches!(
        &items[4],
        SelectItem::TableWildcard {
            schema: Some(_),
            ..
        }
    ));
}

#[test]
fn clauses() {
    let q = query("SELECT a FROM t LIMIT 5, 10");
    let limit = q.limit.unwrap();
    assert_eq!(limit.count, Expr::Literal(Literal::Int(10)));
    assert_eq!(limit.offset, Some(Expr::Literal(Literal::Int(5))));
    let q = query("SELECT a FROM t FOR UPDATE OF t, u SKIP LOCKED FOR SHARE NOWAIT");
    assert_eq!(
        (q.locking[0].of.len(), q.locking[0].wait),
        (2, LockWait::SkipLocked)
    );
    assert_eq!(
        (q.locking[1].share, q.locking[1].wait),
        (true, LockWait::NoWait)
    );
    assert_eq!(
        query("SELECT 1 FOR UPDATE WAIT 5").locking[0].wait,
        LockWait::Seconds(5)
    );
    assert!(query("SELECT 1 LOCK IN SHARE MODE").locking[0].share);
    let s = select("SELECT /*+ MAX_EXECUTION_TIME(9) */ DISTINCT SQL_CALC_FOUND_ROWS a FROM t");
    let hints = s.hints.as_ref().and_then(|h| h.statement());
    assert_eq!(hints.and_then(|h| h.max_execution_millis), Some(9));
    assert!(s.distinct && s.options.calc_found_rows && !s.options.straight_join);
    let s = select("SELECT a FROM t GROUP BY a, 2 WITH ROLLUP HAVING b WINDOW w AS (ORDER BY c)");
    assert!(s.rollup && s.having.is_some() && s.group_by.len() == 2 && s.windows.len() == 1);
    for sql in [
        "SELECT a INTO @x FROM t",
        "SELECT a FROM t INTO @X",
        "SELECT 1 INTO @x",
    ] {
        assert_eq!(
            query(sql).into,
            Some(Into::Vars(vec![Target::User("x".into())])),
            "{sql}"
        );
    }
    let into =
        query("SELECT a INTO OUTFILE 'f' FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'");
    let Some(Into::Outfile { format, .. }) = into.into else {
        panic!()
    };
    assert_eq!(
        (&format.fields_terminated[..], format.optionally),
        (&b","[..], true)
    );
    assert_eq!(&format.lines_terminated[..], b"\n");
    let with = query("WITH RECURSIVE c (n) AS (SELECT 1) SELECT * FROM c")
        .with
        .unwrap();
    assert!(with.recursive && with.ctes[0].columns.len() == 1);
}

fn insert(sql: &str) -> Insert {
    match ok(sql) {
        Statement::Insert(insert) => *insert,
        other => panic!("{other:?}"),
    }
}

#[test]
fn inserts() {
    let i = insert(
        "INSERT IGNORE INTO d.t (a, b) VALUES (1, DEFAULT), (?, 2) ON DUPLICATE KEY UPDATE a = VALUES(a)",
    );
    assert!(i.ignore && !i.replace && i.columns.len() == 2 && i.on_duplicate.len() == 1);
    let InsertSource::Values(rows) = &i.source else {
        panic!()
    };
    assert_eq!((rows.len(), &rows[0][1]), (2, &Expr::Default(None)));
    let i = insert("INSERT t () VALUES (), ()");
    assert!(!i.columns_given && i.columns.is_empty());
    assert_eq!(i.source, InsertSource::Values(vec![vec![], vec![]]));
    let i = insert("INSERT t VALUES ROW(1, DEFAULT), ROW()");
    assert!(
        matches!(i.source, InsertSource::Values(rows) if rows[0].len() == 2 && rows[1].is_empty())
    );
    let i = insert("REPLACE INTO t SET a = 1, b = DEFAULT");
    assert!(i.replace && i.columns_given && i.columns.len() == 2);
    let i = insert("INSERT INTO t (a) VALUES (1) AS new (x) ON DUPLICATE KEY UPDATE a = x");
    assert_eq!(i.row_alias.map(|r| r.columns.len()), Some(1));
    for sql in [
        "INSERT INTO t SELECT 1",
        "INSERT INTO t (SELECT 1) UNION (SELECT 2)",
        "INSERT INTO t TABLE u",
        "INSERT INTO t VALUES ROW(1, 2) UNION VALUES ROW(3, 4)",
        "INSERT INTO t (a) WITH c AS (SELECT 1) SELECT * FROM c",
    ] {
        assert!(
            matches!(insert(sql).source, InsertSource::Query(_)),
            "{sql}"
        );
    }
    assert_eq!(
        insert("INSERT INTO t SELECT * FROM u RETURNING a, b")
            .returning
            .len(),
        2
    );
}

#[test]
fn updates_and_deletes() {
    let Statement::Update(u) = ok("UPDATE IGNORE t1, t2 SET t1.a = t2.b, c := DEFAULT WHERE 1")
    else {
        panic!()
    };
    assert!(u.ignore && u.tables.len() == 2 && u.assignments.len() == 2 && u.filter.is_some());
    let delete = |sql: &str| match ok(sql) {
        Statement::Delete(d) => *d,
        other => panic!("{other:?}"),
    };
    let d = delete("DELETE QUICK FROM t AS x WHERE a = 1 ORDER BY b LIMIT 5");
    assert!(d.quick && d.targets.is_empty() && d.order_by.len() == 1 && d.limit.is_some());
    for sql in [
        "DELETE a, d.b.* FROM a JOIN b ON 1",
        "DELETE FROM a, d.b USING a JOIN b ON 1",
    ] {
        let d = delete(sql);
        assert_eq!((d.targets.len(), d.from.len()), (2, 1), "{sql}");
        assert_eq!(d.targets[1].to_string(), "d.b");
    }
    let Statement::LoadData(l) = ok(
        "LOAD DATA LOCAL INFILE 'f' IGNORE INTO TABLE t FIELDS TERMINATED BY ',' IGNORE 1 LINES (a, @b) SET c = @b",
    ) else {
        panic!()
    };
    assert!(l.local && l.ignore && l.skip_lines == 1 && l.assignments.len() == 1);
    assert_eq!(l.columns[1], LoadTarget::Var("b".into()));
}

fn create(sql: &str) -> CreateTable {
    match ok(sql) {
        Statement::CreateTable(table) => *table,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables() {
    let t = create(
        "CREATE TABLE IF NOT EXISTS d.t (
            id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'key',
            a VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'x',
            b DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE NOW(6),
            c INT AS (id + 1) STORED CHECK (c > 0) NOT ENFORCED,
            d ENUM('a', 'b''c') DEFAULT NULL,
            e INT DEFAULT -5 INVISIBLE,
            f BINARY(16) DEFAULT (UUID_TO_BIN(UUID())),
            PRIMARY KEY (id), UNIQUE KEY uk (a(5) DESC), KEY (b) USING BTREE COMMENT 'z' INVISIBLE,
            CONSTRAINT fk FOREIGN KEY (e) REFERENCES u (x) ON DELETE SET NULL ON UPDATE CASCADE,
            CONSTRAINT ck CHECK ((a <> ''))
        ) ENGINE=InnoDB AUTO_INCREMENT=5, DEFAULT CHARSET utf8mb4 ROW_FORMAT=dynamic KEY_BLOCK_SIZE=8",
    );
    assert!(t.if_not_exists && t.name.schema.is_some());
    let [id, a, b, c, d, e, f] = &t.columns[..] else {
        panic!()
    };
    assert!(id.ty.unsigned && id.auto_increment && id.not_null == Some(true));
    assert_eq!(
        (a.ty.length, a.ty.charset.as_deref()),
        (Some(10), Some("latin1"))
    );
    assert_eq!(a.ty.collation.as_deref(), Some("latin1_bin"));
    assert_eq!(
        (&b.default, b.on_update_now),
        (&Some(ColumnDefault::Now(6)), Some(6))
    );
    let generated = c.generated.as_ref().unwrap();
    assert!(generated.stored && &*generated.expr.text == "id + 1" && !c.checks[0].enforced);
    assert_eq!(d.ty.labels, [b"a".to_vec(), b"b'c".to_vec()]);
    assert!(matches!(
        d.default,
        Some(ColumnDefault::Literal(Expr::Literal(Literal::Null)))
    ));
    assert!(matches!(
        e.default,
        Some(ColumnDefault::Literal(Expr::Unary { .. }))
    ));
    assert_eq!(e.invisible, Some(true));
    let Some(ColumnDefault::Expr(default)) = &f.default else {
        panic!()
    };
    assert_eq!(&*default.text, "UUID_TO_BIN(UUID())");
    let kinds: Vec<_> = t.indexes.iter().map(|i| i.kind).collect();
    assert_eq!(
        kinds,
        [IndexKind::Primary, IndexKind::Unique, IndexKind::Plain]
    );
    let KeyPartKind::Column(column, prefix) = &t.indexes[1].parts[0].what else {
        panic!()
    };
    assert!(column.is("a") && *prefix == Some(5) && t.indexes[1].parts[0].desc);
    assert!(t.indexes[2].invisible && t.indexes[2].name.is_none());
    let key = &t.foreign_keys[0];
    assert_eq!(
        (key.on_delete, key.on_update),
        (Some(RefAction::SetNull), Some(RefAction::Cascade))
    );
    assert_eq!(&*t.checks[0].expr.text, "(a <> '')");
    assert_eq!(
        t.options,
        [
            TableOption::Engine("InnoDB".into()),
            TableOption::AutoIncrement(5),
            TableOption::Charset("utf8mb4".into()),
            TableOption::RowFormat("DYNAMIC".into()),
            TableOption::Other("KEY_BLOCK_SIZE".into(), "8".into()),
        ]
    );
    assert!(create("CREATE TABLE t (LIKE u)").like.is_some());
    assert!(
        create("CREATE TABLE t (a INT) IGNORE SELECT 1")
            .query
            .is_some()
    );
    let t =
        create("CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (1))");
    let by = t.partition_by.expect("it is partitioned");
    assert_eq!(by.method.kind, PartitionKind::Range);
    assert_eq!(by.partitions.len(), 1);
}

#[test]
fn types() {
    let t = create(
        "CREATE TABLE t (a BOOL, b NATIONAL VARCHAR(3), c DOUBLE PRECISION, d FLOAT(30), e LONG, \
         f SERIAL, g CHAR BYTE, h TINYINT(1) ZEROFILL, i DEC(5,2), j CHARACTER VARYING(4), k YEAR(4))",
    );
    let got: Vec<_> = t
        .columns
        .iter()
        .map(|c| (c.ty.name, c.ty.length, c.ty.decimals))
        .collect();
    assert_eq!(
        got,
        [
            (TypeName::Bool, None, None),
            (TypeName::VarChar, Some(3), None),
            (TypeName::Double, None, None),
            (TypeName::Float, Some(30), None),
            (TypeName::MediumText, None, None),
            (TypeName::BigInt, None, None),
            (TypeName::Char, None, None),
            (TypeName::TinyInt, Some(1), None),
            (TypeName::Decimal, Some(5), Some(2)),
            (TypeName::VarChar, Some(4), None),
            (TypeName::Year, Some(4), None),
        ]
    );
    assert!(t.columns[5].auto_increment && t.columns[5].unique && t.columns[5].ty.unsigned);
    assert_eq!(t.columns[6].ty.charset.as_deref(), Some("binary"));
    assert!(t.columns[7].ty.zerofill && !t.columns[7].ty.unsigned);
}

#[test]
fn alters() {
    let alter = |sql: &str| match ok(sql) {
        Statement::AlterTable(alter) => *alter,
        other => panic!("{other:?}"),
    };
    let a = alter(
        "ALTER TABLE t ADD COLUMN a INT AFTER b, ADD (c INT, d INT), DROP PRIMARY KEY, \
         MODIFY e BIGINT FIRST, CHANGE f g INT, RENAME COLUMN h TO i, RENAME TO u, \
         ALTER j SET DEFAULT 1, DROP CHECK k, ENGINE=InnoDB, ALGORITHM=INSTANT, LOCK=NONE",
    );
    assert_eq!(a.actions.len(), 11);
    assert!(
        matches!(&a.actions[0], AlterAction::AddColumn { position: ColumnPosition::After(b), .. } if b.is("b"))
    );
    assert!(matches!(
        &a.actions[4],
        AlterAction::ModifyColumn {
            position: ColumnPosition::First,
            ..
        }
    ));
    assert_eq!(a.options.algorithm.as_deref(), Some("INSTANT"));
    assert_eq!(a.options.lock.as_deref(), Some("NONE"));
    for (sql, wait) in [
        ("ALTER TABLE t NOWAIT ADD a INT", LockWait::NoWait),
        ("ALTER TABLE t NO_WAIT ADD a INT", LockWait::NoWait),
        ("ALTER TABLE t WAIT 5 ADD a INT", LockWait::Seconds(5)),
        ("ALTER TABLE t ADD a INT", LockWait::Default),
    ] {
        assert_eq!(alter(sql).options.wait, wait, "{sql}");
    }
    assert_eq!(
        alter("ALTER TABLE t DROP PARTITION p").actions,
        [AlterAction::Partition(PartitionAction::Drop(vec![
            Ident::new("p")
        ]))]
    );
    let Statement::DropTable(d) = ok("DROP TABLE IF EXISTS a, d.b WAIT 5") else {
        panic!()
    };
    assert_eq!((d.names.len(), d.wait), (2, LockWait::Seconds(5)));
    let Statement::RenameTable(r) = ok("RENAME TABLE a WAIT 5 TO b, c TO d") else {
        panic!()
    };
    assert_eq!((r.pairs.len(), r.wait), (2, LockWait::Seconds(5)));
    assert!(matches!(
        ok("TRUNCATE t NOWAIT"),
        Statement::Truncate {
            wait: LockWait::NoWait,
            ..
        }
    ));
    let Statement::CreateIndex(i) = ok("CREATE UNIQUE INDEX i ON t (a, b(3)) NOWAIT") else {
        panic!()
    };
    assert_eq!(
        (i.index.kind, i.options.wait),
        (IndexKind::Unique, LockWait::NoWait)
    );
    let Statement::CreateView(v) =
        ok("CREATE OR REPLACE SQL SECURITY INVOKER VIEW v (a) AS SELECT 1 WITH LOCAL CHECK OPTION")
    else {
        panic!()
    };
    assert_eq!(
        (v.or_replace, v.invoker, &*v.text, v.check_option),
        (true, Some(true), "SELECT 1", Some("LOCAL"))
    );
}

#[test]
fn sets() {
    let Statement::Set(items) = ok(
        "SET @a := 1, sql_mode = ANSI, GLOBAL b = DEFAULT, @@session.c = ON, NAMES utf8mb4 COLLATE \
         utf8mb4_bin, CHARSET latin1, d = (SELECT 1)",
    ) else {
        panic!()
    };
    let text = |t: &str| {
        Some(Expr::Literal(Literal::Str {
            bytes: t.into(),
            charset: None,
        }))
    };
    assert!(matches!(&items[0], SetItem::UserVar { name, .. } if &**name == "a"));
    let var = |i: usize| match &items[i] {
        SetItem::SysVar { var, value } => (var.scope, &*var.name, value.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(var(1), (None, "sql_mode", text("ANSI")));
    assert_eq!(var(2), (Some(VarScope::Global), "b", None));
    assert_eq!(var(3), (Some(VarScope::Session), "c", text("ON")));
    assert!(matches!(
        &items[4],
        SetItem::Names {
            charset: Some(_),
            collation: Some(_)
        }
    ));
    assert_eq!(items[5], SetItem::Charset(Some("latin1".into())));
    assert!(matches!(var(6).2, Some(Expr::Subquery(_))));
    // The scope of `b` stands until the next one; `@@` has its own.
    assert_eq!((var(6).0, var(6).1), (Some(VarScope::Global), "d"));
    let wanted = SetTransaction {
        scope: Some(VarScope::Session),
        isolation: Some(Isolation::ReadCommitted),
        read_only: Some(true),
    };
    let sql = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY";
    assert_eq!(ok(sql), Statement::SetTransaction(wanted));
    assert!(matches!(
        ok("SET PASSWORD FOR u@h = 'x'"),
        Statement::SetPassword(_)
    ));
    assert!(matches!(
        ok("SET ROLE ALL"),
        Statement::SetRole(SetRole {
            default_for: None,
            ..
        })
    ));
}

#[test]
fn sessions() {
    let begin = |sql| match ok(sql) {
        Statement::Begin(b) => (b.snapshot, b.read_only),
        other => panic!("{other:?}"),
    };
    assert_eq!(begin("BEGIN WORK"), (false, None));
    assert_eq!(
        begin("START TRANSACTION READ ONLY, WITH CONSISTENT SNAPSHOT"),
        (true, Some(true))
    );
    assert_eq!(
        begin("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */"),
        (true, None)
    );
    let commit = Completion {
        chain: Some(false),
        release: Some(true),
    };
    assert_eq!(
        ok("COMMIT WORK AND NO CHAIN RELEASE"),
        Statement::Commit(commit)
    );
    assert!(matches!(ok("ROLLBACK TO SAVEPOINT `s1`"), Statement::RollbackTo(s) if s.is("s1")));
    let xid = Xid {
        gtrid: b"g1".to_vec(),
        bqual: b"b1".to_vec(),
        format: 1,
    };
    let xa = ok("XA COMMIT 0x6731,0x6231,0x1 ONE PHASE");
    assert_eq!(
        xa,
        Statement::Xa(Xa::Commit {
            xid,
            one_phase: true
        })
    );
    let Statement::LockTables { tables, wait } = ok("LOCK TABLES t READ, u AS x WRITE WAIT 3")
    else {
        panic!()
    };
    assert_eq!(
        (tables[0].write, tables[1].write, wait),
        (false, true, LockWait::Seconds(3))
    );
    assert!(matches!(
        ok("KILL QUERY 5"),
        Statement::Kill(Kill { query: true, .. })
    ));
    assert!(
        matches!(ok("PREPARE s FROM @Q"), Statement::Prepare { source: PrepareSource::Var(v), .. } if &*v == "q")
    );
    let explain = ok("EXPLAIN FORMAT=JSON SELECT 1");
    assert!(
        matches!(explain, Statement::Explain(e) if e.format == ExplainFormat::Json && !e.analyze)
    );
    let flush = Statement::Flush {
        local: false,
        what: vec![FlushWhat::Tables {
            names: vec![],
            read_lock: true,
            for_export: false,
        }],
    };
    assert_eq!(ok("FLUSH TABLES WITH READ LOCK"), flush);
}

#[test]
fn shows() {
    let show = |sql| match ok(sql) {
        Statement::Show(show) => *show,
        other => panic!("{other:?}"),
    };
    let s = show("SHOW FULL COLUMNS FROM t FROM d LIKE 'a\\_%'");
    assert!(
        matches!(&s.what, ShowWhat::Columns { full: true, table, .. } if table.to_string() == "d.t")
    );
    assert_eq!(s.filter, Some(ShowFilter::Like(b"a\\_%".to_vec())));
    let s = show("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('a')");
    assert_eq!(s.what, ShowWhat::Variables(Some(VarScope::Global)));
    assert!(matches!(s.filter, Some(ShowFilter::Where(_))));
    assert_eq!(
        show("show /*!50002 GLOBAL */ status").what,
        ShowWhat::Status(Some(VarScope::Global))
    );
    assert_eq!(
        show("SHOW WARNINGS LIMIT 5, 10").what,
        ShowWhat::Warnings {
            limit: Some((5, 10))
        }
    );
    let s = show("DESC t a");
    assert_eq!(s.filter, Some(ShowFilter::Like(b"a".to_vec())));
    let replica = ShowWhat::ReplicaStatus {
        old_names: true,
        all: false,
        channel: None,
    };
    assert_eq!(show("SHOW SLAVE STATUS").what, replica);
    assert_eq!(show("SHOW BINARY LOG STATUS").what, ShowWhat::BinlogStatus);
    assert_eq!(show("SHOW MASTER STATUS").what, ShowWhat::BinlogStatus);
    assert_eq!(
        show("SHOW PACKAGE BODY STATUS WHERE Db = 'd'").what,
        ShowWhat::RoutineStatus("PACKAGE BODY")
    );
}

#[test]
fn accounts() {
    let named = |user: &str, host: &str| Account::Named {
        user: user.into(),
        host: host.into(),
    };
    let Statement::CreateUser(u) = ok(
        "CREATE USER IF NOT EXISTS 'a'@'%', b@LocalHost IDENTIFIED WITH mysql_native_password BY 'p' \
         REQUIRE SSL WITH MAX_QUERIES_PER_HOUR 5 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK",
    ) else {
        panic!()
    };
    assert_eq!(u.users[0].account, named("a", "%"));
    assert_eq!(u.users[1].account, named("b", "localhost"));
    assert_eq!(
        u.users[1].auth.as_ref().map(|a| &a.secret),
        Some(&AuthSecret::Password(b"p".to_vec()))
    );
    assert_eq!((u.require, u.lock), (Some(Require::Ssl), Some(false)));
    assert_eq!(u.password_options, [PasswordOption::ExpireNever]);
    let grant = |sql| match ok(sql) {
        Statement::Grant(grant) => *grant,
        other => panic!("{other:?}"),
    };
    let Grant::Privileges {
        privileges,
        target,
        users,
        grant_option,
        by: None,
    } = grant("GRANT SELECT (a, b), REPLICATION SLAVE, BACKUP_ADMIN ON d.* TO u WITH GRANT OPTION")
    else {
        panic!()
    };
    let privileges: Vec<_> = privileges
        .iter()
        .map(|p| (&*p.name, p.columns.len()))
        .collect();
    assert_eq!(
        privileges,
        [("SELECT", 2), ("REPLICATION SLAVE", 0), ("BACKUP_ADMIN", 0)]
    );
    assert!(matches!(target, GrantTarget::Schema(d) if d.is("d")));
    assert!(grant_option && users[0] == named("u", "%"));
    assert!(matches!(
        grant("GRANT ALL PRIVILEGES ON *.* TO u"),
        Grant::Privileges {
            target: GrantTarget::Global,
            ..
        }
    ));
    assert!(matches!(
        grant("GRANT SELECT ON *.* TO u WITH GRANT OPTION AS v WITH ROLE ALL EXCEPT r"),
        Grant::Privileges { grant_option: true, by: Some(by), .. }
            if by.user == named("v", "%") && matches!(&by.roles, Some(RoleList::All(roles)) if roles.len() == 1)
    ));
    assert!(parsed("GRANT r TO u AS v").is_err());
    assert!(matches!(grant("GRANT r, s@h TO u"), Grant::Roles { roles, .. } if roles.len() == 2));
    // As until MySQL 5.7.
    assert!(parsed("GRANT SELECT ON *.* TO u IDENTIFIED BY 'x'").is_err());
    let revoke = ok("REVOKE ALL PRIVILEGES, GRANT OPTION FROM u");
    assert!(matches!(revoke, Statement::Revoke(r, _) if matches!(*r, Grant::All { .. })));
    let alter = ok("ALTER USER USER() IDENTIFIED BY 'x'");
    assert!(matches!(alter, Statement::AlterUser(u) if u.users[0].account == Account::CurrentUser));
}
