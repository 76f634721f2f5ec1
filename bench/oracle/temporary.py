"""Temporary tables: over tables of the same name, altered, filled from others, in transactions that end either way.

Neighbours: `histories` runs the statements and shows what each name means after them.

**Invariant**: a statement names a table once, for MySQL cannot open a temporary one twice (1137); one that reads and
writes says in which order it reads. All are InnoDB's: MEMORY tables are transactional in Esker alone (docs/differences.md).
"""
from tree import Items, Node, optional

NAMES = ["p", "q", "t"]
COLUMNS = {"id": "INT", "a": "INT", "b": "DECIMAL(6,2)", "s": "VARCHAR(10)", "d": "DATE"}
CELLS = {"id": lambda r: str(r.randint(1, 9)), "a": lambda r: r.choice(["NULL", "0", "1", "2", "-7", "'3'"]), "b": lambda r: r.choice(["NULL", "1.5", "-2.25", "10"]),
         "s": lambda r: r.choice(["NULL", "''", "'a'", "'A'", "'bc'", "'é'"]), "d": lambda r: r.choice(["NULL", "'2020-02-29'", "'1999-12-31'"])}
EXPRESSIONS = ["id", "a", "b", "s", "d", "a + 1", "a * b", "CONCAT(s, a)", "IFNULL(a, 0)", "UPPER(s)", "d + INTERVAL 1 DAY", "b / 3", "NULL", "'x'", "1.50", "COALESCE(s, d)", "IF(a > 0, s, b)", "CAST(a AS CHAR)",
               "YEAR(d)", "JSON_ARRAY(a)", "a IN (1, 2)", "LEFT(s, 1)", "ABS(b)", "NOW() IS NULL", "HEX(s)", "d"]


