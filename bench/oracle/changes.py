"""Random changes: INSERT, REPLACE, UPDATE, DELETE in all their forms.

Invariant: a statement's effect does not depend on the order in which rows are met, or says ORDER BY id; ids
stay different in every row, so sources add a number of their own to the ids they copy.
"""
from queries import Scope, source_of
from tree import Items, Node, optional

STEP = 100_000


class Changes:
    def __init__(self, queries):
        self.queries, self.rng, self.copies = queries, queries.rng, 0

    def change(self):
        r = self.rng
        table = r.choice(self.queries.tables)
        everything = self.queries.tables
        # MySQL refuses subqueries on the table that is changed (1093).
        self.queries.tables = [t for t in everything if t is not table] or everything
        try:
            return table, r.choice([self.insert, self.insert, self.insert_select, self.duplicate, self.duplicate_select, self.update, self.update,
                                    self.update_computed, self.update_joined, self.update_both, self.delete, self.delete_joined])(table)
        finally:
            self.queries.tables = everything

    def fresh_id(self):
        self.copies += 1
        return self.copies * STEP

    def row(self, table, ident):
        r = self.rng
        cells = []
        for c in table.columns:
            if c.name == "id":
                cells.append(str(ident))
            elif c.nullable and r.random() < 0.15:
                cells.append("NULL")
            else:
                cells.append(c.literal(r))
        return Node("row", "(", ", ".join(cells), ")")

    def names(self, table):
        return ", ".join(c.name for c in table.columns)

    def insert(self, table):
        r = self.rng
        base = self.fresh_id()
        rows = [self.row(table, base + n) for n in range(r.choice([1, 1, 3, 10]))]
        if r.random() < 0.3 and table.primary and table.primary[0].endswith("(id)") and table.rows:
            rows.append(self.row(table, r.choice(table.rows)["id"]))
        head = r.choice(["INSERT INTO ", "INSERT INTO ", "INSERT IGNORE INTO ", "REPLACE INTO "])
        return Node("change", head, f"{table.name} ({self.names(table)}) VALUES ", Items(", ", rows))

    def insert_select(self, table):
        r, q = self.rng, self.queries
        other = r.choice(self.queries.tables)
        alias = q.alias("a")
        scope = Scope([source_of(other, alias)])
        base = self.fresh_id()
        cells = []
        for c in table.columns:
            if c.name == "id":
                cells.append(Node("num", f"{alias}.id + {base}"))
            elif r.random() < 0.5 or not c.nullable:
                cells.append(Node(c.kind, c.literal(r)))
            else:
                same = scope.columns(c.kind)
                cells.append(Node(c.kind, r.choice(same)[0] if same else "NULL", simpler=["NULL"]))
        head = r.choice(["INSERT INTO ", "INSERT IGNORE INTO ", "REPLACE INTO "])
        where = optional(" WHERE ", q.condition(2, scope))
        return Node("change", head, f"{table.name} ({self.names(table)}) SELECT ", *self.separated(cells), f" FROM {other.name} AS {alias}", where, f" ORDER BY {alias}.id")

    @staticmethod
    def separated(nodes):
        out = []
        for n, node in enumerate(nodes):
            out += ([", "] if n else []) + [node]
        return out

    def duplicate(self, table):
        r = self.rng
        if not (table.primary and table.primary[0].endswith("(id)") and table.rows):
            return self.insert(table)
        base = self.fresh_id()
        rows = [self.row(table, r.choice(table.rows)["id"] if r.random() < 0.7 else base + n) for n in range(r.choice([1, 3, 6]))]
        sets = []
        for c in r.sample(table.columns, min(len(table.columns), 2)):
            if c.name != "id":
                sets.append(Node("set", f"{c.name} = ", r.choice([f"VALUES({c.name})", c.literal(r), f"IF(id % 2 = 0, VALUES({c.name}), {table.name}.{c.name})"])))
        if not sets:
            sets = [Node("set", f"k = {table.name}.k")]
        return Node("change", f"INSERT INTO {table.name} ({self.names(table)}) VALUES ", Items(", ", rows), " ON DUPLICATE KEY UPDATE ", Items(", ", sets))

    def duplicate_select(self, table):
        """The table into itself: every other row under its own id again."""
        r, q = self.rng, self.queries
        if not (table.primary and table.primary[0].endswith("(id)") and table.rows):
            return self.insert_select(table)
        alias = q.alias("a")
        cells = [f"{alias}.id + {alias}.id % 2 * {self.fresh_id()}" if c.name == "id" else r.choice([f"{alias}.{c.name}", c.literal(r)]) for c in table.columns]
        others = [c for c in table.columns if c.name != "id"]
        sets = [Node("set", f"{c.name} = ", r.choice([f"VALUES({c.name})", c.literal(r), f"IF({table.name}.id % 3 = 0, VALUES({c.name}), {table.name}.{c.name})"]))
                for c in r.sample(others, min(len(others), 2))]
        where = optional(" WHERE ", q.condition(1, Scope([source_of(table, alias)])))
        return Node("change", f"INSERT INTO {table.name} ({self.names(table)}) SELECT ", ", ".join(cells), f" FROM {table.name} AS {alias}", where,
                    f" ORDER BY {alias}.id ON DUPLICATE KEY UPDATE ", Items(", ", sets))

    def value(self, column, scope):
        """A value for a column: a literal, its own, or computed."""
        r, q = self.rng, self.queries
        roll = r.random()
        if column.nullable and roll < 0.1:
            return Node(column.kind, "NULL")
        if roll < 0.5:
            return Node(column.kind, column.literal(r))
        if roll < 0.75 or column.unit in ("enum", "set", "year") or column.kind == "bit":
            return Node(column.kind, f"IF(", q.condition(1, scope), f", {column.literal(r)}, {column.name})")
        if column.kind == "num" and column.unit == "int":
            return Node("num", f"{column.name} + {r.choice([1, -1, 0])}")
        return q.expression(column.kind, 1, scope)

    def sets(self, table, scope, prefix=""):
        r = self.rng
        columns = [c for c in table.columns if c.name != "id"]
        return Items(", ", [Node("set", f"{prefix}{c.name} = ", self.value(c, scope)) for c in r.sample(columns, min(len(columns), r.choice([1, 1, 2, 3])))])

    def bare(self, table):
        """The table's own columns without an alias."""
        source = source_of(table, table.name)
        return Scope([source])

    def update(self, table):
        r = self.rng
        scope = self.bare(table)
        ignore = r.choice(["", "", "IGNORE "])
        where = optional(" WHERE ", self.queries.condition(2, scope)) if r.random() < 0.85 else ""
        tail = f" ORDER BY id{r.choice(['', ' DESC'])}" + (f" LIMIT {r.randint(0, 6)}" if r.random() < 0.5 else "")
        return Node("change", f"UPDATE {ignore}{table.name} SET ", self.sets(table, scope), where, optional(tail) if "LIMIT" not in tail else tail)

    def joined(self, table):
        r, q = self.rng, self.queries
        other = r.choice(q.tables)
        a, b = source_of(table, "a"), source_of(other, "b")
        scope = Scope([a, b])
        how = r.choice([" JOIN ", " JOIN ", " LEFT JOIN "])
        on = q.join_condition([a], b, scope)
        return scope, Node("table", f"{table.name} AS a{how}{other.name} AS b ON ", on), other

    def update_joined(self, table):
        r, q = self.rng, self.queries
        scope, tree, _ = self.joined(table)
        columns = [c for c in table.columns if c.name not in ("id", "k")]
        if not columns:
            return self.update(table)
        sets = Items(", ", [Node("set", f"a.{c.name} = {c.literal(r)}") for c in r.sample(columns, min(len(columns), 2))])
        return Node("change", "UPDATE ", tree, " SET ", sets, optional(" WHERE ", q.condition(1, scope)))

    def update_computed(self, table):
        """A column set to what a correlated subquery computes from another table."""
        r, q = self.rng, self.queries
        other, alias = r.choice(q.tables), q.alias("z")
        pairs = [(c, d) for c in table.columns for d in other.columns
                 if c.kind == d.kind and c.kind in ("num", "date", "datetime", "time", "dbl") and c.name != "id" and c.unit != "year" and d.unit != "year"]
        if not pairs:
            return self.update(table)
        column, source = r.choice(pairs)
        value = f"(SELECT {r.choice(['MIN', 'MAX'])}({alias}.{source.name}) FROM {other.name} AS {alias} WHERE {alias}.k {r.choice(['=', '<=', '<>'])} {table.name}.k)"
        where = optional(" WHERE ", q.condition(2, self.bare(table)))
        return Node("change", f"UPDATE {r.choice(['', 'IGNORE '])}{table.name} SET {column.name} = {value}", where)

    def update_both(self, table):
        """Both tables of a join at once."""
        r, q = self.rng, self.queries
        scope, tree, other = self.joined(table)
        columns = [(a, t) for a, t in (("a", table), ("b", other)) if other is not table or a == "a"]
        sets = [Node("set", f"{a}.{c.name} = {c.literal(r)}") for a, t in columns for c in r.sample(t.columns, 1) if c.name not in ("id", "k")]
        if not sets:
            return self.update(table)
        return Node("change", "UPDATE ", tree, " SET ", Items(", ", sets), optional(" WHERE ", q.condition(1, scope)))

    def delete(self, table):
        r = self.rng
        where = optional(" WHERE ", self.queries.condition(2, self.bare(table)))
        tail = f" ORDER BY id{r.choice(['', ' DESC'])} LIMIT {r.randint(0, 5)}" if r.random() < 0.6 else ""
        return Node("change", f"DELETE FROM {table.name}", where, tail)

    def delete_joined(self, table):
        r, q = self.rng, self.queries
        scope, tree, other = self.joined(table)
        which = r.choice(["a", "a", "a, b"]) if other is not table else "a"
        condition = q.condition(2, scope)
        return Node("change", f"DELETE {which} FROM ", tree, " WHERE ", Node("bool", "(", condition, f" AND a.id % {r.randint(2, 5)} = 0)"))
