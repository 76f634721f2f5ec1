"""What two servers have: definitions and rows of all tables, views, accounts, GTIDs, and sums of tables."""
import re

import wire
from servers import ESKER, MARIADB, Failed

SCHEMAS = "('d', 'e')"
# Tables with keys over expressions.
FUNCTIONAL = ("`d`.`shown`",)
# Rows that a difference shows at most.
SHOWN = 5


def definition(text):
    """Without what depends on attempts that were rolled back."""
    return re.sub(r" AUTO_INCREMENT=\d+", "", text.decode("utf8", "replace"))


def tables(connection, kind):
    rows = connection.query(f"SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN {SCHEMAS} "
                            f"AND table_type = '{kind}' ORDER BY 1, 2").rows
    return [f"`{schema.decode()}`.`{name.decode()}`" for schema, name in rows]


def contents(server, with_definitions):
    """Everything that must be equal, by name."""
    connection = server.connect()
    try:
        found = {}
        for table in tables(connection, "BASE TABLE"):
            found[table] = sorted(connection.query(f"SELECT * FROM {table}").rows, key=repr)
            if with_definitions:
                found[f"definition of {table}"] = [definition(connection.query(f"SHOW CREATE TABLE {table}").rows[0][1])]
        for view in tables(connection, "VIEW"):
            found[f"view {view}"] = [definition(connection.query(f"SHOW CREATE VIEW {view}").rows[0][1])] if with_definitions else []
        found["databases"] = connection.query("SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'base%'").rows
        if with_definitions:
            for (name,) in connection.query("SELECT user FROM mysql.user WHERE user LIKE 'u\\_%' ORDER BY user").rows:
                account = f"{name.decode()}@localhost"
                connection.query("SET SESSION print_identified_with_as_hex = ON")
                found[account] = connection.query(f"SHOW CREATE USER {account}").rows + connection.query(f"SHOW GRANTS FOR {account}").rows
        return found
    finally:
        connection.close()


def sums(server, names):
    """CHECKSUM TABLE of every table."""
    return server.sql(f"CHECKSUM TABLE {', '.join(names)}")


def difference(source, replica):
    """What differs, in words; None: nothing."""
    for name in sorted(set(source) | set(replica)):
        mine, theirs = source.get(name), replica.get(name)
        if mine == theirs:
            continue
        if mine is None or theirs is None:
            return f"{name} is only on the {'replica' if mine is None else 'source'}"
        only = [row for row in mine if row not in theirs][:SHOWN]
        more = [row for row in theirs if row not in mine][:SHOWN]
        return f"{name}: {len(mine)} rows on the source, {len(theirs)} on the replica\n  source  {only}\n  replica {more}"
    return None


def check_equal(source, replica, by_gtid=True):
    """Raises if the replica does not have exactly what the source has."""
    is_foreign = MARIADB in (source.make, replica.make)
    mine, theirs = (contents(server, not is_foreign) for server in (source, replica))
    differs = difference(mine, theirs)
    if differs:
        raise Failed(differs)
    names = [name for name in mine if name.startswith("`")]
    if not is_foreign and names:
        # MySQL's sums have functional key parts, Esker's have not.
        summed = [n for n in names if n not in FUNCTIONAL or source.make == replica.make]
        ours, copies = sums(source, summed), sums(replica, summed)
        if ours != copies:
            raise Failed(f"CHECKSUM TABLE: {[pair for pair in zip(ours, copies) if pair[0] != pair[1]]}")
        if by_gtid and source.executed() != replica.executed():
            raise Failed(f"executed: {source.executed()} on the source, {replica.executed()} on the replica")
    check_tables(replica, names)


def check_tables(server, names):
    """The indexes have what the rows have."""
    bad = [row for row in server.sql(f"CHECK TABLE {', '.join(names)}") if row[2] == b"error" or (row[2] == b"status" and row[3] != b"OK")]
    if bad:
        raise Failed(f"CHECK TABLE on {server.name}: {bad[:SHOWN]}")
