"""Random histories: what a session may do to tables that a replica must get right.

Every kind of statement that makes events of its own is a method of `Session` whose name begins with `do_` (changes) or
`ddl_` (definitions); which ones run follows from the seed. An error is no matter, for keys are taken and tables gone:
`Counts` knows how often each kind went well, so that a kind that never does is noticed. The servers have errors of their
own, but a replica sees only what its source has done.
"""
import os, random, threading

import wire
from servers import ESKER, MARIADB, MYSQL

WORDS = ["a", "A", "ä", "b", "B ", "ss", "ß", "abcdef", "abcxyz", "ABCdef", "", " ", "naïve", "don''t", "back\\\\slash", "Zürich", "0", "x y"]
WIDE = WORDS + ["漢字", "😀", "Ω", "ю", "é", "é"]
DATES = ["2024-02-29", "1000-01-01", "9999-12-31", "1999-12-31", "2038-01-19"]
CLOCKS = ["00:00:00", "23:59:59.999999", "12:34:56.5", "01:02:03.000001"]

# Name, declaration and how a value is made.
COLUMNS = [
    ("i1", "TINYINT", lambda r: r.choice(["-128", "127", "0", str(r.randint(-128, 127))])),
    ("i2", "SMALLINT UNSIGNED", lambda r: r.choice(["65535", "0", str(r.randint(0, 65535))])),
    ("i3", "MEDIUMINT", lambda r: r.choice(["-8388608", "8388607", str(r.randint(-999, 999))])),
    ("i4", "INT UNSIGNED", lambda r: r.choice(["4294967295", str(r.randint(0, 99))])),
    ("i8", "BIGINT", lambda r: r.choice(["-9223372036854775808", "9223372036854775807", str(r.randint(-9, 9))])),
    ("u8", "BIGINT UNSIGNED", lambda r: r.choice(["18446744073709551615", str(r.randint(0, 9))])),
    ("f4", "FLOAT", lambda r: r.choice(["1.5", "-0.25", "3e30", str(r.randint(-9, 9))])),
    ("f8", "DOUBLE", lambda r: r.choice(["-2.5e300", "0.1", "1e-200", str(r.randint(-9, 9))])),
    ("n1", "DECIMAL(65,30)", lambda r: f"{r.randint(-10**30, 10**30)}.{r.randint(0, 10**29)}"),
    ("n2", "DECIMAL(9,9)", lambda r: r.choice(["0.999999999", "-0.000000001", "0"])),
    ("n3", "DECIMAL(14,4)", lambda r: f"{r.randint(-10**9, 10**9)}.{r.randint(0, 9999)}"),
    ("b1", "BIT(1)", lambda r: r.choice(["0", "1"])),
    ("b7", "BIT(13)", lambda r: str(r.randint(0, 8191))),
    ("b8", "BIT(64)", lambda r: str(r.randint(0, 2**64 - 1))),
    ("d0", "DATE", lambda r: f"'{r.choice(DATES)}'"),
    ("t0", "TIME", lambda r: r.choice(["'-838:59:59'", "'838:59:59'", f"'{r.choice(CLOCKS)}'"])),
    ("t3", "TIME(3)", lambda r: r.choice(["'-00:00:00.001'", f"'{r.choice(CLOCKS)}'"])),
    ("d6", "DATETIME(6)", lambda r: f"'{r.choice(DATES[:4])} {r.choice(CLOCKS[:3])}'"),
    ("d1", "DATETIME", lambda r: f"'2000-01-01 {r.choice(CLOCKS)}'"),
    ("s2", "TIMESTAMP(2) NULL", lambda r: f"'20{r.randint(10, 30)}-05-05 {r.choice(CLOCKS)}'"),
    ("s0", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", lambda r: "'1970-01-01 00:00:01'"),
    ("y0", "YEAR", lambda r: r.choice(["1901", "2155", "2024", "0"])),
    ("c1", "CHAR(10)", lambda r: f"'{r.choice(WIDE)}'"),
    ("c2", "CHAR(200) CHARACTER SET latin1", lambda r: f"'{r.choice(WORDS)}'"),
    ("v1", "VARCHAR(20) CHARACTER SET latin1", lambda r: f"'{r.choice(WORDS)}'"),
    ("v2", "VARCHAR(300) COLLATE utf8mb4_bin", lambda r: f"'{r.choice(WIDE) * r.choice([1, 40])}'"),
    ("x1", "BINARY(7)", lambda r: f"x'{r.randbytes(r.randint(0, 7)).hex()}'"),
    ("x2", "VARBINARY(300)", lambda r: f"x'{r.randbytes(r.choice([0, 3, 300])).hex()}'"),
    ("l1", "TINYTEXT", lambda r: f"'{r.choice(WIDE)}'"),
    ("l2", "TEXT", lambda r: f"REPEAT('{r.choice(WIDE)}', {r.choice([1, 3000])})"),
    ("l3", "MEDIUMBLOB", lambda r: f"REPEAT(x'{r.randbytes(3).hex()}', {r.choice([1, 30000])})"),
    ("l4", "LONGTEXT", lambda r: f"'{r.choice(WIDE)}'"),
    ("e1", "ENUM('x','y','ä','')", lambda r: r.choice(["'x'", "'y'", "'ä'", "1", "4"])),
    ("m1", "SET('p','q','r','ö')", lambda r: r.choice(["''", "'p,r'", "'ö'", "15"])),
]
JSON = [
    ("j1", "JSON", lambda r: r.choice(['\'{"a": 1, "b": [1, 2.5, "x", null, true]}\'', "'[]'", "'null'", '\'"é"\'', "'-1.5e10'",
                                       "CAST(CAST('2020-01-01 01:02:03' AS DATETIME) AS JSON)"])),
]

TABLES = [
    "CREATE TABLE d.uniques (id INT PRIMARY KEY, u INT, name VARCHAR(20), code VARCHAR(10) CHARACTER SET latin1, b VARBINARY(9), "
    "UNIQUE (u), UNIQUE (name), UNIQUE two (code, b))",
    "CREATE TABLE d.prefixes (name VARCHAR(40) NOT NULL, v INT, UNIQUE (name(3)), KEY (v))",
    "CREATE TABLE e.padded (name VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
    "CREATE TABLE d.bare (a INT, b VARCHAR(20), c DOUBLE)",
    "CREATE TABLE d.halves (a INT, b INT, c INT, KEY (a, b))",
    "CREATE TABLE e.nullable (u INT UNIQUE, v INT)",
    "CREATE TABLE d.parents (id INT PRIMARY KEY, v INT, code INT UNIQUE)",
    "CREATE TABLE e.children (id INT PRIMARY KEY AUTO_INCREMENT, p INT, q INT, "
    "CONSTRAINT one FOREIGN KEY (p) REFERENCES d.parents (id) ON DELETE CASCADE ON UPDATE CASCADE, "
    "CONSTRAINT two FOREIGN KEY (q) REFERENCES d.parents (code) ON DELETE SET NULL ON UPDATE SET NULL)",
    "CREATE TABLE e.grandchildren (id INT PRIMARY KEY, c INT, CONSTRAINT three FOREIGN KEY (c) REFERENCES children (id) ON DELETE CASCADE)",
    "CREATE TABLE d.nodes (id INT PRIMARY KEY, up INT, CONSTRAINT upward FOREIGN KEY (up) REFERENCES nodes (id) ON DELETE CASCADE)",
    "CREATE TABLE d.made (id INT PRIMARY KEY, a INT, b VARCHAR(20), s INT GENERATED ALWAYS AS (a * 2) STORED, "
    "v VARCHAR(30) GENERATED ALWAYS AS (CONCAT(b, '-', a)) VIRTUAL, UNIQUE (v), KEY (s))",
    "CREATE TABLE d.numbered (id INT PRIMARY KEY AUTO_INCREMENT, v INT, w VARCHAR(20), KEY (v))",
    "CREATE TABLE e.counters (id INT PRIMARY KEY, n INT NOT NULL)",
    "CREATE TABLE d.changing (id INT PRIMARY KEY, v INT, w VARCHAR(30), KEY old (v))",
    "CREATE TABLE d.ranges (id INT, k INT, v VARCHAR(30), PRIMARY KEY (id, k), KEY (v)) PARTITION BY RANGE (k) "
    "(PARTITION low VALUES LESS THAN (10), PARTITION middle VALUES LESS THAN (20), PARTITION high VALUES LESS THAN MAXVALUE)",
    "CREATE TABLE e.swapped (id INT, k INT, v VARCHAR(30), PRIMARY KEY (id, k), KEY (v))",
    "CREATE TABLE d.hashed (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE TABLE d.large (id INT PRIMARY KEY, b LONGBLOB, v INT)",
    "CREATE TABLE d.watched (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE e.noted (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(20), v INT)",
]
# What rows of `watched` set off at the source comes to the replica as rows.
TRIGGERS = [
    "CREATE TRIGGER d.before_insert BEFORE INSERT ON d.watched FOR EACH ROW SET NEW.v = NEW.v + 1000",
    "CREATE TRIGGER d.after_update AFTER UPDATE ON d.watched FOR EACH ROW INSERT INTO e.noted (what, v) VALUES ('update', NEW.v - OLD.v)",
    "CREATE TRIGGER d.after_delete AFTER DELETE ON d.watched FOR EACH ROW UPDATE e.noted SET what = 'gone' WHERE v = OLD.v",
]
# MariaDB has no keys over expressions, and its JSON is a text.
NOT_MARIADB = [
    "CREATE TABLE d.shown (id INT PRIMARY KEY, a VARCHAR(20), UNIQUE ((LOWER(a))))",
    "CREATE TABLE d.docs (id INT PRIMARY KEY, j JSON, k JSON, v INT, n VARCHAR(90) AS (j->>'$.n') VIRTUAL, KEY (n))",
]
COUNTERS = 8
DOCUMENT = ('{"n": 1, "list": [1, 2, 3], "o": {"p": "q"}, "t": "' + "0123456789" * 6 + '"}')


class Counts:
    """How often each kind of statement went well, and failed."""

    def __init__(self):
        self.lock, self.of = threading.Lock(), {}

    def add(self, kind, well):
        with self.lock:
            entry = self.of.setdefault(kind, [0, 0])
            entry[0 if well else 1] += 1

    def never(self):
        return sorted(kind for kind, (well, _) in self.of.items() if not well)


def prepare(server):
    """The databases and tables."""
    columns = COLUMNS + ([] if server.make == MARIADB else JSON)
    every = ", ".join(f"{name} {declared}" for name, declared, _ in columns)
    tables = TABLES + ([] if server.make == MARIADB else NOT_MARIADB)
    rows = ", ".join(f"({n}, 0)" for n in range(COUNTERS))
    server.sql("CREATE DATABASE d", "CREATE DATABASE e", f"CREATE TABLE d.types (id INT PRIMARY KEY AUTO_INCREMENT, {every})",
               *tables, *TRIGGERS, f"INSERT INTO e.counters VALUES {rows}")


class Session:
    """What one connection does, from a seed."""

    def __init__(self, server, seed, number, counts, may_define):
        self.server, self.number, self.counts, self.may_define = server, number, counts, may_define
        self.rng = random.Random(seed * 1009 + number)
        self.columns = COLUMNS + ([] if server.make == MARIADB else JSON)
        self.names = 0
        mine = [name for name in dir(self) if name.startswith("do_")]
        self.changes = [name for name in mine if not (server.make == MARIADB and name in ("do_document", "do_shown"))]
        self.definitions = [name for name in dir(self) if name.startswith("ddl_")]
        self.open()

    def open(self):
        self.connection = self.server.connect()
        for setting in ("lock_wait_timeout = 5", "innodb_lock_wait_timeout = 1"):
            self.connection.query(f"SET SESSION {setting}")
        self.settings()

    def settings(self):
        """Settings that change what events look like."""
        r = self.rng
        image = r.choice(["FULL", "FULL", "MINIMAL", "NOBLOB"])
        self.connection.query(f"SET SESSION binlog_row_image = {image}, foreign_key_checks = 1, sql_mode = DEFAULT")
        if self.server.make != MARIADB:
            self.connection.query(f"SET binlog_rows_query_log_events = {r.randint(0, 1)}")
            self.connection.query(f"SET binlog_transaction_compression = {int(r.random() < 0.2)}")
            self.connection.query(f"SET binlog_row_value_options = '{r.choice(['', 'PARTIAL_JSON'])}'")

    def run(self, transactions):
        for _ in range(transactions):
            self.transaction()
        self.connection.close()

    # Statements

    def ask(self, text, kind=None):
        try:
            self.connection.query(text)
        except wire.SqlError:
            well = False
        else:
            well = True
        if kind:
            self.counts.add(kind, well)
        return well

    def fresh(self, word):
        self.names += 1
        return f"{word}_{self.number}_{self.names}"

    def transaction(self):
        r = self.rng
        roll = r.random()
        if self.may_define and roll < 0.10:
            name = r.choice(self.definitions)
            getattr(self, name)()
        elif roll < 0.18:
            self.xa()
        elif roll < 0.35:
            self.change()
        elif roll < 0.40:
            self.settings()
        else:
            self.ask("BEGIN")
            for _ in range(r.choice([1, 1, 2, 3, 6])):
                self.change()
                if r.random() < 0.15:
                    self.savepoint()
            self.ask("COMMIT" if r.random() < 0.9 else "ROLLBACK")

    def change(self):
        name = self.rng.choice(self.changes)
        getattr(self, name)(name)

    def savepoint(self):
        self.ask("SAVEPOINT s")
        self.change()
        self.change()
        self.ask(self.rng.choice(["ROLLBACK TO s", "ROLLBACK TO s", "RELEASE SAVEPOINT s"]), "savepoint")

    def xa(self):
        r, name = self.rng, self.fresh("x")
        self.ask(f"XA START '{name}'")
        for _ in range(r.choice([0, 1, 2])):
            self.change()
        if not self.ask(f"XA END '{name}'"):
            self.ask(f"XA ROLLBACK '{name}'")
            return
        # MariaDB's prepared transactions block replicas of theirs that come to the same rows before the decision.
        if r.random() < 0.3 or self.server.make == MARIADB:
            self.ask(f"XA COMMIT '{name}' ONE PHASE", "XA COMMIT ONE PHASE")
            return
        if not self.ask(f"XA PREPARE '{name}'", "XA PREPARE"):
            self.ask(f"XA ROLLBACK '{name}'")
            return
        if r.random() < 0.3:
            # Somebody else decides.
            self.connection.close()
            self.open()
        verb = r.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        done = False
        for _ in range(100):
            done = self.ask(f"XA {verb} '{name}'", f"XA {verb}")
            if done:
                break
        if not done:
            raise AssertionError(f"{name} cannot be decided")

    # Changes

    def number_below(self, n):
        return self.rng.randint(0, n - 1)

    def value(self, make):
        return "NULL" if self.rng.random() < 0.15 else make(self.rng)

    def do_types_insert(self, kind):
        some = self.rng.sample(self.columns, self.rng.choice([1, 5, len(self.columns)]))
        names = ", ".join(name for name, _, _ in some)
        row = lambda: "(" + ", ".join(self.value(make) for _, _, make in some) + ")"  # noqa: E731
        rows = ", ".join(row() for _ in range(self.rng.choice([1, 1, 4])))
        verb = self.rng.choice(["INSERT", "INSERT IGNORE"])
        self.ask(f"{verb} INTO d.types ({names}) VALUES {rows}", kind)

    def do_types_update(self, kind):
        some = self.rng.sample(self.columns, self.rng.choice([1, 2, 5]))
        sets = ", ".join(f"{name} = {self.value(make)}" for name, _, make in some)
        self.ask(f"UPDATE d.types SET {sets} ORDER BY id DESC LIMIT {self.rng.choice([1, 3])}", kind)

    def do_types_delete(self, kind):
        self.ask(f"DELETE FROM d.types ORDER BY id LIMIT {self.rng.choice([1, 2])}", kind)

    def unique_row(self):
        r = self.rng
        return (f"({self.number_below(40)}, {self.number_below(40)}, '{r.choice(WIDE)}{r.choice(['', '1', '2'])}', "
                f"'{r.choice(WORDS)[:9]}', x'{r.randbytes(1).hex()}')")

    def do_uniques(self, kind):
        r = self.rng
        self.ask(r.choice([
            f"INSERT INTO d.uniques VALUES {self.unique_row()}",
            f"INSERT IGNORE INTO d.uniques VALUES {self.unique_row()}, {self.unique_row()}",
            f"UPDATE d.uniques SET u = {self.number_below(40)} WHERE id = {self.number_below(40)}",
            f"UPDATE d.uniques SET name = '{r.choice(WIDE)}' WHERE id = {self.number_below(40)}",
            f"UPDATE d.uniques SET code = UPPER(code), b = x'{r.randbytes(1).hex()}' WHERE u = {self.number_below(40)}",
            f"UPDATE d.uniques SET id = id + 50 WHERE id = {self.number_below(40)}",
            f"DELETE FROM d.uniques WHERE id IN ({self.number_below(90)}, {self.number_below(40)})",
        ]), kind)

    def do_replace(self, kind):
        self.ask(f"REPLACE INTO d.uniques VALUES {self.unique_row()}, {self.unique_row()}", kind)

    def do_duplicate(self, kind):
        self.ask(f"INSERT INTO d.uniques VALUES {self.unique_row()} ON DUPLICATE KEY UPDATE u = u + 100, name = CONCAT(name, 'x')", kind)

    def do_swap(self, kind):
        """Two rows swap what is unique, over a value that nobody has."""
        one, two = self.rng.sample(range(40), 2)
        spare = 1000 + self.number
        well = True
        for text in (f"SELECT u INTO @one FROM d.uniques WHERE id = {one}", f"SELECT u INTO @two FROM d.uniques WHERE id = {two}",
                     f"UPDATE d.uniques SET u = {spare} WHERE id = {one}", f"UPDATE d.uniques SET u = @one WHERE id = {two}",
                     f"UPDATE d.uniques SET u = @two WHERE id = {one}"):
            well = well and self.ask(text)
        self.counts.add(kind, well)

    def do_shift(self, kind):
        down = self.rng.random() < 0.5
        self.ask(f"UPDATE d.uniques SET u = u {'-' if down else '+'} 1 ORDER BY u {'' if down else 'DESC'}", kind)

    def do_prefixes(self, kind):
        r = self.rng
        self.ask(r.choice([
            f"INSERT INTO d.prefixes VALUES ('{r.choice(WIDE)}', {self.number_below(99)})",
            f"REPLACE INTO d.prefixes VALUES ('{r.choice(WIDE)}{self.number_below(9)}', {self.number_below(99)})",
            f"UPDATE d.prefixes SET name = '{r.choice(WIDE)}z' WHERE v < {self.number_below(99)} LIMIT 1",
            f"DELETE FROM d.prefixes WHERE name LIKE '{r.choice(WIDE)[:1]}%'",
        ]), kind)

    def do_padded(self, kind):
        r, name = self.rng, self.rng.choice(WIDE)
        self.ask(r.choice([
            f"INSERT INTO e.padded VALUES ('{name}', 1) ON DUPLICATE KEY UPDATE v = v + 1, name = '{name} '",
            f"UPDATE e.padded SET name = '{r.choice(WIDE)}' WHERE name = '{name}'", f"DELETE FROM e.padded WHERE name = '{name}'",
        ]), kind)

    def do_bare(self, kind):
        r, a = self.rng, self.number_below(9)
        self.ask(r.choice([
            f"INSERT INTO d.bare VALUES ({a}, '{r.choice(WIDE)}', {a} / 3), ({a}, 'same', 1), ({a}, 'same', 1), (NULL, NULL, NULL)",
            f"UPDATE d.bare SET c = c + 1 WHERE a = {a} ORDER BY c LIMIT 2", f"UPDATE d.bare SET b = NULL WHERE a = {a}",
            f"DELETE FROM d.bare WHERE a = {a} ORDER BY c LIMIT 3", "DELETE FROM d.bare WHERE a IS NULL LIMIT 1",
        ]), kind)

    def do_halves(self, kind):
        a = self.number_below(6)
        self.ask(self.rng.choice([
            f"INSERT INTO d.halves VALUES ({a}, {a}, 0), ({a}, NULL, 0), ({a}, NULL, 0)", f"UPDATE d.halves SET c = c + 1 WHERE a = {a}",
            f"UPDATE d.halves SET a = {a} WHERE b = {self.number_below(6)}", f"DELETE FROM d.halves WHERE a = {a} LIMIT 4",
        ]), kind)

    def do_nullable(self, kind):
        u = self.number_below(30)
        self.ask(self.rng.choice([
            f"INSERT INTO e.nullable VALUES ({u}, 0), (NULL, {u})", f"UPDATE e.nullable SET u = NULL WHERE u = {u}",
            f"UPDATE e.nullable SET v = v + 1 WHERE u IS NULL ORDER BY v LIMIT 2", f"DELETE FROM e.nullable WHERE u > {u} LIMIT 3",
            f"UPDATE e.nullable SET u = {u} WHERE u IS NULL ORDER BY v LIMIT 1",
        ]), kind)

    def do_family(self, kind):
        r, n, m = self.rng, self.number_below(20), self.number_below(20)
        self.ask(r.choice([
            f"INSERT INTO d.parents VALUES ({n}, 0, {m}), ({m}, 1, {n} + 100)",
            f"INSERT INTO e.children (p, q) VALUES ({n}, {m}), ({m}, NULL)",
            f"INSERT INTO e.grandchildren SELECT id + 1000, id FROM e.children WHERE p = {n}",
            f"UPDATE d.parents SET id = {m} + 30, v = v + 1 WHERE id = {n}", f"UPDATE d.parents SET code = {m} WHERE id = {n}",
            f"UPDATE d.parents SET v = v + 1 WHERE id > {n}",
            f"DELETE FROM d.parents WHERE id = {n}", f"DELETE FROM d.parents WHERE id IN ({n}, {m} + 30)",
            f"DELETE FROM e.children WHERE p = {n}", f"INSERT IGNORE INTO e.grandchildren VALUES ({n}, {m})",
        ]), kind)

    def do_replaced_parent(self, kind):
        n = self.number_below(20)
        self.ask(f"REPLACE INTO d.parents VALUES ({n}, 7, {self.number_below(20)})", kind)

    def do_nodes(self, kind):
        n = self.number_below(30)
        self.ask(self.rng.choice([f"INSERT INTO d.nodes VALUES ({n}, NULL), ({n} + 30, {n}), ({n} + 60, {n} + 30)",
                                  f"DELETE FROM d.nodes WHERE id = {n}", f"UPDATE d.nodes SET up = NULL WHERE id = {n} + 30"]), kind)

    def do_unchecked(self, kind):
        self.ask("SET foreign_key_checks = 0")
        n = self.number_below(20)
        self.ask(self.rng.choice([f"INSERT INTO e.children (p) VALUES ({n} + 500)", f"DELETE FROM d.parents WHERE id = {n}"]), kind)
        self.ask("SET foreign_key_checks = 1")

    def do_made(self, kind):
        n, a = self.number_below(30), self.number_below(99)
        self.ask(self.rng.choice([
            f"INSERT INTO d.made (id, a, b) VALUES ({n}, {a}, 'b{n}')", f"UPDATE d.made SET a = {a} WHERE id = {n}",
            f"UPDATE d.made SET b = 'b{a}' WHERE s > {a}", f"REPLACE INTO d.made (id, a, b) VALUES ({n}, {a}, 'r')",
            f"DELETE FROM d.made WHERE v = 'b{n}-{a}' OR s = {a}", f"UPDATE d.made SET id = id + 100 WHERE id = {n}",
        ]), kind)

    def do_numbered(self, kind):
        v = self.number_below(99)
        self.ask(self.rng.choice([
            f"INSERT INTO d.numbered (v, w) VALUES ({v}, 'w'), ({v}, NULL)", f"INSERT INTO d.numbered (v) SELECT v + 1 FROM d.numbered WHERE v < {v} LIMIT 5",
            f"UPDATE d.numbered SET v = v + 1, w = UUID_SHORT() % 1000 WHERE v = {v}", f"DELETE FROM d.numbered WHERE v BETWEEN {v} AND {v} + 10",
            f"UPDATE d.numbered a JOIN d.uniques b ON a.v = b.id SET a.v = a.v + 1, b.u = b.u + 40",
            f"DELETE a, b FROM d.numbered a JOIN d.halves b ON a.v = b.a WHERE a.v = {self.number_below(6)}",
        ]), kind)

    def do_counters(self, kind):
        """Hot rows: whatever is applied twice or not at all shows."""
        self.ask(f"UPDATE e.counters SET n = n + 1 WHERE id IN ({self.number_below(COUNTERS)}, {self.number_below(COUNTERS)})", kind)

    def do_copied(self, kind):
        self.ask("INSERT INTO d.types (i4, l4, d6) SELECT v, w, '2020-02-02 02:02:02.123456' FROM d.numbered LIMIT 7", kind)

    def do_temporary(self, kind):
        name = self.fresh("temp")
        if self.ask(f"CREATE TEMPORARY TABLE d.{name} (id INT PRIMARY KEY, v INT)"):
            self.ask(f"INSERT INTO d.{name} VALUES (1, {self.number_below(99)}), (2, 2)")
            self.ask(f"INSERT INTO d.numbered (v, w) SELECT v, 'temp' FROM d.{name}", kind)
            self.ask(f"UPDATE d.{name} SET v = 3")
            self.ask(f"DROP TEMPORARY TABLE d.{name}")

    def do_load(self, kind):
        r, name = self.rng, self.fresh("load") + ".txt"
        with open(os.path.join(self.server.place, name), "w", encoding="utf8") as f:
            for _ in range(r.choice([1, 20])):
                f.write(f"{self.number_below(60)}\t{self.number_below(60)}\t{r.choice(WIDE).strip()}\t\\N\tzz\n")
        how = r.choice(["REPLACE", "IGNORE", ""])
        self.ask(f"LOAD DATA INFILE '{self.server.seen}/{name}' {how} INTO TABLE d.uniques CHARACTER SET utf8mb4", kind)
        os.remove(os.path.join(self.server.place, name))

    def do_document(self, kind):
        r, n = self.rng, self.number_below(8)
        self.ask(r.choice([
            f"INSERT INTO d.docs (id, j, k, v) VALUES ({n}, '{DOCUMENT}', '{DOCUMENT}', 0)",
            f"INSERT INTO d.docs (id, j, k, v) VALUES ({n}, '[1, 2, {{\"a\": {n}}}]', NULL, 0)",
            f"UPDATE d.docs SET j = JSON_SET(j, '$.n', {self.number_below(999)}), v = v + 1 WHERE id = {n}",
            f"UPDATE d.docs SET j = JSON_SET(j, '$.o.p', 'new', '$.added', CAST('[1, 2]' AS JSON)) WHERE id <= {n}",
            f"UPDATE d.docs SET j = JSON_REPLACE(j, '$.list[1]', 'much longer than what has been there'), k = JSON_REMOVE(k, '$.t') WHERE id = {n}",
            f"UPDATE d.docs SET j = JSON_REMOVE(j, '$.list[0]') WHERE id = {n}", f"UPDATE d.docs SET k = JSON_SET(k, '$.list[9]', {n}) WHERE id = {n}",
            f"UPDATE d.docs SET j = JSON_ARRAY_APPEND(j, '$.list', 9) WHERE id = {n}", f"UPDATE d.docs SET j = k, k = j WHERE id = {n}",
            f"UPDATE d.docs SET id = id + 10, j = JSON_SET(j, '$.n', NULL) WHERE id = {n}", f"DELETE FROM d.docs WHERE id IN ({n}, {n} + 10)",
        ]), kind)

    def do_shown(self, kind):
        n, word = self.number_below(20), self.rng.choice(WIDE)
        self.ask(self.rng.choice([f"INSERT INTO d.shown VALUES ({n}, '{word}')", f"UPDATE d.shown SET a = UPPER(a) WHERE id = {n}",
                                  f"UPDATE d.shown SET a = '{word}{n}' WHERE id = {n}", f"REPLACE INTO d.shown VALUES ({n}, '{word}')",
                                  f"DELETE FROM d.shown WHERE a = '{word}'"]), kind)

    def do_said(self, kind):
        """A statement that is logged as such, by makes that do that."""
        if self.server.make == ESKER:
            return self.do_changing(kind)
        n = self.number_below(30)
        if self.ask("SET SESSION binlog_format = STATEMENT"):
            self.ask(f"SET @n = {n}, @t = 'ü\\'{n}'")
            self.ask(self.rng.choice([f"INSERT INTO d.changing (id, v, w) VALUES ({n}, @n, @t)", f"UPDATE d.changing SET v = v + @n WHERE id = {n}",
                                      f"REPLACE INTO d.changing (id, v, w) VALUES ({n}, RAND() * 1000, NOW())"]), kind)
            self.ask("SET SESSION binlog_format = ROW")

    def do_changing(self, kind):
        n = self.number_below(30)
        self.ask(self.rng.choice([f"INSERT INTO d.changing (id, v, w) VALUES ({n}, {n}, 'w{n}')", f"UPDATE d.changing SET v = v + 1 WHERE id <= {n}",
                                  f"UPDATE d.changing SET w = CONCAT(w, 'ß') WHERE id = {n}", f"DELETE FROM d.changing WHERE id = {n}"]), kind)

    def do_ranges(self, kind):
        """Rows that come, go, and move from one partition to another."""
        n, k = self.number_below(20), self.number_below(30)
        self.ask(self.rng.choice([
            f"INSERT INTO d.ranges VALUES ({n}, {k}, 'v{n}'), ({n} + 20, {k} + 5, NULL)", f"UPDATE d.ranges SET k = k + 11 WHERE id = {n}",
            f"REPLACE INTO d.ranges VALUES ({n}, {k}, 'r'), ({n}, 25, 's')", f"UPDATE d.ranges SET v = CONCAT(v, 'x') WHERE k BETWEEN {k} AND {k} + 9",
            f"DELETE FROM d.ranges WHERE k = {k} OR v = 'v{n}'", f"DELETE FROM d.ranges PARTITION (middle) LIMIT 2",
        ]), kind)

    def do_hashed(self, kind):
        n = self.number_below(60)
        self.ask(self.rng.choice([f"INSERT INTO d.hashed VALUES ({n}, 0) ON DUPLICATE KEY UPDATE v = v + 1, id = id + 60",
                                  f"UPDATE d.hashed SET id = id + 61 WHERE id = {n}", f"DELETE FROM d.hashed WHERE id > {n} LIMIT 2"]), kind)

    def do_large(self, kind):
        """Rows that are longer than an event is to be, and than a relay log's buffer."""
        r, n = self.rng, self.number_below(4)
        if r.random() < 0.7:
            return self.do_watched("do_watched")
        text = f"REPEAT(x'{r.randbytes(5).hex()}', {r.choice([2_000, 30_000, 250_000])})"
        self.ask(r.choice([f"REPLACE INTO d.large VALUES ({n}, {text}, 0)", f"UPDATE d.large SET v = v + 1 WHERE id = {n}",
                           f"UPDATE d.large SET b = {text} WHERE id = {n}", f"DELETE FROM d.large WHERE id = {n}"]), kind)

    def do_watched(self, kind):
        n = self.number_below(20)
        self.ask(self.rng.choice([f"INSERT IGNORE INTO d.watched VALUES ({n}, {n}), ({n} + 1, 0)", f"UPDATE d.watched SET v = v + 1 WHERE id <= {n}",
                                  f"REPLACE INTO d.watched VALUES ({n}, 3)", f"DELETE FROM d.watched WHERE id IN ({n}, {n} + 1)"]), kind)

    # Definitions

    def ddl_partitions(self):
        self.ask(self.rng.choice([
            "ALTER TABLE d.hashed ADD PARTITION PARTITIONS 1", "ALTER TABLE d.hashed COALESCE PARTITION 1",
            "ALTER TABLE d.ranges TRUNCATE PARTITION low", "ALTER TABLE d.ranges REBUILD PARTITION middle",
            "ALTER TABLE d.ranges REORGANIZE PARTITION high INTO (PARTITION more VALUES LESS THAN (40), PARTITION high VALUES LESS THAN MAXVALUE)",
            "ALTER TABLE d.ranges REORGANIZE PARTITION more, high INTO (PARTITION high VALUES LESS THAN MAXVALUE)",
            "ALTER TABLE d.ranges DROP PARTITION more", "ALTER TABLE d.ranges EXCHANGE PARTITION low WITH TABLE e.swapped",
            "ALTER TABLE d.ranges ANALYZE PARTITION ALL",
        ]), "PARTITION")

    def ddl_trigger(self):
        self.ask(self.rng.choice(["DROP TRIGGER d.before_insert", TRIGGERS[0], "DROP TRIGGER IF EXISTS d.after_delete", TRIGGERS[2]]), "TRIGGER")

    def ddl_metadata(self):
        self.ask(f"SET GLOBAL binlog_row_metadata = {self.rng.choice(['MINIMAL', 'FULL'])}", "binlog_row_metadata")

    def ddl_alter(self):
        r, name = self.rng, self.fresh("c")
        self.ask("ALTER TABLE d.changing " + r.choice([
            f"ADD COLUMN {name} INT DEFAULT 7", f"ADD COLUMN {name} VARCHAR(20) NOT NULL DEFAULT 'é' FIRST",
            f"ADD COLUMN {name} DATETIME(3) AFTER v", "MODIFY v BIGINT", "MODIFY w VARCHAR(60)", "MODIFY w TEXT", "MODIFY v INT",
            "DROP INDEX old", "ADD INDEX old (v)", f"ADD INDEX {name} (w(5), v)", "RENAME COLUMN w TO ww, RENAME COLUMN v TO v",
            "RENAME COLUMN ww TO w", "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "ALTER v SET DEFAULT 3", "ENGINE = InnoDB",
        ]), "ALTER TABLE")

    def ddl_drop_column(self):
        rows = self.connection.query("SELECT column_name FROM information_schema.columns WHERE table_schema = 'd' AND "
                                     "table_name = 'changing' AND column_name LIKE 'c\\_%'").rows
        if rows:
            self.ask(f"ALTER TABLE d.changing DROP COLUMN {self.rng.choice(rows)[0].decode()}", "DROP COLUMN")

    def ddl_types(self):
        name = self.fresh("c")
        self.ask(f"ALTER TABLE d.types ADD COLUMN {name} {self.rng.choice(['INT', 'VARCHAR(20)', 'TIMESTAMP(3) NULL'])} "
                 f"AFTER {self.rng.choice(self.columns)[0]}", "ADD COLUMN")

    def ddl_rename(self):
        self.ask("RENAME TABLE d.bare TO d.other, d.halves TO d.bare, d.other TO d.halves", "RENAME TABLE")

    def ddl_truncate(self):
        self.ask(self.rng.choice(["TRUNCATE d.bare", "TRUNCATE e.nullable", "TRUNCATE TABLE d.prefixes"]), "TRUNCATE")

    def ddl_like(self):
        name = self.fresh("liked")
        self.ask(f"CREATE TABLE e.{name} LIKE d.uniques", "CREATE TABLE LIKE")
        self.ask(f"INSERT INTO e.{name} SELECT * FROM d.uniques")
        self.ask(f"DELETE FROM e.{name} WHERE u IS NULL")
        self.ask(f"ALTER TABLE e.{name} DROP PRIMARY KEY, ADD PRIMARY KEY (id, u)", "PRIMARY KEY")
        self.ask(f"DELETE FROM e.{name} WHERE u > 20")

    def ddl_select(self):
        self.ask(f"CREATE TABLE e.{self.fresh('sel')} (PRIMARY KEY (id)) SELECT id, v * 2 AS v2, w FROM d.numbered", "CREATE TABLE SELECT")

    def ddl_drop(self):
        rows = self.connection.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'e' AND "
                                     "(table_name LIKE 'sel\\_%' OR table_name LIKE 'liked\\_%')").rows
        if len(rows) > 3:
            self.ask("DROP TABLE " + ", ".join(f"e.{row[0].decode()}" for row in rows[:2]), "DROP TABLE")

    def ddl_view(self):
        r = self.rng
        self.ask(r.choice(["CREATE OR REPLACE VIEW e.seen AS SELECT id, v + 1 AS more FROM d.numbered WHERE v > 3",
                           "CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW e.seen (a, b) AS SELECT id, u FROM d.uniques WITH CHECK OPTION",
                           "ALTER VIEW e.seen AS SELECT p.id, COUNT(*) n FROM d.parents p LEFT JOIN e.children c ON c.p = p.id GROUP BY p.id",
                           "DROP VIEW IF EXISTS e.seen"]), "VIEW")

    def ddl_index(self):
        self.ask(self.rng.choice(["CREATE INDEX extra ON d.numbered (w, v)", "DROP INDEX extra ON d.numbered"]), "INDEX")

    def ddl_key_comes_and_goes(self):
        self.ask("ALTER TABLE d.bare ADD COLUMN k INT AUTO_INCREMENT PRIMARY KEY", "KEY")
        self.do_bare("bare")
        self.ask("ALTER TABLE d.bare DROP COLUMN k", "KEY")

    def ddl_account(self):
        name = self.fresh("u")
        if self.server.make == MARIADB:
            return
        self.ask(f"CREATE USER {name}@localhost IDENTIFIED BY 'p{name}'", "CREATE USER")
        self.ask(f"GRANT SELECT, UPDATE (v) ON d.numbered TO {name}@localhost", "GRANT")
        self.ask(self.rng.choice([f"DROP USER {name}@localhost", f"ALTER USER {name}@localhost ACCOUNT LOCK",
                                  f"RENAME USER {name}@localhost TO {name}_x@localhost"]), "ALTER USER")

    def ddl_database(self):
        name = self.fresh("base")
        self.ask(f"CREATE DATABASE {name} CHARACTER SET latin1", "CREATE DATABASE")
        self.ask(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))")
        self.ask(f"INSERT INTO {name}.t VALUES (1, 'ä')")
        self.ask(f"DROP DATABASE {name}", "DROP DATABASE")

    def ddl_upkeep(self):
        self.ask(self.rng.choice(["ANALYZE TABLE d.numbered", "OPTIMIZE TABLE d.halves", "FLUSH BINARY LOGS", "FLUSH TABLES"]), "upkeep")


def play(server, seed, sessions, transactions):
    """Runs a history on all sessions at once, and says how often each kind went well."""
    counts, failures = Counts(), []

    def one(number):
        try:
            Session(server, seed, number, counts, may_define=number == 0).run(transactions)
        except Exception as e:  # noqa: BLE001 (of a thread: told where it is joined)
            failures.append(e)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return counts
