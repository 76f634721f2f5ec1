"""Runs real programs against a server and compares what they did: see README.md.

    run.py install [PROGRAM ...]              brings the pinned packages (default: all)
    run.py check PORT PROGRAM ...             compares with what MySQL answered (PROGRAM/expected.txt)
    run.py record PORT PROGRAM ...            writes PROGRAM/expected.txt from the server at PORT (a MySQL)
    run.py beside PORT PORT PROGRAM ...       runs on two servers and compares every command on the wire, too

Needs PyMySQL. Both servers have an account root without a password. Each program has a database of its own,
`programs_NAME`, which is made anew.
"""

import datetime
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import install
import observe
import state

HERE = Path(__file__).resolve().parent
# A program that hangs must not hang its caller.
LIMIT_S = 300


def programs():
    return sorted(p.parent.name for p in HERE.glob("*/[cC]heck.*"))


def mask(text):
    """Takes out what no two runs share: the time of day, addresses, names of temporary files, versions."""
    text = re.sub(re.escape(tempfile.gettempdir()) + r"/\w+", "<folder>", text)
    text = re.sub(r"0x[0-9a-f]{9,}", "<address>", text)
    text = re.sub(r"\b(8\.4|9\.\d+)\.\d+[-\w]*", "<version>", text)
    today = datetime.date.today()
    days = "|".join((today + datetime.timedelta(d)).isoformat() for d in (-1, 0, 1))
    text = re.sub(rf"({days})[ T]\d\d:\d\d:\d\d(\.\d+)?", "<now>", text)
    return re.sub(rf"({days})", "<today>", text)


def run(name, port, state_port):
    """The program's own lines and, after it has ended, the schema and the data that it left."""
    database = f"programs_{name}"
    with state.connect(state_port) as c, c.cursor() as cur:
        cur.execute(f"DROP DATABASE IF EXISTS {database}")
        cur.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci")
    env = dict(os.environ, DB_PORT=str(port), DB_NAME=database, TZ="UTC", **install.environment())
    done = subprocess.run(
        install.command(HERE / name), cwd=HERE / name, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT_S, text=True, errors="replace",
    )
    lines = done.stdout.splitlines()
    if done.returncode:
        lines += [f"exit {done.returncode}"] + done.stderr.splitlines()[-60:]
    return [mask(line) for line in lines + state.lines(state_port, database)]


def difference(old, new, old_name, new_name):
    return list(difflib.unified_diff(old, new, old_name, new_name, lineterm="", n=2))


def report(name, diff):
    print(f"{name}: {'equal' if not diff else 'differs'}")
    for line in diff:
        print("    " + line)
    return not diff


def check(port, names):
    good = True
    for name in names:
        expected = (HERE / name / "expected.txt").read_text().splitlines()
        good &= report(name, difference(expected, run(name, port, port), "MySQL", "here"))
    return good


def record(port, names):
    for name in names:
        (HERE / name / "expected.txt").write_text("\n".join(run(name, port, port)) + "\n")
    return True


def comparable(command, outcome):
    """A command and its outcome without what may differ: the order of rows, a program's own names, statistics."""
    lines = ["> " + command, *sorted(outcome)]
    lines = [re.sub(r"`s\d{9,}_x", "`s_x", line) for line in lines]
    if command.upper().startswith(("SHOW INDEX", "SHOW KEYS")):
        lines = [re.sub(r"'A', '\d+', NULL", "'A', CARDINALITY, NULL", line) for line in lines]
    return lines


def observed(name, port):
    proxy = observe.Proxy(port)
    try:
        own = run(name, proxy.port, port)
    finally:
        proxy.close()
    wire = [mask(line) for entry in proxy.log.entries for line in comparable(*entry)]
    return own, wire, len(proxy.log.entries)


def beside(left, right, names):
    good = True
    for name in names:
        (old, old_wire, count), (new, new_wire, _) = observed(name, left), observed(name, right)
        good &= report(f"{name} (lines and state)", difference(old, new, str(left), str(right)))
        good &= report(f"{name} (wire, {count} commands)", difference(old_wire, new_wire, str(left), str(right)))
    return good


def main(args):
    ports = {"install": 0, "check": 1, "record": 1, "beside": 2}
    if not args or args[0] not in ports:
        print(__doc__)
        return False
    verb, rest = args[0], args[1:]
    chosen, names = [int(p) for p in rest[:ports[verb]]], rest[ports[verb]:] or programs()
    work = {"install": install.programs, "check": check, "record": record, "beside": beside}[verb]
    return work(*chosen, names)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
