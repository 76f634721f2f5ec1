"""Random tables: columns of all types, indexes, rows with NULLs, duplicates and extremes.

Invariants, on which the queries rely:
- every table has `id`, not null and different in every row of the database, whether or not a key says so;
- FLOAT and DOUBLE hold multiples of 1/4 of moderate size: sums are exact in any order;
- unless `ties`, texts that are equal in their collation have equal bytes.
"""
INT_RANGES = {"TINYINT": 8, "SMALLINT": 16, "MEDIUMINT": 24, "INT": 32, "BIGINT": 64}
# Known to MariaDB 10.11 and MySQL alike.
COLLATIONS = ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci", "utf8mb4_unicode_520_ci",
              "latin1_swedish_ci", "latin1_bin", "latin1_general_ci", "ascii_general_ci"]
COLLATIONS_MYSQL = ["utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin"]
WORDS = ["", "a", "b", "ab", "abc", "b0", "c d", "0", "1", "10", "-1", "2.5", "1e1", "x%y", "x_y", "zebra",
         "mno", "2020-02-29", "12:30:00", "q\\\\r", "it''s", "longer text with words", "aaa", "007"]
WIDE = ["é", "ß", "ñandú", "日本", "Ω"]
TIED = ["A", "B", "AB", "Abc", "a ", "ab ", "Zebra", "ZEBRA", "e", "E"]
ENUMS = ["'red','green','blue'", "'z','y','x','w'", "'1','0','2'"]


class Column:
    def __init__(self, name, kind, sql, literal, nullable, text=None, unit=None):
        # kind: as in expressions.py; literal: makes an SQL literal; text: a key needs a prefix; unit: of which sort
        self.name, self.kind, self.sql, self.literal, self.nullable = name, kind, sql, literal, nullable
        self.text, self.unit = text, unit


def quoted(text):
    return "'" + text + "'"


def pick_int(rng, low, high):
    roll = rng.random()
    if roll < 0.65:
        return max(low, min(high, rng.randint(-3, 8)))
    if roll < 0.85:
        return max(low, min(high, rng.randint(-200, 300)))
    if roll < 0.93:
        return rng.choice([low, high, max(low, -1), 0])
    return rng.randint(low, high)


