"""JSON: columns, values and paths, functions, aggregates, JSON_TABLE, multi-valued indexes, and changes of documents.

Neighbours: `histories` runs the statements; `expressions` has what is not about JSON, to which this adds a kind `json`.

**Invariant**: what a statement does depends on no order of rows that it does not say, so aggregates that keep the order
of their rows read one table in the order of its primary key, without a condition.
"""
from expressions import Expressions
from queries import Col, Scope, Source
from tree import Items, Node, optional

KEYS = ["a", "a", "b", "b", "c", "d e", "", "é"]
SCALARS = ["null", "true", "false", "0", "1", "2", "-3", "1.5", "1.0", "1e2", "2.50", "9223372036854775807", "-9223372036854775808", "12345678901234567890123",
           '"a"', '"a"', '"A"', '"b"', '""', '"é"', '"1"', '"null"', '"2020-02-29"', '"x\\\\"y"', '"ab c"', '"\\\\n"', "0.1", "1e-7"]
PATHS = ["$", "$.a", "$.a", "$.b", "$.c", "$[0]", "$[1]", "$[last]", "$[last-1]", "$.a.b", "$.a[0]", "$.a[1]", "$.b[last]", "$.\"d e\"", "$.a.a", "$[0].a", "$.b.c"]
WILD = ["$.*", "$[*]", "$**.a", "$**[0]", "$.a.*", "$.a[*]", "$[0 to 1]", "$.a[last-1 to last]", "$**.b", "$[*].a", "$.*.a"]
FUNCTIONS = {
    "json": """JSON_EXTRACT({json}, {path})|JSON_EXTRACT({json}, {wild})|JSON_EXTRACT({json}, {path}, {wild})|{jcol}->{path}|JSON_ARRAY({any}, {any})|JSON_ARRAY({json})|JSON_ARRAY()|JSON_OBJECT({key}, {any})|JSON_OBJECT({key}, {json}, {key}, {any})
JSON_SET({json}, {path}, {any})|JSON_SET({json}, {path}, {json}, {path}, {any})|JSON_INSERT({json}, {path}, {any})|JSON_REPLACE({json}, {path}, {any})|JSON_REMOVE({json}, {step})|JSON_REMOVE({json}, {step}, {step})
JSON_ARRAY_APPEND({json}, {path}, {any})|JSON_ARRAY_INSERT({json}, {cell}, {any})|JSON_MERGE_PATCH({json}, {json})|JSON_MERGE_PRESERVE({json}, {json})|JSON_KEYS({json})|JSON_KEYS({json}, {path})
JSON_SEARCH({json}, {one}, {str})|JSON_SEARCH({json}, {one}, {like})|JSON_SEARCH({json}, {one}, {like}, NULL, {wild})|CAST({num} AS JSON)|CAST({dbl} AS JSON)|CAST({date} AS JSON)|CAST({datetime} AS JSON)|CAST({time} AS JSON)|CAST({bool} AS JSON)
IF({bool}, {json}, {json})|IFNULL({json}, {json})|COALESCE({json}, {json})|NULLIF({json}, {json})|CASE WHEN {bool} THEN {json} ELSE {json} END|CAST({jtext} AS JSON)|JSON_VALUE({json}, {path} RETURNING JSON)
JSON_SCHEMA_VALIDATION_REPORT({schema}, {json})|CAST(JSON_QUOTE({str}) AS JSON)|GREATEST({json}, {json})|LEAST({json}, {json})|JSON_SET({json}, {path}, {json})|JSON_REPLACE({json}, {path}, {json})""",
    "num": """JSON_LENGTH({json})|JSON_LENGTH({json}, {path})|JSON_DEPTH({json})|JSON_CONTAINS({json}, {json})|JSON_CONTAINS({json}, {json}, {path})|JSON_CONTAINS_PATH({json}, {one}, {path}, {wild})|JSON_OVERLAPS({json}, {json})|JSON_VALID({str})|JSON_VALID({json})
CAST({json} AS SIGNED)|CAST({json} AS UNSIGNED)|CAST({json} AS DECIMAL(12,3))|JSON_VALUE({json}, {path} RETURNING SIGNED)|JSON_VALUE({json}, {path} RETURNING DECIMAL(10,2) DEFAULT 7 ON EMPTY DEFAULT 8 ON ERROR)|JSON_VALUE({json}, {path} RETURNING UNSIGNED NULL ON EMPTY NULL ON ERROR)|JSON_STORAGE_SIZE({json})|JSON_SCHEMA_VALID({schema}, {json})
LENGTH({json})|({json} MEMBER OF ({json}))|({any} MEMBER OF ({json}))|FIELD({json}, {json}, {json})|JSON_STORAGE_FREE({jcol})|CRC32({json})""",
    "str": """JSON_TYPE({json})|JSON_UNQUOTE({json})|JSON_QUOTE({str})|JSON_PRETTY({json})|{jcol}->>{path}|JSON_UNQUOTE(JSON_EXTRACT({json}, {path}))|CAST({json} AS CHAR)|CONCAT({json}, '')|UPPER({json})|JSON_VALUE({json}, {path})
JSON_VALUE({json}, {path} RETURNING CHAR(3) NULL ON ERROR)|CAST({json} AS CHAR(4))|LEFT({json}, 5)|HEX({json})|QUOTE({json})|JSON_VALUE({json}, {path} RETURNING CHAR(20) DEFAULT 'e' ON EMPTY DEFAULT 'f' ON ERROR)|REPLACE({json}, 'a', 'z')|IF({bool}, {json}, {str})|COALESCE({json}, {str})""",
    "dbl": "CAST({json} AS DOUBLE)|JSON_VALUE({json}, {path} RETURNING DOUBLE)",
    "date": "CAST({json} AS DATE)|JSON_VALUE({json}, {path} RETURNING DATE)", "datetime": "CAST({json} AS DATETIME)", "time": "CAST({json} AS TIME)",
    "approx": "({json} + 0)|({json} * 2)|(-{json})|ABS({json})|SQRT(ABS({json}))",
}
SCHEMAS = ['{"type":"object"}', '{"type":"array","maxItems":2}', '{"properties":{"a":{"type":"number","minimum":1}},"required":["a"]}', '{"enum":[1,"a",null]}', '{"type":["string","integer"]}',
           '{"anyOf":[{"type":"array"},{"type":"object","minProperties":2}]}', '{"items":{"type":"integer"}}', '{"not":{"type":"null"}}']
