"""Generated columns, functional key parts and CHECK constraints over random expressions, and changes of what they are made of.

Neighbours: `histories` runs the statements; `schema` makes the tables' other columns, `expressions` the expressions.

Numbers that a choice gives are not stored as texts: they have more decimals there (docs/differences.md).

**Invariant**: an expression names columns of its own table only, and generated ones before it; rows are changed in the
order of their ids.
"""
import re

import schema
from expressions import Expressions
from queries import Col, Scope, Source
from tree import Items, Node, optional

TYPES = {"num": ["INT", "BIGINT", "DECIMAL(20,3)", "DOUBLE", "INT UNSIGNED"], "str": ["VARCHAR(200)", "VARCHAR(20)", "TEXT", "CHAR(60)", "VARBINARY(200)", "VARCHAR(100) COLLATE utf8mb4_bin"],
         "date": ["DATE", "DATETIME", "VARCHAR(20)"], "datetime": ["DATETIME", "DATETIME(3)", "DATE", "TIMESTAMP"], "time": ["TIME", "TIME(3)", "VARCHAR(20)"],
         "dbl": ["DOUBLE", "DECIMAL(20,2)", "FLOAT", "INT"], "bool": ["TINYINT", "BOOLEAN", "INT"], "bin": ["VARBINARY(50)", "BLOB"]}
KINDS = ["num", "num", "num", "str", "str", "str", "date", "datetime", "time", "dbl", "bool", "bin"]
DERIVED = {"INT": "num", "BIGINT": "num", "DECIMAL(20,3)": "num", "DECIMAL(20,2)": "num", "INT UNSIGNED": "num", "TINYINT": "num", "BOOLEAN": "num", "DOUBLE": "dbl", "FLOAT": "dbl", "DATE": "date", "TIME": "time",
           "TIME(3)": "time", "DATETIME": "datetime", "DATETIME(3)": "datetime", "TIMESTAMP": "datetime", "VARBINARY(200)": "bin", "VARBINARY(50)": "bin", "BLOB": "bin"}
MODES = ["STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO"] * 3 + ["STRICT_TRANS_TABLES", ""]


class Bare(Scope):
    """Columns by their names alone."""

    def columns(self, kind=None):
        return [(c.name, c) for s in self.sources for c in s.cols if kind is None or c.kind == kind]


class Options:
    mysql, ties, strict, large = True, False, True, False


