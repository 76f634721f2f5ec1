//! What is written comes back; changes are atomic; counters are never given twice.

use std::sync::Arc;

use esker_engine::{Engine, EngineConfig, TreeId};
use esker_types::collation::Collation;
use esker_types::{Decimal, SqlType, TypeKind, Value};
use jiff::tz::TimeZone;

use super::*;
use crate::codec::{KeyCodec, LayoutVersion, RowLayout};

/// An engine on a simulated disk whose log is hardened by a thread of its own.
fn engine() -> Engine {
    engine_on(&esker_vfs::sim::SimEnv::new(7))
}

fn engine_on(machine: &esker_vfs::sim::SimEnv) -> Engine {
    let mut config = EngineConfig::new("/db");
    (config.log_segment_bytes, config.log_buffer_bytes) = (2 << 20, 1 << 20);
    Engine::open(machine.env(), config).expect("opens")
}

fn column(id: u32, name: &str, ty: SqlType, default: DefaultDef) -> ColumnDef {
    ColumnDef {
        id,
        name: name.into(),
        ty,
        default,
        on_update_now: false,
        auto_increment: false,
        invisible: false,
        comment: Box::default(),
        instant_default: None,
        explicit_collation: false,
        generated: None,
    }
}

fn columns() -> Vec<ColumnDef> {
    let labels: Arc<[Arc<str>]> = Arc::from([Arc::from("it's"), Arc::from("b")]);
    let label = Value::Label(1, b"it's"[..].into());
    let decimal = Value::Decimal(Decimal::parse(b"-1.50").0);
    let mut id = column(
        1,
        "id",
        SqlType::bigint(true).with_nullable(false),
        DefaultDef::None,
    );
    id.auto_increment = true;
    let mut name = column(
        2,
        "näme",
        SqlType::varchar(20, Collation::UTF8MB4_BIN),
        DefaultDef::Value(Value::str("x'y")),
    );
    name.comment = "the name".into();
    let mut changed = column(
        3,
        "changed",
        SqlType {
            decimals: 3,
            ..SqlType::new(TypeKind::DateTime)
        },
        DefaultDef::Now,
    );
    changed.on_update_now = true;
    let kind = SqlType {
        collation: Collation::UTF8MB4_0900_AI_CI,
        ..SqlType::new(TypeKind::Enum(labels))
    };
    vec![
        id,
        name,
        changed,
        column(
            4,
            "kind",
            kind.with_nullable(false),
            DefaultDef::Value(label),
        ),
        column(
            5,
            "price",
            SqlType::decimal(8, 2),
            DefaultDef::Value(decimal),
        ),
        column(
            6,
            "tag",
            SqlType::new(TypeKind::Text),
            DefaultDef::Expr("uuid()".into()),
        ),
    ]
}

fn index(
    trees: &mut NewTrees,
    columns: &[ColumnDef],
    name: &str,
    parts: Vec<IndexPart>,
) -> IndexDef {
    let tree = trees.create().expect("tree");
    let primary = name == "PRIMARY";
    IndexDef {
        id: tree.id(),
        name: name.into(),
        unique: primary,
        primary,
        hidden: false,
        invisible: false,
        generated: false,
        codec: KeyCodec::new(columns, &parts, primary, primary),
        parts,
        comment: Box::default(),
        using: None,
        words: None,
        elements: None,
        visible_from: VisibleFrom::default(),
        accesses: Arc::default(),
        tree,
    }
}