class Temporary:
    def __init__(self, rng):
        self.rng, self.named = rng, 0

    def table(self, temporary, name, exists=None):
        r = self.rng
        lines = [f"id INT{r.choice(['', '', ' AUTO_INCREMENT'])}", *(f"{c} {sql}{r.choice(['', '', ' DEFAULT NULL', ' NOT NULL'])}" for c, sql in COLUMNS.items() if c != "id")]
        if r.random() < 0.2:
            lines.append(f"g INT AS (a * 2) {r.choice(['VIRTUAL', 'STORED'])}")
        lines.append(r.choice(["PRIMARY KEY (id)", "PRIMARY KEY (id)", "UNIQUE KEY (id)"]))
        if r.random() < 0.5:
            lines.append(r.choice(["KEY (a)", "UNIQUE KEY u (a)", "KEY k (s, a)", "KEY f ((a + 1))", "CHECK (a < 2)", "UNIQUE KEY us (s)"]))
        exists = r.choice(["", " IF NOT EXISTS"]) if exists is None else exists
        return f"CREATE {temporary}TABLE{exists} {name} ({', '.join(lines)})"

    def create(self):
        out = [self.table("", name, "") for name in NAMES[:2]]
        out += [self.insert(name) for name in NAMES[:2] for _ in range(2)]
        return out + [self.table("TEMPORARY ", self.rng.choice(NAMES), "")]

    def row(self):
        return Node("row", "(", ", ".join(make(self.rng) for make in CELLS.values()), ")")

    def insert(self, name):
        rows = Items(", ", [self.row() for _ in range(self.rng.choice([1, 2, 3]))])
        return Node("change", f"{self.rng.choice(['INSERT INTO', 'INSERT IGNORE INTO', 'REPLACE INTO'])} {name} ({', '.join(CELLS)}) VALUES ", rows)

    def where(self, prefix=""):
        r = self.rng
        return r.choice(["", f" WHERE {prefix}id < {r.randint(2, 9)}", f" WHERE {prefix}a IS NULL", f" WHERE {prefix}s = 'a'", f" WHERE {prefix}a = {r.randint(0, 2)}", f" WHERE {prefix}b > 1"])

    def select(self, name):
        """A query of one table, whose columns have names."""
        r = self.rng
        if r.random() < 0.3:
            return f"SELECT * FROM {name}{self.where()}"
        if r.random() < 0.2:
            return f"SELECT a, COUNT(*) AS n, SUM(b) AS total, MAX(s) AS m, AVG(a) AS v FROM {name}{self.where()} GROUP BY a"
        items = [f"{e} AS {e if e in COLUMNS else 'x' + str(n)}" for n, e in enumerate(r.sample(EXPRESSIONS, r.choice([1, 2, 3, 4])))]
        return f"SELECT {', '.join(items)} FROM {name}{self.where()}"

    def definition(self):
        r, name, other = self.rng, *self.rng.sample(NAMES, 2)
        temporary = r.choice(["TEMPORARY ", "TEMPORARY ", "TEMPORARY ", ""])
        roll = r.random()
        if roll < 0.25:
            return self.table(temporary, name)
        if roll < 0.4:
            return f"CREATE {temporary}TABLE {r.choice(['', 'IF NOT EXISTS '])}{name} LIKE {other}"
        if roll < 0.7:
            before = r.choice(["", "", "", " (z INT DEFAULT 5)", " (PRIMARY KEY (id))", " (id INT PRIMARY KEY)", " (s VARCHAR(3))", " (KEY (a))"])
            how = r.choice(["", "", " IGNORE", " REPLACE"]) if before else ""
            return f"CREATE {temporary}TABLE {r.choice(['', 'IF NOT EXISTS '])}{name}{before}{how} {self.select(other)}"
        return f"DROP {r.choice(['TEMPORARY ', 'TEMPORARY ', ''])}TABLE {r.choice(['', 'IF EXISTS '])}{name}"

    def alteration(self):
        r, name = self.rng, self.rng.choice(NAMES)
        column = r.choice("abs")
        self.named += 1
        what = r.choice([f"ADD COLUMN n{self.named} INT DEFAULT {r.randint(0, 9)} {r.choice(['', 'FIRST', 'AFTER id'])}", f"DROP COLUMN {column}", f"ADD KEY ({column})", f"ADD UNIQUE KEY ({column})", "ADD KEY ((a * 3))",
                         f"MODIFY {column} VARCHAR(20)", f"MODIFY {column} {COLUMNS[column]} NOT NULL", f"CHANGE {column} {column}{column} {COLUMNS[column]}", f"RENAME COLUMN {column}{column} TO {column}", "DROP PRIMARY KEY",
                         "ADD PRIMARY KEY (id)", "AUTO_INCREMENT = 20", f"ALTER {column} SET DEFAULT 1", "ENGINE = InnoDB", "FORCE", f"RENAME TO {r.choice(NAMES)}", "ADD CHECK (a <> 1)", "COMMENT 'c'", "DROP KEY a",
                         f"ADD g{self.named} INT AS (a + {self.named}) STORED", "CONVERT TO CHARACTER SET latin1", "RENAME KEY a TO aa"])
        return r.choice([f"ALTER TABLE {name} {what}"] * 5 + [f"RENAME TABLE {name} TO {r.choice(NAMES)}", f"CREATE INDEX i{self.named} ON {name} ({column})", f"DROP INDEX a ON {name}"])

    def change(self):
        r, name, other = self.rng, *self.rng.sample(NAMES, 2)
        roll = r.random()
        if roll < 0.3:
            return self.insert(name)
        if roll < 0.4:
            update = r.choice(["a = VALUES(a)", "b = 9", "s = CONCAT(s, 'x')", "id = id + 10", f"a = {name}.a + 1"])
            return Node("change", f"INSERT INTO {name} ({', '.join(CELLS)}) VALUES ", Items(", ", [self.row() for _ in range(r.choice([1, 2]))]), f" ON DUPLICATE KEY UPDATE {update}")
        if roll < 0.6:
            head = r.choice(["INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO", "INSERT INTO"])
            shift = r.choice(["", " + 1", " + 4"])
            tail = f" ON DUPLICATE KEY UPDATE {r.choice(['a = VALUES(a)', f'b = {name}.b + 1', f's = {other}.s'])}" if head == "INSERT INTO" and r.random() < 0.5 else ""
            return f"{head} {name} (id, a, b, s, d) SELECT id{shift}, a, b, s, d FROM {other}{self.where(f'{other}.')} ORDER BY id{tail}"
        if roll < 0.75:
            return f"UPDATE {r.choice(['', 'IGNORE '])}{name} SET {r.choice(['a = a + 1', 's = UPPER(s)', 'b = b * 2', 'id = id + 1', 'd = NULL', f'a = {r.randint(0, 3)}'])}{self.where()} ORDER BY id{r.choice([' DESC', '', ' LIMIT 2'])}"
        if roll < 0.83:
            return f"DELETE FROM {name}{self.where()} ORDER BY id LIMIT {r.randint(1, 4)}"
        if roll < 0.9:
            return r.choice([f"UPDATE {name} AS x JOIN {other} AS y ON x.id = y.id SET x.a = y.id", f"DELETE x FROM {name} AS x JOIN {other} AS y ON x.id = y.id WHERE y.id > 2"])
        return f"TRUNCATE TABLE {name}"

    def query(self):
        r, name, other = self.rng, *self.rng.sample(NAMES, 2)
        return r.choice([self.select(name), f"SELECT x.id, y.id, x.s FROM {name} AS x {r.choice(['JOIN', 'LEFT JOIN'])} {other} AS y ON x.{r.choice(['id', 'a'])} = y.{r.choice(['id', 'a'])}",
                         f"SELECT id, s FROM {name} WHERE {r.choice(['a', 'id'])} IN (SELECT a FROM {other})", f"SELECT COUNT(*), MAX(id) FROM {name}",
                         f"SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()", "SHOW TABLES"])

    def statement(self):
        r, roll = self.rng, self.rng.random()
        if roll < 0.18:
            return self.definition()
        if roll < 0.3:
            return self.alteration()
        if roll < 0.4:
            return r.choice(["BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s", "SET autocommit = 0", "SET autocommit = 1"])
        return self.change() if roll < 0.8 else self.query()

    def shown(self):
        return [f"SELECT * FROM {name}" for name in NAMES] + [f"SHOW CREATE TABLE {name}" for name in NAMES]