def int_column(rng, name, nullable, big=False):
    sql = rng.choice(["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "INT", "BIGINT"])
    bits, unsigned = INT_RANGES[sql], rng.random() < 0.3
    low, high = (0, 2 ** bits - 1) if unsigned else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
    if not big:
        low, high = max(low, -100000), min(high, 100000)
    return Column(name, "num", sql + (" UNSIGNED" if unsigned else ""),
                  lambda r: str(pick_int(r, low, high)), nullable, unit="int")


def decimal_column(rng, name, nullable):
    digits = rng.choice([3, 5, 10, 20])
    scale = rng.randint(0, min(digits, 4))
    unsigned = rng.random() < 0.2

    def literal(r):
        top = 10 ** (digits - scale)
        whole = r.randint(0, 9) if r.random() < 0.8 else r.choice([0, 1, 9, 99, 10 ** 6, top])
        whole = min(whole, top - 1)
        sign = "-" if not unsigned and r.random() < 0.3 and whole else ""
        if not scale:
            return f"{sign}{whole}"
        return f"{sign}{whole}.{r.choice([0, 5, 10 ** scale - 1, r.randint(0, 10 ** scale - 1)]) % 10 ** scale:0{scale}}"
    return Column(name, "num", f"DECIMAL({digits},{scale})" + (" UNSIGNED" if unsigned else ""),
                  literal, nullable, unit="dec")


def real_column(rng, name, nullable):
    sql = rng.choice(["DOUBLE", "DOUBLE", "FLOAT"])
    return Column(name, "dbl", sql, lambda r: str(r.randint(-60, 100) / 4), nullable)


def words(rng, ties, charset):
    pool = list(WORDS)
    if charset in ("utf8mb4",):
        pool += WIDE
    if charset == "latin1":
        pool += WIDE[:3]
    if ties:
        pool += TIED * 2
    return pool


def text_column(rng, name, nullable, ties, mysql):
    collation = rng.choice(COLLATIONS + (COLLATIONS_MYSQL if mysql else []))
    charset = collation.split("_")[0]
    form = rng.choice(["CHAR(30)", "VARCHAR(30)", "VARCHAR(30)", "VARCHAR(200)", "TEXT", "TINYTEXT"])
    pool = words(rng, ties, charset)
    few = rng.sample(pool, min(len(pool), rng.choice([4, 8, 30])))
    return Column(name, "str", f"{form} CHARACTER SET {charset} COLLATE {collation}",
                  lambda r: quoted(r.choice(few)), nullable, text=form.startswith("T"))


def bytes_column(rng, name, nullable):
    form = rng.choice(["VARBINARY(20)", "BLOB", "BINARY(4)", "VARBINARY(3)"])
    size = {"BINARY(4)": 4, "VARBINARY(3)": 3}.get(form, 8)
    return Column(name, "bin", form, lambda r: r.choice(
        ["''", "'a'", "'ab'", "x'00ff'", "x'80'", "'A'"]) if r.random() < 0.7
        else "x'" + bytes(r.randint(0, 255) for _ in range(r.randint(0, size))).hex() + "'",
        nullable, text=form == "BLOB")


def day(r):
    if r.random() < 0.5:
        return f"2020-0{r.randint(1, 3)}-{r.choice([1, 2, 15, 28]):02}"
    return r.choice(["1970-01-02", "1999-12-31", "2000-02-29", "2038-01-18", "2020-12-31", "2021-01-01",
                     "1000-01-01", "9999-12-31"] if r.random() < 0.5 else
                    [f"{r.randint(1971, 2037)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"])


def clock(r):
    return r.choice(["00:00:00", "23:59:59", "12:30:00", f"{r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}"])


def fraction(r, digits):
    return "." + f"{r.choice([0, 5 * 10 ** (digits - 1), 10 ** digits - 1, r.randint(0, 10 ** digits - 1)]):0{digits}}" if digits else ""


def temporal_column(rng, name, nullable):
    form = rng.choice(["DATE", "DATE", "TIME", "DATETIME", "DATETIME", "TIMESTAMP", "YEAR"])
    digits = rng.choice([0, 0, 0, 3, 6])
    fsp = f"({digits})" if digits else ""
    if form == "DATE":
        return Column(name, "date", "DATE", lambda r: quoted(day(r)), nullable)
    if form == "YEAR":
        return Column(name, "num", "YEAR", lambda r: str(r.choice([1901, 1970, 2000, 2020, 2021, 2155])), nullable, unit="year")
    if form == "TIME":
        return Column(name, "time", "TIME" + fsp, lambda r: quoted(
            r.choice(["-", "", "", ""]) + r.choice([clock(r), clock(r), "838:59:58", "100:00:00"]) + fraction(r, digits)), nullable)
    if form == "TIMESTAMP":
        return Column(name, "datetime", "TIMESTAMP" + fsp + " NULL", lambda r: quoted(
            f"20{r.randint(10, 30)}-0{r.randint(1, 9)}-1{r.randint(0, 9)} {clock(r)}" + fraction(r, digits)), nullable)
    return Column(name, "datetime", "DATETIME" + fsp, lambda r: quoted(day(r) + " " + clock(r) + fraction(r, digits)), nullable)


def choice_column(rng, name, nullable):
    members = rng.choice(ENUMS)
    names = members.split(",")
    if rng.random() < 0.5:
        return Column(name, "str", f"ENUM({members}) CHARACTER SET latin1 COLLATE latin1_bin",
                      lambda r: r.choice(names), nullable, unit="enum")
    return Column(name, "str", f"SET({members}) CHARACTER SET latin1 COLLATE latin1_bin", lambda r: quoted(",".join(
        n.strip("'") for n in names if r.random() < 0.5)), nullable, unit="set")


def bit_column(rng, name, nullable):
    bits = rng.choice([1, 5, 8, 17, 64])
    return Column(name, "bit", f"BIT({bits})", lambda r: f"{r.choice([0, 1, 2 ** bits - 1, r.randrange(2 ** bits)])}", nullable)


class Table:
    def __init__(self, name, columns):
        self.name, self.columns = name, columns
        self.primary, self.keys, self.rows = [], [], []


def make_table(rng, number, options):
    table = Table(f"t{number}", [])
    unsigned = rng.random() < 0.3
    ident = Column("id", "num", "INT UNSIGNED" if unsigned else rng.choice(["INT", "BIGINT"]), None, False, unit="int")
    columns = [ident]
    # Names that several tables share, for USING and NATURAL.
    columns.append(int_column(rng, "k", rng.random() < 0.7))
    if rng.random() < 0.6:
        columns.append(text_column(rng, "s", rng.random() < 0.8, options.ties, options.mysql))
    for n in range(rng.randint(1, 6)):
        name, nullable, roll = f"c{number}{n}", rng.random() < 0.75, rng.random()
        if roll < 0.2:
            columns.append(int_column(rng, name, nullable, big=True))
        elif roll < 0.35:
            columns.append(decimal_column(rng, name, nullable))
        elif roll < 0.43:
            columns.append(real_column(rng, name, nullable))
        elif roll < 0.62:
            columns.append(text_column(rng, name, nullable, options.ties, options.mysql))
        elif roll < 0.68:
            columns.append(bytes_column(rng, name, nullable))
        elif roll < 0.87:
            columns.append(temporal_column(rng, name, nullable))
        elif roll < 0.95:
            columns.append(choice_column(rng, name, nullable))
        else:
            columns.append(bit_column(rng, name, nullable))
    if rng.random() < 0.3:
        rng.shuffle(columns)
    table.columns = columns
    return table


def key_part(rng, column):
    prefix = ""
    if column.kind in ("str", "bin") and column.unit is None:
        if column.text or rng.random() < 0.2:
            prefix = f"({rng.choice([1, 2, 3])})"
    return f"{column.name}{prefix}{rng.choice(['', '', '', ' DESC'])}"


def make_keys(rng, table):
    """Primary key (or none) and secondary keys; keys that rows could break are not unique."""
    shape = rng.random()
    primary = None
    if shape < 0.6:
        primary = "PRIMARY KEY (id)"
    elif shape < 0.75:
        others = [c for c in table.columns if not c.nullable and not c.text and c.name != "id"]
        parts = rng.sample(others, min(len(others), rng.randint(0, 2)))
        names = [c.name for c in parts] + ["id"]
        primary = f"PRIMARY KEY ({', '.join(names)})"
    elif shape < 0.88:
        primary = "UNIQUE KEY uid (id)"
    keys = secondary_keys(rng, table)
    return ([primary] if primary else []), keys


def secondary_keys(rng, table):
    keys = []
    for n in range(rng.choice([0, 1, 1, 2, 3, 4])):
        parts = rng.sample(table.columns, min(len(table.columns), rng.choice([1, 1, 2, 2, 3])))
        unique = ""
        if rng.random() < 0.2 and any(c.name == "id" for c in parts):
            unique = "UNIQUE "
        keys.append((f"x{n}", f"{unique}KEY x{n} ({', '.join(key_part(rng, c) for c in parts)})"))
    return keys


def make_rows(rng, table, first_id, options):
    count = rng.choice([0, 1, 3, 8, 15, 15, 30, 60] + ([400] if options.large else []))
    ids = list(range(first_id, first_id + count))
    rng.shuffle(ids)
    share = rng.choice([0.05, 0.15, 0.4])
    rows = []
    for ident in ids:
        if rows and rng.random() < 0.15:  # a duplicate in everything but the id
            row = dict(rng.choice(rows))
        else:
            row = {c.name: "NULL" if c.nullable and rng.random() < share else c.literal(rng)
                   for c in table.columns if c.name != "id"}
        row["id"] = str(ident)
        rows.append(row)
    table.rows = rows
    return first_id + count


def create_statement(table, primary, keys):
    lines = [f"{c.name} {c.sql}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
    lines += primary + [k for _, k in keys]
    return f"CREATE TABLE {table.name} ({', '.join(lines)})"


def insert_statements(table, rows, batch=50):
    names = ", ".join(c.name for c in table.columns)
    for start in range(0, len(rows), batch):
        tuples = ", ".join("(" + ", ".join(r[c.name] for c in table.columns) + ")" for r in rows[start:start + batch])
        yield f"INSERT INTO {table.name} ({names}) VALUES {tuples}"


class Options:
    """What a seed's database and statements may hold."""

    def __init__(self, rng, mysql):
        self.mysql = mysql
        self.ties = rng.random() < 0.2
        self.strict = rng.random() < 0.7
        self.large = rng.random() < 0.25


def make_database(rng, options):
    tables, next_id = [], 1
    for n in range(rng.randint(2, 4)):
        table = make_table(rng, n, options)
        table.primary, table.keys = make_keys(rng, table)
        next_id = make_rows(rng, table, next_id, options)
        tables.append(table)
    return tables
