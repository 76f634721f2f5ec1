"""SQLAlchemy: types, ORM, expressions, reflection; Alembic: migrations by hand and by comparing models."""

import datetime
import decimal
import enum
import io
import os
import sys
import tempfile
import traceback
from pathlib import Path

import alembic.autogenerate
import alembic.command
import alembic.config
import alembic.migration
import alembic.operations
import sqlalchemy as sa
from sqlalchemy import event, orm
from sqlalchemy.dialects import mysql

engine = sa.create_engine(
    f"mysql+pymysql://root@127.0.0.1:{os.environ['DB_PORT']}/{os.environ['DB_NAME']}?charset=utf8mb4",
    poolclass=sa.pool.StaticPool,
)


def sort_indexes(metadata):
    """SQLAlchemy keeps the indexes of a table in a set, and makes them in any order."""
    for table in metadata.tables.values():
        table.indexes = sa.util.OrderedSet(sorted(table.indexes, key=lambda i: i.name))


def step(name, work):
    try:
        got = work()
    except Exception as e:
        got = f"{type(e).__name__} {e}"
        if os.environ.get("VERBOSE"):
            traceback.print_exc()
    print(f"{name}: {got}")


class Base(orm.DeclarativeBase):
    pass


class Colour(enum.Enum):
    red = 1
    green = 2


class Types(Base):
    __tablename__ = "types"
    id = sa.Column(sa.BigInteger, primary_key=True)
    a = sa.Column(sa.Boolean)
    b = sa.Column(sa.Enum(Colour))
    c = sa.Column(sa.Numeric(20, 6))
    d = sa.Column(sa.Float(53))
    e = sa.Column(sa.LargeBinary)
    f = sa.Column(sa.DateTime)
    g = sa.Column(mysql.DATETIME(fsp=6))
    h = sa.Column(sa.Interval)
    i = sa.Column(sa.JSON)
    j = sa.Column(sa.Time)
    k = sa.Column(sa.Date)
    l = sa.Column(sa.Uuid)
    m = sa.Column(sa.Text(2000))
    n = sa.Column(mysql.SET("x", "y", "z"))
    o = sa.Column(mysql.BIT(12))
    p = sa.Column(mysql.YEAR)
    q = sa.Column(mysql.MEDIUMINT(unsigned=True))
    r = sa.Column(mysql.TIMESTAMP(fsp=3), server_default=sa.text("CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"))
    s = sa.Column(mysql.VARCHAR(30, charset="latin1", collation="latin1_bin"))
    t = sa.Column(sa.Unicode(20), sa.Computed("upper(s)", persisted=False))
    u = sa.Column(mysql.DOUBLE(10, 3, asdecimal=False), server_default="1.5")
    v = sa.Column(mysql.TINYTEXT)
    w = sa.Column(sa.BINARY(8))


class User(Base):
    __tablename__ = "users"
    id = sa.Column(sa.Integer, primary_key=True)
    name = sa.Column(sa.String(50), nullable=False, unique=True, comment="it's a name")
    boss_id = sa.Column(sa.ForeignKey("users.id", ondelete="SET NULL", onupdate="CASCADE"))
    boss = orm.relationship("User", remote_side=[id], backref="staff")
    orders = orm.relationship("Order", back_populates="user", cascade="all, delete-orphan", passive_deletes=True)
    __table_args__ = (sa.CheckConstraint("name <> ''", name="named"), {"comment": "who", "mysql_engine": "InnoDB"})


