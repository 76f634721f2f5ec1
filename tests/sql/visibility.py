"""Compares what accounts with few privileges see of metadata, on a server and on a MySQL beside it.

    visibility.py PORT PEER_PORT [--sets WORD] [--statements WORD]

Each set of privileges is granted to an account of its own on both servers, which runs each statement. A cell is one
set and one statement: its rows or its error have to be the same. Both servers have an account root without a password
and lose the databases vis_d and vis_e. Needs PyMySQL.
"""

import argparse
import sys
from collections import defaultdict

import pymysql

OBJECTS = """
DROP DATABASE IF EXISTS vis_d; DROP DATABASE IF EXISTS vis_e;
CREATE DATABASE vis_d; CREATE DATABASE vis_e;
CREATE TABLE vis_d.u (a INT PRIMARY KEY, b INT, CONSTRAINT b_is_small CHECK (b < 1000));
CREATE TABLE vis_d.t (a INT PRIMARY KEY, b INT, c VARCHAR(9) DEFAULT 'x' COMMENT 'of c', UNIQUE KEY k (b, c),
  CONSTRAINT to_u FOREIGN KEY (b) REFERENCES vis_d.u (a), CONSTRAINT a_is_small CHECK (a < 1000)) COMMENT 'of t';
CREATE TABLE vis_e.w (a INT PRIMARY KEY, b INT);
CREATE VIEW vis_d.v AS SELECT a, b FROM vis_d.t;
CREATE VIEW vis_d.s AS SELECT SUM(a) AS n FROM vis_d.t;
DROP USER IF EXISTS vis_other; CREATE USER vis_other; GRANT SELECT ON vis_d.* TO vis_other;
GRANT SELECT (a), INSERT ON vis_d.t TO vis_other; DROP ROLE IF EXISTS vis_role; CREATE ROLE vis_role
"""

# Static privileges by the narrowest place where they are granted.
GLOBAL = (
    "CREATE ROLE|CREATE TABLESPACE|CREATE USER|DROP ROLE|FILE|PROCESS|RELOAD|REPLICATION CLIENT|REPLICATION SLAVE|"
    "SHOW DATABASES|SHUTDOWN|SUPER|CONNECTION_ADMIN|ROLE_ADMIN|SYSTEM_USER|SYSTEM_VARIABLES_ADMIN"
).split("|")
SCHEMA = "ALTER ROUTINE|CREATE ROUTINE|CREATE TEMPORARY TABLES|EVENT|EXECUTE|LOCK TABLES".split("|")
TABLE = (
    "ALTER|CREATE|CREATE VIEW|DELETE|DROP|INDEX|INSERT|REFERENCES|SELECT|SHOW VIEW|TRIGGER|UPDATE"
).split("|")
COLUMN = "INSERT|REFERENCES|SELECT|UPDATE".split("|")

SETS = (
    ["USAGE ON *.*"]
    + [f"{p} ON *.*" for p in GLOBAL + SCHEMA + TABLE]
    + [f"{p} ON vis_d.*" for p in SCHEMA + TABLE]
    + [f"{p} ON vis_d.{t}" for p in TABLE for t in "tv"]
    + [f"{p} (a) ON vis_d.{t}" for p in COLUMN for t in "tv"]
    + ["SELECT, SHOW VIEW ON vis_d.v", "SELECT ON mysql.*", "SELECT ON performance_schema.*"]
)