fn table(catalog: &Catalog, trees: &mut NewTrees, name: &str) -> TableDef {
    let columns = columns();
    let part = |col, prefix_len, desc| IndexPart {
        col,
        prefix_len,
        desc,
    };
    let indexes = vec![
        index(trees, &columns, "PRIMARY", vec![part(0, None, false)]),
        index(
            trees,
            &columns,
            "by_name",
            vec![part(1, Some(5), true), part(2, None, false)],
        ),
    ];
    TableDef {
        id: TableId(indexes[0].id.0),
        schema: "d".into(),
        name: name.into(),
        layout: RowLayout::new(&columns, vec![LayoutVersion::of(&columns)]),
        auto_column: Some(0),
        columns,
        indexes,
        checks: vec![CheckDef {
            name: "t_chk_1".into(),
            text: "(`price` > 0)".into(),
            enforced: false,
            column: Some(5),
        }],
        foreign_keys: Vec::new(),
        referenced_by: Vec::new(),
        triggers: Vec::new(),
        partitioning: None,
        collation: Collation::UTF8MB4_0900_AI_CI,
        comment: "say \"hi\"".into(),
        temporary: false,
        engine: StorageEngine::Memory,
        row_format: "DYNAMIC".into(),
        shown_options: {
            let mut options = ShownOptions::default();
            options.set(ShownOption::MaxRows, "7");
            options
        },
        create_time_micros: 1,
        histograms: Vec::new(),
        next_column_id: 7,
        version: 0,
        visible_from: VisibleFrom::fresh(),
        mdl: catalog.locks().table("d", name),
        runtime: Arc::new(TableRuntime::new(0)),
    }
}

fn schema(catalog: &Catalog) {
    let mut change = catalog.change();
    let def = SchemaDef {
        name: "d".into(),
        collation: Collation::UTF8MB4_0900_AI_CI,
        read_only: false,
    };
    change.put_schema(def).expect("put");
    change.commit().expect("commits");
}

fn create(catalog: &Catalog, name: &str) -> Arc<TableDef> {
    let mut trees = NewTrees::new(catalog.engine());
    let def = table(catalog, &mut trees, name);
    let mut change = catalog.change();
    change.adopt(trees);
    change.put_table(def).expect("put");
    change.commit().expect("commits");
    catalog.resolve("d", name).expect("is there")
}

const SHOWN: &str = "CREATE TABLE `t` (
  `id` bigint unsigned NOT NULL AUTO_INCREMENT,
  `näme` varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'x''y' COMMENT 'the name',
  `changed` datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  `kind` enum('it''s','b') NOT NULL DEFAULT 'it''s',
  `price` decimal(8,2) DEFAULT '-1.50',
  `tag` text DEFAULT (uuid()),
  PRIMARY KEY (`id`),
  KEY `by_name` (`näme`(5) DESC,`changed`),
  CONSTRAINT `t_chk_1` CHECK ((`price` > 0)) /*!80016 NOT ENFORCED */
) ENGINE=MEMORY DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci MAX_ROWS=7 ROW_FORMAT=DYNAMIC \
COMMENT='say \"hi\"'";

/// What SHOW prints says everything that users see of a definition.
fn shown(def: &TableDef) -> String {
    show_create_table(def, &TimeZone::UTC)
}

#[test]
fn a_definition_comes_back_as_it_was_written() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    schema(&catalog);
    let def = create(&catalog, "t");
    // Another collation than the table's is printed with its character set.
    assert_eq!(
        shown(&def),
        SHOWN.replace("`tag` text DEFAULT", "`tag` blob DEFAULT")
    );
    let again = Catalog::open(&engine).expect("opens again");
    let read = again.resolve("d", "t").expect("is there");
    assert_eq!(shown(&read), shown(&def));
    assert_eq!(read.id, def.id);
    assert_eq!(read.next_column_id, 7);
    assert_eq!(read.checks, def.checks);
    assert_eq!(read.layout.versions(), def.layout.versions());
    assert_eq!(
        read.visible_from.get(),
        0,
        "after a restart every snapshot sees it"
    );
    assert!(def.visible_from.get() > 0);
    assert_eq!(
        again.schema("d").expect("schema").collation,
        Collation::UTF8MB4_0900_AI_CI
    );
}

/// `child` with a foreign key of its own column `price` to `parent`.
fn with_key(child: &TableDef, name: &str, parent: &str) -> TableDef {
    let mut def = child.clone();
    def.indexes[1].generated = true;
    def.foreign_keys.push(ForeignKeyDef {
        name: name.into(),
        columns: vec![5, 2],
        parent: ("d".into(), parent.into()),
        parent_columns: vec!["id".into(), "na`me".into()],
        on_delete: ReferentialAction::SetNull,
        on_update: ReferentialAction::NoAction,
    });
    def
}

fn referrers(catalog: &Catalog, table: &str) -> Vec<String> {
    let def = catalog.resolve("d", table).expect("is there");
    let names = def.referenced_by.iter();
    names.map(|r| format!("{}.{}", r.schema, r.table)).collect()
}

