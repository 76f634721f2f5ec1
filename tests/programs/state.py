"""What a program left behind: every object's definition, what information_schema says of it, and every row."""

import re

import pymysql

# Columns whose values no two servers share: statistics and times; MySQL 9.7 gives no number to a row that a foreign key
# refuses, MySQL 8.4 does.
VOLATILE = {
    "CREATE_TIME", "UPDATE_TIME", "CHECK_TIME", "TABLE_ROWS", "AVG_ROW_LENGTH", "DATA_LENGTH", "INDEX_LENGTH",
    "MAX_DATA_LENGTH", "DATA_FREE", "CARDINALITY", "CREATED", "LAST_ALTERED", "AUTO_INCREMENT",
}
CATALOG = [
    ("TABLES", "TABLE_SCHEMA"), ("COLUMNS", "TABLE_SCHEMA"), ("STATISTICS", "TABLE_SCHEMA"),
    ("KEY_COLUMN_USAGE", "TABLE_SCHEMA"), ("TABLE_CONSTRAINTS", "TABLE_SCHEMA"),
    ("REFERENTIAL_CONSTRAINTS", "CONSTRAINT_SCHEMA"), ("CHECK_CONSTRAINTS", "CONSTRAINT_SCHEMA"),
]


def connect(port):
    return pymysql.connect(host="127.0.0.1", port=port, user="root", charset="utf8mb4", autocommit=True)


def asked(cur, sql, args=()):
    cur.execute(sql, args)
    return [d[0] for d in cur.description], cur.fetchall()


def shown(value):
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "x" + value.hex()
    return repr(value) if isinstance(value, str) else str(value)


def definitions(cur, database):
    out = []
    for name, kind in asked(cur, f"SHOW FULL TABLES FROM `{database}`")[1]:
        if kind == "BASE TABLE":
            row = asked(cur, f"SHOW CREATE TABLE `{database}`.`{name}`")[1][0]
            out += re.sub(r" AUTO_INCREMENT=\d+", "", row[1]).splitlines()
        # A view is judged by its rows: Esker keeps its text as written (docs/differences.md).
        names, rows = asked(cur, f"SELECT * FROM `{database}`.`{name}`")
        out.append(f"{name}: {', '.join(names)}")
        out += sorted("  " + ", ".join(shown(v) for v in row) for row in rows)
    return out


def catalog(cur, database):
    out = []
    views = {name for name, kind in asked(cur, f"SHOW FULL TABLES FROM `{database}`")[1] if kind == "VIEW"}
    for table, schema in CATALOG:
        names, rows = asked(cur, f"SELECT * FROM information_schema.{table} WHERE {schema} = %s", (database,))
        out.append(table)
        rows = [dict(zip(names, row)) for row in rows]
        kept = [row for row in rows if row.get("TABLE_NAME") not in views]
        out += sorted("  " + ", ".join(f"{n}={shown(v)}" for n, v in row.items() if n not in VOLATILE and v is not None)
                      for row in kept)
    return out


def lines(port, database):
    with connect(port) as c, c.cursor() as cur:
        return definitions(cur, database) + catalog(cur, database)