class Order(Base):
    __tablename__ = "orders"
    user_id = sa.Column(sa.Integer, sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    number = sa.Column(sa.Integer, primary_key=True, autoincrement=False)
    total = sa.Column(sa.Numeric(10, 2), nullable=False, server_default="0")
    placed = sa.Column(sa.DateTime, index=True)
    note = sa.Column(sa.Text)
    user = orm.relationship("User", back_populates="orders")
    lines = orm.relationship("Line", lazy="selectin")
    __table_args__ = (
        sa.Index("by_total", "total", sa.desc("placed")),
        sa.Index("by_note", "note", mysql_length=10),
        sa.Index("by_day", sa.text("(cast(placed as date))")),
    )


class Line(Base):
    __tablename__ = "order-lines"
    id = sa.Column(sa.Integer, primary_key=True)
    user_id = sa.Column(sa.Integer)
    number = sa.Column(sa.Integer)
    what = sa.Column("what is it", sa.String(30))
    __table_args__ = (
        sa.ForeignKeyConstraint(["user_id", "number"], ["orders.user_id", "orders.number"], name="line's order"),
    )


sort_indexes(Base.metadata)


def one(statement):
    with engine.connect() as c:
        return [tuple(r) for r in c.execute(statement)]


def values():
    stamp = datetime.datetime(2024, 2, 29, 23, 59, 58, 987654)
    import uuid
    with engine.begin() as c:
        c.execute(sa.insert(Types), [dict(
            id=i, a=bool(i % 2), b=Colour.green, c=decimal.Decimal("12345678901234.123456"), d=1 / 3, e=b"\0\xff'\\",
            f=stamp, g=stamp, h=datetime.timedelta(days=1, seconds=i), i={"x": [1, 2.5, None, "é"], "i": i},
            j=datetime.time(23, 1, 2), k=stamp.date(), l=uuid.UUID(int=i), m="text %s" % i, n={"x", "z"}, o=b"\x0f\xff",
            p=2024, q=16777215, s="Abc", v="t", w=b"12345678", r=stamp,
        ) for i in (1, 2)])
        c.execute(sa.insert(Types), [{"id": 3}])
    return one(sa.select(Types.__table__).where(Types.id < 3))


def fill():
    with orm.Session(engine) as s:
        ada = User(name="Ada")
        s.add(ada)
        s.flush()
        for n in ("Bob", "Cid", "Dee"):
            s.add(User(name=n, boss=ada, orders=[
                Order(number=i, total=decimal.Decimal(i) * 7 / 4, placed=datetime.datetime(2024, 1, i, 12), note=f"{n} {i}" * 9,
                      lines=[Line(what="pen"), Line(what="ink %d" % i)]) for i in range(1, 4)]))
        s.commit()
        return s.scalar(sa.select(sa.func.count()).select_from(Line))


def optimistic():
    with orm.Session(engine) as s:
        u = s.scalar(sa.select(User).where(User.name == "Bob").with_for_update(of=User))
        u.name = "Rob"
        s.commit()
        return s.scalar(sa.select(User.boss_id).where(User.name == "Rob")), [x.name for x in s.scalar(sa.select(User).where(User.name == "Ada")).staff]


def savepoint():
    with orm.Session(engine) as s:
        s.add(User(name="Eve"))
        s.flush()
        try:
            with s.begin_nested():
                s.add(User(name="Eve"))
                s.flush()
        except sa.exc.IntegrityError as e:
            print("   ", e.orig)
        s.commit()
        return s.scalar(sa.select(sa.func.count()).where(User.name == "Eve"))


def cascade():
    with orm.Session(engine) as s:
        s.execute(sa.text("DELETE FROM `order-lines` WHERE number = 3"))
        s.delete(s.scalar(sa.select(User).where(User.name == "Ada")))
        s.commit()
        return s.execute(sa.select(User.name, User.boss_id).order_by(User.id)).all()


def refused():
    with orm.Session(engine) as s:
        s.execute(sa.delete(User).where(User.name == "Cid"))
        s.commit()


def upsert(update):
    q = mysql.insert(User).values([{"id": 2, "name": "Rob2"}, {"id": 50, "name": "Fay"}])
    with engine.begin() as c:
        return c.execute(q.on_duplicate_key_update(**update(q.inserted))).rowcount


def violate(statement):
    def work():
        with engine.begin() as c:
            c.execute(statement)
    return work


def isolation():
    out = []
    for level in ("READ COMMITTED", "SERIALIZABLE", "READ UNCOMMITTED", "REPEATABLE READ"):
        with engine.connect().execution_options(isolation_level=level) as c:
            out.append((c.get_isolation_level(), c.scalar(sa.select(sa.func.count()).select_from(User))))
    return out


U, O, L, T = User.__table__, Order.__table__, Line.__table__, Types.__table__
rank = sa.func.rank().over(partition_by=O.c.user_id, order_by=O.c.total.desc())
chain = sa.select(U.c.id, U.c.name, sa.literal(0).label("depth")).where(U.c.boss_id.is_(None)).cte("chain", recursive=True)
chain = chain.union_all(sa.select(U.c.id, U.c.name, chain.c.depth + 1).join(chain, U.c.boss_id == chain.c.id))
later = sa.select(O.c.number).where(O.c.user_id == U.c.id).order_by(O.c.number.desc()).limit(1).lateral("later")
QUERIES = {
    "join": sa.select(U.c.name, sa.func.sum(O.c.total)).join(O).group_by(U.c.name).having(sa.func.count() > 2).order_by(U.c.name),
    "outer join": sa.select(U.c.name, O.c.number).outerjoin(O).order_by(U.c.id, O.c.number),
    "window": sa.select(O.c.user_id, O.c.number, rank).order_by(O.c.user_id, O.c.number),
    "recursive": sa.select(chain).order_by(chain.c.id),
    "lateral": sa.select(U.c.name, later.c.number).select_from(U).join(later, sa.true()).order_by(U.c.name),
    "union": sa.union(sa.select(U.c.name), sa.select(L.c["what is it"])).order_by(sa.text("1")),
    "except": sa.select(U.c.id).except_(sa.select(O.c.user_id)).order_by("id"),
    "exists": sa.select(U.c.name).where(sa.exists().where(O.c.user_id == U.c.id)).order_by(U.c.name),
    "tuple in": sa.select(O.c.total).where(sa.tuple_(O.c.user_id, O.c.number).in_([(2, 1), (3, 2)])).order_by(O.c.total),
    "json": sa.select(T.c.i["x"][1].as_float(), T.c.i["i"].as_integer(), T.c.i[("x", 3)].as_string(), T.c.i["x"]).where(T.c.i["i"].as_integer() == 2),
    "cast": sa.select(sa.cast(O.c.total, sa.Integer), sa.cast(O.c.placed, sa.Date), sa.cast(O.c.number, sa.String(5)), sa.cast(O.c.total, sa.Float), sa.cast(O.c.placed, sa.JSON)).order_by(O.c.user_id, O.c.number).limit(2),
    "like": sa.select(U.c.name).where(U.c.name.ilike("%A%") | U.c.name.startswith("b", autoescape=True) | U.c.name.regexp_match("^D")).order_by(U.c.id),
    "replace": sa.select(U.c.name.regexp_replace("[aeiou]", "_")).order_by(U.c.id),
    "null safe": sa.select(U.c.name).where(U.c.boss_id.is_distinct_from(1)).order_by(U.c.id),
    "concat": sa.select(U.c.name + "-" + sa.cast(U.c.id, sa.CHAR)).order_by(U.c.id),
    "case": sa.select(sa.case((U.c.id < 2, "a"), else_=U.c.name)).order_by(U.c.id),
    "group concat": sa.select(sa.func.aggregate_strings(U.c.name, ",")),
    "extract": sa.select(sa.extract("year", O.c.placed), sa.extract("day", O.c.placed), O.c.placed + datetime.timedelta(days=2)).order_by(O.c.user_id, O.c.number).limit(2),
    "rollup": sa.select(O.c.user_id, sa.func.sum(O.c.total)).group_by(O.c.user_id).order_by(O.c.user_id),
    "distinct": sa.select(sa.func.count(sa.distinct(L.c["what is it"]))),
    "match hints": sa.select(O.c.number).with_hint(O, "USE INDEX (by_total)").where(O.c.total > 3).order_by(O.c.user_id),
    "for update": sa.select(U.c.id).where(U.c.id < 3).order_by(U.c.id).with_for_update(skip_locked=True, of=U),
    "for share": sa.select(U.c.id).where(U.c.id < 3).order_by(U.c.id).with_for_update(read=True, nowait=True),
    "bitwise": sa.select(O.c.number.bitwise_and(3), O.c.number.bitwise_xor(1), O.c.number.bitwise_lshift(2), O.c.number % 2, O.c.number // 2, O.c.number / 2).order_by(O.c.user_id, O.c.number).limit(3),
    "now": sa.select(sa.func.now() > sa.text("'2020-01-01'"), sa.func.char_length("ä"), sa.func.coalesce(None, 5), sa.func.current_user()),
}


def reflect():
    out, i = [], sa.inspect(engine)
    for t in sorted(i.get_table_names()):
        out.append(f"\n  {t} {i.get_table_comment(t)} {i.get_table_options(t)}")
        out += [f"\n    {k}: {sorted(c.items(), key=str)}" for k, f in (
            ("column", i.get_columns), ("index", i.get_indexes), ("unique", i.get_unique_constraints),
            ("foreign", i.get_foreign_keys), ("check", i.get_check_constraints)) for c in f(t)]
        out.append(f"\n    key: {i.get_pk_constraint(t)}")
    out.append(f"\n  {i.get_view_names()}")
    return "".join(out).replace(os.environ["DB_NAME"], "DB")


def reflect_and_create():
    m = sa.MetaData()
    m.reflect(engine)
    m.tables["orders"].indexes = {i for i in m.tables["orders"].indexes if i.name != "by_day"}
    sort_indexes(m)
    m.drop_all(engine)
    m.create_all(engine)
    again = sa.MetaData()
    again.reflect(engine)
    return sorted(again.tables)


def drop_all():
    m = sa.MetaData()
    m.reflect(engine)
    m.drop_all(engine)
    with engine.begin() as c:
        c.execute(sa.text("DROP VIEW named"))
    return sa.inspect(engine).get_table_names()


def migrate(work):
    def inner():
        with engine.begin() as c:
            context = alembic.migration.MigrationContext.configure(c)
            return work(alembic.operations.Operations(context), c)
    return inner


def compared():
    with engine.connect() as c:
        context = alembic.migration.MigrationContext.configure(c, opts={"compare_type": True, "compare_server_default": True})
        return [str(d) for d in alembic.autogenerate.compare_metadata(context, Base.metadata)]


OPERATIONS = {
    "add column": lambda op, c: op.add_column("users", sa.Column("age", sa.SmallInteger, server_default="7", nullable=False, comment="in years")),
    "add column first": lambda op, c: op.execute("ALTER TABLE users ADD COLUMN z INT FIRST, ADD y VARCHAR(3) AFTER id"),
    "alter type": lambda op, c: op.alter_column("users", "age", type_=sa.BigInteger, existing_nullable=False, existing_server_default="7"),
    "rename column": lambda op, c: op.alter_column("users", "age", new_column_name="years", existing_type=sa.BigInteger, existing_nullable=False),
    "set default": lambda op, c: op.alter_column("users", "years", server_default=sa.text("'9'"), existing_type=sa.BigInteger),
    "drop default": lambda op, c: op.alter_column("users", "years", server_default=None, existing_type=sa.BigInteger),
    "comment": lambda op, c: (op.create_table_comment("users", "new's"), op.drop_table_comment("orders")),
    "create index": lambda op, c: op.create_index("by_years", "users", ["years", sa.text("name(10)")]),
    "drop index": lambda op, c: op.drop_index("by_years", "users"),
    "unique": lambda op, c: op.create_unique_constraint("uy", "users", ["years", "id"]),
    "drop unique": lambda op, c: op.drop_constraint("uy", "users", type_="unique"),
    "check": lambda op, c: op.create_check_constraint("grown", "users", sa.column("years") > 3),
    "drop check": lambda op, c: op.drop_constraint("grown", "users", type_="check"),
    "foreign key": lambda op, c: (op.add_column("order-lines", sa.Column("who", sa.Integer)), op.create_foreign_key("fk_who", "order-lines", "users", ["who"], ["id"], ondelete="CASCADE")),
    "drop column of foreign key": lambda op, c: op.drop_column("order-lines", "who"),
    "drop foreign key": lambda op, c: op.drop_constraint("fk_who", "order-lines", type_="foreignkey"),
    "drop its index": lambda op, c: op.drop_index("fk_who", "order-lines"),
    "drop column": lambda op, c: op.drop_column("order-lines", "who"),
    "drop needed index": lambda op, c: op.drop_index("line's order", "order-lines"),
    "rename table": lambda op, c: op.rename_table("order-lines", "lines"),
    "bulk insert": lambda op, c: op.bulk_insert(sa.table("users", sa.column("name"), sa.column("years")), [{"name": "Gus", "years": 5}, {"name": "Hal", "years": 6}]),
    "rename back": lambda op, c: op.rename_table("lines", "order-lines"),
    "drop referenced": lambda op, c: op.drop_table("users"),
    "duplicate column": lambda op, c: op.add_column("users", sa.Column("name", sa.Integer)),
    "not null with nulls": lambda op, c: op.alter_column("users", "boss_id", nullable=False, existing_type=sa.Integer),
    "too narrow": lambda op, c: op.alter_column("users", "name", type_=sa.String(2), existing_nullable=False),
    "drop missing": lambda op, c: op.drop_index("nope", "users"),
    "batch": lambda op, c: batch(op),
    "view": lambda op, c: op.execute("CREATE VIEW named AS SELECT u.name, count(o.number) AS n FROM users u LEFT JOIN orders o ON o.user_id = u.id GROUP BY u.id"),
}


def batch(op):
    with op.batch_alter_table("users") as b:
        b.add_column(sa.Column("extra", sa.JSON))
        b.alter_column("years", new_column_name="age", existing_type=sa.BigInteger)
        b.drop_column("z")
        b.create_index("by_age", ["age"])


ENV = '''
from alembic import context
import sqlalchemy as sa
import __main__
with __main__.engine.connect() as c:
    context.configure(connection=c, target_metadata=__main__.Base.metadata, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()
'''


def revisions():
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/versions")
        Path(folder, "env.py").write_text(ENV)
        Path(folder, "script.py.mako").write_text(
            "revision = ${repr(up_revision)}\ndown_revision = ${repr(down_revision)}\nimport sqlalchemy as sa\n"
            "from alembic import op\nfrom sqlalchemy.dialects import mysql\n${imports if imports else ''}\n"
            "def upgrade():\n    ${upgrades if upgrades else 'pass'}\ndef downgrade():\n    ${downgrades if downgrades else 'pass'}\n")
        config = alembic.config.Config(stdout=io.StringIO())
        config.set_main_option("script_location", folder)
        config.set_main_option("path_separator", "os")
        alembic.command.revision(config, rev_id="one", autogenerate=True, message="all")
        source = Path(folder, "versions", "one_all.py").read_text()
        alembic.command.upgrade(config, "head")
        left = compared()
        alembic.command.downgrade(config, "base")
        alembic.command.upgrade(config, "head")
        return "\n".join([source, *left])


step("server", lambda: (engine.connect().dialect.is_mariadb, engine.dialect._detect_casing(engine.connect()), engine.connect().scalar(sa.text("select @@sql_mode"))))
step("create", lambda: Base.metadata.create_all(engine))
step("create again", lambda: Base.metadata.create_all(engine))
step("values", values)
step("fill", fill)
for name, query in QUERIES.items():
    step(name, lambda: one(query))
step("optimistic", optimistic)
step("savepoint", savepoint)
step("upsert", lambda: upsert(lambda new: {"name": new.name}))
step("upsert with expression", lambda: upsert(lambda new: {"name": sa.func.concat(new.name, "!")}))
step("duplicate", violate(sa.insert(U).values(name="Ada")))
step("null", violate(sa.insert(U).values(name=None)))
step("check violated", violate(sa.insert(U).values(name="")))
step("no parent", violate(sa.insert(O).values(user_id=999, number=1)))
step("too long", violate(sa.insert(U).values(name="x" * 51)))
step("bad date", violate(sa.text("insert into orders (user_id, number, placed) values (1, 9, '2024-13-01')")))
step("bad enum", violate(sa.text("update types set b = 'blue'")))
step("no table", violate(sa.text("select * from nope")))
step("no column", violate(sa.text("select nope from users")))
step("syntax", violate(sa.text("selec 1")))
step("refused", refused)
step("isolation", isolation)
step("cascade", cascade)
step("reflect", reflect)
step("compare", compared)
for name, work in OPERATIONS.items():
    step(name, migrate(work))
step("reflect after operations", reflect)
step("compare after operations", compared)
step("reflect and create", reflect_and_create)
step("drop all", drop_all)
step("revisions", revisions)
step("values", values)
step("fill", fill)