#[test]
fn foreign_keys_come_back_and_parents_know_their_children() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    schema(&catalog);
    let (child, parent) = (create(&catalog, "c"), create(&catalog, "p"));
    let mut change = catalog.change();
    let def = with_key(&with_key(&child, "c_ibfk_1", "p"), "a", "later");
    change.put_table(def).expect("put");
    change.commit().expect("commits");
    let text = "  CONSTRAINT `a` FOREIGN KEY (`price`, `näme`) REFERENCES `later` (`id`, `na``me`) \
                ON DELETE SET NULL,\n  CONSTRAINT `c_ibfk_1` FOREIGN KEY";
    for catalog in [&catalog, &Catalog::open(&engine).expect("opens again")] {
        let now = catalog.resolve("d", "c").expect("is there");
        assert!(shown(&now).contains(text), "{}", shown(&now));
        let generated: Vec<bool> = now.indexes.iter().map(|i| i.generated).collect();
        assert_eq!(generated, [false, true]);
        assert_eq!(referrers(catalog, "p"), ["d.c"]);
    }
    let renewed = catalog.resolve("d", "p").expect("is there");
    assert!(!Arc::ptr_eq(&renewed, &parent), "plans for it are void");
    create(&catalog, "later");
    assert_eq!(referrers(&catalog, "later"), ["d.c"]);
    let child = catalog.resolve("d", "c").expect("is there");
    let mut change = catalog.change();
    change.drop_table(&child).expect("drops");
    change.commit().expect("commits");
    assert!(referrers(&catalog, "p").is_empty() && referrers(&catalog, "later").is_empty());
}

#[test]
fn snapshots_do_not_change_and_versions_grow() {
    let catalog = Catalog::open(&engine()).expect("opens");
    schema(&catalog);
    let before = catalog.snapshot();
    create(&catalog, "t");
    assert!(before.table("d", "t").is_none());
    assert!(catalog.resolve("d", "t").is_some());
    assert!(
        catalog.resolve("d", "T").is_none(),
        "names of tables are case-sensitive"
    );
    assert!(catalog.version() > before.version());
}

#[test]
fn a_change_that_is_not_committed_leaves_nothing() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    schema(&catalog);
    let trees_before = engine.tree_ids();
    {
        let mut trees = NewTrees::new(&engine);
        let def = table(&catalog, &mut trees, "t");
        let mut change = catalog.change();
        change.adopt(trees);
        change.put_table(def).expect("put");
    }
    assert_eq!(engine.tree_ids(), trees_before);
    assert!(catalog.resolve("d", "t").is_none());
    assert!(
        Catalog::open(&engine)
            .expect("opens")
            .resolve("d", "t")
            .is_none()
    );
}

#[test]
fn dropped_trees_go_and_orphans_go_at_the_next_start() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    schema(&catalog);
    let with_schema = engine.tree_ids();
    let def = create(&catalog, "t");
    let mut change = catalog.change();
    change.drop_table(&def).expect("drops");
    change.commit().expect("commits");
    assert_eq!(engine.tree_ids(), with_schema);
    let orphan = engine.create_tree().expect("tree").id();
    Catalog::open(&engine).expect("opens");
    assert!(engine.tree(orphan).is_none());
    assert_eq!(engine.tree_ids(), with_schema);
}

#[test]
fn a_change_is_made_even_if_what_it_abandons_stays() {
    use esker_vfs::sim::{Fault, Op, SimEnv};
    let machine = SimEnv::new(8);
    let engine = engine_on(&machine);
    let catalog = Catalog::open(&engine).expect("opens");
    schema(&catalog);
    let tree = create(&catalog, "t").indexes[0].id;
    let full = Fault::on(Op::Write).no_space().path(".manifest");
    machine.fs.inject(full.forever());
    let mut change = catalog.change();
    let def = catalog.resolve("d", "t").expect("there");
    change.drop_table(&def).expect("collected");
    change.commit().expect("what matters is durable");
    assert!(catalog.resolve("d", "t").is_none());
    assert!(!machine.fs.fault_hits().is_empty());
    assert!(engine.tree(tree).is_some(), "the disk is full");
    machine.fs.clear_faults();
    let catalog = Catalog::open(&engine).expect("opens again");
    assert!(catalog.resolve("d", "t").is_none());
    assert!(engine.tree(tree).is_none(), "the next start has room");
}