STATEMENTS = [
    "SHOW DATABASES LIKE 'vis%'",
    "SHOW DATABASES LIKE '%schema'",
    "USE vis_d",
    "USE performance_schema",
    "USE sys",
    "SHOW TABLES FROM vis_d",
    "SHOW TABLE STATUS FROM vis_d #1",
    "USE vis_e",
    "USE vis_absent",
    "USE mysql",
    "SHOW TABLES FROM vis_absent",
    "SHOW TRIGGERS FROM vis_d",
    "SHOW TRIGGERS FROM vis_absent",
    "SHOW EVENTS FROM vis_d",
    "SHOW EVENTS FROM vis_absent",
    "SHOW TABLES FROM mysql LIKE 'u%'",
    "SHOW TABLES FROM performance_schema LIKE 'acc%'",
    "SHOW OPEN TABLES FROM vis_d #",
    "SHOW OPEN TABLES FROM vis_absent",
    "SHOW TABLES FROM vis_e",
    "SHOW TABLE STATUS FROM vis_e #1",
    "SHOW TABLE STATUS FROM vis_absent",
    "SHOW FULL TABLES FROM vis_d",
    "SHOW CREATE DATABASE vis_d",
    "SHOW CREATE DATABASE vis_e",
    "SHOW CREATE DATABASE vis_absent",
    "SHOW CREATE DATABASE mysql",
    "SHOW CREATE PROCEDURE vis_d.p",
    "SHOW CREATE FUNCTION vis_d.p",
    "SHOW CREATE TRIGGER vis_d.p",
    "SHOW CREATE EVENT vis_d.p",
    "SHOW CREATE USER vis_other",
    "SHOW CREATE USER vis_absent",
    "SHOW GRANTS FOR vis_other",
    "SHOW GRANTS FOR vis_absent",
    "SHOW BINARY LOG STATUS #",
    "SHOW BINARY LOGS #",
    "SHOW BINLOG EVENTS LIMIT 0 #",
    "SHOW REPLICA STATUS #",
    "SHOW REPLICAS #",
    "SHOW ENGINE INNODB STATUS #",
    "SHOW ENGINE INNODB MUTEX #",
    "SHOW ENGINES #",
    "SHOW PLUGINS #",
    "SHOW PRIVILEGES #",
    "SHOW PROCEDURE STATUS WHERE Db = 'vis_d'",
    "SHOW PROFILES",
    "SHOW STATUS LIKE 'Uptime' #",
    "SHOW VARIABLES LIKE 'port' #",
    "SHOW CHARACTER SET LIKE 'utf8mb4'",
    "SELECT DISTINCT USER FROM information_schema.PROCESSLIST WHERE USER IN ('root', 'vis_low')",
    "SELECT TABLE_NAME, VIEW_DEFINITION = '' FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'vis_d'",
    "SELECT * FROM mysql.user LIMIT 0",
    "SELECT user FROM mysql.user LIMIT 0",
    "SELECT * FROM mysql.absent",
    "DESCRIBE mysql.user",
    "SHOW CREATE TABLE mysql.user #",
    "SHOW INDEX FROM mysql.user #",
    "SHOW COLUMNS FROM information_schema.TABLES",
    "SHOW CREATE TABLE information_schema.TABLES #",
    "SHOW COLUMNS FROM performance_schema.threads",
    "SHOW COLUMNS FROM performance_schema.absent",
    "SHOW INDEX FROM performance_schema.accounts #",
    "SHOW INDEX FROM information_schema.TABLES",
    "SHOW COLUMNS FROM mysql.absent",
    "SHOW COLUMNS FROM sys.version",
    "SHOW CREATE TABLE performance_schema.accounts #",
    "SHOW CREATE VIEW performance_schema.threads #",
    "SHOW CREATE VIEW mysql.user #",
    "SHOW CREATE VIEW sys.version #",
    "CHECK TABLE mysql.user #",
    "SHOW COLUMNS FROM information_schema.absent",
    "SELECT * FROM information_schema.absent",
    "SELECT * FROM performance_schema.absent",
    "SELECT * FROM sys.absent",
    "SELECT * FROM sys.version #",
    "SHOW CREATE TABLE sys.version #",
]
for name in ["vis_d.t", "vis_d.u", "vis_d.v", "vis_d.absent", "vis_e.w", "vis_e.absent", "vis_absent.t"]:
    STATEMENTS += [
        f"SHOW FULL COLUMNS FROM {name}",
        f"SHOW COLUMNS FROM {name}",
        f"DESCRIBE {name}",
        f"DESCRIBE {name} a",
        f"SHOW INDEX FROM {name}",
        f"SHOW CREATE TABLE {name} #",
        f"SHOW CREATE VIEW {name} #",
        f"CHECKSUM TABLE {name} #",
        f"CHECK TABLE {name}",
        f"SELECT 1 FROM {name} LIMIT 0",
    ]

# Of information_schema: columns that both servers fill alike, and where its rows are about what is compared.
HERE = "IN ('vis_d', 'vis_e')"
NOT_COMPARED = {
    "TABLES": "TABLE_ROWS AVG_ROW_LENGTH DATA_LENGTH INDEX_LENGTH DATA_FREE CREATE_TIME UPDATE_TIME",
    "PARTITIONS": "TABLE_ROWS AVG_ROW_LENGTH DATA_LENGTH INDEX_LENGTH DATA_FREE CREATE_TIME UPDATE_TIME CHECK_TIME",
    "STATISTICS": "CARDINALITY",
    # No view takes changes in Esker, and texts are not MySQL's (docs/differences.md).
    "VIEWS": "VIEW_DEFINITION IS_UPDATABLE",
}


