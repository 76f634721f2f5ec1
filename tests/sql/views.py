"""Compares how views are printed, on a server and on a MySQL beside it.

    views.py PORT PEER_PORT [--show WORD]

Makes each query of views.txt beside this file a view on both servers. What information_schema and SHOW CREATE VIEW say
of it has to be the same, from the view's database and from another one, and the statement that SHOW CREATE VIEW printed
has to make the same view again. Both servers have an account root without a password and lose the databases ansv and
elsewhere. Needs PyMySQL.
"""

import argparse
import pathlib
import sys

import pymysql

OBJECTS = """
DROP DATABASE IF EXISTS ansv; DROP DATABASE IF EXISTS elsewhere; CREATE DATABASE elsewhere; CREATE DATABASE ansv;
CREATE TABLE elsewhere.o (id INT PRIMARY KEY, p INT); USE ansv;
CREATE TABLE t (a INT, b VARCHAR(20), c DECIMAL(10,2), d DATETIME, j JSON, e ENUM('x','y'), f DOUBLE,
  id INT PRIMARY KEY AUTO_INCREMENT, tm TIME, dt DATE, bl BLOB);
CREATE TABLE u (id INT PRIMARY KEY, a INT, x INT, s VARCHAR(10) CHARACTER SET latin1, y CHAR(5), INDEX ix (x));
CREATE TABLE w (id INT PRIMARY KEY, t_id INT, n INT)
"""
NAME = "`v` AS "


def connect(port):
    connection = pymysql.connect(host="127.0.0.1", port=port, user="root", charset="utf8mb4", autocommit=True)
    with connection.cursor() as cursor:
        for statement in OBJECTS.split(";"):
            cursor.execute(statement)
    return connection


def printed(connection, query):
    """Error, or definition, SHOW CREATE VIEW at home and elsewhere."""
    with connection.cursor() as cursor:
        cursor.execute("USE ansv")
        try:
            cursor.execute("CREATE OR REPLACE VIEW v AS " + query)
        except pymysql.Error as error:
            return ("error", error.args[0])
        cursor.execute("SELECT view_definition FROM information_schema.views WHERE table_schema = 'ansv'")
        found = [cursor.fetchone()[0]]
        for database in ("ansv", "elsewhere"):
            cursor.execute(f"USE {database}")
            try:
                cursor.execute("SHOW CREATE VIEW ansv.v")
                found.append(cursor.fetchone()[1])
            except pymysql.Error as error:
                found.append(f"not shown: {error}")
        cursor.execute("USE ansv")
        cursor.execute("DROP VIEW v")
        try:
            cursor.execute(found[1])
            cursor.execute("SHOW CREATE VIEW v")
            found.append("again" if cursor.fetchone()[1] == found[1] else "another")
        except pymysql.Error as error:
            found.append(f"not read again: {error}")
        return tuple(found)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("port", type=int)
    options.add_argument("peer_port", type=int)
    options.add_argument("--show", default="", help="only queries that contain this")
    options = options.parse_args()
    text = pathlib.Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    queries = [q for q in text.splitlines() if q and options.show in q]
    ours, peer = connect(options.port), connect(options.peer_port)
    same = 0
    for query in queries:
        here, there = printed(ours, query), printed(peer, query)
        if here == there:
            same += 1
            continue
        print("query", query)
        for mine, its in zip(here, there):
            if mine != its:
                print(f"  here  {mine}\n  MySQL {its}")
        if len(here) != len(there):
            print(f"  here  {here}\n  MySQL {there}")
    print(f"{same} of {len(queries)} views are printed like MySQL's")
    sys.exit(same < len(queries))


if __name__ == "__main__":
    main()
