"""Runs mutated statements of the golden scripts and looks for defects: panics, lost connections, servers that are gone.

    mutate.py PORT [--seed N] [--seconds S] [--timeout S] [SCRIPT_OR_FOLDER ...]

The statements of each script run in its order, in a database of their own, so that mutants meet tables; beside each,
some mutants: tokens that are left out, doubled, exchanged, taken from another statement, or replaced by extreme values.
What a mutant answers does not matter, unless it is error 1815 (the server's own defect) or no answer at all. Statements
that would stop the server or lock the account out are left alone. Prints each defect with its statement and the seed;
the exit status is 1 if there was one. The server needs an account root without a password. Needs PyMySQL.
"""

import argparse
import random
import re
import sys
import time
from pathlib import Path

import pymysql
from pymysql.constants import CLIENT

DEFECT = 1815
TOKEN = re.compile(r"\s+|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|[A-Za-z_@$][\w$]*|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|.",
                   re.S)
EXTREMES = ("0", "-1", "1", "NULL", "''", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "1e308",
            "1e-308", "0.000000000000000000000000000001", "99999999999999999999999999999999999999999999999999999999999999999",
            "'0000-00-00'", "'9999-12-31 23:59:59.999999'", "x'FF'", "b'1'", "'\\0'", "'\U0001F600'", "JSON_ARRAY()",
            "CAST('{}' AS JSON)", "ST_GeomFromText('POINT(0 0)')", "(SELECT 1)", "(SELECT 1 WHERE FALSE)", "@v", "?",
            "DEFAULT", "*", "DATE'2024-02-29'", "INTERVAL 1 MONTH", "REPEAT('a', 70000)", "RAND()", "a", "ROW(1, 2)",
            "COUNT(*)", "SUM(1) OVER ()", "_utf16'a'", "GROUPING(a)", "VALUES(a)", "LAST_INSERT_ID()")
LEFT_ALONE = re.compile(r"\b(SHUTDOWN|RESTART|KILL|SLEEP|BENCHMARK|GET_LOCK|PASSWORD|IDENTIFIED|ACCOUNT|REVOKE|DROP\s+USER|CLONE|"
                        r"offline_mode|super_read_only|read_only|require_secure_transport|max_connections|SET\s+(GLOBAL|PERSIST)|"
                        r"@@(GLOBAL|PERSIST)|LOCK\s+INSTANCE|FLUSH|REPLICA|SLAVE|SOURCE_POS_WAIT|MASTER_POS_WAIT|WAIT_FOR_EXECUTED|"
                        r"RESET|OUTFILE|DUMPFILE)\b", re.I)


def statements(path):
    """The statements of a script, in its order."""
    lines, at = path.read_text(errors="replace").splitlines(), 0
    while at < len(lines):
        words = lines[at].split()
        at += 1
        if words[:1] not in (["statement"], ["query"]):
            continue
        end = at
        while end < len(lines) and lines[end].strip() and lines[end] != "----":
            end += 1
        yield "\n".join(lines[at:end])
        at = end


def mutant(dice, statement, others):
    tokens = TOKEN.findall(statement)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        places = [at for at, token in enumerate(tokens) if not token.isspace()]
        if not places:
            break
        at, other = dice.choice(places), dice.choice(places)
        how = dice.randrange(7)
        if how == 0:
            del tokens[at]
        elif how == 1:
            tokens.insert(at, tokens[other])
        elif how == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif how == 3:
            tokens[at] = dice.choice(EXTREMES)
        elif how == 4:
            donor = TOKEN.findall(dice.choice(others))
            begin = dice.randrange(len(donor))
            tokens[at:at + 1] = [" ", *donor[begin:begin + dice.randrange(1, 8)], " "]
        elif how == 5:
            low, high = min(at, other), max(at, other)
            tokens[low:low] = tokens[low:high]
        else:
            values = [p for p in places if tokens[p][0] in "'\"0123456789"]
            tokens[dice.choice(values or places)] = dice.choice(EXTREMES)
    return "".join(tokens)


class Session:
    def __init__(self, port, timeout):
        self.port, self.timeout, self.connection = port, timeout, None

    def begin(self):
        """A new connection in an empty database."""
        if self.connection:
            self.connection.close()
        self.connection = pymysql.connect(host="127.0.0.1", port=self.port, user="root", autocommit=True, read_timeout=60,
                                          charset="utf8mb4", client_flag=CLIENT.MULTI_STATEMENTS)
        for setting in ("DROP DATABASE IF EXISTS mutants", "CREATE DATABASE mutants", "USE mutants",
                        f"SET max_execution_time = {self.timeout * 1000}, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1,"
                        "cte_max_recursion_depth = 1000"):
            self.run(setting)

    def run(self, statement):
        """What is wrong, or None."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement)
                while True:
                    cursor.fetchall()
                    if not cursor.nextset():
                        return None
        except pymysql.MySQLError as e:
            code = e.args[0] if e.args else 0
            if code == DEFECT or code in (2006, 2013):
                return str(e)
        except (UnicodeError, ValueError, OverflowError, KeyError, AttributeError):
            return None  # what the client cannot make a value of
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("scripts", nargs="*", type=Path, default=[Path(__file__).parent])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--timeout", type=int, default=5, help="seconds a SELECT may take")
    args = parser.parse_args()
    paths = sorted(p for given in args.scripts for p in (given.rglob("*.slt") if given.is_dir() else [given]))
    scripts = [[s for s in statements(path) if not LEFT_ALONE.search(s)] for path in paths]
    others = [s for script in scripts for s in script]
    dice, session, ran, defects, end = random.Random(args.seed), Session(args.port, args.timeout), 0, 0, time.time() + args.seconds
    while time.time() < end:
        script = dice.choice(scripts)
        session.begin()
        for statement in script:
            mutants = [mutant(dice, statement, others) for _ in range(dice.randrange(6))]
            for text in [*mutants, statement]:
                if LEFT_ALONE.search(text):
                    continue
                wrong, ran = session.run(text), ran + 1
                if wrong:
                    defects += 1
                    print(f"seed {args.seed}, statement {ran}: {wrong}\n{text}\n", flush=True)
                    session.begin()
            if time.time() >= end:
                break
    print(f"{ran} statements, {defects} defects")
    sys.exit(1 if defects else 0)


if __name__ == "__main__":
    main()