def statements(port, peer):
    """The statements above and one or two for each table of information_schema that both servers have."""
    columns_of = []
    for root in (connect(port, "root"), connect(peer, "root")):
        root.execute(
            "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'"
            " ORDER BY TABLE_NAME, ORDINAL_POSITION"
        )
        found = defaultdict(list)
        for table, column in root.fetchall():
            found[table].append(column)
        columns_of.append(found)
    made = list(STATEMENTS)
    ours, theirs = columns_of
    for table in sorted(ours.keys() & theirs.keys()):
        columns = [c for c in theirs[table] if c in ours[table]]
        hidden = NOT_COMPARED.get(table, "").split()
        shown = ", ".join(f"`{c}`" for c in columns if c not in hidden)
        places = [c for c in ("TABLE_SCHEMA", "CONSTRAINT_SCHEMA", "SCHEMA_NAME", "VIEW_SCHEMA") if c in columns]
        if places:
            made.append(f"SELECT {shown} FROM information_schema.{table} WHERE {places[0]} {HERE}")
        elif "GRANTEE" in columns:
            made.append(f"SELECT {shown} FROM information_schema.{table} WHERE GRANTEE LIKE '\\'vis%'")
        else:
            made.append(f"SELECT * FROM information_schema.{table} LIMIT 0 #")
            made.append(f"SELECT COUNT(*) FROM information_schema.{table} #")
    return made


def connect(port, user):
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user=user, password="", ssl_disabled=True, autocommit=True, conv={},
        read_timeout=600,
    )
    return connection.cursor()


def answer(cursor, sql):
    """An error's number and text, or the rows in order; of statements that end in #1 the first column, in # nothing."""
    try:
        cursor.execute(sql.partition(" #")[0])
        rows = cursor.fetchall()
        if sql.endswith("#"):
            return "ok"
        return sorted(repr(row[:1] if sql.endswith("#1") else row) for row in rows)
    except pymysql.err.MySQLError as e:
        if e.args[0] in (2006, 2013):
            raise
        # MySQL 9 says more than 8.4.
        return f"{e.args[0]} {e.args[1]}".removesuffix(" (User account does not exist)")


def heard(port, grant, asked):
    root = connect(port, "root")
    root.execute("DROP USER IF EXISTS vis_low")
    root.execute("CREATE USER vis_low")
    root.execute(f"GRANT {grant} TO vis_low")
    low = connect(port, "vis_low")
    answers = [answer(low, sql) for sql in asked]
    low.connection.close()
    root.execute("DROP USER vis_low")
    root.connection.close()
    return answers


def brief(ours, theirs):
    """What differs."""
    if isinstance(ours, list) and isinstance(theirs, list):
        more, less = [r for r in ours if r not in theirs], [r for r in theirs if r not in ours]
        return f"here {more[:3]}, MySQL {less[:3]} ({len(ours)} and {len(theirs)} rows)"
    short = lambda a: f"{len(a)} rows {a[:2]}" if isinstance(a, list) else a
    return f"here {short(ours)}, MySQL {short(theirs)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("peer", type=int)
    parser.add_argument("--sets", default="", help="only sets of privileges with this in them")
    parser.add_argument("--statements", default="", help="only statements with this in them")
    args = parser.parse_args()
    for port in (args.port, args.peer):
        root = connect(port, "root")
        for sql in OBJECTS.split(";"):
            root.execute(sql)
    asked = [s for s in statements(args.port, args.peer) if args.statements in s]
    sets = [s for s in SETS if args.sets in s]
    differing = defaultdict(list)
    for grant in sets:
        for sql, ours, theirs in zip(asked, heard(args.port, grant, asked), heard(args.peer, grant, asked)):
            if ours != theirs:
                differing[sql, brief(ours, theirs)].append(grant)
    for (sql, what), grants in sorted(differing.items()):
        print(f"{sql}\n  {what}\n  {len(grants)}: {' | '.join(grants)}")
    cells, count = len(asked) * len(sets), sum(map(len, differing.values()))
    print(f"{cells} cells ({len(sets)} sets of privileges, {len(asked)} statements): {count} differ")
    for port in (args.port, args.peer):
        root = connect(port, "root")
        root.execute("DROP DATABASE vis_d")
        root.execute("DROP DATABASE vis_e")
        root.execute("DROP USER vis_other, vis_role")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