#[test]
fn renewed_statistics_make_plans_void() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    schema(&catalog);
    let before = create(&catalog, "t");
    let mut change = catalog.change();
    let renewed = change.renew_statistics(&before, Vec::new(), &[]);
    renewed.expect("nothing to write");
    change.commit().expect("published");
    let now = catalog.resolve("d", "t").expect("there");
    // Plans are for a definition, and this is another one of the same table.
    assert!(!Arc::ptr_eq(&before, &now) && now.version > before.version);
    assert_eq!(shown(&before), shown(&now));
    let mut change = catalog.change();
    change.drop_table(&now).expect("drops");
    change.commit().expect("commits");
    let late = catalog.change().renew_statistics(&now, Vec::new(), &[]);
    assert_eq!(late.map_err(|e| e.code), Err(1146));
}

#[test]
fn a_dropped_database_takes_its_tables() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    let empty = engine.tree_ids();
    schema(&catalog);
    create(&catalog, "a");
    create(&catalog, "b");
    let mut change = catalog.change();
    change.drop_schema("d").expect("drops");
    change.commit().expect("commits");
    assert!(catalog.schema("d").is_none());
    assert_eq!(engine.tree_ids(), empty);
    let again = Catalog::open(&engine).expect("opens");
    assert_eq!(again.snapshot().tables().count(), 0);
}

#[test]
fn tablespaces_come_back_as_they_were_left() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    let def = |name: &str, id| TablespaceDef {
        name: name.into(),
        id,
        file: format!("{name}.ibd").into(),
        block_size: 16 << 10,
        autoextend_size: 0,
        attribute: None,
    };
    let mut change = catalog.change();
    change
        .put_tablespace(def("kept", FIRST_TABLESPACE))
        .unwrap();
    change
        .put_tablespace(def("gone", FIRST_TABLESPACE + 1))
        .unwrap();
    change.commit().unwrap();
    let mut change = catalog.change();
    change.drop_tablespace("gone").unwrap();
    change.commit().unwrap();
    for catalog in [&catalog, &Catalog::open(&engine).expect("opens again")] {
        let kept = catalog.tablespace("kept");
        assert_eq!(kept.as_deref(), Some(&def("kept", FIRST_TABLESPACE)));
        assert_eq!(catalog.snapshot().tablespaces().count(), 1);
    }
}

#[test]
fn a_missing_tree_is_damage_not_a_panic() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    schema(&catalog);
    let def = create(&catalog, "t");
    engine.drop_tree(def.indexes[1].id).expect("drops");
    let e = Catalog::open(&engine).err().expect("damaged");
    assert_eq!(e.code, 1815);
}

#[test]
fn auto_increment_steps_as_mysql_does() {
    let step = AutoStep {
        increment: 10,
        offset: 3,
    };
    assert_eq!(
        [0, 2, 3, 12, 13, 14].map(|last| step.after(last)),
        [3, 3, 13, 13, 23, 23]
    );
    let too_large = AutoStep {
        increment: 5,
        offset: 9,
    };
    assert_eq!(
        too_large.after(0),
        1,
        "an offset beyond the increment is ignored"
    );
    assert_eq!(AutoStep::ONE.after(u64::MAX), u64::MAX);
}

#[test]
fn drawn_numbers_are_disjoint_and_stop_at_the_largest() {
    let runtime = TableRuntime::new(5);
    let range = runtime.draw(3, AutoStep::ONE, 127).expect("numbers");
    assert_eq!((range.first, range.step, range.count), (6, 1, 3));
    let first = |step, max| runtime.draw(1, step, max).map(|range| range.first);
    assert_eq!(first(AutoStep::ONE, 127), Some(9));
    runtime.note(120, AutoStep::ONE, 127);
    runtime.note(7, AutoStep::ONE, 127);
    assert_eq!(runtime.last_auto(), 120);
    let hundreds = AutoStep {
        increment: 100,
        offset: 1,
    };
    assert_eq!(
        first(hundreds, 127),
        Some(201),
        "whoever asked says what then"
    );
    assert_eq!(hundreds.last_to(127), 101);
    assert_eq!((runtime.last_auto(), runtime.next_auto(127)), (127, 127));
    assert_eq!(first(AutoStep::ONE, 127), Some(127));
    runtime.reset(299);
    assert_eq!(
        (first(AutoStep::ONE, 127), runtime.next_auto(127)),
        (None, 300)
    );
    runtime.reset(u64::MAX - 2);
    assert_eq!(first(AutoStep::ONE, u64::MAX), Some(u64::MAX - 1));
    assert_eq!(first(AutoStep::ONE, u64::MAX), None);
}

