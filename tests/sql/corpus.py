"""Runs scripts of the public sqllogictest corpus against a server, and asks MySQL about what comes out otherwise.

    corpus.py PORT [--peer PORT] [--every N] [--most N] [--shown N] SCRIPT_OR_FOLDER ...

The corpus is that of sqlite.org/sqllogictest. Records for MySQL are run as they stand in it, with an empty sql_mode as
MySQL had it then. A record whose result is not the script's is run on the peer, a MySQL, in the state that the script
has there: where MySQL answers like the server the difference is one of MySQL, everything else is counted as wrong. Both
servers have an account root without a password. Needs PyMySQL.
"""

import argparse
import hashlib
import sys
from itertools import islice
from pathlib import Path

import pymysql

DATABASE = "sqllogictest"
NAME = "mysql"


class Record:
    """A statement or a query: what is asked and what the script expects."""

    def __init__(self, line, head, sql, expected, threshold):
        words = head.split()
        self.line, self.sql, self.expected, self.threshold = line, sql, expected, threshold
        self.is_query = words[0] == "query"
        self.is_error = words[:2] == ["statement", "error"]
        self.types = words[1] if self.is_query else ""
        self.order = words[2] if self.is_query and len(words) > 2 else "nosort"


def records(path):
    """The records of a script that are for MySQL."""
    lines = path.read_text(errors="replace").splitlines()
    at, skipped, threshold = 0, False, 0
    while at < len(lines):
        head, begin = lines[at].split("#")[0].strip(), at + 1
        at += 1
        words = head.split()
        if not words:
            continue
        if words[0] in ("skipif", "onlyif"):
            skipped |= (words[1] == NAME) == (words[0] == "skipif")
        elif words[0] == "hash-threshold":
            threshold = int(words[1])
        elif words[0] == "halt":
            if not skipped:
                return
            skipped = False
        elif words[0] in ("statement", "query"):
            end = at
            while end < len(lines) and lines[end].strip():
                end += 1
            body, at = lines[at:end], end
            split = body.index("----") if "----" in body else len(body)
            if not skipped:
                yield Record(begin, head, "\n".join(body[:split]), body[split + 1:], threshold)
            skipped = False
        else:
            raise SystemExit(f"{path}:{begin}: no record: {head}")


def cell(value, kind):
    """A value as the corpus writes it."""
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if kind == "I":
        try:
            return str(int(float(text))) if "." in text or "e" in text else str(int(text))
        except ValueError:
            return "0"
    if kind == "R":
        return f"{float(text):.3f}"
    return "".join(c if " " <= c <= "~" else "@" for c in text) or "(empty)"


def as_expected(record, rows):
    """The result in the form of the script."""
    rows = [[cell(v, k) for v, k in zip(row, record.types)] for row in rows]
    if record.order == "rowsort":
        rows.sort()
    values = [v for row in rows for v in row]
    if record.order == "valuesort":
        values.sort()
    is_hashed = len(record.expected) == 1 and " values hashing to " in record.expected[0]
    if is_hashed:
        digest = hashlib.md5("".join(v + "\n" for v in values).encode()).hexdigest()
        return [f"{len(values)} values hashing to {digest}"]
    return values


class Target:
    """A server on which a script is played."""

    def __init__(self, port):
        self.connection = pymysql.connect(
            host="127.0.0.1", port=port, user="root", password="", ssl_disabled=True, autocommit=True, conv={},
            read_timeout=600,
        )
        self.cursor = self.connection.cursor()

    def reset(self):
        self.cursor.execute("SET SESSION sql_mode = ''")
        self.cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        self.cursor.execute(f"CREATE DATABASE {DATABASE}")
        self.cursor.execute(f"USE {DATABASE}")

    def ask(self, record):
        """`None` for a statement that succeeded, rows, or an error."""
        try:
            self.cursor.execute(record.sql)
            return self.cursor.fetchall() if record.is_query else None
        except pymysql.err.MySQLError as e:
            if e.args[0] in (0, 2006, 2013):
                raise
            return e


def is_right(record, answer):
    if isinstance(answer, Exception):
        return record.is_error
    if record.is_query:
        return as_expected(record, answer) == record.expected
    return not record.is_error


def alike(record, one, other):
    """Do two servers answer alike, in whatever order the script leaves open?"""
    if isinstance(one, Exception) or isinstance(other, Exception):
        return isinstance(one, Exception) and isinstance(other, Exception)
    if one is None or other is None:
        return one is other
    return as_expected(record, one) == as_expected(record, other)


def play(path, most, server, peer):
    """Counts of a script, and its wrong records."""
    server.reset()
    asked, odd = 0, {}
    for record in islice(records(path), most):
        asked += 1
        answer = server.ask(record)
        if not is_right(record, answer):
            odd[record.line] = answer
    wrong = []
    if odd and peer:
        peer.reset()
        for record in islice(records(path), most):
            answer = peer.ask(record)
            if record.line in odd and not alike(record, odd[record.line], answer):
                wrong.append((record, odd[record.line], answer))
    elif odd:
        wrong = [(r, odd[r.line], "not asked") for r in islice(records(path), most) if r.line in odd]
    return asked, len(odd), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--peer", type=int)
    parser.add_argument("--every", type=int, default=1, help="one script of so many")
    parser.add_argument("--most", type=int, help="records of a script that are run, from its beginning")
    parser.add_argument("--shown", type=int, default=3, help="wrong records that are shown of a script")
    parser.add_argument("paths", nargs="+", type=Path)
    args = parser.parse_args()
    scripts = [s for p in args.paths for s in (sorted(p.rglob("*.test")) if p.is_dir() else [p])][::args.every]
    server, peer = Target(args.port), Target(args.peer) if args.peer else None
    total, others, bad = 0, 0, 0
    for script in scripts:
        asked, odd, wrong = play(script, args.most, server, peer)
        like_mysql = odd - len(wrong)
        total, others, bad = total + asked, others + like_mysql, bad + len(wrong)
        print(f"{script}: {asked} records, {like_mysql} that MySQL answers so too, {len(wrong)} wrong", flush=True)
        for record, ours, theirs in wrong[:args.shown]:
            print(f"  {record.line}: {record.sql}\n    here: {ours!r}\n    MySQL: {theirs!r}")
            print(f"    script: {record.expected}")
    right = total - bad
    print(f"{len(scripts)} scripts, {total} records: {right} right ({100 * right / max(total, 1):.4f} %), "
          f"{others} of them like MySQL and not like the script; {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