class Generated(Expressions):
    # MySQL computes virtual columns whenever it reads a row, and warns again.
    computes_again = True

    def __init__(self, rng):
        super().__init__(rng, Options)
        # See known.AVOIDED_MYSQL.
        self.functions["time"] = [f for f in self.functions["time"] if not f.startswith(("ADDTIME", "SUBTIME"))]
        self.tables = [schema.make_table(rng, n, Options) for n in range(2)]
        # Of every table: what its generated columns are called and what they are (kinds), and what may be looked up by an index.
        self.made, self.keyed, self.fresh, self.named = {t.name: [] for t in self.tables}, {t.name: [] for t in self.tables}, 100, 0
        for n, table in enumerate(self.tables):
            table.keys = schema.secondary_keys(rng, table)

    def scope(self, table, generated=True):
        cols = [Col(c.name, c.kind, 0.5 if c.name == "id" else 1) for c in table.columns]
        return Bare([Source("", cols + ([Col(n, k, 2) for n, k in self.made[table.name]] if generated else []), None)])

    def sound(self, kind, depth, scope):
        """An expression that names a column."""
        names = [n for n, _ in scope.columns()]
        for _ in range(20):
            node = self.expression(kind, depth, scope)
            words = set(str(node).replace("(", " ").replace(")", " ").replace(",", " ").split())
            if words & set(names):
                break
        return node

    # Definitions

    def column(self, table, name=None):
        r = self.rng
        self.named += 1
        name = name or f"g{self.named}"
        kind = r.choice(KINDS)
        sql = r.choice(TYPES[kind]) if r.random() < 0.9 or kind == "num" else r.choice(TYPES["str"])
        expression = self.sound(kind, r.choice([1, 2, 2, 3]), self.scope(table))
        stored = r.choice([" VIRTUAL", " STORED", " STORED", ""])
        # What is virtual is stored, see docs/differences.md: MySQL finds a value that does not fit when it reads it.
        null = r.choice(["", " NOT NULL"]) if "TIMESTAMP" not in sql and stored == " STORED" else ""
        self.made[table.name].append((name, DERIVED.get(sql, "str")))
        return Node("column", f"{name} {sql}{r.choice(['', ' GENERATED ALWAYS'])} AS (", expression, f"){stored}{null}")

    def key(self, table):
        r = self.rng
        self.named += 1
        made = [n for n, k in self.made[table.name]]
        if made and r.random() < 0.5:
            name = r.choice(made)
            kind = dict(self.made[table.name])[name]
            part = f"{name}({r.choice([3, 10])})" if kind in ("str", "bin") else name
            return Node("key", f"{'UNIQUE ' if r.random() < 0.15 else ''}KEY x{self.named} ({part}{r.choice(['', ' DESC'])}{r.choice(['', '', ', k'])})")
        kind = r.choice(["num", "num", "str", "date", "datetime", "time", "dbl", "bool"])
        expression = self.sound(kind, r.choice([1, 2]), self.scope(table))
        if kind == "str":
            expression = Node("str", "CAST(", expression, " AS CHAR(60))")
        self.keyed[table.name].append((str(expression), kind))
        return Node("key", f"KEY x{self.named} ((", expression, f"){r.choice(['', ' DESC'])}{r.choice(['', '', ', k'])})")

    def create(self):
        r, out = self.rng, [f"SET sql_mode = '{self.rng.choice(MODES)}'"]
        for table in self.tables:
            lines = [f"{c.name} {c.sql}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
            lines.append("PRIMARY KEY (id)")
            lines += [k for _, k in table.keys]
            parts = [self.column(table) for _ in range(r.choice([0, 1, 2, 3]))]
            out.append(Node("change", f"CREATE TABLE {table.name} ({', '.join(lines)}", Items("", [Node("part", ", ", part) for part in parts], 0), ")"))
            out += [self.alteration(table, r.choice(["key", "key", "check"])) for _ in range(r.choice([0, 1, 2, 3]))]
            rows = [self.row(table, n) for n in range(1, r.choice([4, 8, 14]))]
            out += [self.insert_of(table, rows[n:n + 3], "INSERT INTO ") for n in range(0, len(rows), 3)]
            out += [self.alteration(table, r.choice(["column", "key"])) for _ in range(r.choice([0, 1, 2]))]
        return out

    def alteration(self, table, what):
        r = self.rng
        made = [n for n, _ in self.made[table.name]] or ["g0"]
        if what == "column":
            return Node("change", f"ALTER TABLE {table.name} ADD ", self.column(table), optional(r.choice(["", "", " FIRST", " AFTER k"])))
        if what == "key":
            return Node("change", f"ALTER TABLE {table.name} ADD ", self.key(table))
        if what == "check":
            self.named += 1
            return Node("change", f"ALTER TABLE {table.name} ADD CONSTRAINT h{self.named} CHECK (", Node("bool", self.condition(2, self.scope(table)), " OR id % 3 = 0"), ")")
        if what == "modify":
            name = r.choice(made)
            self.made[table.name] = [(n, k) for n, k in self.made[table.name] if n != name]
            return Node("change", f"ALTER TABLE {table.name} MODIFY ", self.column(table, name))
        base = [c for c in table.columns if c.name not in ("id", "k")]
        plain = r.choice(base or table.columns)
        return r.choice([f"ALTER TABLE {table.name} DROP COLUMN {r.choice(made)}", f"ALTER TABLE {table.name} DROP COLUMN {plain.name}", f"ALTER TABLE {table.name} DROP KEY x{r.randint(0, self.named)}",
                         f"ALTER TABLE {table.name} DROP CHECK h{r.randint(0, self.named)}", f"ALTER TABLE {table.name} MODIFY {plain.name} {plain.sql} NULL", f"ALTER TABLE {table.name} FORCE",
                         f"ALTER TABLE {table.name} RENAME COLUMN {plain.name} TO {plain.name}z, RENAME COLUMN {plain.name}z TO {plain.name}", f"ALTER TABLE {table.name} RENAME COLUMN {r.choice(made)} TO gz"])

    def failed(self, statement):
        """A column that was not made is not named again."""
        names = re.findall(r"(?:ADD|,) (g\d+) ", str(statement))
        for table, made in self.made.items():
            self.made[table] = [(n, k) for n, k in made if n not in names]

    # Rows

    def row(self, table, ident):
        r = self.rng
        cells = [str(ident) if c.name == "id" else "NULL" if c.nullable and r.random() < 0.15 else c.literal(r) for c in table.columns]
        return Node("row", "(", ", ".join(cells), ")")

    def names(self, table):
        return ", ".join(c.name for c in table.columns)

    def insert_of(self, table, rows, head):
        return Node("change", head, f"{table.name} ({self.names(table)}) VALUES ", Items(", ", rows))

    def sets(self, table):
        r, scope = self.rng, self.scope(table)
        out = []
        for c in r.sample([c for c in table.columns if c.name != "id"], r.choice([1, 1, 2]) if len(table.columns) > 2 else 1):
            value = c.literal(r) if r.random() < 0.7 or c.unit in ("enum", "set", "year") or c.kind in ("bit", "approx") else self.expression(c.kind, 1, scope)
            out.append(Node("set", f"{c.name} = ", value))
        if r.random() < 0.05 and self.made[table.name]:
            out.append(Node("set", f"{r.choice(self.made[table.name])[0]} = {r.choice(['DEFAULT', '1'])}"))
        return Items(", ", out)

    def change(self, table):
        r = self.rng
        self.fresh += 10
        roll = r.random()
        if roll < 0.3:
            rows = [self.row(table, r.choice([self.fresh + n, r.randint(1, 14)])) for n in range(r.choice([1, 2, 4]))]
            return self.insert_of(table, rows, r.choice(["INSERT INTO ", "INSERT IGNORE INTO ", "REPLACE INTO "]))
        if roll < 0.42:
            rows = [self.row(table, r.randint(1, 14)) for _ in range(r.choice([1, 2]))]
            return Node("change", self.insert_of(table, rows, "INSERT INTO "), " ON DUPLICATE KEY UPDATE ", self.sets(table))
        if roll < 0.5:
            cells = [f"id + {self.fresh * 10}" if c.name == "id" else r.choice([c.name, c.name, c.literal(r)]) for c in table.columns]
            return Node("change", f"{r.choice(['INSERT INTO', 'INSERT IGNORE INTO', 'REPLACE INTO'])} {table.name} ({self.names(table)}) SELECT {', '.join(cells)} FROM {table.name}",
                        optional(" WHERE ", self.where(table)), f" ORDER BY id LIMIT {r.randint(1, 5)}")
        if roll < 0.6:
            return Node("change", f"DELETE FROM {table.name}", optional(" WHERE ", self.where(table)), f" ORDER BY id LIMIT {r.randint(1, 3)}")
        return Node("change", f"UPDATE {r.choice(['', '', 'IGNORE '])}{table.name} SET ", self.sets(table), optional(" WHERE ", self.where(table)), f" ORDER BY id LIMIT {r.randint(1, 9)}")

    def where(self, table, subqueries=False):
        """A condition, mostly over what is generated or in a key."""
        r, scope = self.rng, self.scope(table)
        found = self.keyed[table.name] + self.made[table.name] * 2
        if not found or r.random() < 0.3:
            return self.condition(2, scope)
        text, kind = r.choice(found)
        left = Node(kind, text)
        if kind == "bool":
            return Node("bool", "(", left, r.choice([" = 1", " = 0", " IS NULL", ""]), ")")
        roll = r.random()
        if roll < 0.2:
            return Node("bool", "(", left, r.choice([" IS NULL)", " IS NOT NULL)"]))
        if roll < 0.35:
            return Node("bool", "(", left, " BETWEEN ", self.literal(kind), " AND ", self.literal(kind), ")")
        if roll < 0.45:
            return Node("bool", "(", left, " IN (", Items(", ", [self.literal(kind) for _ in range(3)]), "))")
        value = self.literal(kind) if not subqueries or r.random() < 0.5 else Node(kind, f"(SELECT MAX({text}) FROM {table.name})")
        return Node("bool", "(", left, r.choice([" = ", " = ", " <=> ", " < ", " >= ", " <> "]), value, ")")

    def query(self, table):
        r = self.rng
        found = self.keyed[table.name] + self.made[table.name]
        roll = r.random()
        where = self.where(table, True)
        if found and roll < 0.3:
            text, kind = r.choice(found)
            order = optional(f" ORDER BY {text}{r.choice(['', ' DESC'])}, id", r.choice(["", f" LIMIT {r.randint(1, 6)}"]))
            node = Node("query", f"SELECT id, {text} FROM {table.name}", optional(" WHERE ", where), order)
            node.flags = {"ordered": order}
            return node
        if found and roll < 0.5:
            text, kind = r.choice(found)
            return Node("query", f"SELECT {text} AS q, COUNT(*), MIN(id), MAX(id) FROM {table.name}", optional(" WHERE ", where), f" GROUP BY {text}")
        if found and roll < 0.6:
            text, kind = r.choice(found)
            return Node("query", f"SELECT MIN({text}), MAX({text}), COUNT(DISTINCT {text}) FROM {table.name}", optional(" WHERE ", where))
        return Node("query", f"SELECT * FROM {table.name} WHERE ", where)

    def statement(self):
        r, table = self.rng, self.rng.choice(self.tables)
        roll = r.random()
        if roll < 0.12:
            return self.alteration(table, r.choice(["column", "key", "check", "modify", "drop"]))
        if roll < 0.15:
            return r.choice([f"SET sql_mode = '{r.choice(MODES)}'", "BEGIN", "ROLLBACK", "COMMIT"])
        return self.change(table) if roll < 0.55 else self.query(table)

    def shown(self):
        return [f"SELECT * FROM {table.name}" for table in self.tables] + [f"SHOW CREATE TABLE {table.name}" for table in self.tables]