#[test]
fn reservations_are_in_the_engine_before_they_are_used_up() {
    let engine = engine();
    let tree = engine.create_tree().expect("tree").id();
    let runtime = TableRuntime::new(engine.counter(tree));
    let first = runtime.reserve(&engine, tree, 1, 10).expect("reserves");
    assert_eq!(engine.counter(tree), 10);
    assert!(first > 0);
    assert_eq!(
        runtime.reserve(&engine, tree, 10, 10).expect("covered"),
        first
    );
    assert!(
        runtime
            .reserve(&engine, tree, 11, 10)
            .expect("reserves more")
            > first
    );
    assert_eq!(engine.counter(tree), 20);
    let other: TreeId = engine.create_tree().expect("tree").id();
    assert_eq!(engine.counter(other), 0);
}

#[test]
fn views_of_older_formats_are_read() {
    let engine = engine();
    let catalog = Catalog::open(&engine).expect("opens");
    let locks = catalog.locks();
    let view = ViewDef {
        schema: "d".into(),
        name: "v".into(),
        columns: vec![ViewColumn {
            name: "a".into(),
            ty: SqlType::bigint(false),
        }],
        named: true,
        text: "select 1 AS `a`".into(),
        algorithm: "UNDEFINED".into(),
        definer: ("root".into(), "localhost".into()),
        invoker: true,
        check_option: CheckOption::Local,
        updatable: true,
        sql_mode: "".into(),
        charset: ("utf8mb4".into(), "utf8mb4_0900_ai_ci".into()),
        create_time_micros: 7,
        mdl: locks.table("d", "v"),
    };
    let mut bytes = store::view_value(&view);
    let read = store::read_view(&bytes, locks).expect("reads");
    assert_eq!(
        (read.check_option, read.updatable, &*read.text),
        (CheckOption::Local, true, &*view.text)
    );
    assert_eq!(read.create_time_micros, 7);
    // The second format had no time.
    bytes.pop();
    assert!(store::read_view(&bytes, locks).is_err());
    bytes[0] = 2;
    let read = store::read_view(&bytes, locks).expect("reads");
    assert_eq!((read.updatable, read.create_time_micros), (true, 0));
    // The first one had neither check nor changes.
    let end = bytes.len() - 2;
    assert!(store::read_view(&bytes[..end], locks).is_err());
    let mut damaged = bytes.clone();
    damaged[end] = 9;
    assert!(store::read_view(&damaged, locks).is_err());
    bytes.truncate(end);
    bytes[0] = 1;
    let read = store::read_view(&bytes, locks).expect("reads");
    assert_eq!(
        (read.check_option, read.updatable),
        (CheckOption::None, false)
    );
    assert!(read.invoker && read.named);
}

#[test]
fn temporary_tables_of_two_hands_come_together() {
    let catalog = Catalog::open(&engine()).expect("opens");
    let of = |names: &[&str]| {
        let mut tables = TemporaryTables::default();
        for name in names {
            let mut trees = NewTrees::new(catalog.engine());
            let def = table(&catalog, &mut trees, name);
            tables.add(def, trees).expect("adds");
        }
        tables
    };
    let (mut kept, others) = (of(&["a", "b"]), of(&["b", "c"]));
    let trees = |tables: &TemporaryTables| -> Vec<TreeId> {
        let def = tables.get("d", "b").expect("is there");
        def.indexes.iter().map(|i| i.id).collect()
    };
    let (before, after, version) = (trees(&kept), trees(&others), kept.version());
    kept.absorb(others);
    assert_eq!(kept.count(), 3);
    assert!(kept.version() > version && kept.get("d", "c").is_some());
    assert_eq!(trees(&kept), after);
    assert_eq!(kept.take_doomed(), before);
}
