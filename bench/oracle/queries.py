"""Random queries: joins, subqueries, groups, windows, set operations, common table expressions.

A query's `cols` are the (name, kind) it returns; its `flags` say how its answer is compared:
`ordered` (the node of an ORDER BY that is total, or None), `partition` (its WHERE can be split in three, see compare.py).
"""
import math

from expressions import Expressions
from tree import Items, Node, optional

GROUPABLE = ["num", "str", "date", "datetime", "time", "dbl", "bin"]
SHOWN = ["num", "num", "str", "str", "date", "datetime", "time", "dbl", "approx", "bin", "bool", "bit"]
# What a derived table is taken for, and the largest product of tables in one FROM.
DERIVED_ROWS, MOST_PAIRS = 30, 60_000


class Col:
    def __init__(self, name, kind, weight=1):
        # A truth value is a number to whoever reads it from a table.
        self.name, self.kind, self.weight = name, "num" if kind == "bool" else kind, weight


class Source:
    """A table in FROM. `ids`: columns that together tell its rows apart, or None."""

    def __init__(self, alias, cols, ids, size=DERIVED_ROWS):
        self.alias, self.cols, self.ids = alias, cols, ids
        self.size = size


class Scope:
    def __init__(self, sources, parent=None):
        self.sources, self.parent = sources, parent

    def columns(self, kind=None):
        return [(f"{s.alias}.{c.name}", c) for s in self.sources for c in s.cols if kind is None or c.kind == kind]

    def pick(self, rng, kind):
        if self.parent and rng.random() < 0.3:
            found = self.parent.pick(rng, kind)
            if found:
                return found
        found = self.columns(kind)
        if not found:
            return None
        return rng.choices([n for n, _ in found], [c.weight for _, c in found])[0]

    def pick_kind(self, rng):
        kinds = [c.kind for _, c in self.columns() if c.kind not in ("approx", "bit")]
        return rng.choice(kinds) if kinds else "num"

    def ids(self):
        if any(s.ids is None for s in self.sources):
            return None
        return [f"{s.alias}.{i}" for s in self.sources for i in s.ids]


class Fixed:
    """A scope of ready expressions: what stands behind GROUP BY."""

    def __init__(self, items, make):
        self.items, self.make, self.parent = items, make, None

    def pick(self, rng, kind):
        found = [text for text, k in self.items if k == kind]
        if found and rng.random() < 0.6:
            return rng.choice(found)
        return self.make(kind) or (rng.choice(found) if found else None)

    def pick_kind(self, rng):
        kinds = [k for _, k in self.items if k not in ("approx", "bit", "bool")]
        return rng.choice(kinds + ["num"])


def source_of(table, alias):
    def weight(c):
        if c.name in ("id", "k"):
            return 1.5 if c.name == "id" else 4
        return 0.3 if c.unit == "int" and ("BIGINT" in c.sql or "INT UNSIGNED" in c.sql) else 2
    return Source(alias, [Col(c.name, c.kind, weight(c)) for c in table.columns], ["id"], max(len(table.rows), 1))


