"""What names mean behind the select list: every select list times every name in ORDER BY, GROUP BY and HAVING.

`python3 bench/oracle/names.py PORT > crates/sql/src/query_tests/testdata/names.tsv` asks a MySQL server; a unit test asks
Esker the same. A line has the sql_mode (`default` or `loose`, which is without ONLY_FULL_GROUP_BY), the select list,
the clause with `?` for the name, and an answer for each of NAMES: rows, sorted where the clause does not, the
number of an error, and with `!` the numbers of warnings. The rules are in docs/names.md.
"""
import itertools, sys

import wire

SETUP = ["CREATE TABLE t (a INT, b INT, c INT)", "INSERT INTO t VALUES (1,20,1),(2,-10,1),(3,5,2)"]
ITEMS = ["t.*", "a", "b", "-b AS b", "a AS b", "c AS b", "-b AS x", "a AS x", "c AS x", "COUNT(*) AS b", "SUM(a) AS x"]
NAMES = ["x", "b", "t.b", "-x", "-b", "(SELECT x)", "(SELECT b)", "MAX(x)", "MAX(b)"]
CLAUSES = ["ORDER BY ?", "GROUP BY ?", "HAVING ?>0", "GROUP BY a,b HAVING ?>0", "GROUP BY x HAVING ?>0", "GROUP BY a,b ORDER BY ?"]
MODES = {"default": "", "loose": "ONLY_FULL_GROUP_BY"}


def lists():
    yield from ITEMS
    for pair in itertools.product(ITEMS, repeat=2):
        yield ", ".join(pair)


def text(value):
    return "NULL" if value is None else value.decode()


def answer(connection, sql, ordered):
    try:
        result = connection.query(sql)
    except wire.SqlError as e:
        return str(e.code)
    rows = ["/".join(text(v) for v in row) for row in result.rows]
    said = ",".join(rows if ordered else sorted(rows)) or "none"
    warnings = [row[1].decode() for row in connection.query("SHOW WARNINGS").rows]
    return "!".join([said] + warnings)


def main(port):
    connection = wire.Connection(port)
    for sql in ["DROP DATABASE IF EXISTS esker_names", "CREATE DATABASE esker_names", "USE esker_names"] + SETUP:
        connection.query(sql)
    print("\t".join(["mode", "list", "clause"] + NAMES))
    for mode, left_out in MODES.items():
        connection.query(f"SET sql_mode = REPLACE(@@GLOBAL.sql_mode, '{left_out or '-'}', '')")
        for clause in CLAUSES:
            for items in lists():
                sql = f"SELECT {items} FROM t {clause}"
                answers = [answer(connection, sql.replace("?", name), "ORDER" in clause) for name in NAMES]
                print("\t".join([mode, items, clause] + answers))
    connection.query("DROP DATABASE esker_names")


if __name__ == "__main__":
    main(int(sys.argv[1]))
