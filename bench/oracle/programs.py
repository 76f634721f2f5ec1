"""Random stored programs: functions, procedures and triggers that compute, branch, loop, handle errors and change rows.

Neighbours: `__main__` makes them on both servers, calls them, and compares errors, warnings, results, OUT parameters and tables.
**Invariant**: every loop is bounded by a counter that nothing else sets; a program calls only programs made before it; a
statement of a program changes at most one row, so that nothing depends on which rows come first (docs/differences.md says
what becomes of the others if one of several fails). MariaDB warns otherwise: this is for MySQL as the oracle.
"""

ROWS, LOG = "prog_rows", "prog_log"
INTEGERS, TEXTS = ("i", "j", "k"), ("s", "t")
CONDITIONS = ["SQLEXCEPTION", "SQLEXCEPTION", "NOT FOUND", "SQLWARNING", "1062", "1048", "SQLSTATE '45000'", "SQLSTATE '22012'"]
DEEPEST = 3
TURNS = 4


class Programs:
    def __init__(self, rng):
        self.rng, self.count, self.functions, self.procedures = rng, 0, [], []

    def create(self):
        rows = ", ".join(f"({n}, {n * 10}, '{t}')" for n, t in enumerate(("zero", "one", "two", "")))
        return [
            f"CREATE TABLE {ROWS} (id INT PRIMARY KEY, n INT NOT NULL, s VARCHAR(12))",
            f"CREATE TABLE {LOG} (seq INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(40), n INT)",
            f"INSERT INTO {ROWS} VALUES {rows}",
        ]

    def pick(self, *options):
        return self.rng.choice(options)

    # Expressions

    def integer(self, depth=2):
        r = self.rng
        if depth == 0 or r.random() < 0.3:
            return self.pick(str(r.randrange(-3, 12)), *INTEGERS, "NULL")
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        choices = [f"({a} + {b})", f"({a} - {b})", f"({a} * 2)", f"({a} DIV {b})", f"({a} % {b})", f"IFNULL({a}, {b})",
                   f"IF({self.condition(depth - 1)}, {a}, {b})", f"CHAR_LENGTH({self.text(depth - 1)})",
                   f"(SELECT MAX(n) FROM {ROWS} WHERE id = {a})", f"CAST({self.text(depth - 1)} AS SIGNED)"]
        choices += [f"{name}({a}, {self.text(depth - 1)})" for name in self.functions[-2:]]
        return self.pick(*choices)

    def text(self, depth=2):
        if depth == 0 or self.rng.random() < 0.4:
            return self.pick("'a'", "'bc'", "'12'", "''", "NULL", *TEXTS)
        a = self.text(depth - 1)
        return self.pick(f"CONCAT({a}, {self.text(depth - 1)})", f"UPPER({a})", f"LEFT({a}, 2)", f"COALESCE({a}, 'x')",
                         f"CONCAT('n', {self.integer(depth - 1)})", f"(SELECT s FROM {ROWS} WHERE id = {self.integer(depth - 1)})")

    def condition(self, depth=1):
        a, b = self.integer(depth), self.integer(0)
        return self.pick(f"{a} < {b}", f"{a} = {b}", f"{a} IS NULL", f"{a} > {b} OR {self.text(0)} = 'a'", f"NOT ({a} <= {b})",
                         f"EXISTS (SELECT 1 FROM {ROWS} WHERE id = {b})")

    # Statements

    def statements(self, depth, indent, kind, loop=None):
        return "".join(self.statement(depth, indent, kind, loop) for _ in range(self.rng.randrange(1, 4)))

    def assignment(self):
        if self.rng.random() < 0.6:
            return f"SET {self.pick(*INTEGERS)} = {self.integer()}"
        return f"SET {self.pick(*TEXTS)} = {self.text()}"

    def change(self):
        place = f"WHERE id = {self.integer(1)}"
        return self.pick(
            f"INSERT INTO {ROWS} VALUES ({self.integer(1)}, {self.integer(1)}, {self.text(1)})",
            f"REPLACE INTO {ROWS} VALUES ({self.rng.randrange(8)}, {self.integer(1)}, {self.text(1)})",
            f"INSERT INTO {ROWS} VALUES ({self.rng.randrange(8)}, 1, 'd') ON DUPLICATE KEY UPDATE n = {self.integer(1)}",
            f"UPDATE {ROWS} SET n = {self.integer(1)} {place}", f"UPDATE {ROWS} SET s = {self.text(1)} {place}",
            f"DELETE FROM {ROWS} {place}")

    def log(self, what):
        return f"INSERT INTO {LOG} (what, n) VALUES ({what}, {self.pick(*INTEGERS)})"

    def statement(self, depth, indent, kind, loop):
        r, pad = self.rng, " " * indent
        inner = lambda: self.statements(depth - 1, indent + 2, kind, loop)
        roll = r.random() if depth else r.random() * 0.6
        if roll < 0.25:
            return f"{pad}{self.assignment()};\n"
        if roll < 0.4:
            # A trigger must not change the table that has fired it.
            return f"{pad}{self.log(self.text(1)) if kind == 'TRIGGER' else self.change()};\n"
        if roll < 0.48:
            return f"{pad}SELECT n, s INTO {self.pick(*INTEGERS)}, {self.pick(*TEXTS)} FROM {ROWS} WHERE id = {self.integer(1)};\n"
        if roll < 0.52:
            return f"{pad}{self.log(self.text(1))};\n"
        if roll < 0.55:
            return f"{pad}SIGNAL SQLSTATE '{self.pick('45000', '01000', '02000')}' SET MESSAGE_TEXT = 'told';\n"
        if roll < 0.6:
            if loop:
                return f"{pad}{self.pick('LEAVE', 'ITERATE')} {loop};\n"
            if kind == "FUNCTION":
                return f"{pad}IF {self.condition()} THEN RETURN {self.integer(1)}; END IF;\n"
            if kind == "PROCEDURE" and self.procedures:
                return f"{pad}CALL {r.choice(self.procedures)}({self.integer(1)}, {self.text(1)}, {self.pick(*INTEGERS)});\n"
            return f"{pad}{self.assignment()};\n"
        if roll < 0.72:
            other = f"{pad}ELSE\n{inner()}" if r.random() < 0.5 else ""
            return f"{pad}IF {self.condition()} THEN\n{inner()}{other}{pad}END IF;\n"
        if roll < 0.78:
            return f"{pad}CASE {self.integer(1)} WHEN 1 THEN\n{inner()}{pad}ELSE\n{inner()}{pad}END CASE;\n"
        if roll < 0.9:
            return self.loop(depth, indent, kind)
        return self.block(depth - 1, indent, kind, loop)

    def loop(self, depth, indent, kind):
        self.count += 1
        label, turn, pad = f"l{self.count}", f"turn{self.count}", " " * indent
        body = self.statements(depth - 1, indent + 4, kind, label)
        count = f"{pad}    SET {turn} = {turn} + 1;\n{pad}    IF {turn} > {TURNS} THEN LEAVE {label}; END IF;\n"
        head, tail = self.pick(("LOOP", "END LOOP"), (f"WHILE {self.condition()} DO", "END WHILE"),
                               ("REPEAT", f"UNTIL {self.condition()} END REPEAT"))
        return (f"{pad}BEGIN\n{pad}  DECLARE {turn} INT DEFAULT 0;\n{pad}  {label}: {head}\n{count}{body}"
                f"{pad}  {tail} {label};\n{pad}END;\n")

    def block(self, depth, indent, kind, loop):
        pad, out = " " * indent, ""
        for name in self.rng.sample(INTEGERS, self.rng.randrange(2)):
            out += f"{pad}  DECLARE {name} INT DEFAULT {self.rng.randrange(5)};\n"
        for condition in sorted(set(self.rng.choice(CONDITIONS) for _ in range(self.rng.randrange(3)))):
            # As in MySQL, a handler sees no label of the blocks around it.
            what = self.pick(self.assignment(), self.log("'handled'"), f"BEGIN {self.log(repr('in block'))}; {self.assignment()}; END")
            out += f"{pad}  DECLARE {self.pick('CONTINUE', 'EXIT')} HANDLER FOR {condition} {what};\n"
        return f"{pad}BEGIN\n{out}{self.statements(max(depth, 0), indent + 2, kind, loop)}{pad}END;\n"

    def body(self, kind, given):
        declared = "".join(f"  DECLARE {n} INT DEFAULT {self.rng.randrange(5)};\n" for n in INTEGERS if n not in given)
        declared += "".join(f"  DECLARE {n} VARCHAR(12) DEFAULT 'd';\n" for n in TEXTS if n not in given)
        out = declared + self.block(DEEPEST, 2, kind, None)
        return f"BEGIN\n{out}{f'  RETURN {self.integer()};' + chr(10) if kind == 'FUNCTION' else ''}END"

    # Programs

    def program(self):
        """A statement that makes a program, statements that run it, and queries that show what it did."""
        self.count += 1
        kind = self.pick("FUNCTION", "PROCEDURE", "PROCEDURE", "TRIGGER")
        name = f"{kind.lower()}_{self.count}"
        r = self.rng
        shown = [f"SELECT * FROM {ROWS}", f"SELECT what, n FROM {LOG} ORDER BY seq"]
        if kind == "FUNCTION":
            text = f"CREATE FUNCTION {name}(i INT, s VARCHAR(12)) RETURNS INT DETERMINISTIC {self.body(kind, ('i', 's'))}"
            runs = [f"SELECT {name}({r.randrange(-1, 5)}, {self.pick(repr('a'), repr('12'), 'NULL')})" for _ in range(3)]
            made = self.functions
        elif kind == "PROCEDURE":
            text = f"CREATE PROCEDURE {name}(i INT, s VARCHAR(12), OUT k INT) {self.body(kind, ('i', 's', 'k'))}"
            runs = [f"CALL {name}({r.randrange(-1, 5)}, {self.pick(repr('a'), repr('12'), 'NULL')}, @k)" for _ in range(3)]
            shown.append("SELECT @k")
            made = self.procedures
        else:
            event = self.pick("INSERT", "UPDATE", "DELETE")
            time = self.pick("BEFORE", "AFTER")
            given = self.pick("", f"  SET NEW.n = {self.integer(1)};\n") if (event, time) != ("DELETE", time) and time == "BEFORE" else ""
            body = self.body(kind, ()).replace("  BEGIN\n", f"{given}  BEGIN\n", 1)
            text = f"CREATE TRIGGER {name} {time} {event} ON {ROWS} FOR EACH ROW {body}"
            runs = [f"INSERT INTO {ROWS} VALUES ({r.randrange(20)}, 5, 'new')", f"UPDATE {ROWS} SET n = n + 1 WHERE id = {r.randrange(4)}",
                    f"REPLACE INTO {ROWS} VALUES ({r.randrange(4)}, 7, 're')", f"DELETE FROM {ROWS} WHERE id = {r.randrange(6)}",
                    f"DROP TRIGGER {name}"]
            made = []
        return text, runs, shown, lambda: made.append(name)
