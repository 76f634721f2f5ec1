#!/usr/bin/env python3
"""Writes down the tables of MySQL's system schemas, as crates/sql/src/system_schemas reads them.

  system-tables.py HOST:PORT FOLDER    writes FOLDER/SCHEMA.tsv for each system schema (needs PyMySQL)

A line that begins with `table`, `view` or `system` opens a table: name, engine, collation, comment. Then come its
columns: name, type, collation, NULL or NOT, default (`\\N`: none), EXTRA. A line that begins with `key` or `unique` is
an index: name, columns. The files are frozen: a server of another version is asked only to compare. Tables that
MySQL 8.4 does not have are left out.
"""
import pathlib
import sys

import pymysql

SCHEMAS = ["information_schema", "mysql", "performance_schema", "sys"]
KINDS = {"BASE TABLE": "table", "VIEW": "view", "SYSTEM VIEW": "system"}
NEWER = {
    "JSON_DUALITY_VIEWS", "JSON_DUALITY_VIEW_COLUMNS", "JSON_DUALITY_VIEW_LINKS", "JSON_DUALITY_VIEW_TABLES",
    "LIBRARIES", "ROUTINE_LIBRARIES", "global_variable_attributes", "setup_loggers", "temporary_account_locks",
    "variables_metadata", "replication_group_configuration_version",
}
NEWER_COLUMNS = {
    ("PARTITIONS", "SECONDARY_LOAD"),
}


def rows(connection, sql, *args):
    with connection.cursor() as cursor:
        cursor.execute(sql, args)
        return cursor.fetchall()


def cell(value):
    if value is None:
        return "\\N"
    if isinstance(value, bytes):
        value = value.decode()
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def declare(connection, schema, out):
    tables = rows(
        connection,
        "select table_name, table_type, engine, table_collation, table_comment from information_schema.tables "
        "where table_schema = %s order by table_name", schema)
    columns, keys = {}, {}
    for table, *column in rows(
            connection,
            "select table_name, column_name, column_type, collation_name, is_nullable, column_default, extra "
            "from information_schema.columns where table_schema = %s order by table_name, ordinal_position", schema):
        columns.setdefault(table, []).append(column)
    for table, index, not_unique, column in rows(
            connection,
            "select table_name, index_name, non_unique, column_name from information_schema.statistics "
            "where table_schema = %s order by table_name, non_unique, index_name, seq_in_index", schema):
        keys.setdefault(table, {}).setdefault((index, not_unique), []).append(column)
    for name, kind, engine, collation, comment in tables:
        if name in NEWER:
            continue
        out.append("\t".join([KINDS[kind], name, cell(engine), cell(collation), cell(comment)]))
        for column, kind, collation, nullable, default, extra in columns[name]:
            if (name, column) in NEWER_COLUMNS:
                continue
            null = "NULL" if nullable == "YES" else "NOT"
            out.append("\t".join([column, cell(kind), cell(collation), null, cell(default), extra]))
        order = sorted(keys.get(name, {}), key=lambda k: (k[0] != "PRIMARY", k[1]))
        for index, not_unique in order:
            parts = ",".join(keys[name][index, not_unique])
            out.append("\t".join(["key" if not_unique else "unique", index, parts]))


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    connection = pymysql.connect(host=host, port=int(port), user="root", charset="utf8mb4")
    for schema in SCHEMAS:
        out = []
        declare(connection, schema, out)
        pathlib.Path(sys.argv[2], f"{schema}.tsv").write_text("\n".join(out) + "\n")


main()
