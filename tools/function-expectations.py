#!/usr/bin/env python3
"""Fills in what a real MySQL answers for the expressions in crates/types/testdata/functions.txt.

  function-expectations.py HOST:PORT FILE    rewrites FILE (needs PyMySQL)

A line is an expression, and after tabs its result type, value and warning codes, or `error CODE`.
Lines that start with `!` state by hand what MySQL 8.4 does where the server asked is of another
version; they are kept. `#` starts a comment.
"""
import sys

import pymysql

TYPES = {
    v: k for k, v in vars(pymysql.constants.FIELD_TYPE).items()
    if isinstance(v, int) and k.isupper() and k not in ("CHAR", "INTERVAL")
}
SESSION = [
    "set names utf8mb4 collate utf8mb4_0900_ai_ci",
    "set time_zone = '+00:00'",
    "set timestamp = 1700000000.123456",
]


def type_text(field):
    name = TYPES[field.type_code]
    unsigned = bool(field.flags & 32)
    if name == "NEWDECIMAL":
        precision = field.length - (field.scale > 0) - (not unsigned)
        name = f"DECIMAL({precision},{field.scale})"
    elif name in ("TIME", "DATETIME", "TIMESTAMP"):
        name = f"{name}({field.scale})"
    elif name.endswith("BLOB"):
        name = "BLOB"
    if name in ("STRING", "VAR_STRING", "BLOB"):
        name += f"#{field.charsetnr}"
    elif unsigned and name != "YEAR":
        name += " UNSIGNED"
    return name + (" NOT NULL" if field.flags & 1 else "")


def value_text(value, field):
    if value is None:
        return "NULL"
    if field.charsetnr == 63 and TYPES[field.type_code] in ("STRING", "VAR_STRING") or b"\0" in value:
        return f"x'{value.hex().upper()}'"
    return value.decode().replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")


def ask(connection, expression):
    cursor = connection.cursor()
    try:
        cursor.execute("select " + expression.replace("%", "%%"), ())
        field, value = cursor._result.fields[0], cursor.fetchone()[0]
    except pymysql.err.MySQLError as e:
        return f"error {e.args[0]}"
    cursor.execute("show warnings")
    codes = sorted(int(row[1]) for row in cursor.fetchall())
    return "\t".join([type_text(field), value_text(value, field), " ".join(map(str, codes))]).rstrip()


def main():
    host, port = sys.argv[1].split(":")
    connection = pymysql.connect(host=host, port=int(port), user="root", charset="utf8mb4")
    for statement in SESSION:
        connection.cursor().execute(statement)
    connection.decoders = {}
    connection.use_unicode = False
    lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for line in lines:
            expression = line.split("\t")[0]
            if expression and not expression.startswith(("#", "!")):
                line = expression + "\t" + ask(connection, expression)
            out.write(line + "\n")


if __name__ == "__main__":
    main()
