"""Foreign keys: random schemas with references, and random changes of parents and children.

Neighbours: `histories` runs the statements and compares all tables after each. All actions, references of a table to itself,
composite keys, keys of texts, circles that ALTER TABLE closes, checks switched off and on, definitions that are refused.

**Invariant**: rows are met in the order of their ids, or one statement changes one row of each table: which row an error
ends at is the same on both servers then. What a name means is not tracked: a statement about a key that is gone fails on both.
"""
from tree import Items, Node, optional

ACTIONS = ["CASCADE", "CASCADE", "CASCADE", "SET NULL", "SET NULL", "RESTRICT", "NO ACTION"]
INTEGERS = ["id", "a", "b", "c"]
TEXTS = ["'a'", "'A'", "'b'", "'B '", "'c'", "'á'", "''"]
COLLATIONS = ["", "", " COLLATE utf8mb4_bin", " CHARACTER SET latin1"]
MOST = 5


class Table:
    def __init__(self, name):
        self.name, self.keys, self.constraints, self.not_null = name, [], [], set()


class References:
    def __init__(self, rng):
        self.rng, self.named, self.fresh = rng, 0, 10
        self.tables = [Table(f"r{n}") for n in range(rng.randint(2, 5))]
        self.loose, self.collation = rng.random() < 0.3, rng.choice(COLLATIONS)

    # Definitions

    def create(self):
        r = self.rng
        out = ["SET restrict_fk_on_non_standard_key = OFF"] if self.loose else []
        for n, table in enumerate(self.tables):
            out.append(self.table(table, self.tables[:n + 1]))
        for table in self.tables:
            ids = list(range(1, r.choice([3, 5, 8])))
            for start in range(0, len(ids), 2):
                out.append(self.insert_of(table, [self.row(table, ident) for ident in ids[start:start + 2]], "INSERT IGNORE INTO "))
        return out

    def table(self, table, parents):
        r = self.rng
        table.not_null = {c for c in ("a", "b", "c", "s") if r.random() < 0.2}
        keys = self.secondary(table)
        column = lambda name, kind: f"{name} {kind}{' NOT NULL' if name in table.not_null else ''}"
        default = lambda: r.choice(["", "", " DEFAULT 1"])
        lines = [f"id {'BIGINT' if r.random() < 0.02 else 'INT'} NOT NULL", *(column(c, "INT") + default() for c in "abc")]
        lines.append(column("s", "VARCHAR(5)" + (r.choice(COLLATIONS) if r.random() < 0.05 else self.collation)))
        if r.random() < 0.15:
            lines.append(f"g INT {r.choice(['', 'GENERATED ALWAYS '])}AS (a + 1) {r.choice(['VIRTUAL', 'STORED'])}")
        if r.random() < 0.1:
            lines.append(f"CHECK ({r.choice('abc')} < 5)")
        primary = ["id"] if r.random() < 0.8 else r.choice([["id", "a"], ["a", "id"]])
        kind = "UNIQUE KEY" if primary == ["id"] and r.random() < 0.2 else "PRIMARY KEY"
        lines.append(f"{kind} ({', '.join(primary)})")
        table.keys.append(primary)
        lines += keys
        lines += [self.reference(table, parents) for _ in range(r.choice([0, 1, 1, 2, 3]))]
        return f"CREATE TABLE {table.name} ({', '.join(lines)})"

    def secondary(self, table):
        """Keys, of which the unique ones and, with loose rules, all may have children."""
        r, out, table.keys = self.rng, [], []
        for n in range(r.choice([0, 1, 1, 2, 3])):
            parts = r.choice([["a"], ["b"], ["s"], ["a", "b"], ["b", "a"], ["a", "b", "c"], ["c"], ["b", "s"], ["s", "a"]])
            unique = r.random() < 0.65
            out.append(f"{'UNIQUE ' if unique else ''}KEY k{n} ({', '.join(parts)})")
            if len(parts) > 1:
                # See known.AVOIDED_MYSQL.
                table.not_null |= set(parts)
            if unique or self.loose:
                table.keys.append(parts)
        return out

    def reference(self, table, parents):
        """FOREIGN KEY …, mostly to columns that have a key."""
        r = self.rng
        parent = r.choice(parents)
        # A table has one text; and of several columns see known.AVOIDED_MYSQL.
        there = r.choice([k for k in parent.keys if parent is not table or len(k) == 1 and "s" not in k] or [["id"]])
        if r.random() < 0.05:
            there = r.choice([["c"], ["a", "c"], ["s"]])
        if r.random() < 0.1 and len(there) > 1:
            there = there[:-1]
        here = []
        for column in there:
            left = [c for c in (["s"] if column == "s" else INTEGERS) if c not in here and (c, table) != (column, parent)]
            here.append(r.choice(left or ["s"]))
        if r.random() < 0.04:
            here[0] = r.choice(["s", "g", "a"])
        bad = r.random() < 0.03
        actions = [a for a in ACTIONS if bad or a != "SET NULL" or not set(here) & ({"id"} | table.not_null)]
        name, self.named = f"f{self.named}", self.named + 1
        head = f"CONSTRAINT {name} " if r.random() < 0.7 else ""
        table.constraints.append(name if head else f"{table.name}_ibfk_{r.randint(1, 3)}")
        index = f"{name}x " if r.random() < 0.1 else ""
        delete = f" ON DELETE {r.choice(actions)}" if r.random() < 0.8 else ""
        update = f" ON UPDATE {r.choice(actions)}" if r.random() < 0.8 else ""
        if r.random() < 0.01:
            delete = " ON DELETE SET DEFAULT"
        return f"{head}FOREIGN KEY {index}({', '.join(here)}) REFERENCES {parent.name} ({', '.join(there)}){delete}{update}"

    def alteration(self):
        r, table = self.rng, self.rng.choice(self.tables)
        name = r.choice(table.constraints or ["f0"])
        column = r.choice("abc")
        what = r.choice([
            f"ADD {self.reference(table, self.tables)}", f"ADD {self.reference(table, self.tables)}", f"DROP FOREIGN KEY {name}",
            f"DROP FOREIGN KEY {name}, ADD {self.reference(table, self.tables)}", f"DROP CONSTRAINT {name}", f"DROP KEY k{r.randint(0, 2)}",
            f"DROP KEY {name}", f"ADD KEY ({column})", f"ADD UNIQUE KEY ({column})", f"DROP COLUMN {column}", f"MODIFY {column} BIGINT",
            f"MODIFY {column} INT NOT NULL", f"MODIFY {column} INT", f"RENAME COLUMN {column} TO x, RENAME COLUMN x TO {column}",
            f"CHANGE {column} x INT", f"CHANGE x {column} INT", "DROP PRIMARY KEY", f"RENAME KEY k0 TO k9", f"MODIFY s VARCHAR({r.choice([5, 9])})",
            "CONVERT TO CHARACTER SET utf8mb4", "FORCE", "ADD COLUMN y INT DEFAULT 1 FIRST", "DROP COLUMN y", f"RENAME TO {table.name}z"])
        if what.startswith("RENAME TO"):
            return f"RENAME TABLE {table.name} TO {table.name}z, {table.name}z TO {table.name}"
        return f"ALTER TABLE {table.name} {what}"

    def removal(self):
        r, table = self.rng, self.rng.choice(self.tables)
        roll = r.random()
        if roll < 0.45:
            return f"TRUNCATE TABLE {table.name}"
        if roll < 0.6:
            return f"DROP TABLE {', '.join(t.name for t in r.sample(self.tables, r.choice([1, 1, 2])))}"
        if len(self.tables) < MOST and roll < 0.7:
            table = Table(f"r{len(self.tables)}")
            self.tables.append(table)
        return self.table(table, self.tables)

    # Rows

    def ident(self):
        return self.rng.randint(0, 9)

    def cell(self, table, column):
        r = self.rng
        if column == "s":
            return "NULL" if r.random() < 0.2 else r.choice(TEXTS)
        return "NULL" if r.random() < (0.02 if column in table.not_null else 0.15) else str(r.randint(0, 6))

    def row(self, table, ident):
        return Node("row", "(", ", ".join([str(ident)] + [self.cell(table, c) for c in ("a", "b", "c", "s")]), ")")

    def insert_of(self, table, rows, head):
        return Node("change", head, f"{table.name} (id, a, b, c, s) VALUES ", Items(", ", rows))

    def insert(self, table):
        r = self.rng
        rows = [self.row(table, self.ident()) for _ in range(r.choice([1, 1, 1, 2, 4]))]
        return self.insert_of(table, rows, r.choice(["INSERT INTO ", "INSERT INTO ", "INSERT IGNORE INTO ", "REPLACE INTO ", "REPLACE INTO "]))

    def duplicate(self, table):
        r = self.rng
        rows = [self.row(table, self.ident()) for _ in range(r.choice([1, 1, 2, 3]))]
        ignore = r.choice(["", "", "IGNORE "])
        return Node("change", f"INSERT {ignore}INTO {table.name} (id, a, b, c, s) VALUES ", Items(", ", rows), " ON DUPLICATE KEY UPDATE ", self.sets(table, "", True))

    def select(self, table):
        r, other = self.rng, self.rng.choice(self.tables)
        shift = r.choice(["", " + 1", " + 3"])
        head = r.choice(["INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"])
        cells = [f"id{shift}"] + [r.choice([c, c, r.choice("abc"), self.cell(table, c)]) for c in "abc"] + [r.choice(["s", self.cell(table, "s")])]
        return f"{head} {table.name} (id, a, b, c, s) SELECT {', '.join(cells)} FROM {other.name}{self.where('', other)} ORDER BY id"

    def sets(self, table, prefix="", duplicate=False):
        r = self.rng
        out = []
        for column in r.sample(INTEGERS + ["s"], r.choice([1, 1, 1, 2])):
            value = r.choice([self.cell(table, column)] * 3 + [f"{prefix}{column} + 1", f"{prefix}{column} - 1", f"{prefix}{r.choice('abc')}"])
            if column == "s":
                value = r.choice([self.cell(table, "s"), f"UPPER({prefix}s)", f"CONCAT({prefix}s, 'x')", f"{prefix}s"])
            if duplicate and r.random() < 0.4:
                value = f"VALUES({column})"
            out.append(Node("set", f"{prefix}{column} = {value}"))
        return Items(", ", out)

    def where(self, prefix, table):
        r = self.rng
        if r.random() < 0.15:
            return ""
        column = r.choice(INTEGERS)
        test = r.choice([f"{prefix}{column} = {r.randint(0, 6)}", f"{prefix}{column} < {r.randint(1, 6)}", f"{prefix}{column} IN ({r.randint(0, 3)}, {r.randint(3, 7)})",
                         f"{prefix}s = {r.choice(TEXTS)}", f"{prefix}{column} IS NULL"])
        return f" WHERE {test}"

    def update(self, table):
        r = self.rng
        order = " ORDER BY id" + r.choice(["", "", " DESC"]) + r.choice(["", "", f" LIMIT {r.randint(1, 3)}"])
        return Node("change", f"UPDATE {r.choice(['', '', 'IGNORE '])}{table.name} SET ", self.sets(table), optional(self.where("", table)), order)

    def delete(self, table):
        r = self.rng
        order = " ORDER BY id" + r.choice(["", "", " DESC"]) + r.choice(["", "", f" LIMIT {r.randint(1, 3)}"])
        return Node("change", f"DELETE {r.choice(['', '', 'IGNORE '])}FROM {table.name}", optional(self.where("", table)), order)

    def joined(self, table):
        """One row of each of two tables."""
        r, other = self.rng, self.rng.choice(self.tables)
        tables = f"{table.name} AS x JOIN {other.name} AS y"
        where = f" WHERE x.id = {self.ident()} AND y.id = {self.ident()}"
        if r.random() < 0.5:
            return f"DELETE {r.choice(['x', 'y', 'x, y', 'x, y'])} FROM {tables}{where}" if other is not table else self.delete(table)
        return Node("change", f"UPDATE {tables} SET ", Items(", ", [*self.sets(table, "x.").parts, *(self.sets(other, "y.").parts if other is not table else [])]), where)

    def statement(self):
        r, table = self.rng, self.rng.choice(self.tables)
        roll = r.random()
        if roll < 0.1:
            return self.alteration()
        if roll < 0.13:
            return self.removal()
        if roll < 0.19:
            return f"SET foreign_key_checks = {r.choice([0, 1, 1, 1])}"
        if roll < 0.26:
            return r.choice(["BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s"])
        return r.choice([self.insert, self.insert, self.insert, self.duplicate, self.select, self.update, self.update, self.update, self.delete, self.delete,
                         self.joined])(table)

    def shown(self):
        for table in self.tables:
            yield f"SELECT * FROM {table.name}"
            yield f"SHOW CREATE TABLE {table.name}"