ARRAYS = ["UNSIGNED ARRAY", "SIGNED ARRAY", "CHAR(10) ARRAY", "DECIMAL(10,2) ARRAY"]
TABLES = ["d0", "d1"]
COLUMNS = [("id", "num"), ("n", "num"), ("s", "str"), ("dt", "date"), ("j", "json"), ("k", "json")]


class Options:
    mysql, ties = True, False


class Place(Scope):
    def pick_kind(self, rng):
        return rng.choice(["json", "json", "json", "num", "str", "date"])


class Documents(Expressions):
    def __init__(self, rng):
        super().__init__(rng, Options)
        plain = {kind: self.functions[kind] for kind in self.functions}
        own = {kind: text.replace("\n", "|").split("|") for kind, text in FUNCTIONS.items()}
        # What is not about JSON is drawn elsewhere, too.
        self.functions = {kind: own.get(kind, []) * 3 + rng.sample(plain[kind], min(len(plain[kind]), 8)) if kind in plain else own[kind] for kind in sorted({*plain, *own})}
        self.fresh, self.arrays, self.aliases, self.computes_again = 0, [], 0, False
        # Tables whose first document is NOT NULL: what IGNORE stores there for NULL has another size in MySQL.
        self.bare = set()

    # Values

    def document(self, depth=2):
        r = self.rng
        roll = r.random()
        if depth == 0 or roll < 0.35:
            return r.choice(SCALARS)
        if roll < 0.65:
            return "[" + ", ".join(self.document(depth - 1) for _ in range(r.choice([0, 1, 2, 2, 3]))) + "]"
        return "{" + ", ".join(f'"{r.choice(KEYS)}": {self.document(depth - 1)}' for _ in range(r.choice([0, 1, 2, 2, 3]))) + "}"

    def literal(self, kind, parameter=False):
        r = self.rng
        if kind != "json":
            return super().literal(kind, parameter)
        if r.random() < 0.05:
            return Node(kind, "NULL")
        return Node(kind, f"CAST('{self.document()}' AS JSON)", simpler=["NULL", "CAST('1' AS JSON)", "CAST('[]' AS JSON)"])

    def argument(self, what, depth, scope):
        r = self.rng
        if what == "path":
            return f"'{r.choice(PATHS)}'"
        if what == "wild":
            return f"'{r.choice(WILD + PATHS)}'"
        if what == "step":
            return f"'{r.choice(PATHS[1:])}'"
        if what == "cell":
            return f"'{r.choice([p for p in PATHS if p.endswith(']')])}'"
        if what == "key":
            return f"'{r.choice(KEYS)}'"
        if what == "one":
            return r.choice(["'one'", "'all'"])
        if what == "like":
            return r.choice(["'a'", "'%'", "'a%'", "'_'", "'1'", "'é'"])
        if what == "schema":
            return f"'{r.choice(SCHEMAS)}'"
        if what == "jtext":
            return f"'{self.document()}'"
        if what == "jcol":
            return scope.pick(r, "json") or "j"
        if what == "any":
            what = r.choice(["num", "num", "str", "str", "json", "dbl", "bool", "date", "datetime", "time"])
            return self.literal(what) if r.random() < 0.6 and what != "bool" else self.expression(what, 0, scope)
        return super().argument(what, depth, scope)

    def other(self, kind, depth, scope):
        if kind == "json" and self.rng.random() < 0.35:
            return self.literal(self.rng.choice(["num", "str", "dbl", "json"]))
        return super().other(kind, depth, scope)

    # Statements

    def create(self):
        r, out = self.rng, []
        for table in TABLES:
            null = r.choice(["", "", " NOT NULL"])
            self.bare |= {table} if null else set()
            lines = ["id INT PRIMARY KEY", "n INT", "s VARCHAR(20)", "dt DATE", "j JSON" + null, "k JSON" + r.choice(["", "", " DEFAULT (JSON_ARRAY(1))"])]
            if r.random() < 0.6:
                path, kind = r.choice(PATHS[:12]), r.choice(ARRAYS)
                self.arrays.append((table, f"j->'{path}'"))
                lines.append(f"KEY m ((CAST(j->'{path}' AS {kind})){r.choice(['', '', ', n'])})")
            if r.random() < 0.3:
                lines.append(r.choice(["g INT AS (JSON_LENGTH(j)) STORED, KEY (g)", "v VARCHAR(20) AS (j->>'$.a') VIRTUAL, KEY (v)", "KEY f ((CAST(j->>'$.b' AS CHAR(20) CHARACTER SET utf8mb4) COLLATE utf8mb4_bin))",
                                       "CHECK (JSON_DEPTH(j) < 9)", "w JSON AS (j->'$.a') VIRTUAL"]))
                # Whose text may be too long, each time that MySQL reads the row; see generated.py.
                self.computes_again |= "VARCHAR" in lines[-1]
            out.append(f"CREATE TABLE {table} ({', '.join(lines)})")
            out += [self.insert_of(table, [self.row(n, table), self.row(n + 1, table)], "INSERT IGNORE INTO ") for n in range(1, r.choice([4, 8, 12]), 2)]
        return out

    def row(self, ident, table):
        r = self.rng
        cell = lambda text: "NULL" if r.random() < 0.1 else text
        return Node("row", "(", ", ".join([str(ident), cell(str(r.randint(-1, 4))), cell(r.choice(["'a'", "'A'", "'b'", "'1'", "''", "'[1]'", "'é'"])), cell(r.choice(["'2020-02-29'", "'2020-01-01'"])),
                                           f"'{self.document()}'" if table in self.bare else cell(f"'{self.document()}'"), cell(f"'{self.document()}'")]), ")")

    def insert_of(self, table, rows, head):
        return Node("change", head, f"{table} (id, n, s, dt, j, k) VALUES ", Items(", ", rows))

    def scope(self, table, alias):
        return Place([Source(alias, [Col(name, kind) for name, kind in COLUMNS], ["id"])])

    def change(self):
        r, table = self.rng, self.rng.choice(TABLES)
        scope = self.scope(table, table)
        roll = r.random()
        if roll < 0.25:
            self.fresh += 100
            rows = [self.row(r.choice([self.fresh + n, r.randint(1, 8)]), table) for n in range(r.choice([1, 2, 4]))]
            return self.insert_of(table, rows, r.choice(["INSERT INTO ", "INSERT IGNORE INTO ", "REPLACE INTO "]))
        if roll < 0.35:
            rows = [self.row(r.randint(1, 12), table) for _ in range(r.choice([1, 2]))]
            return Node("change", self.insert_of(table, rows, "INSERT INTO "), " ON DUPLICATE KEY UPDATE j = ", self.expression("json", 2, scope))
        where = optional(" WHERE ", self.condition(2, scope))
        if roll < 0.42:
            return Node("change", f"DELETE FROM {table}", where, f" ORDER BY id LIMIT {r.randint(0, 3)}")
        if roll < 0.5:
            other = TABLES[1 - TABLES.index(table)]
            self.fresh += 100
            source = self.scope(other, "x")
            return Node("change", f"INSERT INTO {table} (id, n, s, dt, j, k) SELECT id + {self.fresh}, n, s, dt, ", self.expression("json", 2, source), ", ", self.expression("json", 2, source),
                        f" FROM {other} AS x ORDER BY id LIMIT 4")
        if roll < 0.53:
            return r.choice([f"ALTER TABLE {table} DROP KEY m", f"ALTER TABLE {table} ADD KEY m ((CAST(k->'$' AS {r.choice(ARRAYS)})))", f"ALTER TABLE {table} ADD KEY m2 ((CAST(j->'$.a' AS {r.choice(ARRAYS)})))"])
        sets = [Node("set", f"{column} = ", self.expression("json", 2, scope)) for column in r.choice([["j"], ["k"], ["j", "k"]])]
        if r.random() < 0.15:
            kind, column = r.choice([("num", "n"), ("str", "s")])
            sets.append(Node("set", f"{column} = ", self.expression(kind, 2, scope)))
        return Node("change", f"UPDATE {r.choice(['', '', 'IGNORE '])}{table} SET ", Items(", ", sets), where, f" ORDER BY id LIMIT {r.randint(1, 6)}")

    def shown_of(self, parts, ordered=None):
        node = Node("query", *parts)
        node.flags = {"ordered": ordered}
        return node

    def query(self):
        r, table = self.rng, self.rng.choice(TABLES)
        scope = self.scope(table, "a")
        return r.choice([self.select, self.select, self.select, self.search, self.search, self.grouped, self.sorted, self.table, self.table, self.join])(table, scope)

    def kinds(self):
        return [self.rng.choice(["json", "json", "json", "num", "num", "str", "str", "approx", "date", "dbl", "bool"]) for _ in range(self.rng.choice([1, 1, 2, 3]))]

    def select(self, table, scope):
        items = Items(", ", [self.expression(kind, 2, scope) for kind in self.kinds()])
        return self.shown_of(["SELECT a.id, ", items, f" FROM {table} AS a", optional(" WHERE ", self.condition(2, scope))])

    def search(self, table, scope):
        """What a multi-valued index may find."""
        r = self.rng
        column = r.choice([e for t, e in self.arrays if t == table] or ["j->'$.a'", "k"])
        column = "a." + column
        # See known.AVOIDED_MYSQL.
        inner = next(d for d in iter(lambda: self.document(1), None) if d != "[]")
        value = r.choice([self.literal("num"), self.literal("str"), Node("json", f"CAST('{self.document(1)}' AS JSON)")])
        test = r.choice([Node("bool", value, f" MEMBER OF ({column})"), Node("bool", f"JSON_CONTAINS({column}, ", Node("json", f"CAST('{inner}' AS JSON)"), ")"),
                         Node("bool", f"JSON_OVERLAPS({column}, ", Node("json", f"CAST('{inner}' AS JSON)"), ")")])
        more = optional(r.choice([" AND ", " OR "]), self.condition(1, scope)) if r.random() < 0.4 else ""
        return self.shown_of([f"SELECT a.id, {column} FROM {table} AS a WHERE ", test, more])

    def grouped(self, table, scope):
        r = self.rng
        key = self.expression(r.choice(["json", "json", "num", "str"]), 1, scope)
        pool = ["COUNT(*)", Node("x", "COUNT(DISTINCT ", self.expression("json", 1, scope), ")"), Node("x", "MIN(", self.expression("json", 1, scope), ")"), Node("x", "MAX(", self.expression("json", 1, scope), ")"),
                Node("x", "SUM(", self.expression("json", 1, scope), ")"), Node("x", "GROUP_CONCAT(a.j ORDER BY a.id SEPARATOR ';')"), "MIN(a.id)"]
        chosen = r.sample(pool, 2)
        if r.random() < 0.35:
            whole = [Node("x", "JSON_ARRAYAGG(", self.expression(r.choice(["json", "num", "str", "date"]), 1, scope), ")"),
                     Node("x", "JSON_OBJECTAGG(a.id, ", self.expression(r.choice(["json", "num", "str", "date"]), 1, scope), ")")]
            return self.shown_of(["SELECT ", Items(", ", whole), f" FROM {table} AS a"])
        having = optional(" HAVING COUNT(*) > 1") if r.random() < 0.2 else ""
        return self.shown_of(["SELECT ", Items(", ", [Node("x", c) if isinstance(c, str) else c for c in chosen]), f" FROM {table} AS a GROUP BY ", key, r.choice(["", "", " WITH ROLLUP"]), having])

    def sorted(self, table, scope):
        """Scalars of JSON sort as their types say; what ties is sorted by the id."""
        r = self.rng
        key = r.choice([Node("json", f"a.{r.choice('jk')}->'$.{r.choice('ab')}'"), Node("json", f"JSON_EXTRACT(a.{r.choice('jk')}, '$[0]')"), self.expression("num", 1, scope), self.expression("str", 1, scope)])
        # MySQL does not sort arrays and objects (docs/differences.md).
        scalar = Node("scalar", " WHERE JSON_TYPE(", Node("text", key), ") NOT IN ('ARRAY', 'OBJECT')") if key.kind == "json" else ""
        order = optional(" ORDER BY ", key, r.choice(["", " DESC"]), ", a.id", r.choice(["", f" LIMIT {r.randint(1, 5)}"]))
        return self.shown_of(["SELECT a.id, ", key, f" FROM {table} AS a", scalar, order], order)

    def table_columns(self, depth=1):
        r, out, names = self.rng, [], []
        for _ in range(r.choice([1, 2, 3])):
            self.aliases += 1
            name = f"c{self.aliases}"
            roll = r.random()
            path = r.choice(PATHS[:12])
            if roll < 0.15:
                out.append(f"{name} FOR ORDINALITY")
            elif roll < 0.25:
                out.append(f"{name} INT EXISTS PATH '{r.choice(PATHS + WILD)}'")
            elif roll < 0.4 and depth:
                inner, more = self.table_columns(depth - 1)
                out.append(f"NESTED PATH '{r.choice(['$[*]', '$.*', '$.a[*]', '$.b'])}' COLUMNS ({inner})")
                names += more
                continue
            else:
                kind = r.choice(["INT", "BIGINT UNSIGNED", "VARCHAR(10)", "VARCHAR(2)", "JSON", "DECIMAL(6,2)", "DOUBLE", "DATE", "CHAR(3)", "TEXT", "DATETIME", "YEAR", "BIT(8)"])
                value = {"JSON": "[1]", "DATE": '"2020-01-01"', "DATETIME": '"2020-01-01"', "YEAR": "2020"}.get(kind, "7")
                on = lambda what: r.choice(["", "", f" NULL ON {what}", f" DEFAULT '{value}' ON {what}", f" ERROR ON {what}" if r.random() < 0.3 else ""])
                out.append(f"{name} {kind} PATH '{path}'{on('EMPTY')}{on('ERROR')}")
            names.append(name)
        return ", ".join(out), names

    def table(self, table, scope):
        r = self.rng
        columns, names = self.table_columns()
        source = r.choice([Node("json", f"a.{r.choice('jk')}")] * 2 + [self.expression("json", 1, scope)])
        join = r.choice([" JOIN ", " LEFT JOIN "])
        items = ", ".join(f"t.{n}" for n in names)
        what = f"a.id, {items}" if items and r.random() < 0.8 else "a.id, t.*"
        return self.shown_of([f"SELECT {what} FROM {table} AS a{join}JSON_TABLE(", source, f", '{r.choice(['$', '$', '$[*]', '$.a', '$.a[*]', '$.*'])}' COLUMNS ({columns})) AS t ON TRUE",
                              optional(" WHERE ", self.condition(1, scope)) if r.random() < 0.3 else ""])

    def join(self, table, scope):
        r = self.rng
        other = TABLES[1 - TABLES.index(table)]
        b = self.scope(other, "b")
        both = Place(scope.sources + b.sources)
        on = r.choice([Node("bool", self.expression("json", 1, scope), r.choice([" = ", " = ", " <=> ", " < "]), self.expression(r.choice(["json", "json", "num", "str"]), 1, b)), self.condition(1, both)])
        return self.shown_of([f"SELECT a.id, b.id, ", self.expression("json", 1, both), f" FROM {table} AS a{r.choice([' JOIN ', ' LEFT JOIN '])}{other} AS b ON ", on])

    def statement(self):
        return self.change() if self.rng.random() < 0.35 else self.query()

    def shown(self):
        return [f"SELECT * FROM {table}" for table in TABLES] + [f"SHOW CREATE TABLE {table}" for table in TABLES]