class Queries(Expressions):
    def __init__(self, rng, options, tables):
        super().__init__(rng, options)
        self.tables, self.aliases, self.ctes = tables, 0, []
        # MariaDB's windows count bits in 32 of them (see AVOIDED).
        self.bit_xor = "BIT_XOR(" if options.mysql else "BIT_XOR(65535 & "

    def alias(self, prefix="q"):
        self.aliases += 1
        return f"{prefix}{self.aliases}"

    # FROM

    def table_source(self, depth, parent):
        r = self.rng
        roll = r.random()
        alias = self.alias("a")
        if self.ctes and roll < 0.35:
            name, cols = r.choice(self.ctes)
            return Node("table", f"{name} AS {alias}"), Source(alias, [Col(n, k) for n, k in cols], None)
        if depth > 0 and roll < 0.25:
            query = self.query(depth - 1, None, inside=True)
            cols = [Col(n, k) for n, k in query.cols]
            return Node("table", "(", query, f") AS {alias}"), Source(alias, cols, None)
        table = r.choice(self.tables)
        return Node("table", f"{table.name} AS {alias}"), source_of(table, alias)

    def joined(self, depth, parent):
        """The FROM clause and its scope."""
        r = self.rng
        tree, source = self.table_source(depth, parent)
        sources = [source]
        for _ in range(r.choice([0, 0, 1, 1, 1, 2, 3])):
            if self.options.mysql and depth > 0 and r.random() < 0.07:
                alias = self.alias("l")
                inner = self.select(depth - 1, Scope(sources, parent))
                join = r.choice([" JOIN LATERAL (", " LEFT JOIN LATERAL ("])
                tree = Node("table", tree, join, inner, f") AS {alias} ON TRUE")
                sources = sources + [Source(alias, [Col(n, k) for n, k in inner.cols], None)]
                continue
            right, source = self.table_source(depth - 1, parent)
            if math.prod(s.size for s in sources) * source.size > MOST_PAIRS:
                continue
            scope = Scope(sources + [source], parent)
            roll = r.random()
            if roll < 0.12:
                tree = Node("table", tree, r.choice([", ", " CROSS JOIN "]), right)
                # A comma binds less than JOIN does: what comes later must not refer across it.
                tree = Node("table", "(", tree, ")")
            elif roll < 0.22 and all(any(c.name == "k" for c in s.cols) for s in (sources[-1], source)) and len(sources) == 1:
                how = r.choice([" JOIN ", " LEFT JOIN ", " RIGHT JOIN "])
                tree = Node("table", tree, how, right, " USING (k)")
            elif roll < 0.25 and len(sources) == 1:
                tree = Node("table", tree, r.choice([" NATURAL JOIN ", " NATURAL LEFT JOIN ", " NATURAL RIGHT JOIN "]), right)
            else:
                how = r.choice([" JOIN ", " JOIN ", " LEFT JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " STRAIGHT_JOIN "])
                on = self.join_condition(sources, source, scope)
                tree = Node("table", Node("table", tree), how, right, " ON ", on)
            sources = sources + [source]
        return tree, Scope(sources, parent)

    def join_condition(self, sources, source, scope):
        r = self.rng
        if r.random() < 0.85:
            left = Scope(sources)
            kind = r.choice(["num", "num", left.pick_kind(r)])
            a, b = left.pick(r, kind), Scope([source]).pick(r, kind)
            if a and b:
                equal = Node("bool", f"{a} {r.choice(['=', '=', '=', '=', '<=>', '<', '>='])} {b}", simpler=["TRUE"])
                if r.random() < 0.3:
                    return Node("bool", Items(" AND ", [equal, self.condition(1, scope)]))
                return equal
        return self.condition(1, scope)

    # One SELECT

    def select(self, depth, parent, want=None, inside=True, bare=False):
        """A SELECT; `want` are the kinds it shall return. `bare` leaves out what orders and cuts."""
        r = self.rng
        tree, scope = self.joined(depth, parent)
        where = self.condition(min(depth + 1, 3), scope) if r.random() < 0.6 else None
        there = {c.kind for _, c in scope.columns()}
        shown = [k for k in SHOWN if k in there or k in ("num", "bool") or r.random() < 0.15]
        kinds = want or [r.choice(shown) for _ in range(r.choice([1, 1, 2, 2, 3, 4]))]
        shape = r.random()
        if shape < 0.27:
            return self.grouped(depth, tree, scope, where, kinds, bare)
        if shape < 0.42 and depth > 0:
            # MySQL refuses windows in such subqueries, MariaDB compares with them before it has computed them (see AVOIDED).
            windows = self.options.mysql or not (bare and parent)
            items = [windows and self.window(k, scope) or self.expression(k, 1, scope) for k in kinds]
            plain = False
        else:
            items = [self.expression(k, min(depth, 2), scope) for k in kinds]
            plain = True
        distinct = not self.options.ties and r.random() < 0.15 and "approx" not in kinds
        return self.finish(kinds, items, tree, where, "DISTINCT " if distinct else "", [], inside, bare, partition=plain and not distinct)

    def finish(self, kinds, items, tree, where, distinct, tail, inside, bare, partition=False, order=True):
        r = self.rng
        names = [self.alias("c") for _ in kinds]
        shown = Items(", ", [Node("shown", i, f" AS {n}") for i, n in zip(items, names)])
        parts = ["SELECT ", optional(distinct) if distinct else "", shown, " FROM ", tree]
        condition = None
        if where is not None:
            condition = optional(" WHERE ", where)
            parts.append(condition)
        parts += tail
        ordered = None
        if order and not bare and not self.options.ties and "approx" not in kinds and r.random() < (0.15 if inside else 0.45):
            keys = [n + r.choice(["", "", " DESC"]) for n in names]
            r.shuffle(keys)
            cut = [f" LIMIT {r.choice([0, 1, 2, 5, 10])}" + r.choice(["", "", f" OFFSET {r.randint(0, 4)}"])] if r.random() < 0.6 else []
            ordered, partition = optional(" ORDER BY ", ", ".join(keys), *cut), partition and not cut
            parts.append(ordered)
        node = Node("query", *[p for p in parts if p != ""])
        node.cols = list(zip(names, kinds))
        node.flags = {"ordered": ordered, "partition": (tree, condition) if partition else None}
        return node

    def grouped(self, depth, tree, scope, where, kinds, bare):
        r = self.rng
        # An aggregate of nothing but an enclosing query's columns is that query's (docs/differences.md).
        scope = Scope(scope.sources)
        keys = []
        for _ in range(r.choice([0, 1, 1, 1, 2, 2, 3])):
            kind = scope.pick_kind(r)
            if kind not in GROUPABLE or self.options.ties and kind == "str":
                continue
            key = self.expression(kind, 1, scope) if r.random() < 0.25 else scope.pick(r, kind)
            text = str(key)
            # A constant in GROUP BY would be a column's number.
            if "." in text and any(f"{s.alias}." in text for s in scope.sources):
                keys.append((text, kind))
        make = lambda kind: self.aggregate(kind, 1, scope)
        fixed = Fixed(keys, make)
        items, out = [], []
        for kind in kinds:
            item = None
            if kind in ("num", "dbl", "str") and r.random() < 0.2:
                item = self.over_groups(kind, fixed)
            if item is None and r.random() < 0.4:
                found = [t for t, k in keys if k == kind]
                item = Node(kind, r.choice(found)) if found else None
            item = item or self.aggregate(kind, 1, scope)
            if item is None:
                item = Node(kind, self.literal(kind)) if kind not in ("bool", "bit") else Node(kind, "(COUNT(*) > 2)" if kind == "bool" else "b'1'")
            items.append(item)
        tail = []
        if keys:
            rollup = " WITH ROLLUP" if r.random() < 0.2 and all("(" not in t for t, _ in keys) else ""
            tail.append(Node("group", " GROUP BY ", ", ".join(t for t, _ in keys), optional(rollup) if rollup else ""))
            if r.random() < 0.3:
                # MySQL finds only plain columns there, by name.
                names = [t.split(".")[-1] for t, _ in keys]
                plain = [(t, k) for t, k in keys if "(" not in t and names.count(t.split(".")[-1]) == 1]
                tail.append(optional(" HAVING ", self.having(Fixed(plain, make))))
            order = not rollup or self.options.mysql
        else:
            order = True
        return self.finish(kinds, items, tree, where, "", tail, True, bare, order=order)

    def over_groups(self, kind, fixed):
        """An expression over group keys and aggregates, without subqueries."""
        template = {"num": ["({num} + {num})", "COALESCE({num}, 0)", "({num} * 2)", "ABS({num})", "LENGTH({str})"], "dbl": ["IFNULL({dbl}, 0)", "({dbl} * 2)"],
                    "str": ["CONCAT({str}, '!')", "UPPER({str})", "CONCAT({num}, ':', {str})"]}[kind]
        return self.fill(kind, self.rng.choice(template), 0, fixed)

    def having(self, fixed):
        r = self.rng
        kind = fixed.pick_kind(r)
        left = fixed.pick(r, kind) or "COUNT(*)"
        kind = kind if left != "COUNT(*)" else "num"
        test = r.choice([" IS NOT NULL)", " IS NULL)"]) if r.random() < 0.3 else None
        if test:
            return Node("bool", "(", left, test)
        return Node("bool", "(", left, f" {r.choice(['=', '>', '<=', '<>'])} ", self.literal(kind), ")")

    # Windows

    def window(self, kind, scope):
        r = self.rng
        # MySQL refuses columns of an enclosing query in a window (6432).
        scope = Scope(scope.sources)
        ids = scope.ids()
        total = ids is not None
        partition = [c for c in (scope.pick(r, scope.pick_kind(r)) for _ in range(r.choice([0, 1, 1, 2]))) if c]
        # In the presence of ties a collation makes partitions of texts, which is as it should be.
        by = optional("PARTITION BY ", ", ".join(partition), " ") if partition else ""
        keys = [c + r.choice(["", " DESC"]) for c in (scope.pick(r, scope.pick_kind(r)) for _ in range(r.choice([0, 1, 1, 2]))) if c]
        if kind == "num":
            roll = r.random()
            if roll < 0.25 and keys:
                return Node(kind, r.choice(["RANK()", "DENSE_RANK()"]), " OVER (", by, "ORDER BY ", ", ".join(keys), ")")
            if roll < 0.45 and total:
                return Node(kind, r.choice(["ROW_NUMBER()", f"NTILE({r.randint(1, 4)})"]), " OVER (", by, "ORDER BY ", ", ".join(keys + ids), ")")
        if kind == "approx" and keys and r.random() < 0.5:
            return Node(kind, r.choice(["PERCENT_RANK()", "CUME_DIST()"]), " OVER (", by, "ORDER BY ", ", ".join(keys), ")")
        if kind in ("bool", "bit"):
            return None
        if total and r.random() < 0.4:
            argument = self.leaf(kind, scope)
            shape = r.choice(["LAG({})", "LEAD({})", "LAG({}, 2)", "LEAD({}, 0)", "FIRST_VALUE({})", "LAST_VALUE({})", "NTH_VALUE({}, 2)"])
            head, end = shape.split("{}")
            frame = "" if shape.startswith("L") and "AST" not in shape else self.rows_frame()
            return Node(kind, head, argument, end, " OVER (", by, "ORDER BY ", ", ".join(keys + ids), frame, ")")
        inner = None
        if kind == "num":
            inner = r.choice(["COUNT(*)", ("SUM(", "num"), ("MIN(", "num"), ("MAX(", "num"), ("COUNT(", "str"), ("BIT_OR(", "num"), (self.bit_xor, "num")])
        elif kind == "approx":
            inner = r.choice([("AVG(", "dbl"), ("STDDEV_POP(" + self.as_double, "num"), ("VAR_SAMP(", "dbl")])
        elif kind == "dbl":
            inner = (r.choice(["SUM(", "MAX("]), "dbl")
        elif not (kind == "str" and self.options.ties):
            inner = (r.choice(["MIN(", "MAX("]), kind)
        if inner is None:
            return None
        call = [inner] if isinstance(inner, str) else [inner[0], self.leaf(inner[1], scope), ")"]
        roll = r.random()
        if roll < 0.3:
            over = [by]
        elif roll < 0.55 and total:
            over = [by, "ORDER BY ", ", ".join(keys + ids), self.rows_frame()]
        elif roll < 0.8 and keys:
            frame = r.choice(["", " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " RANGE UNBOUNDED PRECEDING", " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"])
            over = [by, "ORDER BY ", ", ".join(keys), frame]
        else:
            key = scope.pick(r, "num")
            if key is None:
                over = [by]
            else:
                low, high = r.choice([("1 PRECEDING", "1 FOLLOWING"), ("2 PRECEDING", "CURRENT ROW"), ("CURRENT ROW", "3 FOLLOWING"), ("3 PRECEDING", "1 PRECEDING"), ("1 FOLLOWING", "2 FOLLOWING"), ("UNBOUNDED PRECEDING", "1 PRECEDING")])
                over = [by, f"ORDER BY {key}{r.choice(['', ' DESC'])} RANGE BETWEEN {low} AND {high}"]
        return Node(kind, *call, " OVER (", *over, ")")

    def rows_frame(self):
        r = self.rng
        return r.choice(["", " ROWS UNBOUNDED PRECEDING", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " ROWS 2 PRECEDING",
                         " ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING"])

    # Subqueries in expressions

    def special(self, kind, depth, scope):
        r = self.rng
        if depth <= 1 or isinstance(scope, Fixed) or r.random() > (0.3 if kind == "bool" else 0.06):
            return None
        outer = scope if r.random() < 0.6 else None
        if kind != "bool":
            tree, inner = self.joined(0, outer)
            value = self.aggregate(kind, 1, Scope(inner.sources))
            if value is None:
                return None
            where = optional(" WHERE ", self.condition(1, inner)) if r.random() < 0.8 else ""
            return Node(kind, "(SELECT ", value, " FROM ", tree, where, ")")
        roll = r.random()
        if roll < 0.35:
            inner = self.select(depth - 2, outer, bare=True)
            return Node("bool", r.choice(["", "NOT "]), "EXISTS (", inner, ")")
        kind = scope.pick_kind(r)
        if kind == "approx":
            return None
        left = self.leaf(kind, scope)
        if roll < 0.7:
            inner = self.select(depth - 2, outer, want=[kind], bare=True)
            return Node("bool", "(", left, r.choice([" IN (", " NOT IN ("]), inner, "))")
        if roll < 0.8:
            second = scope.pick_kind(r)
            inner = self.select(depth - 2, outer, want=[kind, second], bare=True)
            return Node("bool", "((", left, ", ", self.leaf(second, scope), r.choice([") IN (", ") NOT IN ("]), inner, "))")
        inner = self.select(depth - 2, outer, want=[kind], bare=True)
        return Node("bool", "(", left, r.choice([" = ", " > ", " <= ", " <> ", " < "]), r.choice(["ANY (", "ALL ("]), inner, "))")

    # Whole queries

    def query(self, depth, parent, inside=False):
        r = self.rng
        roll = r.random()
        if roll < 0.15 and depth > 0:
            return self.set_operation(depth, inside)
        if not inside and roll < 0.32:
            return self.with_ctes(depth)
        if not inside and roll < 0.36:
            return self.recursive()
        return self.select(depth, parent, inside=inside)

    def set_operation(self, depth, inside):
        r = self.rng
        kinds = [r.choice(["num", "num", "str", "date", "datetime", "time", "bin"]) for _ in range(r.choice([1, 2, 2]))]
        ops = [r.choice([" UNION ALL ", " UNION ALL ", " UNION ", " INTERSECT ", " EXCEPT "]) for _ in range(r.choice([1, 1, 2]))]
        if self.options.ties and "str" in kinds:
            ops = [" UNION ALL "] * len(ops)
        parts, first = [], None
        for n in range(len(ops) + 1):
            part = self.select(depth - 1, None, want=kinds)
            first = first or part
            parts += ([ops[n - 1]] if n else []) + ["(", part, ")"]
        ordered = None
        if not self.options.ties and r.random() < 0.3:
            cut = f" LIMIT {r.randint(0, 8)}" if r.random() < 0.5 else ""
            ordered = optional(" ORDER BY ", ", ".join(str(n + 1) + r.choice(["", " DESC"]) for n in range(len(kinds))), cut)
            parts.append(ordered)
        node = Node("query", *parts)
        node.cols, node.flags = first.cols, {"ordered": ordered, "partition": None}
        return node

    def with_ctes(self, depth):
        r = self.rng
        before, definitions = self.ctes, []
        self.ctes = list(before)
        for _ in range(r.choice([1, 1, 2])):
            name = self.alias("w")
            inner = self.query(max(depth - 1, 0), None, inside=True)
            definitions.append(Node("text", f"{name} AS (", inner, ")"))
            self.ctes.append((name, inner.cols))
        body = self.select(depth, None, inside=False)
        self.ctes = before
        node = Node("query", "WITH ", Items(", ", definitions), " ", body)
        node.cols, node.flags = body.cols, body.flags | {"partition": None}
        return node

    def recursive(self):
        r = self.rng
        name, table = self.alias("r"), r.choice(self.tables)
        union = r.choice(["UNION ALL", "UNION"])
        if r.random() < 0.5:
            last = r.randint(1, 12)
            body = f"WITH RECURSIVE {name}(n, s) AS (SELECT 1, CAST('x' AS CHAR(40)) {union} SELECT n + 1, CONCAT(s, n) FROM {name} WHERE n < {last}) SELECT "
            text = r.choice([f"n, s FROM {name}", f"COUNT(*), SUM(n) FROM {name}", f"a.n, COUNT(b.id) FROM {name} AS a LEFT JOIN {table.name} AS b ON b.k = a.n GROUP BY a.n"])
        else:
            other = r.choice(self.tables)
            body = f"WITH RECURSIVE {name}(i, d) AS (SELECT a.id, 0 FROM {table.name} AS a WHERE a.k < 3 {union} SELECT b.id, d + 1 FROM {name} JOIN {other.name} AS b ON b.k = {name}.i WHERE d < 3) SELECT "
            text = r.choice([f"i, d FROM {name}", f"d, COUNT(*), SUM(i) FROM {name} GROUP BY d", f"COUNT(DISTINCT i) FROM {name} WHERE d > 0"])
        node = Node("query", body, text)
        node.cols, node.flags = [], {"ordered": None, "partition": None}
        return node
